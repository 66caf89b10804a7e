"""The package without torch: numpy arrays on the host interpreter."""

from __future__ import annotations

import gc
import os
import pathlib
import pickle
import resource
import sys
import tempfile
import threading
import unittest
import unittest.mock

import numpy
from arrays import QK, V, MeanProblem, from_bits

import kernwright
from kernwright import _prefill

OWN_KERNEL = pathlib.Path(__file__).resolve().parents[2] / "examples" / "own_kernel"


def setUpModule() -> None:
    kernwright.configure(host=True)


def call(problem: MeanProblem, **words: object) -> numpy.ndarray:
    """The function for any array, whether torch is installed or not."""
    return _prefill.sparse_mla_prefill(problem.q, problem.kv, problem.indices, 0.25, out=problem.out, **words)


class Prefill(unittest.TestCase):
    def check(self, problem: MeanProblem) -> None:
        self.assertEqual(int((from_bits(problem.out) != problem.mean).sum()), 0)
        self.assertLess(float(abs(problem.lse - problem.ln_k).max()), 1e-5)
        self.assertEqual(float(abs(problem.max_logits).max()), 0.0)

    def test_mean_of_the_selected_rows(self) -> None:
        for union in (0, 2, 4, 8, 16, "auto", None):
            with self.subTest(union=union):
                problem = MeanProblem()
                self.assertIs(call(problem, union=union, **problem.statistics()), problem.out)
                self.check(problem)

    def test_the_middle_extent_of_flash_mla(self) -> None:
        problem = MeanProblem()
        problem.kv, problem.indices = problem.kv[:, None], problem.indices[:, None]
        call(problem, **problem.statistics())
        self.check(problem)

    def test_out_is_made_where_it_is_not_given(self) -> None:
        problem = MeanProblem()
        out = _prefill.sparse_mla_prefill(problem.q, problem.kv, problem.indices, 0.25)
        self.assertEqual(int((from_bits(out) != problem.mean).sum()), 0)

    def test_sink_and_lengths(self) -> None:
        problem = MeanProblem(tokens=4, heads=3, topk=8)
        sink = numpy.array([0.0, -numpy.inf, numpy.inf], dtype="float32")
        lengths = numpy.array([0, 1, 8, 99], dtype="int32")
        call(problem, attn_sink=sink, topk_length=lengths, **problem.statistics())
        out = from_bits(problem.out)
        self.assertEqual(float(abs(out[0]).max()), 0.0)
        self.assertTrue(numpy.isposinf(problem.lse[0]).all() and numpy.isneginf(problem.max_logits[0]).all())
        row = problem.values[problem.indices[1, 0], :V]
        self.assertLessEqual(float(abs(out[1, 0] - row / 2).max()), 7 / 512)  # one row of logit 0 beside a sink of 0
        numpy.testing.assert_array_equal(out[1, 1], row)
        self.assertEqual(float(abs(out[:, 2]).max()), 0.0)
        numpy.testing.assert_array_equal(out[2:, 1], problem.mean[2:, 1])

    def test_strided_query_and_output(self) -> None:
        problem = MeanProblem()
        tokens, heads, _ = problem.q.shape
        wide = numpy.full((tokens, heads + 1, QK + 8), 0x7FC0, dtype="uint16")
        wide[:, :heads, :QK] = 0
        room = numpy.full((tokens, heads + 2, V + 16), 0xABCD, dtype="uint16")
        problem.q, problem.out = wide[:, :heads, :QK], room[:, :heads, :V]
        call(problem, **problem.statistics())
        self.check(problem)
        self.assertTrue((room[:, heads:] == 0xABCD).all() and (room[:, :heads, V:] == 0xABCD).all())

    def test_no_tokens(self) -> None:
        problem = MeanProblem(tokens=0)
        call(problem, union=4)

    def test_a_workspace_of_the_callers(self) -> None:
        problem = MeanProblem()
        op = kernwright.SparseMlaPrefill(2, device="host", max_topk=8, union=4)
        needed = op.workspace_bytes(7, 24)
        self.assertGreater(needed, 0)
        self.assertEqual(op.union, (4, ""))
        call(problem, union=4, workspace=numpy.empty(needed, dtype="uint8"), **problem.statistics())
        self.check(problem)
        with self.assertRaisesRegex(ValueError, rf"workspace: it has 100 bytes; legal is at least {needed}"):
            call(problem, union=4, workspace=numpy.empty(100, dtype="uint8"))
        with self.assertRaisesRegex(ValueError, "workspace: legal is a contiguous array of uint8"):
            call(problem, union=4, workspace=numpy.empty(needed, dtype="float32"))

    def test_a_prepared_op_runs(self) -> None:
        for union in (0, 4):
            with self.subTest(union=union):
                problem = MeanProblem()
                op = kernwright.SparseMlaPrefill(2, device="host", max_topk=8, union=union)
                op.run(problem.q, problem.kv, problem.indices, 0.25, out=problem.out, **problem.statistics())
                self.check(problem)
        wide = MeanProblem(topk=9)
        with self.assertRaisesRegex(ValueError, "K is 9; legal is 1 to 8, the max_topk that the op was made with"):
            op.run(wide.q, wide.kv, wide.indices, 0.25, out=wide.out)
        more = MeanProblem(heads=3)
        with self.assertRaisesRegex(ValueError, r"argument q: the shape is \[7, 3, 576\]; legal is \[any, 2, 576\]"):
            op.run(more.q, more.kv, more.indices, 0.25, out=more.out)

    def test_reports(self) -> None:
        op = kernwright.SparseMlaPrefill(2, device="host", max_topk=8, union=4)
        reports = op.reports
        self.assertEqual([report["template_name"] for report in reports], ["sparse_mla/union_build", "sparse_mla/union_build_wide", "sparse_mla/prefill"])
        self.assertEqual({report["device"] for report in reports}, {"host"})
        self.assertTrue(all(len(report["key"]) == 32 for report in reports))


