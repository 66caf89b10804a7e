#!/usr/bin/env python3
"""Host cost of one Python call of sparse MLA prefill, less the launches themselves.

    python_call_cost.py [--device cuda] [--calls 200] [--rounds 51] [--json FILE]

total    wall time of a call, without waiting for the device: the median over rounds of (time of `calls` calls) / calls. The problem is so small
         that the device keeps up, and each round ends in a synchronisation that is not timed, so that no call waits for room in the queue.
launch   wall time of one launch: kw_kernel_launch of a prepared empty kernel over ctypes, less a ctypes call of a function that does
         nothing with the same arguments. It holds the 0.1 us that the library adds to cuLaunchKernel (benchmarks/launch_cost.cpp).
cost     total less the call's launches: one without union, two with.

On the CPU (--device cpu, the interpreter) calls have no tokens, so nothing is launched and cost is the total.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import statistics
import sys
import time
from collections.abc import Callable

import torch

import kernwright
from kernwright import _library as c

EMPTY_MANIFEST = """
format = 1
name = "call_cost/empty"
entry = "call_cost_empty"
plan = "call_cost/empty_plan.cuh"
fall_back = ["portable:m1n32s1w1"]

[[variant]]
name = "portable"
source = "call_cost/empty.cu"
minimum_capability = "8.0"
host = true
block_m = [1]
block_n = [32]
stages = [1]
warps = [1]
"""
EMPTY_FILES = {
    "call_cost/empty_plan.cuh": """#pragma once
#include "kernwright/specialisation.cuh"
struct EmptyParams { void* unused[20]; };
namespace kw {
constexpr Plan make_plan(const Specialisation&, const Tile& tile) {
  Plan plan;
  plan.params_bytes = static_cast<int>(sizeof(EmptyParams));
  plan.threads = 32 * tile.warps;
  plan.rows_per_block = 1;
  return plan;
}
}
""",
    "call_cost/empty.cu": """#include "call_cost/empty_plan.cuh"
extern "C" __global__ void call_cost_empty(const __grid_constant__ EmptyParams params) { (void)params; }
extern "C" __constant__ const kw::Plan kw_plan = kw::make_plan(kw::specialisation, kw::tile);
""",
}


def median_us(call: Callable[[], object], calls: int, rounds: int, wait: Callable[[], None]) -> float:
    times = []
    for round_number in range(rounds + 3):
        began = time.perf_counter()
        for _ in range(calls):
            call()
        took = time.perf_counter() - began
        wait()
        if round_number >= 3:
            times.append(took / calls * 1e6)
    return statistics.median(times)


def launch_us(device: str, calls: int, rounds: int, wait: Callable[[], None]) -> float:
    kernel = kernwright.Kernel.from_source(EMPTY_FILES, EMPTY_MANIFEST, [(f"unused{i}", "pointer") for i in range(20)], device=device)
    params = kernel._struct()
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    arguments = (kernel._pointer, ctypes.c_uint32(1), ctypes.c_uint32(1), ctypes.c_uint32(1), ctypes.byref(params),
                 ctypes.c_size_t(ctypes.sizeof(params)), stream)
    launch, nothing = c.library.kw_kernel_launch, c.library.kw_version
    if launch(*arguments) != 0:
        raise SystemExit(c.library.kw_last_error().decode())
    return median_us(lambda: launch(*arguments), calls, rounds, wait) - median_us(lambda: nothing(*arguments), calls, rounds, wait)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=51)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    device, on_host = arguments.device, arguments.device == "cpu"
    if on_host:
        kernwright.configure(host=True)
    wait = (lambda: None) if on_host else torch.cuda.synchronize

    tokens, heads, rows, topk, group = (0 if on_host else 4), 8, 64, 16, 4
    q = torch.randn(tokens, heads, 576, device=device).to(torch.bfloat16)
    kv = torch.randn(rows, 576, device=device).to(torch.bfloat16)
    indices = torch.randint(0, rows, (tokens, topk), device=device, dtype=torch.int32)
    out = torch.empty(tokens, heads, 512, device=device, dtype=torch.bfloat16)
    op = kernwright.SparseMlaPrefill(heads, device="host" if on_host else device, max_topk=topk, union=group)
    workspace = torch.empty(max(1, op.workspace_bytes(tokens, rows)), device=device, dtype=torch.uint8)
    prefill, flash = kernwright.sparse_mla_prefill, kernwright.flash_mla_sparse_fwd
    custom = torch.ops.kernwright.sparse_mla_prefill
    scale = 0.04
    launch = 0.0 if on_host else launch_us(device, arguments.calls, arguments.rounds, wait)
    measured = {
        "outputs and workspace given, no union": (1, lambda: prefill(q, kv, indices, scale, out=out)),
        "outputs and workspace given, union": (2, lambda: prefill(q, kv, indices, scale, out=out, union=group, workspace=workspace)),
        "FlashMLA's signature, no union": (1, lambda: flash(q, kv, indices, scale)),
        "FlashMLA's signature, union": (2, lambda: flash(q, kv, indices, scale, union=group)),
        "custom op, no union": (1, lambda: custom(q, kv, indices, scale)),
        "custom op, union": (2, lambda: custom(q, kv, indices, scale, None, None, group)),
    }
    gc.disable()
    report: dict[str, object] = {"device": torch.cuda.get_device_name() if not on_host else "host", "torch": torch.__version__,
                                 "python": sys.version.split()[0], "launch_us": launch, "rows": []}
    print(f"{report['device']}, torch {torch.__version__}, Python {report['python']}; one launch {launch:.2f} us")
    print(f"{'':40} {'total':>8} {'cost':>8}  (us, medians of {arguments.rounds} rounds of {arguments.calls} calls)")
    for name, (launches, call) in measured.items():
        call()
        total = median_us(call, arguments.calls, arguments.rounds, wait)
        cost = total - launches * launch
        report["rows"].append({"call": name, "total_us": total, "launches": launches, "cost_us": cost})  # type: ignore[attr-defined]
        print(f"{name:40} {total:8.2f} {cost:8.2f}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
