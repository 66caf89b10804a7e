#!/usr/bin/env python3
"""A torch module whose attention call is replaced: written against FlashMLA's sparse prefill, run by Kernwright.

    sparse_attention.py [--device cuda|cpu]      cpu runs on the interpreter

An engine that imports `flash_mla_sparse_fwd` from FlashMLA changes that one import. The module is run twice, with an attention in plain
torch and with Kernwright's, and the results are compared; then a third time under torch.compile.
"""

from __future__ import annotations

import argparse
import math
import sys

try:
    import torch
except ImportError:
    sys.exit("torch is not installed: this example needs it")

import kernwright
from kernwright import flash_mla_sparse_fwd  # was: from flash_mla import flash_mla_sparse_fwd

LATENT, ROPE = 512, 64


class SparseMlaAttention(torch.nn.Module):
    """Absorbed multi-head latent attention over the rows that an indexer selected, between its projections."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.scale = 1.0 / math.sqrt(LATENT + ROPE)
        self.query = torch.nn.Linear(hidden, heads * (LATENT + ROPE), bias=False)
        self.output = torch.nn.Linear(heads * LATENT, hidden, bias=False)

    def attend(self, q: torch.Tensor, kv: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        out, _, _ = flash_mla_sparse_fwd(q, kv, indices, self.scale)
        return out

    def forward(self, states: torch.Tensor, kv: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        q = self.query(states).view(-1, self.heads, LATENT + ROPE)
        return self.output(self.attend(q, kv, indices).flatten(1))


class PlainTorchAttention(SparseMlaAttention):
    """The same in torch: gathers the rows, computes in fp32."""

    def attend(self, q: torch.Tensor, kv: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        chosen = indices[:, 0].long()
        empty = chosen < 0
        rows = kv[chosen.clamp_min(0), 0].float()
        logits = torch.einsum("thd,tkd->thk", q.float(), rows) * self.scale
        share = logits.masked_fill(empty[:, None], -math.inf).softmax(-1).nan_to_num(0.0)
        return torch.einsum("thk,tkd->thd", share, rows[..., :LATENT]).to(q.dtype)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    device = parser.parse_args().device
    if device == "cpu":
        kernwright.configure(host=True)  # the interpreter runs only where it is asked for
    tokens, heads, hidden, rows, topk = 40, 4, 256, 300, 24

    torch.manual_seed(0)
    plain = PlainTorchAttention(hidden, heads).to(device, torch.bfloat16)
    module = SparseMlaAttention(hidden, heads).to(device, torch.bfloat16)
    module.load_state_dict(plain.state_dict())
    states = torch.randn(tokens, hidden, device=device, dtype=torch.bfloat16)
    kv = torch.randn(rows, 1, LATENT + ROPE, device=device, dtype=torch.bfloat16)
    indices = torch.stack([torch.randperm(rows)[:topk] for _ in range(tokens)])[:, None].int().to(device)
    indices[::7, :, topk // 2:] = -1  # tokens with fewer rows

    with torch.inference_mode():
        expected = plain(states, kv, indices).float()
        results = {"eager": module(states, kv, indices)}
        results["compiled"] = torch.compile(module, fullgraph=True, backend="aot_eager")(states, kv, indices)
    worst = 0.0
    for name, result in results.items():
        difference = ((result.float() - expected).norm() / expected.norm()).item()
        worst = max(worst, difference)
        print(f"{name}: differs from plain torch by {difference:.2e} of its length")
    return 0 if worst < 1e-2 else 1


if __name__ == "__main__":
    sys.exit(main())
