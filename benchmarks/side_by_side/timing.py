"""Device time by events."""

from __future__ import annotations

import statistics

import torch


def timed(run, inputs, repetitions: int):
    """Milliseconds: median, smallest, largest."""
    for i in range(3):
        run(*inputs[i % len(inputs)])
    torch.cuda.synchronize()
    samples = []
    for i in range(repetitions):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        # A kernel in front keeps the device busy while the host enqueues: what is measured is the device.
        torch.cuda._sleep(2_000_000)
        begin.record()
        run(*inputs[i % len(inputs)])
        end.record()
        end.synchronize()
        samples.append(begin.elapsed_time(end))
    return statistics.median(samples), min(samples), max(samples)
