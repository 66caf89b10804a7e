"""The gather-only limit of benchmarks/side_by_side, as far as it goes without a GPU: the copies on the host interpreter, every tile through NVRTC."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy

import kernwright

BENCHMARK = pathlib.Path(__file__).resolve().parents[2] / "benchmarks" / "side_by_side"
sys.path.insert(0, str(BENCHMARK))

import gather_limit  # noqa: E402 - where it lies is known only now

COPIES = [tile for tile in gather_limit.TILES if tile.startswith("copies")]
BLOCKS = 3
CHANGED = itertools.count()


def setUpModule() -> None:
    kernwright.configure(host=True)


class Lists:
    """Lists of every kind, and what a checked run must say of them."""

    def __init__(self, tokens: int = 11, topk: int = 150, kv_rows: int = 40) -> None:
        random = numpy.random.default_rng(1)
        self.kv = random.integers(0, 2**16, (kv_rows, gather_limit.ROW_BYTES // 2), dtype="uint16")
        self.indices = random.integers(0, kv_rows, (tokens, topk), dtype="int32")
        self.indices[0] = -1  # nothing selected, at either end of the batch and within
        self.indices[5] = -(2**31)
        self.indices[tokens - 1] = -1
        self.indices[1, 1:] = -1
        self.indices[2, 64:] = -1  # a tile's border
        self.indices[3, 65:] = -1
        self.indices[4, ::3] = -1  # empty slots between others
        self.indices[6, 10:40] = kv_rows
        self.indices[7, 10:140] = 2**31 - 1
        self.lengths = numpy.array([numpy.flatnonzero(row >= 0).max(initial=-1) + 1 for row in self.indices], dtype="int32")
        words = self.kv.view("uint32").astype("uint64")
        of_row = (words * numpy.arange(1, 2 * words.shape[1], 2, dtype="uint64")).sum(axis=1)
        valid = (self.indices >= 0) & (self.indices < kv_rows)
        self.expected = numpy.array([of_row[row[there]].sum() for row, there in zip(self.indices, valid)], dtype="uint64").astype("uint32")

    def sums(self, kernel: kernwright.Kernel, counter: numpy.ndarray | None, blocks: int = BLOCKS) -> numpy.ndarray:
        sums = numpy.zeros(len(self.indices), dtype="int32")
        kernel.launch(blocks, kv=self.kv, indices=self.indices, lengths=self.lengths, next=counter, sums=sums, tokens=len(self.indices),
                      topk=self.indices.shape[1], kv_rows=len(self.kv))
        return sums.view("uint32")


def renamed(manifest: str, files: dict[str, str]) -> tuple[str, dict[str, str]]:
    """A changed copy as a template of its own, in a folder of its own: a name stands for one text."""
    folder = f"gather_limit_{next(CHANGED)}"
    return (manifest.replace('"gather_limit/', f'"{folder}/'),
            {name.replace("gather_limit/", f"{folder}/"): text.replace('"gather_limit/', f'"{folder}/') for name, text in files.items()})


def prepared(tile: str, changed: tuple[str, str, str] | None = None, source: tuple[str, dict[str, str]] | None = None) -> kernwright.Kernel:
    """On host. `changed`: a file, what stands there once, and what to put in its place."""
    manifest, files = source or gather_limit.sources()
    if changed is not None:
        file, old, new = changed
        name = f"gather_limit/{file}"
        assert files[name].count(old) == 1, old
        files = {**files, name: files[name].replace(old, new)}
    if changed is not None or source is not None:
        manifest, files = renamed(manifest, files)
    return kernwright.Kernel.from_source(files, manifest, gather_limit.PARAMS, device="host", tile=tile)


#: Bulk copies and their barriers for the host, which has none: a copy is done at once, and a wait that a device would never come back from, or
#: come back from too early, ends the process. It is enough because the lanes vote between any two uses of a stage.
STAND_IN = """#pragma once
#include "common/shared_memory.cuh"
#include "common/types.cuh"
namespace kw {
inline constexpr u32 mbarrier_bytes = 8;
struct Barrier { int bytes_left; u32 phases; };
inline Barrier* barrier_at(SharedAddress address) { return reinterpret_cast<Barrier*>(address.pointer); }
inline void mbarrier_init(SharedAddress barrier, u32) { *barrier_at(barrier) = {0, 0}; }
inline void mbarrier_init_fence() {}
inline void async_proxy_fence() {}
inline void mbarrier_wait(SharedAddress barrier, u32 parity) {
  if (barrier_at(barrier)->bytes_left != 0 || (barrier_at(barrier)->phases + 1) % 2 != parity) __builtin_trap();
}
}
namespace gather_limit {
inline void arrive_expecting(kw::SharedAddress barrier, kw::u32 bytes) {
  ++kw::barrier_at(barrier)->phases;
  __atomic_fetch_add(&kw::barrier_at(barrier)->bytes_left, static_cast<int>(bytes), __ATOMIC_RELAXED);
}
inline void bulk_copy(kw::SharedAddress shared, const void* global, kw::u32 bytes, kw::SharedAddress barrier) {
  __builtin_memcpy(shared.pointer, global, bytes);
  __atomic_fetch_sub(&kw::barrier_at(barrier)->bytes_left, static_cast<int>(bytes), __ATOMIC_RELAXED);
}
}
"""


def bulk_on_host() -> tuple[str, dict[str, str]]:
    manifest, files = gather_limit.sources()
    kernel = files["gather_limit/gather_bulk.cu"]
    assert '#include "common/mbarrier.cuh"\n' in kernel and manifest.count("host = false") == 1
    return manifest.replace("host = false", "host = true"), {
        **files, "gather_limit/bulk_copy.cuh": STAND_IN, "gather_limit/gather_bulk.cu": kernel.replace('#include "common/mbarrier.cuh"\n', "")}


class Rows(unittest.TestCase):
    def test_the_right_bytes_arrive(self) -> None:
        lists = Lists()
        for tile in COPIES:
            kernel = prepared(tile)
            self.assertEqual(kernel.report["tile_fitted"], tile)
            counter = numpy.zeros(1, dtype="int32")
            for blocks in (1, BLOCKS, 20):
                for turn in (None, counter, counter):  # a launch leaves the counter as the next one needs it
                    with self.subTest(tile=tile, blocks=blocks, counter=turn is not None):
                        numpy.testing.assert_array_equal(lists.sums(kernel, turn, blocks), lists.expected)
                        self.assertEqual(int(counter[0]), 0)

    def test_bulk_copies_the_same_rows(self) -> None:
        lists = Lists()
        source = bulk_on_host()
        for tile in gather_limit.TILES:
            if not tile.startswith("bulk"):
                continue
            kernel = prepared(tile, source=source)
            counter = numpy.zeros(1, dtype="int32")
            for turn in (None, counter, counter):
                with self.subTest(tile=tile, counter=turn is not None):
                    numpy.testing.assert_array_equal(lists.sums(kernel, turn), lists.expected)
        changed = ("gather_bulk.cu", "for (int piece = 0; piece < row_bytes / 16", "for (int piece = 0; piece < row_bytes / 16 - 1")
        self.assertTrue((lists.sums(prepared("bulk:m1n16s6w1", changed, source), None) != lists.expected).any())

    def test_without_tokens_or_sums_nothing_is_written(self) -> None:
        lists = Lists()
        kernel = prepared(COPIES[-1])
        given = {"kv": lists.kv, "indices": lists.indices, "lengths": lists.lengths, "next": None, "sums": None,
                 "tokens": len(lists.indices), "topk": lists.indices.shape[1], "kv_rows": len(lists.kv)}
        kernel.launch(BLOCKS, **given)
        sums = numpy.zeros(len(lists.indices), dtype="int32")
        kernel.launch(BLOCKS, **{**given, "sums": sums, "tokens": 0})
        self.assertFalse(sums.any())

    def test_the_check_can_fail(self) -> None:
        lists = Lists()
        tile = COPIES[-1]
        for changed in (
            ("gather_copies.cu", "from + panel * panel_bytes, 16", "from + panel * panel_bytes, panel < 8 ? 16 : 0"),
            ("gather_copies.cu", "from + panel * panel_bytes, 16", "from + (8 - panel) * panel_bytes, 16"),
            ("gather_copies.cu", "cp_async_wait<kw::tile.stages - 1>", "cp_async_wait<kw::tile.stages>"),
            ("tile_walk.cuh", "kw::load_once(list + slot)", "kw::load_once(list + (slot ^ 1))"),
            ("tile_walk.cuh", "first_ >= length_", "first_ + kw::tile.block_n >= length_"),
            ("token_queue.cuh", "static_cast<int>(tokens - 1 - place)", "static_cast<int>(place / 2)"),
        ):
            with self.subTest(changed=changed):
                self.assertGreater(int((lists.sums(prepared(tile, changed), None) != lists.expected).sum()), 0)
        late = numpy.zeros(1, dtype="int32")
        kept = prepared(tile, ("token_queue.cuh", "*params_.next = 0;", ";"))
        numpy.testing.assert_array_equal(lists.sums(kept, late), lists.expected)
        self.assertTrue((lists.sums(kept, late) != lists.expected).any())  # the counter stands where the first launch left it


@unittest.skipUnless(importlib.util.find_spec("torch"), "torch is not installed: the comparison of the benchmark is not tested here")
class Comparison(unittest.TestCase):
    def test_it_agrees_and_can_fail(self) -> None:
        import torch

        lists = Lists()
        kv = torch.from_numpy(lists.kv.view("int16")).view(torch.bfloat16)
        indices = torch.from_numpy(lists.indices)
        numpy.testing.assert_array_equal(gather_limit.list_lengths(indices).numpy(), lists.lengths)
        for candidate in gather_limit.candidates():
            gather = gather_limit.runner(candidate, torch.device("cpu"))
            self.assertEqual(gather is None, candidate.tile.startswith("bulk"))
            if gather is None:
                continue
            with self.subTest(candidate=candidate.text()):
                self.assertEqual(gather_limit.wrong_tokens(gather, kv, indices), 0)
                other = indices.clone()
                other[2, 7] = (other[2, 7] + 1) % len(kv)
                self.assertEqual(gather_limit.wrong_tokens(lambda kv, _, *rest, run=gather: run(kv, other, *rest), kv, indices), 1)
                shorter = gather_limit.list_lengths(indices) - 1
                self.assertGreater(
                    gather_limit.wrong_tokens(lambda kv, indices, _, sums, run=gather: run(kv, indices, shorter, sums), kv, indices), 5)


class Compiled(unittest.TestCase):
    def test_every_tile_builds_without_spills(self) -> None:
        with tempfile.TemporaryDirectory() as store:
            for tile in gather_limit.TILES:
                words = ["warm", "--templates", str(BENCHMARK), "--template", gather_limit.TEMPLATE, "--target", "sm_90a", "--tile", tile,
                         "--no-fallbacks", "--quiet", "--json"]
                ran = subprocess.run([sys.executable, "-m", "kernwright", *words], capture_output=True, text=True, check=False,
                                     env={**os.environ, "KERNWRIGHT_CACHE_DIR": store})
                if "compiler_unavailable" in ran.stdout + ran.stderr:
                    self.skipTest("there is no NVRTC here")
                with self.subTest(tile=tile):
                    self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
                    (item,) = json.loads(ran.stdout)["items"]  # a tile that does not fit the target stands there beside what took its place
                    self.assertEqual((item["tile"], item["status"]), (tile, "built"))
                    resources = item["resources"]
                    self.assertGreater(resources.pop("registers"), 16)
                    self.assertEqual(set(resources.values()), {0}, resources)


if __name__ == "__main__":
    unittest.main()