class Errors(unittest.TestCase):
    def test_wrong_arguments_are_named(self) -> None:
        wrong = {
            r"argument q: the dtype is f32; legal is bf16": {"q": numpy.zeros((7, 2, QK), dtype="float32")},
            r"argument q: the dtype is float64": {"q": numpy.zeros((7, 2, QK))},
            r"argument q: it has 2 dimensions; legal is \[tokens, heads, d_qk\]": {"q": numpy.zeros((7, QK), dtype="uint16")},
            r"option heads is 129; legal is 1 to 128": {"q": numpy.zeros((7, 129, QK), dtype="uint16")},
            r"option d_qk is 570": {"q": numpy.zeros((7, 2, 570), dtype="uint16")},
            r"argument kv: the shape is \[24, 500\]; legal is \[any, 576\]": {"kv": numpy.zeros((24, 500), dtype="uint16")},
            r"argument kv: the shape is \[24, 2, 576\]; legal is": {"kv": numpy.zeros((24, 2, QK), dtype="uint16")},
            r"argument indices: the dtype is i64; legal is i32": {"indices": numpy.zeros((7, 8), dtype="int64")},
            r"argument indices: the shape is \[6, 8\]": {"indices": numpy.zeros((6, 8), dtype="int32")},
            r"argument indices: the strides": {"indices": numpy.zeros((7, 16), dtype="int32")[:, ::2]},
            r"argument indices: K is 4097": {"indices": numpy.zeros((7, 4097), dtype="int32")},
            r"argument out: the shape": {"out": numpy.zeros((7, 2, 511), dtype="uint16")},
        }
        for pattern, changed in wrong.items():
            with self.subTest(pattern=pattern):
                problem = MeanProblem()
                for name, value in changed.items():
                    setattr(problem, name, value)
                with self.assertRaisesRegex(ValueError, pattern):
                    call(problem)
        words = {
            r"argument union: it is 3; legal is 0 \(off\), 2, 4, 8, 16": {"union": 3},
            r"argument union: it is 'all'": {"union": "all"},
            r"argument topk_length: the shape is \[6\]": {"topk_length": numpy.zeros(6, dtype="int32")},
            r"argument attn_sink: the dtype is f16": {"attn_sink": numpy.zeros(2, dtype="float16")},
            r"argument lse: the shape": {"lse": numpy.zeros((7, 3), dtype="float32")},
            r"argument d_v: it is 256; legal is 512": {"d_v": 256},
            r"argument stream: it is 'main'": {"stream": "main"},
        }
        for pattern, given in words.items():
            with self.subTest(pattern=pattern), self.assertRaisesRegex(ValueError, pattern):
                call(MeanProblem(), **given)
        problem = MeanProblem()
        with self.assertRaisesRegex(ValueError, "sm_scale: the value is nan"):
            _prefill.sparse_mla_prefill(problem.q, problem.kv, problem.indices, float("nan"), out=problem.out)
        with self.assertRaisesRegex(TypeError, "argument kv: a list; legal is a torch tensor or another array"):
            _prefill.sparse_mla_prefill(problem.q, [1, 2], problem.indices, 1.0, out=problem.out)
        with self.assertRaisesRegex(TypeError, "argument sm_scale: it is 'x'"):
            _prefill.sparse_mla_prefill(problem.q, problem.kv, problem.indices, "x", out=problem.out)
        problem.out.setflags(write=False)
        with self.assertRaisesRegex(ValueError, "argument out: it cannot be passed on: .*readonly"):
            call(problem)

    def test_other_failures_carry_their_code(self) -> None:
        with tempfile.TemporaryDirectory() as store:
            runtime = kernwright.Runtime(store=store, read_only_stores=[], sealed=True, host=True)
            self.assertTrue(runtime.sealed)
            self.assertEqual(runtime.store_folder, store)
            with self.assertRaises(kernwright.Error) as caught:
                call(MeanProblem(), runtime=runtime)
            self.assertEqual(caught.exception.code, "sealed_miss")
            self.assertIsInstance(caught.exception, RuntimeError)
            again = pickle.loads(pickle.dumps(caught.exception))
            self.assertEqual((again.code, str(again)), ("sealed_miss", str(caught.exception)))
            self.assertEqual(runtime.counters()["compiles"], 0)

    def test_the_interpreter_must_be_asked_for(self) -> None:
        with unittest.mock.patch.dict(os.environ):
            os.environ.pop("KERNWRIGHT_TARGET", None)
            with self.assertRaisesRegex(ValueError, "argument q: it is in the host's memory"):
                call(MeanProblem(), runtime=kernwright.Runtime())

    def test_whole_numbers_are_not_cut_off(self) -> None:
        for argument, value in (("heads", 2**32 + 8), ("heads", "8"), ("heads", 8.0), ("max_topk", 2**32 + 8), ("workspace_limit", -1),
                                ("d_qk", 2**31)):
            with self.subTest(argument=argument, value=value), self.assertRaisesRegex(ValueError, f"argument {argument}: it is .*legal is a whole"):
                kernwright.SparseMlaPrefill(**{"heads": 2, "device": "host", argument: value})
        with self.assertRaisesRegex(ValueError, "argument device: it is 4294967296; legal is a whole number"):
            kernwright.SparseMlaPrefill(2, device=2**32)
        with self.assertRaisesRegex(ValueError, "argument store_limit: it is -1"):
            kernwright.Runtime(store_limit=-1)
        self.assertEqual(kernwright.SparseMlaPrefill(numpy.int64(2), device="host", max_topk=numpy.int32(8), union=numpy.int64(4)).union, (4, ""))

    def test_words_of_the_wrong_kind_are_named(self) -> None:
        with self.assertRaisesRegex(ValueError, "argument read_only_stores: it is '/a/b'; legal is a list"):
            kernwright.Runtime(read_only_stores="/a/b")
        with self.assertRaisesRegex(ValueError, "argument runtime: it is a int"):
            kernwright.SparseMlaPrefill(2, device="host", runtime=3)  # type: ignore[arg-type]
        problem = MeanProblem()
        call(problem, union=numpy.int64(4), **problem.statistics())
        self.assertEqual(int((from_bits(problem.out) != problem.mean).sum()), 0)
        with self.assertRaisesRegex(ValueError, "K is 0; legal is 1 to 4096"):
            problem.indices = numpy.empty((7, 0), dtype="int32")
            call(problem)

    def test_options_out_of_range(self) -> None:
        with self.assertRaisesRegex(ValueError, "log_level: it is 'loud'; legal is one of error, warn, info, debug"):
            kernwright.Runtime(log_level="loud")
        with self.assertRaisesRegex(ValueError, "device: it is 'gpu'"):
            kernwright.SparseMlaPrefill(2, device="gpu")


