"""Indices with a set share of change from token to token: the random walk that docs/kernels.md and `kernwright bench` use."""

from __future__ import annotations

import torch


def walk(requests: int, tokens: int, topk: int, churn: float, seed: int = 1) -> torch.Tensor:
    """[requests * tokens, topk] int32 on the CPU. Token t selects its whole prefix while that has at most `topk` rows; then token t + 1 is
    token t with a share `churn` of its rows replaced. Each request has its own rows; empty slots are -1."""
    generator = torch.Generator().manual_seed(seed)
    out = torch.full((requests * tokens, topk), -1, dtype=torch.int32)
    replaced = max(1, round(topk * churn))
    for request in range(requests):
        base = request * tokens
        selected = torch.arange(topk)
        member = torch.zeros(tokens, dtype=torch.bool)
        member[:topk] = True
        for t in range(tokens):
            present = t + 1
            if present <= topk:
                out[base + t, :present] = torch.arange(present, dtype=torch.int32) + base
                continue
            drawn = torch.randint(0, present, (4 * replaced + 64,), generator=generator)
            fresh = drawn[~member[drawn]].unique()
            fresh = fresh[torch.randperm(fresh.numel(), generator=generator)[:replaced]]
            slots = torch.randperm(topk, generator=generator)[: fresh.numel()]
            member[selected[slots]] = False
            member[fresh] = True
            selected[slots] = fresh
            out[base + t] = (selected + base).to(torch.int32)
    return out
