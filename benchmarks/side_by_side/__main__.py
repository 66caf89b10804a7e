"""Ours, the Triton peer and (where it is installed) padded FlashMLA on the same inputs, in one process on one GPU.

    python3 benchmarks/side_by_side [--shapes 1x2048,1x4096,1x8192,2x4096,4x2048] [--churn 0.05] [--heads 8] [--topk 2048]
                                    [--input F.safetensors ...] [--repetitions 15] [--seed 1] [--json FILE]

Everything from the indices to the output counts: the peer's sort and merge, our union build. Each program's output is compared with an fp32
reference on sampled tokens before it is timed. Times are by events, the median of the repetitions after 3, over two copies of the input in turn; the
peer runs its best of several groups and tiles. Ratios are peer over ours, from this run. The exit code is 1 where an output is wrong.
Needs torch, triton and the kernwright package.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import statistics
import sys

try:
    import torch
    import triton  # noqa: F401, for triton_peer
except ImportError as missing:
    sys.exit(f"{missing.name} is not installed: this benchmark needs torch, triton and the kernwright package, and a CUDA device")

import triton_peer
import walk


def problem(arguments, name: str):
    requests, tokens = (int(part) for part in name.split("x"))
    generator = torch.Generator().manual_seed(arguments.seed)
    rows = requests * tokens
    q = torch.randn(rows, arguments.heads, 576, generator=generator).bfloat16().cuda()
    kv = torch.randn(rows, 576, generator=generator).bfloat16().cuda()
    indices = walk.walk(requests, tokens, arguments.topk, arguments.churn, arguments.seed).cuda()
    return q, kv, indices, 576**-0.5


def recorded(file: str):
    from safetensors import safe_open

    with safe_open(file, "pt", device="cuda") as tensors:
        metadata = tensors.metadata() or {}
        if "topk_length" in tensors.keys() or "attn_sink" in tensors.keys():
            raise SystemExit(f"{file}: topk_length and attn_sink are not compared here")
        scale = float(metadata.get("sm_scale", 576**-0.5))
        return tensors.get_tensor("q"), tensors.get_tensor("kv"), tensors.get_tensor("indices"), scale


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


def ours(heads: int, topk: int, rows: int):
    import kernwright

    out = {}

    def run(q, kv, indices, scale):
        key = q.shape[0]
        if key not in out:
            out[key] = torch.empty(q.shape[0], heads, 512, dtype=torch.bfloat16, device=q.device)
        kernwright.sparse_mla_prefill(q, kv, indices, scale, out=out[key], union="auto")
        return out[key]

    return run


def padded_flash_mla(heads: int):
    try:
        from flash_mla import flash_mla_sparse_fwd
    except ImportError:
        return None

    def run(q, kv, indices, scale):
        padded = torch.nn.functional.pad(q, (0, 0, 0, -heads % 64))
        return flash_mla_sparse_fwd(padded, kv.unsqueeze(1), indices.unsqueeze(1), scale)[0][:, :heads]

    return run


def best_peer(arguments, inputs, heads: int):
    """The fastest right candidate on this shape: (milliseconds, smallest, largest), name."""
    q, kv, indices, scale = inputs[0]
    lengths = [(i[2] >= 0).sum(1).to(torch.int32) for i in inputs]
    out = torch.empty(q.shape[0], heads, 512, dtype=torch.bfloat16, device=q.device)
    best = None
    for group, tile in triton_peer.candidates(heads):
        turn = [0]

        def run(q, kv, indices, scale, group=group, tile=tile, turn=turn):
            turn[0] += 1
            return triton_peer.attend(q, kv, indices, lengths[turn[0] % len(lengths)], scale, group, tile, out)

        try:
            if best is None or group not in best[2]:
                bad = wrong_rows(q, kv, indices, scale, triton_peer.attend(q, kv, indices, lengths[0], scale, group, tile, out))
                if bad:
                    raise SystemExit(f"the Triton peer is wrong for a group of {group}: {bad} rows")
            quick = timed(run, inputs, 3)
        except Exception as error:  # noqa: BLE001: a tile that does not fit the device
            if "out of resource" in str(error).lower():
                continue
            raise
        seen = (best[2] if best else set()) | {group}
        best = (quick, (group, tile), seen) if best is None or quick[0] < best[0][0] else (best[0], best[1], seen)
    group, tile = best[1]
    turn = [0]

    def run(q, kv, indices, scale):
        turn[0] += 1
        return triton_peer.attend(q, kv, indices, lengths[turn[0] % len(lengths)], scale, group, tile, out)

    return timed(run, inputs, arguments.repetitions), f"G={group} n{tile[0]} w{tile[1]} s{tile[2]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default="1x2048,1x4096,1x8192,2x4096,4x2048")
    parser.add_argument("--churn", type=float, default=0.05)
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--topk", type=int, default=2048)
    parser.add_argument("--input", nargs="+", default=[])
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json")
    arguments = parser.parse_args()

    flash = None
    shapes, ratios = [], []
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}")
    print(f"{'shape':>12} {'ours ms':>9} {'again':>9} {'Triton ms':>10} {'its choice':>16} {'ratio':>6} {'FlashMLA ms':>12}")
    for name in arguments.input or arguments.shapes.split(","):
        base = recorded(name) if arguments.input else problem(arguments, name)
        heads = base[0].shape[1]
        inputs = [base, tuple(part.clone() if torch.is_tensor(part) else part for part in base)]
        run = ours(heads, base[2].shape[1], base[0].shape[0])
        bad = wrong_rows(*base, run(*base))
        if bad:
            print(f"{name}: ours is wrong in {bad} rows")
            return 1
        first = timed(run, inputs, arguments.repetitions)
        peer, choice = best_peer(arguments, inputs, heads)
        again = timed(run, inputs, arguments.repetitions)
        flash = padded_flash_mla(heads)
        padded = timed(flash, inputs, arguments.repetitions) if flash else None
        ratio = peer[0] / max(first[0], again[0])  # never in our favour
        ratios.append(ratio)
        shapes.append({"shape": name, "ours_ms": first, "ours_again_ms": again, "triton_ms": peer, "triton_choice": choice,
                       "ratio": ratio, "flash_mla_padded_ms": padded})  # fmt: skip
        print(f"{name:>12} {first[0]:9.4f} {again[0]:9.4f} {peer[0]:10.4f} {choice:>16} {math.floor(ratio * 100) / 100:6.2f} "
              f"{'not installed' if padded is None else format(padded[0], '.4f'):>12}", flush=True)  # fmt: skip
    mean = math.exp(sum(math.log(r) for r in ratios) / len(ratios))
    print(f"geometric mean of the ratios: {math.floor(mean * 1000) / 1000:.3f}, smallest {math.floor(min(ratios) * 100) / 100:.2f}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"format": 1, "device": torch.cuda.get_device_name(), "torch": torch.__version__,
                       "triton": triton_peer.triton.__version__, "date": f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}",
                       "churn": arguments.churn, "heads": arguments.heads, "topk": arguments.topk, "shapes": shapes,
                       "geometric_mean": mean}, file, indent=1)  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