class OwnKernel(unittest.TestCase):
    PARAMS = [("x", "pointer"), ("weight", "pointer"), ("out", "pointer"), ("rows", "int64"), ("epsilon", "float32")]

    def make(self, runtime: kernwright.Runtime, hidden: int) -> kernwright.Kernel:
        names = ("engine/rms_norm.cu", "engine/rms_norm_plan.cuh", "engine/rms_norm_params.cuh")
        return kernwright.Kernel.from_source({name: (OWN_KERNEL / name).read_text() for name in names},
                                             (OWN_KERNEL / "engine/rms_norm.toml").read_text(), self.PARAMS,
                                             specialisation={"hidden": hidden}, device="host", runtime=runtime)

    def test_values_step_down_and_store(self) -> None:
        hidden, rows = 16384, 5
        with tempfile.TemporaryDirectory() as store:
            options = {"store": store, "read_only_stores": [], "host_shared_memory": 70000}  # one row of floats, not two
            runtime = kernwright.Runtime(**options)
            kernel = self.make(runtime, hidden)
            self.assertEqual(kernel.report["tile_fitted"], "portable:m1n32s1w1")
            self.assertEqual(kernel.report["cache"], "built")
            self.assertIn("shared memory", kernel.report["fit_reason"])
            self.assertEqual(kernel.plan["rows_per_block"], 1)
            random = numpy.random.default_rng(1)
            x, weight = random.standard_normal((rows, hidden), dtype="float32"), random.standard_normal(hidden, dtype="float32")
            out = numpy.full_like(x, numpy.nan)
            kernel.launch(rows, x=x, weight=weight, out=out, rows=rows, epsilon=1e-6)
            wide = x.astype("float64")
            expected = weight * wide / numpy.sqrt((wide**2).mean(axis=1, keepdims=True) + 1e-6)
            self.assertLess(float((abs(out - expected) / numpy.maximum(abs(expected), 1e-6)).max()), 1e-5)
            self.assertEqual(runtime.template_launches("engine/rms_norm"), 1)
            # The next process starts from the store, at the tile that fitted.
            again = self.make(kernwright.Runtime(**options, sealed=True), hidden)
            self.assertEqual(again.report["cache"], "store")
            self.assertTrue(again.report["fit_recorded"])

    def test_a_pointer_takes_an_array_of_any_dtype_and_rank(self) -> None:
        kernel = self.make(kernwright.default_runtime(), 32)
        x = numpy.random.default_rng(2).standard_normal((4, 32), dtype="float32")
        weight, expected = numpy.ones(32, dtype="float32"), numpy.empty_like(x)
        kernel.launch(4, x=x, weight=weight, out=expected, rows=4, epsilon=1e-6)
        for dtype in ("uint32", "int16", "float64", "complex64"):
            out = numpy.zeros_like(x)
            kernel.launch(4, x=x.view(dtype), weight=weight.view(dtype).reshape(1, 1, 1, 2, 2, -1), out=out.view(dtype), rows=4, epsilon=1e-6)
            with self.subTest(dtype=dtype):
                numpy.testing.assert_array_equal(out, expected)

    def test_wrong_launches_are_refused(self) -> None:
        kernel = self.make(kernwright.default_runtime(), 32)
        x = numpy.zeros((1, 32), dtype="float32")
        good = {"x": x, "weight": x, "out": x, "rows": 1, "epsilon": 0.1}
        for pattern, words in {
            "not given: epsilon": {name: value for name, value in good.items() if name != "epsilon"},
            "unknown: y": {**good, "y": 1},
            "argument rows: it is 'one'; legal is a whole number": {**good, "rows": "one"},
        }.items():
            with self.subTest(pattern=pattern), self.assertRaisesRegex(ValueError, pattern):
                kernel.launch(1, **words)
        with self.assertRaisesRegex(TypeError, "argument x: a str"):
            kernel.launch(1, **{**good, "x": "text"})
        for grid in (0, (1, 2, 3, 4), (1, -1)):
            with self.subTest(grid=grid), self.assertRaisesRegex(ValueError, "argument grid"):
                kernel.launch(grid, **good)
        with self.assertRaisesRegex(ValueError, "params: x is a 'float'"):
            kernwright.Kernel("engine/rms_norm", [("x", "float")], device="host")
        with self.assertRaisesRegex(ValueError, "argument manifest: it has no line"):
            kernwright.Kernel.from_source({}, "format = 1\n[[variant]]\nname = \"portable\"\n", [], device="host")
        with self.assertRaises(kernwright.Error) as caught:
            kernwright.Kernel("no/such_template", [("x", "pointer")], device="host")
        self.assertEqual(caught.exception.code, "not_found")

    def test_a_compile_error_shows_the_compilers_words(self) -> None:
        manifest = (OWN_KERNEL / "engine/rms_norm.toml").read_text().replace("engine/rms_norm", "engine/broken")
        files = {name.replace("rms_norm", "broken") if name != "engine/rms_norm_params.cuh" else name: (OWN_KERNEL / name).read_text()
                 for name in ("engine/rms_norm.cu", "engine/rms_norm_plan.cuh", "engine/rms_norm_params.cuh")}
        files["engine/broken.cu"] = files["engine/broken.cu"].replace("engine/rms_norm_plan", "engine/broken_plan") + "\nthis is no code;\n"
        with self.assertRaises(kernwright.Error) as caught:
            kernwright.Kernel.from_source(files, manifest, self.PARAMS, specialisation={"hidden": 32}, device="host")
        self.assertEqual(caught.exception.code, "compile_failed")
        self.assertIn("engine/broken.cu", str(caught.exception))


