"""Sparse MLA prefill: the prepared op, and the function for any DLPack array."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from . import _library as c
from . import _native
from ._errors import error_of
from ._runtime import Runtime, _scratch, checked_runtime, device_number

#: What a workspace may lose to its alignment.
_ALIGNMENT = 256


def checked_union(union: int | str | None) -> int | None:
    """The union's tokens, 0 where it is off; None: auto."""
    if union is None or (isinstance(union, str) and union == "auto"):
        return None
    if isinstance(union, str) or union not in (0, 2, 4, 8, 16):
        raise ValueError(f"argument union: it is {union!r}; legal is 0 (off), 2, 4, 8, 16 or 'auto'")
    return int(union)


class SparseMlaPrefill:
    """A prepared op. Making it is slow (compiles or reads the store), running it takes microseconds. Usable from any thread.

    Args:
        heads: query heads on this rank, 1 to 128.
        device: "cuda:N", an ordinal, a torch.device, or "host" for the interpreter.
        d_qk: 576 (512 latent + 64 rope) or 512.
        max_topk: the largest K that run() will be given, 1 to 4096.
        union: tokens that share one gathered union of rows: 0 (off), 2, 4, 8, 16 or "auto".
        deterministic: batch-invariant; turns union off.
        workspace_limit: bounds the workspace, bytes; 0: 256 MiB.
        tile: of the attention kernel, such as "mma:m64n32s2w8"; None: from the tuning tables.
    """

    def __init__(
        self,
        heads: int,
        *,
        device: Any = "cuda",
        d_qk: int = 576,
        max_topk: int = 4096,
        union: int | str | None = "auto",
        deterministic: bool = False,
        workspace_limit: int = 0,
        tile: str | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        self._pointer = ctypes.c_void_p()
        self._runtime = checked_runtime(runtime)
        self._union = union
        self._deterministic = deterministic
        tokens = checked_union(union)
        group = c.UNION_AUTO if tokens is None else tokens or c.UNION_OFF
        options = c.SparseMlaPrefillOptions(
            device=device_number(device), heads=heads, max_topk=max_topk, d_qk=d_qk, group_size=group, deterministic=int(deterministic),
            workspace_limit=workspace_limit, tile=c.encoded(tile))
        c.call("kw_sparse_mla_prefill_create", self._runtime._handle, ctypes.byref(options), ctypes.byref(self._pointer))
        self._handle = self._pointer.value
        self._device = options.device

        def make_op(device: int, *_: int) -> SparseMlaPrefill:
            if device != self._device:
                raise ValueError(f"argument q: it is on {_place(device)}; the op was made for {_place(self._device)}")
            return self

        self._calls = _native.PrefillCalls(make_op, _scratch, error_of)

    def run(
        self,
        q: Any,
        kv: Any,
        indices: Any,
        sm_scale: float,
        *,
        out: Any,
        topk_length: Any = None,
        attn_sink: Any = None,
        max_logits: Any = None,
        lse: Any = None,
        workspace: Any = None,
        stream: int | None = None,
    ) -> None:
        """Enqueues the operation; the arguments are those of sparse_mla_prefill(), and the device is the current one. Allocates nothing where
        a workspace is given or none is needed."""
        self._runtime._refuse_in_forked_child("op")
        self._calls.run(q, kv, indices, topk_length, attn_sink, out, max_logits, lse, workspace, sm_scale, 512, self._union,
                        self._deterministic, stream)

    def __del__(self) -> None:
        if getattr(self, "_pointer", None) and not self._runtime._abandoned and not sys.is_finalizing():
            c.destroy("kw_sparse_mla_prefill_destroy", self._pointer)

    def workspace_bytes(self, tokens: int, kv_rows: int) -> int:
        """Bytes that run() takes for T tokens over S rows, alignment included. Where union is off it is 0, or little for many tokens, and
        may be left out."""
        value = ctypes.c_uint64()
        c.call("kw_sparse_mla_prefill_workspace_bytes", self._pointer, ctypes.c_int64(tokens), ctypes.c_int64(kv_rows), ctypes.byref(value))
        return value.value + _ALIGNMENT if value.value else 0

    @property
    def union(self) -> tuple[int, str]:
        """The union that is used (0: off), and why it is not the one asked for, or how "auto" chose."""
        group, reason = ctypes.c_int32(), ctypes.c_char_p()
        c.call("kw_sparse_mla_prefill_union", self._pointer, ctypes.byref(group), ctypes.byref(reason))
        return (0 if group.value == c.UNION_OFF else group.value), (reason.value or b"").decode()

    @property
    def reports(self) -> list[dict[str, Any]]:
        """What prepare did, one dict a kernel in launch order: tile asked and fitted, where the artifact came from, its key."""
        return c.reports("kw_sparse_mla_prefill_reports", self._pointer)


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
    """Attention of each token over the kv rows that its index list selects.

    T tokens, H heads, S kv rows, K slots. All arrays are on one device: torch tensors, or arrays with ``__dlpack__``. numpy has no
    bfloat16; there uint16 holds its bits. Runs on the current stream of torch (and of any framework whose arrays say what that is), otherwise
    on ``stream``; in the order of that stream the arrays must live until it is done, as with every op of torch.

    Args:
        q: [T, H, 576] (512 latent + 64 rope) or [T, H, 512], bfloat16; strides between tokens and heads are free in multiples of 8.
        kv: [S, 576] or [S, 1, 576] bfloat16; a row's first 512 columns are its value.
        indices: [T, K] or [T, 1, K] int32, contiguous, K from 1 to 4096; below 0 or at or above S is an empty slot.
        sm_scale: factor of the logits.
        d_v: 512.
        topk_length: [T] int32: slots at or past it are not looked at.
        out: [T, H, 512] bfloat16; made where it is None.
        union: neighbouring tokens that share one gathered union of rows: 0 (off), 2, 4, 8, 16 or "auto". A position that a row of
            ``indices`` repeats counts once with union, and once per repetition without.
        attn_sink: [H] float32, natural units: a logit that joins the denominator only.
        max_logits: [T, H] float32, written where given: the largest logit, scaled; -inf where a token selects nothing.
        lse: [T, H] float32, written where given: natural logarithm of the sum of exp(scaled logits), without the sink; +inf where a
            token selects nothing.
        workspace: uint8, at least ``SparseMlaPrefill.workspace_bytes(T, S)``; made where it is None and needed.
        deterministic: batch-invariant: a token's result depends on nothing but its own inputs; turns union off.
        stream: a stream's handle, for arrays that do not say theirs. Needs ``out`` (and, with union, ``workspace``).
        runtime: the default runtime where None.

    Returns: out.

    Raises:
        ValueError: an argument is wrong; the text names it, what came and what is legal.
        TypeError: an argument is no array.
        Error: anything else, with its ``code``.
    """
    if out is None:
        out = _make_out(q, d_v, stream)
    checked_runtime(runtime)._calls.run(q, kv, indices, topk_length, attn_sink, out, max_logits, lse, workspace, sm_scale, d_v, union,
                                              deterministic, stream)
    return out


def _make_out(q: Any, d_v: int, stream: int | None) -> Any:
    if stream is not None:
        raise ValueError("argument out: it must be given together with stream: new memory would belong to another stream")
    shape = tuple(getattr(q, "shape", ()))
    if len(shape) != 3:
        raise ValueError(f"argument q: the shape is {list(shape)}; legal is [tokens, heads, d_qk]")
    if type(q).__module__.partition(".")[0] == "numpy":
        return sys.modules["numpy"].empty((shape[0], shape[1], d_v), dtype="uint16")
    if hasattr(q, "new_empty"):
        return q.new_empty(shape[0], shape[1], d_v)
    raise ValueError(f"argument out: it must be given where q is a {type(q).__name__}")


def _place(device: int) -> str:
    return "the host" if device == c.HOST else f"cuda:{device}"
