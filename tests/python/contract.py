"""Sparse MLA prefill's contract as drawn cases, and an fp32 reference in torch. Used by gpu_contract.py and by the tests on host."""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Any

import torch

BF16_HALF_STEP = 2.0**-8
COSINE_FLOOR = 0.9999
STATISTIC_BOUND = 1e-4
LOGIT_DEVIATION = 6.0


@dataclasses.dataclass
class Case:
    """One call: its shape, and what is unusual about its inputs."""

    seed: int
    tokens: int
    heads: int
    kv_rows: int
    topk: int
    d_qk: int = 576
    union: int | str = 0
    flash: bool = False  # FlashMLA's signature; otherwise out, max_logits and lse are the caller's
    middle: bool = False  # kv [S, 1, D] and indices [T, 1, K]
    sink: str = "none"  # none, finite, +inf, -inf, mixed
    lengths: str = "none"  # none, drawn, zero
    empty_share: float = 0.0  # of slots: -1, other values below 0, S and above
    empty_tokens: float = 0.0  # share of tokens all of whose slots are empty
    nan_rows: bool = False  # every row that nobody selects is NaN
    padding: int = 0  # elements of 8 that q's and out's strides are larger by
    deterministic: bool = False
    walk: bool = False  # neighbouring tokens select nearly the same rows

    def text(self) -> str:
        return " ".join(f"{field.name}={getattr(self, field.name)}" for field in dataclasses.fields(self)
                        if getattr(self, field.name) != field.default)


#: Head counts that are drawn: every count is legal, and each (count, union) is a kernel that has to be compiled.
HEADS = (1, 2, 3, 5, 7, 8, 12, 16, 17, 24, 31, 32, 48, 63, 64, 65, 96, 100, 127, 128)


def fixed_cases(scale: float) -> list[Case]:
    """What must be among the cases whatever is drawn. `scale` shrinks them for the interpreter."""

    def n(value: int, least: int = 1) -> int:
        return max(least, int(value * scale))

    wide = n(4096, 24)
    heads = 128 if scale >= 1 else 5
    return [
        Case(1, 0, 8, n(64, 8), n(16, 4), flash=True),
        Case(2, 0, 8, n(64, 8), n(16, 4), union=4),
        Case(3, n(9, 5), 8, 1, 1),
        Case(4, n(9, 5), 8, 1, 1, union=4),
        Case(5, n(9, 5), 8, 1, n(37, 7), empty_share=0.5),
        Case(6, n(12, 4), 1, n(5000, 40), wide, flash=True, middle=True),
        Case(7, n(6, 3), heads, n(5000, 40), wide, flash=True, sink="mixed"),
        Case(8, n(33, 6), 8, n(700, 40), n(257, 9), union=8, lengths="zero", sink="finite"),
        Case(9, n(33, 6), 8, n(700, 40), n(257, 9), flash=True, sink="+inf", empty_tokens=0.3),
        Case(10, n(33, 6), 8, n(700, 40), n(257, 9), flash=True, sink="-inf", empty_tokens=0.3, union=2),
        Case(11, n(40, 7), 8, n(900, 60), n(255, 11), union=4, nan_rows=True, padding=3, walk=True),
        Case(12, n(40, 7), 8, n(900, 60), n(255, 11), nan_rows=True, padding=1, lengths="drawn"),
        Case(13, n(20, 5), 8, n(300, 30), n(100, 9), empty_tokens=1.0, sink="finite"),
        Case(14, n(20, 5), 8, n(300, 30), n(100, 9), empty_tokens=1.0, union=4, flash=True),
        Case(15, n(20, 5), 8, n(300, 30), n(100, 9), d_qk=512, padding=2),
        Case(16, n(20, 5), 8, n(300, 30), n(100, 9), union=8, deterministic=True),
    ]


def drawn_cases(count: int, seed: int) -> list[Case]:
    """`count` cases for a GPU, the fixed ones first. The same seed draws the same cases."""
    random_source = random.Random(seed)
    cases = fixed_cases(1.0)
    unions: tuple[int | str, ...] = (0, 0, 2, 4, 8, 16, "auto")
    while len(cases) < count:
        topk = random_source.choice((random_source.randint(1, 70), random_source.randint(64, 600), random_source.randint(500, 4096)))
        rows = random_source.choice((1, random_source.randint(1, 100), random_source.randint(100, 3000), random_source.randint(2000, 20000)))
        tokens = random_source.choice((1, random_source.randint(1, 20), random_source.randint(10, 90)))
        cases.append(Case(
            seed=random_source.randrange(2**31), tokens=tokens, heads=random_source.choice(HEADS), kv_rows=rows, topk=topk,
            d_qk=random_source.choice((576, 576, 576, 512)), union=random_source.choice(unions), flash=random_source.random() < 0.5,
            middle=random_source.random() < 0.5, sink=random_source.choice(("none", "none", "finite", "+inf", "-inf", "mixed")),
            lengths=random_source.choice(("none", "none", "drawn", "zero")), empty_share=random_source.choice((0.0, 0.0, 0.1, 0.6)),
            empty_tokens=random_source.choice((0.0, 0.0, 0.2)), nan_rows=random_source.random() < 0.4,
            padding=random_source.choice((0, 0, 1, 4)), deterministic=random_source.random() < 0.1, walk=random_source.random() < 0.5))
    return cases[:count]