class Warming(unittest.TestCase):
    REQUEST = {"template": "sparse_mla/union_build", "specialisation": "group_size=2", "target": "host", "first_only": True}

    def test_progress_cancel_and_errors(self) -> None:
        with tempfile.TemporaryDirectory() as store:
            runtime = kernwright.Runtime(store=store, read_only_stores=[])
            cancelled = runtime.warm([self.REQUEST], progress=lambda _: False)
            self.assertTrue(cancelled["cancelled"])
            self.assertEqual(cancelled["built"], 0)

            def fails(_: dict[str, object]) -> None:
                raise KeyError("from the callback")

            with self.assertRaisesRegex(KeyError, "from the callback"):
                runtime.warm([self.REQUEST], progress=fails)
            seen: list[dict[str, object]] = []
            done = runtime.warm([self.REQUEST], progress=seen.append)
            self.assertEqual((done["built"], done["failed"], done["cancelled"]), (1, 0, False))
            self.assertEqual([item["outcome"] for item in done["items"]], ["built"])
            self.assertTrue(any("union_build" in str(step["finished"]) for step in seen))
            self.assertEqual(runtime.warm([self.REQUEST])["hit"], 1)
            list_file = os.path.join(store, "list.toml")
            kernwright.SparseMlaPrefill(3, device="host", max_topk=8, union=2, runtime=runtime)
            runtime.write_launch_list(list_file)
            self.assertEqual(runtime.warm_launch_list(pathlib.Path(list_file))["failed"], 0)
            with self.assertRaises(kernwright.Error) as caught:
                runtime.warm_launch_list(os.path.join(store, "none.toml"))
            self.assertEqual(caught.exception.code, "not_found")

    def test_log_lines_reach_the_callback_and_python_logging(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            blocked = os.path.join(folder, "file")
            pathlib.Path(blocked).write_text("not a folder")
            lines: list[tuple[str, str]] = []
            runtime = kernwright.Runtime(store=blocked, read_only_stores=[], log=lambda level, line: lines.append((level, line)))
            runtime.warm([self.REQUEST])
            self.assertTrue(any(blocked in line and level in ("warn", "error") for level, line in lines), lines)
            runtime = kernwright.Runtime(store=blocked, read_only_stores=[])
            with self.assertLogs("kernwright", "WARNING"):
                runtime.warm([self.REQUEST])


class Lifetime(unittest.TestCase):
    def test_threads_share_a_runtime(self) -> None:
        wrong: list[object] = []

        def work() -> None:
            for _ in range(10):
                problem = MeanProblem()
                call(problem, union=2)
                if not (from_bits(problem.out) == problem.mean).all():
                    wrong.append(problem)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_many_calls_keep_memory_flat(self) -> None:
        empty, small = MeanProblem(tokens=0), MeanProblem(tokens=1, heads=1, topk=1)

        def calls(count: int) -> None:
            for number in range(count):
                call(empty, union=2 if number % 2 else 0)
                if number % 100 == 0:
                    call(small, union=2)
                if number % 10 == 0:
                    try:
                        call(empty, d_v=1)
                    except ValueError:
                        pass

        def resident_kib() -> int:
            gc.collect()
            with open("/proc/self/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * resource.getpagesize() // 1024

        calls(5000)
        before, references = resident_kib(), sys.getrefcount(empty.q)
        calls(100_000)
        self.assertEqual(sys.getrefcount(empty.q), references)
        self.assertLess(resident_kib() - before, 4096)

    def test_a_runtime_goes_with_what_was_made_of_it(self) -> None:
        import weakref

        runtime = kernwright.Runtime(host=True)
        call(MeanProblem(), runtime=runtime)
        gone = weakref.ref(runtime)
        del runtime
        gc.collect()
        self.assertIsNone(gone())


if __name__ == "__main__":
    unittest.main()
