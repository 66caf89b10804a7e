"""Sparse MLA prefill in Triton, to be measured beside the product: one program a token, or one a group of tokens over the union of their rows.

An online softmax in base 2 over tiles of keys; V is the first 512 columns of a row. The union is built by sorting each token's row and keeping
what no earlier token of the group has, which is how a Triton engine does it.
"""

from __future__ import annotations

import itertools

import torch
import triton
import triton.language as tl

LOG2_E = 1.4426950408889634
LATENT = 512
ROPE = 64


@triton.jit
def _attend(
    q, kv, rows, masks, counts, out, scale, tokens,
    CAPACITY: tl.constexpr, HEADS: tl.constexpr, GROUP: tl.constexpr, ROWS: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0).to(tl.int64)
    r = tl.arange(0, ROWS)
    latent = tl.arange(0, 512)
    rope = 512 + tl.arange(0, 64)
    token = group * GROUP + r // HEADS
    valid = (token < tokens) & (r < GROUP * HEADS)
    row = token * HEADS + r % HEADS
    q_latent = tl.load(q + row[:, None] * 576 + latent[None, :], mask=valid[:, None], other=0.0)
    q_rope = tl.load(q + row[:, None] * 576 + rope[None, :], mask=valid[:, None], other=0.0)
    count = tl.load(counts + group)
    largest = tl.full([ROWS], -1e30, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    acc = tl.zeros([ROWS, 512], tl.float32)
    shift = (r // HEADS).to(tl.int32)
    for start in range(0, count, BLOCK_N):
        slot = start + tl.arange(0, BLOCK_N)
        present = slot < count
        index = tl.load(rows + group * CAPACITY + slot, mask=present, other=0)
        if GROUP == 1:
            owned = (present & (index >= 0))[None, :]
            index = tl.where(index >= 0, index, 0)
        else:
            mask = tl.load(masks + group * CAPACITY + slot, mask=present, other=0)
            owned = ((mask[None, :] >> shift[:, None]) & 1) != 0
        index = index.to(tl.int64)
        k_latent = tl.load(kv + index[:, None] * 576 + latent[None, :])
        k_rope = tl.load(kv + index[:, None] * 576 + rope[None, :])
        s = tl.dot(q_latent, tl.trans(k_latent))
        s = tl.dot(q_rope, tl.trans(k_rope), s) * scale
        s = tl.where(owned, s, -float("inf"))
        new_largest = tl.maximum(largest, tl.max(s, 1))
        alpha = tl.exp2(largest - new_largest)
        p = tl.exp2(s - new_largest[:, None])
        total = total * alpha + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.bfloat16), k_latent, acc * alpha[:, None])
        largest = new_largest
    acc = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(out + row[:, None] * 512 + latent[None, :], acc.to(tl.bfloat16), mask=valid[:, None])


@triton.jit
def _found(base, wanted, K: tl.constexpr, STEPS: tl.constexpr):
    low = tl.zeros_like(wanted)
    high = tl.full(wanted.shape, K, wanted.dtype)
    for _ in tl.static_range(STEPS):
        middle = (low + high) // 2
        above = (tl.load(base + tl.minimum(middle, K - 1)) < wanted) & (low < high)
        low = tl.where(above, middle + 1, low)
        high = tl.where(above | (low >= high), high, middle)
    return (low < K) & (tl.load(base + tl.minimum(low, K - 1)) == wanted)


@triton.jit
def _merge(sorted_rows, rows, masks, counts, tokens, K: tl.constexpr, GROUP: tl.constexpr, STEPS: tl.constexpr):
    group = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, K)
    placed = 0
    for a in tl.static_range(GROUP):
        token = group * GROUP + a
        value = tl.load(sorted_rows + token * K + column, mask=token < tokens, other=-1)
        keep = value >= 0
        mask = tl.where(keep, 1 << a, 0)
        for b in tl.static_range(GROUP):
            if b != a:
                other = group * GROUP + b
                if other < tokens:
                    in_other = _found(sorted_rows + other * K, value, K, STEPS)
                    if b < a:
                        keep = keep & (in_other == 0)
                    mask = mask | tl.where(in_other, 1 << b, 0)
        kept = keep.to(tl.int32)
        to = tl.cumsum(kept, 0) - kept + placed
        tl.store(rows + group * GROUP * K + to, value, mask=keep)
        tl.store(masks + group * GROUP * K + to, mask, mask=keep)
        placed += tl.sum(kept, 0)
    tl.store(counts + group, placed)


def union(indices: torch.Tensor, group: int):
    """(rows [groups, group * K], masks likewise, counts [groups]), int32. K is a power of two."""
    tokens, k = indices.shape
    groups = (tokens + group - 1) // group
    ordered = torch.sort(indices, dim=1).values
    rows = torch.empty(groups, group * k, dtype=torch.int32, device=indices.device)
    masks = torch.empty_like(rows)
    counts = torch.empty(groups, dtype=torch.int32, device=indices.device)
    _merge[(groups,)](ordered, rows, masks, counts, tokens, k, group, k.bit_length(), num_warps=8)
    return rows, masks, counts


def attend(q, kv, indices, lengths, sm_scale, group, tile, out):
    """`out` [T, H, 512] of the union of `group` tokens, from the indices on; `tile` is (keys a step, warps, stages)."""
    tokens, heads, _ = q.shape
    if group == 1:
        rows, masks, counts = indices, indices, lengths
    else:
        rows, masks, counts = union(indices, group)
    block_n, warps, stages = tile
    _attend[(counts.shape[0],)](
        q, kv, rows, masks, counts, out, sm_scale * LOG2_E, tokens, rows.shape[1], heads, group,
        max(16, triton.next_power_of_2(group * heads)), block_n, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return out


def candidates(heads: int):
    """(group, tile) worth trying: groups that fill a tile of 16 or 32 rows, and one token."""
    groups = [g for g in (1, 2, 4) if g == 1 or g * heads <= 32]
    tiles = [(16, 4, 2), (32, 4, 2), (32, 4, 3), (32, 8, 2), (64, 4, 2), (64, 8, 2)]
    return list(itertools.product(groups, tiles))
