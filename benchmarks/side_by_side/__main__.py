"""Ours, the Triton peer and (where it is installed) padded FlashMLA on the same inputs, in one process on one GPU; and ours one token at a time
beside the gather-only limit.

    python3 benchmarks/side_by_side [--shapes 1x2048,1x4096,1x8192,2x4096,4x2048] [--churn 0.05] [--heads 8] [--topk 2048]
                                    [--input F.safetensors ...] [--repetitions 15] [--seed 1] [--json FILE]

Everything from the indices to the output counts: the peer's sort and merge, our union build. Each program's output is compared with an fp32
reference on sampled tokens before it is timed. Times are by events, the median of the repetitions after 3, over two copies of the input in turn; the
peer runs its best of several groups and tiles. Ratios are peer over ours, from this run.

The second table: ours with union off and deterministic, and the least time of several kernels that bring the rows of the same lists into shared
memory and do nothing else (gather_limit.py); every token's rows are checked before and after that is timed. Its ratios are ours over gather-only.

All ratios take the larger of two timings of ours. The exit code is 1 where an output is wrong.
Needs torch, triton and the kernwright package.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import sys

try:
    import torch
    import triton  # noqa: F401, for triton_peer
except ImportError as missing:
    sys.exit(f"{missing.name} is not installed: this benchmark needs torch, triton and the kernwright package, and a CUDA device")

import gather_limit
import triton_peer
import walk
from correctness import wrong_rows
from timing import timed


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


def ours(heads: int, **words):
    import kernwright

    out = {}

    def run(q, kv, indices, scale):
        key = q.shape[0]
        if key not in out:
            out[key] = torch.empty(q.shape[0], heads, 512, dtype=torch.bfloat16, device=q.device)
        kernwright.sparse_mla_prefill(q, kv, indices, scale, out=out[key], **words)
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


def best_gather(arguments, inputs):
    """The fastest gather-only candidate on this shape: (milliseconds, smallest, largest), name."""
    lists = [(kv, indices, gather_limit.list_lengths(indices)) for _, kv, indices, _ in inputs]
    best = None
    for candidate in gather_limit.candidates():
        gather = gather_limit.runner(candidate, lists[0][0].device)
        if gather is None:
            continue
        bad = gather_limit.wrong_tokens(gather, *lists[0][:2])
        time = timed(gather, lists, arguments.repetitions)
        bad += gather_limit.wrong_tokens(gather, *lists[1][:2])  # what the timed runs left behind has not spoilt it
        if bad:
            raise SystemExit(f"gather-only {candidate.text()} is wrong for {bad} tokens")
        if best is None or time[0] < best[0][0]:
            best = time, candidate.text()
    if best is None:
        raise SystemExit("the device can run none of the gather-only candidates")
    return best


def per_token(arguments, name: str, inputs, heads: int):
    """Ours one token at a time, beside the gather-only limit."""
    run = ours(heads, union=0, deterministic=True)
    bad = wrong_rows(*inputs[0], run(*inputs[0]))
    if bad:
        raise SystemExit(f"{name}: ours one token at a time is wrong in {bad} rows")
    first = timed(run, inputs, arguments.repetitions)
    limit, choice = best_gather(arguments, inputs)
    again = timed(run, inputs, arguments.repetitions)
    return {"per_token_ms": first, "per_token_again_ms": again, "gather_ms": limit, "gather_choice": choice,
            "gather_ratio": max(first[0], again[0]) / limit[0]}  # fmt: skip


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
        run = ours(heads, union="auto")
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
        shapes[-1].update(per_token(arguments, name, inputs, heads))
    mean = math.exp(sum(math.log(r) for r in ratios) / len(ratios))
    print(f"geometric mean of the ratios: {math.floor(mean * 1000) / 1000:.3f}, smallest {math.floor(min(ratios) * 100) / 100:.2f}")
    print(f"{'shape':>12} {'per token':>9} {'again':>9} {'gather-only':>11} {'its choice':>26} {'ratio':>6}")
    for shape in shapes:
        print(f"{shape['shape']:>12} {shape['per_token_ms'][0]:9.4f} {shape['per_token_again_ms'][0]:9.4f} {shape['gather_ms'][0]:11.4f} "
              f"{shape['gather_choice']:>26} {math.ceil(shape['gather_ratio'] * 100) / 100:6.2f}")  # fmt: skip
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"format": 1, "device": torch.cuda.get_device_name(), "torch": torch.__version__,
                       "triton": triton_peer.triton.__version__, "date": f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}",
                       "churn": arguments.churn, "heads": arguments.heads, "topk": arguments.topk, "shapes": shapes,
                       "geometric_mean": mean}, file, indent=1)  # fmt: skip
    return 0


if __name__ == "__main__":
    sys.exit(main())