def _strided(values: torch.Tensor, padding: int) -> torch.Tensor:
    """The same values with larger strides between tokens and heads; what lies between is NaN."""
    if padding == 0:
        return values
    tokens, heads, width = values.shape
    room = torch.full((tokens, heads + 1, width + 8 * padding), math.nan, dtype=values.dtype, device=values.device)
    view = room[:, :heads, :width]
    view.copy_(values)
    return view


def make_inputs(case: Case, device: str) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(case.seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator).to(device=device, dtype=torch.bfloat16)

    t, h, s, k = case.tokens, case.heads, case.kv_rows, case.topk
    inputs: dict[str, Any] = {"q": _strided(normal(t, h, case.d_qk), case.padding), "kv": normal(s, case.d_qk)}
    if k <= s:  # a position at most once a row, as an index selection gives it
        if case.walk:
            indices = torch.empty(t, k, dtype=torch.int64)
            row = torch.randperm(s, generator=generator)[:k]
            for token in range(t):
                kept = row[torch.randperm(k, generator=generator)[: k - k // 20]]
                unused = torch.ones(s, dtype=torch.bool)
                unused[kept] = False
                fresh = unused.nonzero()[:, 0]
                fresh = fresh[torch.randperm(len(fresh), generator=generator)[: k - len(kept)]]
                row = torch.cat([kept, fresh])
                indices[token] = row
        else:
            indices = torch.stack([torch.randperm(s, generator=generator)[:k] for _ in range(t)]) if t else torch.empty(0, k, dtype=torch.int64)
    else:
        indices = torch.randint(0, max(1, s), (t, k), generator=generator)
    if case.empty_share and t:
        empty = torch.rand(t, k, generator=generator) < case.empty_share
        choices = torch.tensor([-1, -1, -2**31, s, s + 7, 2**31 - 1])
        indices[empty] = choices[torch.randint(0, len(choices), (int(empty.sum()),), generator=generator)]
    if case.empty_tokens and t:
        chosen = torch.rand(t, generator=generator) < case.empty_tokens
        if case.empty_tokens >= 1.0:
            chosen[:] = True
        indices[chosen] = -1
    inputs["indices"] = indices.to(torch.int32).to(device)
    if case.lengths != "none":
        lengths = torch.randint(-2, k + 3, (t,), generator=generator)
        if case.lengths == "zero" and t:
            lengths[:: max(1, t // 3)] = 0
        inputs["topk_length"] = lengths.to(torch.int32).to(device)
    if case.sink != "none":
        sink = torch.randn(h, generator=generator) * 3
        if case.sink == "+inf":
            sink[:] = math.inf
        elif case.sink == "-inf":
            sink[:] = -math.inf
        elif case.sink == "mixed":
            sink[::3] = math.inf
            sink[1::3] = -math.inf
        inputs["attn_sink"] = sink.to(device)
    if case.nan_rows and s > 0:
        selected = torch.zeros(s, dtype=torch.bool, device=device)
        looked_at = valid_slots(inputs["indices"], inputs.get("topk_length"), s)
        selected[inputs["indices"][looked_at].long()] = True
        inputs["kv"][~selected] = math.nan
    inputs["sm_scale"] = LOGIT_DEVIATION / math.sqrt(case.d_qk)
    return inputs


def valid_slots(indices: torch.Tensor, topk_length: torch.Tensor | None, kv_rows: int) -> torch.Tensor:
    valid = (indices >= 0) & (indices < kv_rows)
    if topk_length is not None:
        valid &= torch.arange(indices.shape[1], device=indices.device)[None] < topk_length[:, None]
    return valid


def reference(inputs: dict[str, Any], once: bool) -> dict[str, torch.Tensor]:
    """fp32. `once`: a position that a row repeats counts once, as with union."""
    q, kv, indices, scale = inputs["q"], inputs["kv"], inputs["indices"], inputs["sm_scale"]
    t, h, _ = q.shape
    device = q.device
    result = {"out": torch.zeros(t, h, 512, device=device), "weight": torch.zeros(t, h, 512, device=device),
              "max_logits": torch.full((t, h), -math.inf, device=device), "lse": torch.full((t, h), math.inf, device=device)}
    valid = valid_slots(indices, inputs.get("topk_length"), kv.shape[0])
    for token in range(t):
        rows = indices[token][valid[token]].long()
        if once:
            rows = rows.unique()
        if len(rows) == 0:
            continue
        selected = kv[rows].float()
        logits = q[token].float() @ selected.T * scale
        lse = torch.logsumexp(logits, -1)
        share = torch.exp(logits - lse[:, None])
        if inputs.get("attn_sink") is not None:
            share = share * (1.0 / (1.0 + torch.exp(inputs["attn_sink"] - lse)))[:, None]
        result["out"][token] = share @ selected[:, :512]
        result["weight"][token] = share @ selected[:, :512].abs()
        result["max_logits"][token] = logits.max(-1).values
        result["lse"][token] = lse
    return result


def run_case(case: Case, device: str, runtime: Any = None) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """(answer, reference) of one case through the Python package."""
    import kernwright

    inputs = make_inputs(case, device)
    kv = inputs["kv"][:, None] if case.middle else inputs["kv"]
    indices = inputs["indices"][:, None] if case.middle else inputs["indices"]
    optional = {"topk_length": inputs.get("topk_length"), "attn_sink": inputs.get("attn_sink")}
    if case.flash:
        out, max_logits, lse = kernwright.flash_mla_sparse_fwd(inputs["q"], kv, indices, inputs["sm_scale"], 512, optional["attn_sink"],
                                                               optional["topk_length"], union=case.union, deterministic=case.deterministic)
    else:
        room = torch.full((case.tokens, case.heads, 512), math.nan, dtype=torch.bfloat16, device=device)
        out = _strided(room, case.padding)
        max_logits = torch.full((case.tokens, case.heads), math.nan, device=device)
        lse = torch.full((case.tokens, case.heads), math.nan, device=device)
        answered = kernwright.sparse_mla_prefill(inputs["q"], kv, indices, inputs["sm_scale"], 512, out=out, union=case.union,
                                                 max_logits=max_logits, lse=lse, deterministic=case.deterministic, **optional)
        assert answered is out
        if case.padding and case.tokens:  # what lies between the rows belongs to the caller
            whole = torch.as_strided(out, (case.tokens * out.stride(0),), (1,), out.storage_offset())
            between = torch.ones_like(whole, dtype=torch.bool)
            torch.as_strided(between, out.shape, out.stride()).fill_(False)
            assert bool(whole[between].isnan().all()), "elements between the rows of out were written"
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    union_used = 0
    if not case.deterministic:
        union_used = kernwright.SparseMlaPrefill(case.heads, device="host" if device == "cpu" else device, d_qk=case.d_qk,
                                                 max_topk=1 << (case.topk - 1).bit_length(), union=case.union).union[0]
    return {"out": out, "max_logits": max_logits, "lse": lse}, reference(inputs, once=union_used > 0)


def faults(answer: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> list[str]:
    """What is wrong with an answer; empty where nothing is."""
    found = []
    out, ref = answer["out"].float(), expected["out"]
    bound = BF16_HALF_STEP * ref.abs() + BF16_HALF_STEP * expected["weight"]
    beyond = ~((out - ref).abs() <= bound)  # a NaN is beyond
    if bool(beyond.any()):
        at = beyond.nonzero()[0].tolist()
        found.append(f"{int(beyond.sum())} elements of out beyond their bound, the first at {at}: "
                     f"{out[tuple(at)].item()} for {ref[tuple(at)].item()}")
    norms = out.norm(dim=-1) * ref.norm(dim=-1)
    cosine = torch.where(norms > 0, (out * ref).sum(-1) / norms.clamp_min(1e-30), torch.ones_like(norms))
    if out.numel() and not bool((cosine >= COSINE_FLOOR).all()):
        found.append(f"a row's cosine is {cosine.min().item()}")
    for name in ("max_logits", "lse"):
        same = (answer[name] == expected[name]) | ((answer[name] - expected[name]).abs() <= STATISTIC_BOUND)
        if not bool(same.all()):
            at = (~same).nonzero()[0].tolist()
            found.append(f"{name} at {at}: {answer[name][tuple(at)].item()} for {expected[name][tuple(at)].item()}")
    return found
