"""What only a GPU can show of the functions for torch: streams, CUDA graphs, a second device, own kernels, compiled code. gpu_contract.py
compares values in breadth. Skipped, in words, where there is no torch or no CUDA device."""

from __future__ import annotations

import math
import pathlib
import unittest

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest("torch is not installed: nothing runs on a GPU here") from error
if not torch.cuda.is_available():
    raise unittest.SkipTest("there is no CUDA device: nothing runs on a GPU here")

import contract

import kernwright

OWN_KERNEL = pathlib.Path(__file__).resolve().parents[2] / "examples" / "own_kernel"
SCALE = 0.05


def inputs(device: str = "cuda", seed: int = 1) -> dict[str, torch.Tensor]:
    case = contract.Case(seed, tokens=40, heads=8, kv_rows=500, topk=64)
    return contract.make_inputs(case, device)


def call(given: dict[str, torch.Tensor], **words: object) -> torch.Tensor:
    return kernwright.sparse_mla_prefill(given["q"], given["kv"], given["indices"], given["sm_scale"], **words)


class Gpu(unittest.TestCase):
    def check(self, given: dict[str, torch.Tensor], out: torch.Tensor) -> None:
        expected = contract.reference(given, once=False)
        answer = {"out": out, "max_logits": expected["max_logits"], "lse": expected["lse"]}
        self.assertEqual(contract.faults(answer, expected), [])

    def test_runs_on_the_current_stream(self) -> None:
        given = inputs()
        call(given)  # prepared
        torch.cuda.synchronize()
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(200_000_000)  # what the call must stay behind
            late = {**given, "q": given["q"] * 2}
            out = call(late)
        self.assertFalse(stream.query())  # nothing has waited
        stream.synchronize()
        self.check(late, out)

    def test_a_graph_replays_with_the_indices_of_then(self) -> None:
        for union in (0, 4):
            with self.subTest(union=union):
                given, other = inputs(seed=1), inputs(seed=2)
                out = torch.empty(40, 8, 512, device="cuda", dtype=torch.bfloat16)
                call(given, out=out, union=union)  # prepared before the capture
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    call(given, out=out, union=union)
                    flash, _, _ = kernwright.flash_mla_sparse_fwd(given["q"], given["kv"], given["indices"], given["sm_scale"], union=union)
                for name in ("q", "kv", "indices"):
                    given[name].copy_(other[name])
                out.fill_(math.nan)
                graph.replay()
                torch.cuda.synchronize()
                self.check(other, out)
                self.check(other, flash)

    def test_compiled_code_has_no_graph_break(self) -> None:
        given = inputs()

        def step(q: torch.Tensor, kv: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
            return kernwright.flash_mla_sparse_fwd(q * 1.0, kv[:, None], indices[:, None], SCALE, union=4)[0] * 1.0

        expected = step(given["q"], given["kv"], given["indices"])
        got = torch.compile(step, fullgraph=True, backend="aot_eager")(given["q"], given["kv"], given["indices"])
        torch.testing.assert_close(got, expected, rtol=0, atol=0)

    def test_another_device_than_the_current_one(self) -> None:
        if torch.cuda.device_count() < 2:
            self.skipTest("there is one CUDA device")
        given = inputs("cuda:1")
        torch.cuda.set_device(0)
        self.check(given, call(given))
        self.assertEqual(torch.cuda.current_device(), 0)
        with self.assertRaisesRegex(ValueError, "argument kv: it is on device 0, and q on device 1"):
            call({**given, "kv": given["kv"].to("cuda:0")})

    def test_an_own_kernel(self) -> None:
        hidden, rows = 16384, 11
        names = ("engine/rms_norm.cu", "engine/rms_norm_plan.cuh", "engine/rms_norm_params.cuh")
        kernel = kernwright.Kernel.from_source(
            {name: (OWN_KERNEL / name).read_text() for name in names}, (OWN_KERNEL / "engine/rms_norm.toml").read_text(),
            [("x", "pointer"), ("weight", "pointer"), ("out", "pointer"), ("rows", "int64"), ("epsilon", "float32")],
            specialisation={"hidden": hidden})
        self.assertNotEqual(kernel.report["tile_fitted"], kernel.report["tile_asked"])  # four rows fit no device
        x, weight = torch.randn(rows, hidden, device="cuda"), torch.randn(hidden, device="cuda")
        out = torch.full_like(x, math.nan)
        per_block = kernel.plan["rows_per_block"]
        kernel.launch((rows + per_block - 1) // per_block, x=x, weight=weight, out=out, rows=rows, epsilon=1e-6)
        expected = weight * x * torch.rsqrt(x.double().square().mean(1, keepdim=True) + 1e-6).float()
        torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-6)
        with self.assertRaisesRegex(ValueError, "argument x: it is on the host; the kernel was prepared for cuda:0"):
            kernel.launch(1, x=x.cpu(), weight=weight, out=out, rows=rows, epsilon=1e-6)

    def test_host_tensors_are_refused(self) -> None:
        given = {name: value.cpu() if isinstance(value, torch.Tensor) else value for name, value in inputs().items()}
        with self.assertRaisesRegex(ValueError, "argument q: it is in the host's memory"):
            call(given, runtime=kernwright.Runtime(host=False))


if __name__ == "__main__":
    unittest.main()
