"""What an attention must answer: an fp32 reference on sampled tokens."""

from __future__ import annotations

import torch


def wrong_rows(q, kv, indices, scale, out, samples: int = 256) -> int:
    """Rows off by more than the rounding of P and of the output: |out - ref| <= 2^-8 (|ref| + sum p |v|), in fp32."""
    chosen = torch.linspace(0, q.shape[0] - 1, samples).long().unique().tolist()
    wrong = 0
    for token in chosen:
        rows = indices[token][indices[token] >= 0].long()
        keys = kv[rows].float()
        p = torch.softmax(q[token].float() @ keys.T * scale, dim=1)
        values = keys[:, :512]
        reference = p @ values
        bound = (reference.abs() + p @ values.abs()) * 2**-8
        wrong += int(((out[token].float() - reference).abs() > bound).any(dim=1).sum())
    return wrong
