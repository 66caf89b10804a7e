#!/usr/bin/env python3
"""Draws calls of sparse MLA prefill and compares each with an fp32 reference in torch.

    gpu_contract.py [--device cuda] [--cases 320] [--seed 1]     needs torch, a CUDA device and the kernwright package
    gpu_contract.py --device cpu                                 the fixed cases, shrunk, on the interpreter

The exit code is 0 where every case passed; failing cases are printed with what repeats them.
"""

from __future__ import annotations

import argparse
import sys
import time

import torch

import contract


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--cases", type=int, default=320)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    import kernwright

    on_host = arguments.device == "cpu"
    if on_host:
        kernwright.configure(host=True)
        cases = contract.fixed_cases(0.01)
    else:
        torch.backends.cuda.matmul.allow_tf32 = False  # the reference is fp32
        cases = contract.drawn_cases(arguments.cases, arguments.seed)
    began = time.monotonic()
    failed = 0
    for number, case in enumerate(cases):
        try:
            answer, expected = contract.run_case(case, arguments.device)
            wrong = contract.faults(answer, expected)
        except Exception as error:  # noqa: BLE001 - one case's error is one failure
            wrong = [f"{type(error).__name__}: {error}"]
        if wrong:
            failed += 1
            print(f"case {number} ({case.text()}):", *wrong, sep="\n  ", flush=True)
        if (number + 1) % 50 == 0:
            print(f"{number + 1} of {len(cases)} cases, {failed} failed, {time.monotonic() - began:.0f} s", flush=True)
    counters = kernwright.default_runtime().counters()
    print(f"{len(cases)} cases on {arguments.device}: {len(cases) - failed} passed, {failed} failed; {counters['launches']} launches, "
          f"{counters['compiles']} compiles, {counters['step_downs']} step-downs, {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
