"""The functions for torch: FlashMLA's signature, custom ops with fake kernels, no graph break under torch.compile."""

from __future__ import annotations

from typing import Any

import torch

from . import _prefill
from ._runtime import Runtime, checked_runtime, default_runtime

_is_compiling = torch.compiler.is_compiling


def flash_mla_sparse_fwd(
    q: torch.Tensor,
    kv: torch.Tensor,
    indices: torch.Tensor,
    sm_scale: float,
    d_v: int = 512,
    attn_sink: torch.Tensor | None = None,
    topk_length: torch.Tensor | None = None,
    *,
    union: int | str | None = 0,
    deterministic: bool = False,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """FlashMLA's sparse prefill: the same arguments, the same results, for any head count from 1 to 128.

    T tokens, H heads, S kv rows, K slots, all on one CUDA device; runs on torch's current stream.

    Args:
        q: [T, H, 576] (512 latent + 64 rope) or [T, H, 512], bfloat16.
        kv: [S, 1, 576] or [S, 576] bfloat16.
        indices: [T, 1, K] or [T, K] int32, K from 1 to 4096; -1, any other below 0, or at or above S: an empty slot.
        sm_scale: factor of the logits.
        d_v: 512.
        attn_sink: [H] float32, natural units: out is multiplied by 1 / (1 + exp(sink - lse)). +inf gives 0, -inf changes nothing. It
            does not change max_logits and lse.
        topk_length: [T] int32: slots at or past it are not looked at.
        union: not FlashMLA's: see sparse_mla_prefill.
        deterministic: not FlashMLA's: see sparse_mla_prefill.

    Returns: (out [T, H, 512] bfloat16, max_logits [T, H] float32, lse [T, H] float32). max_logits is the largest logit times sm_scale, lse
        the natural logarithm of the sum of exp(scaled logits), as FlashMLA computes them since April 2026; its earlier documentation
        says base 2. A token with no valid slot gets out 0, max_logits -inf, lse +inf.
    """
    if _is_compiling():
        _check_compiled(d_v)
        return torch.ops.kernwright.sparse_mla_prefill(q, kv, indices, sm_scale, attn_sink, topk_length, _union_number(union), deterministic)
    return _eager(q, kv, indices, sm_scale, d_v, attn_sink, topk_length, union, deterministic)


def sparse_mla_prefill(
    q: Any,
    kv: Any,
    indices: Any,
    sm_scale: float,
    d_v: int = 512,
    *,
    topk_length: Any = None,
    out: Any = None,
    union: int | str | None = 0,
    attn_sink: Any = None,
    max_logits: Any = None,
    lse: Any = None,
    workspace: Any = None,
    deterministic: bool = False,
    stream: int | None = None,
    runtime: Runtime | None = None,
) -> Any:
    if _is_compiling():
        _check_compiled(d_v, workspace=workspace, stream=stream, runtime=runtime)
        if out is None and max_logits is None and lse is None:
            return torch.ops.kernwright.sparse_mla_prefill(q, kv, indices, sm_scale, attn_sink, topk_length, _union_number(union),
                                                           deterministic)[0]
        if out is None:
            out = q.new_empty((q.shape[0], q.shape[1], d_v))
        torch.ops.kernwright.sparse_mla_prefill_out(q, kv, indices, sm_scale, attn_sink, topk_length, _union_number(union), deterministic,
                                                    out, max_logits, lse)
        return out
    if _is_elsewhere(q):
        with torch.cuda.device(q.device):
            return _prefill.sparse_mla_prefill(q, kv, indices, sm_scale, d_v, topk_length=topk_length, out=out, union=union,
                                               attn_sink=attn_sink, max_logits=max_logits, lse=lse, workspace=workspace,
                                               deterministic=deterministic, stream=stream, runtime=runtime)
    if out is None:
        out = _prefill._make_out(q, d_v, stream)
    checked_runtime(runtime)._calls.run(q, kv, indices, topk_length, attn_sink, out, max_logits, lse, workspace, sm_scale, d_v, union,
                                              deterministic, stream)
    return out


sparse_mla_prefill.__doc__ = _prefill.sparse_mla_prefill.__doc__


def _is_elsewhere(q: Any) -> bool:
    """Whether q is on a CUDA device that is not the current one. A device's default stream has the same handle as every other's: which one it
    is, the current device says."""
    return isinstance(q, torch.Tensor) and q.is_cuda and q.get_device() != torch.cuda.current_device()


def _eager(q: torch.Tensor, kv: torch.Tensor, indices: torch.Tensor, sm_scale: float, d_v: int, attn_sink: torch.Tensor | None,
           topk_length: torch.Tensor | None, union: int | str | None, deterministic: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    if not isinstance(q, torch.Tensor):
        raise TypeError(f"argument q: a {type(q).__name__}; legal is a torch tensor")
    if _is_elsewhere(q):
        with torch.cuda.device(q.device):
            return _eager(q, kv, indices, sm_scale, d_v, attn_sink, topk_length, union, deterministic)
    shape = q.shape
    if len(shape) != 3:
        raise ValueError(f"argument q: the shape is {list(shape)}; legal is [tokens, heads, d_qk]")
    tokens, heads, _ = shape
    out = q.new_empty(tokens, heads, d_v)  # extents one by one: torch takes two thirds of the time for them that it takes for a tuple
    max_logits = q.new_empty(tokens, heads, dtype=torch.float32)
    lse = q.new_empty(tokens, heads, dtype=torch.float32)
    if isinstance(indices, torch.Tensor) and not indices.is_contiguous():
        indices = indices.contiguous()  # FlashMLA takes rows at a stride
    default_runtime()._calls.run(q, kv, indices, topk_length, attn_sink, out, max_logits, lse, None, sm_scale, d_v, union, deterministic,
                                 None)
    return out, max_logits, lse


def _check_compiled(d_v: int, **others: Any) -> None:
    """What a custom op has no argument for must be as it takes it."""
    if d_v != 512:
        raise ValueError(f"argument d_v: it is {d_v}; legal is 512")
    for argument, value in others.items():
        if value is not None:
            raise ValueError(f"argument {argument}: it is given; legal under torch.compile is None: the op takes torch's stream and memory, and "
                             f"the default runtime")


def _union_number(union: int | str | None) -> int:
    """-1 for "auto": a custom op's argument has one type."""
    tokens = _prefill.checked_union(union)
    return -1 if tokens is None else tokens


_library = torch.library.Library("kernwright", "DEF")
_library.define("sparse_mla_prefill(Tensor q, Tensor kv, Tensor indices, float sm_scale, Tensor? attn_sink=None, Tensor? topk_length=None, "
                "int union=0, bool deterministic=False) -> (Tensor, Tensor, Tensor)")
_library.define("sparse_mla_prefill_out(Tensor q, Tensor kv, Tensor indices, float sm_scale, Tensor? attn_sink, Tensor? topk_length, "
                "int union, bool deterministic, Tensor(a!) out, Tensor(b!)? max_logits, Tensor(c!)? lse) -> ()")


def _op(q: torch.Tensor, kv: torch.Tensor, indices: torch.Tensor, sm_scale: float, attn_sink: torch.Tensor | None = None,
        topk_length: torch.Tensor | None = None, union: int = 0,
        deterministic: bool = False) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return _eager(q, kv, indices, sm_scale, 512, attn_sink, topk_length, None if union < 0 else union, deterministic)


def _op_out(q: torch.Tensor, kv: torch.Tensor, indices: torch.Tensor, sm_scale: float, attn_sink: torch.Tensor | None,
            topk_length: torch.Tensor | None, union: int, deterministic: bool, out: torch.Tensor, max_logits: torch.Tensor | None = None,
            lse: torch.Tensor | None = None) -> None:
    sparse_mla_prefill(q, kv, indices, sm_scale, 512, topk_length=topk_length, out=out, union=None if union < 0 else union,
                       attn_sink=attn_sink, max_logits=max_logits, lse=lse, deterministic=deterministic)


def _fake(q: torch.Tensor, kv: torch.Tensor, indices: torch.Tensor, sm_scale: float, attn_sink: torch.Tensor | None = None,
          topk_length: torch.Tensor | None = None, union: int = 0,
          deterministic: bool = False) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    tokens, heads = q.shape[0], q.shape[1]
    return (q.new_empty((tokens, heads, 512)), q.new_empty((tokens, heads), dtype=torch.float32),
            q.new_empty((tokens, heads), dtype=torch.float32))


def _fake_out(q: torch.Tensor, kv: torch.Tensor, indices: torch.Tensor, sm_scale: float, attn_sink: torch.Tensor | None,
              topk_length: torch.Tensor | None, union: int, deterministic: bool, out: torch.Tensor, max_logits: torch.Tensor | None = None,
              lse: torch.Tensor | None = None) -> None:
    return None


for _key in ("CUDA", "CPU"):
    _library.impl("sparse_mla_prefill", _op, _key)
    _library.impl("sparse_mla_prefill_out", _op_out, _key)
torch.library.register_fake("kernwright::sparse_mla_prefill", _fake, lib=_library)
torch.library.register_fake("kernwright::sparse_mla_prefill_out", _fake_out, lib=_library)
