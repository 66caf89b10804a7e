#!/usr/bin/env python3
"""Starts processes, one a rank, at once on an empty store: together they must compile each key once, and all must answer right.

    start_together.py [--processes 8] [--device cuda|cpu]

Ranks are spread over the CUDA devices that are there. The number of keys is what one process alone compiles into a store of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time


def rank(device: str, gate: str) -> None:
    """One process: waits for the gate, calls with and without union, prints what it compiled."""
    import numpy

    import kernwright

    tokens, heads, rows, topk = 6, 8, 40, 8
    q = numpy.zeros((tokens, heads, 576), dtype="uint16")  # every selected row weighs the same
    kv = numpy.arange(rows * 576, dtype="uint32").reshape(rows, 576) % 7
    values = kv.astype("float32")
    bits = (values.view("uint32") >> 16).astype("uint16")
    indices = (numpy.arange(tokens)[:, None] + numpy.arange(topk)[None] * 5).astype("int32") % rows
    pathlib.Path(gate + f".{os.getpid()}").touch()
    while not os.path.exists(gate):
        time.sleep(0.001)
    expected = values[indices][:, :, :512].mean(axis=1)
    for union in (0, 4):
        if device == "cpu":
            kernwright.configure(host=True) if union == 0 else None
            out = numpy.empty((tokens, heads, 512), dtype="uint16")
            kernwright.sparse_mla_prefill(q, bits, indices, 0.04, out=out, union=union)
            answer = (out.astype("uint32") << 16).view("float32")
        else:
            import torch

            def put(array: numpy.ndarray) -> torch.Tensor:
                return torch.from_numpy(array.view("int16")).view(torch.bfloat16).to(device)

            answer = kernwright.sparse_mla_prefill(put(q), put(bits), torch.from_numpy(indices).to(device), 0.04, union=union)
            answer = answer.float().cpu().numpy()
        worst = float(numpy.abs(answer - expected[:, None]).max())
        assert worst <= 0.02, f"union {union}: an answer is off by {worst}"
    print(json.dumps(kernwright.default_runtime().counters()))


def start(count: int, devices: list[str], folder: str) -> list[dict[str, float]]:
    gate = os.path.join(folder, "gate")
    store = os.path.join(folder, "store")
    environment = dict(os.environ, KERNWRIGHT_CACHE_DIR=store)
    environment.pop("KERNWRIGHT_CACHE_STORES", None)
    command = [sys.executable, os.path.abspath(__file__), "--rank", "--gate", gate]
    ranks = [subprocess.Popen([*command, "--device", devices[i % len(devices)]], env=environment, stdout=subprocess.PIPE, text=True)
             for i in range(count)]
    waited = time.monotonic() + 120
    while len(list(pathlib.Path(folder).glob("gate.*"))) < count:
        if any(process.poll() for process in ranks) or time.monotonic() > waited:
            break
        time.sleep(0.01)
    pathlib.Path(gate).touch()
    found = []
    for process in ranks:
        text, _ = process.communicate(timeout=300)
        if process.returncode != 0:
            raise SystemExit(f"a rank ended with {process.returncode}")
        found.append(json.loads(text.splitlines()[-1]))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--gate", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank:
        rank(arguments.device, arguments.gate)
        return 0
    devices = [arguments.device]
    if arguments.device == "cuda":
        import torch

        devices = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    with tempfile.TemporaryDirectory() as alone, tempfile.TemporaryDirectory() as together:
        keys = start(1, devices[:1], alone)[0]["compiles"]
        ranks = start(arguments.processes, devices, together)
    compiles = sum(counters["compiles"] for counters in ranks)
    print(f"{arguments.processes} processes on {', '.join(devices)}: {keys} keys, {compiles} compiles, "
          f"{sum(counters['store_hits'] for counters in ranks)} store hits, {sum(counters['lock_waits'] for counters in ranks)} lock waits")
    if keys == 0 or compiles != keys:
        print("each key must be compiled once")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
