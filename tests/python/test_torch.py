"""The functions for torch, on CPU tensors and the host interpreter. Skipped, in words, where torch is not installed."""

from __future__ import annotations

import unittest

try:
    import torch
except ImportError as error:
    raise unittest.SkipTest("torch is not installed: its functions are not tested here") from error

import contract

import kernwright


def setUpModule() -> None:
    kernwright.configure(host=True)


def inputs(tokens: int = 6, heads: int = 3, rows: int = 20, topk: int = 5) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return (torch.randn(tokens, heads, 576).bfloat16(), torch.randn(rows, 576).bfloat16(),
            torch.stack([torch.randperm(rows)[:topk] for _ in range(tokens)]).int())


class Contract(unittest.TestCase):
    def test_fixed_cases(self) -> None:
        for case in contract.fixed_cases(0.01):
            with self.subTest(case=case.text()):
                answer, expected = contract.run_case(case, "cpu")
                self.assertEqual(contract.faults(answer, expected), [])

    def test_the_comparison_can_fail(self) -> None:
        case = contract.Case(3, tokens=6, heads=2, kv_rows=30, topk=9)
        answer, expected = contract.run_case(case, "cpu")
        self.assertEqual(contract.faults(answer, expected), [])
        for name in answer:
            with self.subTest(changed=name):
                changed = {key: value.clone() for key, value in answer.items()}
                changed[name].view(-1)[3] += 0.05
                self.assertNotEqual(contract.faults(changed, expected), [])
        shorter = contract.make_inputs(case, "cpu")
        shorter["indices"] = shorter["indices"][:, :-1]
        self.assertNotEqual(contract.faults(answer, contract.reference(shorter, once=False)), [])


class CustomOps(unittest.TestCase):
    def test_compiles_without_a_graph_break(self) -> None:
        q, kv, indices = inputs()
        expected = kernwright.flash_mla_sparse_fwd(q, kv, indices, 0.04)

        def flash(q: torch.Tensor, kv: torch.Tensor, indices: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return kernwright.flash_mla_sparse_fwd(q * 1, kv[:, None], indices[:, None], 0.04)

        def given(q: torch.Tensor, kv: torch.Tensor, indices: torch.Tensor) -> tuple[torch.Tensor, ...]:
            out, lse = torch.zeros(6, 3, 512, dtype=torch.bfloat16), torch.zeros(6, 3)
            kernwright.sparse_mla_prefill(q * 1, kv, indices, 0.04, out=out, lse=lse, union=2)
            return out, lse, kernwright.sparse_mla_prefill(q, kv, indices, 0.04, union="auto")

        got = torch.compile(flash, fullgraph=True, backend="aot_eager")(q, kv, indices)
        for mine, theirs in zip(got, expected):
            torch.testing.assert_close(mine, theirs, rtol=0, atol=0)
        out, lse, auto = torch.compile(given, fullgraph=True, backend="aot_eager")(q, kv, indices)
        torch.testing.assert_close(lse, expected[2], rtol=0, atol=1e-5)
        torch.testing.assert_close(out, expected[0], rtol=0.01, atol=0.02)
        torch.testing.assert_close(auto, expected[0], rtol=0.01, atol=0.02)

    def test_what_a_custom_op_cannot_take_is_refused(self) -> None:
        q, kv, indices = inputs()
        for argument, value in (("d_v", 256), ("union", "all"), ("workspace", torch.empty(8)), ("stream", 7)):
            def call(q: torch.Tensor, argument: str = argument, value: object = value) -> torch.Tensor:
                return kernwright.sparse_mla_prefill(q * 1, kv, indices, 0.04, **{argument: value})

            with self.subTest(argument), self.assertRaisesRegex(Exception, f"argument {argument}: it is"):
                torch.compile(call, fullgraph=True, backend="eager")(q)

    def test_fake_kernels_agree_with_the_real_ones(self) -> None:
        q, kv, indices = inputs()
        torch.library.opcheck(torch.ops.kernwright.sparse_mla_prefill.default, (q, kv, indices, 0.04, None, None, 2, False),
                              test_utils=("test_schema", "test_faketensor"))
        out, lse = torch.zeros(6, 3, 512, dtype=torch.bfloat16), torch.zeros(6, 3)
        torch.library.opcheck(torch.ops.kernwright.sparse_mla_prefill_out.default,
                              (q, kv, indices, 0.04, None, None, 0, False, out, None, lse), test_utils=("test_schema", "test_faketensor"))

    def test_shapes_on_meta_tensors(self) -> None:
        q, kv, indices = (tensor.to("meta") for tensor in inputs())
        out, max_logits, lse = torch.ops.kernwright.sparse_mla_prefill(q, kv, indices, 0.04)
        self.assertEqual((out.shape, out.dtype, max_logits.shape, lse.dtype), ((6, 3, 512), torch.bfloat16, (6, 3), torch.float32))


class Tensors(unittest.TestCase):
    def test_a_parameter_and_a_strided_index_buffer(self) -> None:
        q, kv, indices = inputs()
        expected = kernwright.flash_mla_sparse_fwd(q, kv, indices, 0.04)[0]
        wide = torch.full((6, 1, 16), -1, dtype=torch.int32)
        wide[:, 0, :5] = indices
        for given in (torch.nn.Parameter(q, requires_grad=False), q):
            got = kernwright.flash_mla_sparse_fwd(given, kv[:, None], wide[:, :, :5], 0.04)[0]
            torch.testing.assert_close(got, expected, rtol=0, atol=0)

    def test_a_wrong_tensor_is_named(self) -> None:
        q, kv, indices = inputs()
        with self.assertRaisesRegex(ValueError, r"argument q: the shape is \[3, 576\]"):
            kernwright.flash_mla_sparse_fwd(q[0], kv, indices, 0.04)
        with self.assertRaisesRegex(TypeError, "argument q: a list; legal is a torch tensor"):
            kernwright.flash_mla_sparse_fwd([1], kv, indices, 0.04)
        with self.assertRaisesRegex(TypeError, "argument indices: a list"):
            kernwright.flash_mla_sparse_fwd(q, kv, [1], 0.04)
        with self.assertRaisesRegex(ValueError, "argument kv: the dtype is f32; legal is bf16"):
            kernwright.flash_mla_sparse_fwd(q, kv.float(), indices, 0.04)
        with self.assertRaisesRegex(ValueError, "argument kv: the dtype is"):
            kernwright.sparse_mla_prefill(q, kv.to(torch.float8_e4m3fn), indices, 0.04)
        with self.assertRaisesRegex(ValueError, "argument out: it must be given together with stream"):
            kernwright.sparse_mla_prefill(q, kv, indices, 0.04, stream=1)


if __name__ == "__main__":
    unittest.main()
