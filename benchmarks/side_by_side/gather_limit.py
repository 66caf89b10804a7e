"""The gather-only limit: how fast the rows that index lists name reach shared memory when nothing else is done. The template is in gather_limit/.

Blocks walk the lists of whole tokens and are there as often as their rings fit; a ring goes on over the borders of tokens, list entries are read a
tile ahead, and empty slots at a list's end are not walked: their count comes from torch, outside the timing. So nothing but the copies sets
the pace. A checked run adds up, for each token, the words of the rows that arrived (gather_limit/arrived.cuh).
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import kernwright

if TYPE_CHECKING:
    import torch

FOLDER = pathlib.Path(__file__).resolve().parent
TEMPLATE = "gather_limit/gather"
ROW_BYTES = 1152
PARAMS = (
    ("kv", "pointer"), ("indices", "pointer"), ("lengths", "pointer"), ("next", "pointer"), ("sums", "pointer"),
    ("tokens", "int32"), ("topk", "int32"), ("kv_rows", "int32"),
)  # fmt: skip
#: Rings that fill a Hopper multiprocessor's shared memory: of one block, of two and of three.
TILES = (
    "copies:m1n64s3w8", "copies:m1n64s3w4", "copies:m1n32s6w8", "copies:m1n32s3w8", "copies:m1n16s6w4", "copies:m1n16s4w4",
    "bulk:m1n64s3w1", "bulk:m1n32s6w1", "bulk:m1n32s3w1", "bulk:m1n16s6w1", "bulk:m1n16s4w1",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Candidate:
    tile: str
    counter: bool  # blocks take tokens one by one from a counter; otherwise each has a fixed share

    def text(self) -> str:
        return f"{self.tile} {'counter' if self.counter else 'shares'}"


def candidates() -> list[Candidate]:
    return [Candidate(tile, counter) for tile in TILES for counter in (True, False)]


def sources() -> tuple[str, dict[str, str]]:
    """The template's manifest, and its files by the names under which they include each other."""
    files = {f"{TEMPLATE.split('/')[0]}/{file.name}": file.read_text(encoding="utf-8")
             for file in sorted((FOLDER / "gather_limit").iterdir()) if file.suffix in (".cu", ".cuh")}  # fmt: skip
    return (FOLDER / f"{TEMPLATE}.toml").read_text(encoding="utf-8"), files


@functools.cache
def kernel(tile: str, device: int | str) -> kernwright.Kernel | None:
    """None where the device has no room for the tile, or lacks its instructions."""
    manifest, files = sources()
    try:
        prepared = kernwright.Kernel.from_source(files, manifest, PARAMS, device=device, tile=tile)
    except kernwright.Error as error:
        if error.code != "unsupported":
            raise
        return None
    return prepared if prepared.report["tile_fitted"] == tile else None


def list_lengths(indices: torch.Tensor) -> torch.Tensor:
    """[T] int32: each list's slots up to its last that is not empty."""
    import torch

    behind = torch.arange(1, indices.shape[1] + 1, dtype=torch.int32, device=indices.device)
    return torch.where(indices >= 0, behind, 0).amax(1).to(torch.int32)


def runner(candidate: Candidate, device: torch.device) -> Callable[..., None] | None:
    """gather(kv, indices, lengths, sums=None) on torch's current stream; None where the device cannot run it."""
    import torch

    where = "host" if device.type == "cpu" else device.index
    prepared = kernel(candidate.tile, where)
    if prepared is None:
        return None
    resident = prepared.plan["blocks_per_sm"] * kernwright.default_runtime().device(where)["multiprocessors"]
    counter = torch.zeros(1, dtype=torch.int32, device=device) if candidate.counter else None  # every launch leaves it at 0

    def gather(kv: torch.Tensor, indices: torch.Tensor, lengths: torch.Tensor, sums: torch.Tensor | None = None) -> None:
        tokens, topk = indices.shape
        prepared.launch(min(resident, tokens), kv=kv, indices=indices, lengths=lengths, next=counter, sums=sums, tokens=tokens, topk=topk,
                        kv_rows=kv.shape[0])  # fmt: skip

    return gather


def wrong_tokens(gather: Callable[..., None], kv: torch.Tensor, indices: torch.Tensor) -> int:
    """Tokens for which other bytes arrived than their lists name. All of them are looked at."""
    import torch

    words = kv.reshape(kv.shape[0], -1).view(torch.int32).long()
    of_row = (words * torch.arange(1, 2 * words.shape[1], 2, device=kv.device)).sum(1) % 2**32
    present = (indices >= 0) & (indices < kv.shape[0])
    expected = torch.where(present, of_row[torch.where(present, indices, 0).long()], 0).sum(1) % 2**32
    sums = torch.zeros(indices.shape[0], dtype=torch.int32, device=kv.device)
    gather(kv, indices, list_lengths(indices), sums)
    return int((sums.long() % 2**32 != expected).sum())
