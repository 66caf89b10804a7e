"""numpy arrays for the tests: bfloat16 as its bits, and problems whose answers are known."""

from __future__ import annotations

import math

import numpy

QK, V = 576, 512


def to_bits(values: numpy.ndarray) -> numpy.ndarray:
    """bfloat16 bits of float32 values that bfloat16 holds exactly."""
    bits = values.astype("float32").view("uint32")
    assert not (bits & 0xFFFF).any()
    return (bits >> 16).astype("uint16")


def from_bits(bits: numpy.ndarray) -> numpy.ndarray:
    return (bits.astype("uint32") << 16).view("float32")


class MeanProblem:
    """With q = 0 every selected row weighs the same: out is the rows' mean, lse ln K, the largest logit 0."""

    def __init__(self, tokens: int = 7, heads: int = 2, rows: int = 24, topk: int = 8) -> None:
        self.values = ((numpy.arange(rows)[:, None] * 5 + numpy.arange(QK)[None]) % 8).astype("float32")
        self.q = numpy.zeros((tokens, heads, QK), dtype="uint16")
        self.kv = to_bits(self.values)
        self.indices = ((numpy.arange(tokens)[:, None] + numpy.arange(topk)[None] * 3) % rows).astype("int32")
        self.out = numpy.full((tokens, heads, V), 0x7FC0, dtype="uint16")
        self.lse = numpy.full((tokens, heads), -1, dtype="float32")
        self.max_logits = numpy.full((tokens, heads), -1, dtype="float32")
        self.mean = self.values[self.indices][:, :, :V].mean(axis=1)[:, None].repeat(heads, axis=1)
        self.ln_k = math.log(topk)

    def statistics(self) -> dict[str, numpy.ndarray]:
        return {"lse": self.lse, "max_logits": self.max_logits}
