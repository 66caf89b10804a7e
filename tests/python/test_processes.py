"""Other processes and interpreters: forks, sub-interpreters, free-threaded Python, the command-line program, starts at once."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import unittest

import kernwright


class Processes(unittest.TestCase):
    def run_python(self, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
        folder = str(pathlib.Path(__file__).resolve().parent)
        return subprocess.run([sys.executable, "-c", f"import sys; sys.path.insert(0, {folder!r})\n{code}"], text=True, timeout=300,
                              env=dict(os.environ, **environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def test_a_fork_after_use_is_safe(self) -> None:
        done = self.run_python("""
import os, kernwright
from arrays import MeanProblem, from_bits
from kernwright import _prefill
kernwright.configure(host=True)
os.environ["KERNWRIGHT_TARGET"] = "host"
def right():
    p = MeanProblem()
    _prefill.sparse_mla_prefill(p.q, p.kv, p.indices, 0.25, out=p.out, union=2)
    return bool((from_bits(p.out) == p.mean).all())
assert right()
mine = kernwright.default_runtime()
p = MeanProblem()
op = kernwright.SparseMlaPrefill(2, device="host", max_topk=8, union=0)
op.run(p.q, p.kv, p.indices, 0.25, out=p.out)
children = []
for _ in range(4):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            assert right()
            assert kernwright.default_runtime() is not mine
            try:
                op.run(p.q, p.kv, p.indices, 0.25, out=p.out)
                os._exit(4)
            except RuntimeError as error:
                assert "before the process was forked" in str(error)
            try:
                kernwright.SparseMlaPrefill(2, device="host", runtime=mine)
            except kernwright.Error as error:
                code = 0 if error.code == "unsupported" else 3
        finally:
            os._exit(code)
    children.append(child)
assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4
assert right()
print("all right")
""")
        self.assertIn("all right", done.stdout)

    def test_multiprocessing_fork_ends_cleanly(self) -> None:
        done = self.run_python("""
import multiprocessing, os, kernwright
from arrays import MeanProblem, from_bits
from kernwright import _prefill
os.environ["KERNWRIGHT_TARGET"] = "host"
def right(_):
    p = MeanProblem()
    _prefill.sparse_mla_prefill(p.q, p.kv, p.indices, 0.25, out=p.out)
    return bool((from_bits(p.out) == p.mean).all())
if __name__ == "__main__":
    assert right(0)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert all(pool.map(right, range(8)))
    print("all right")
""")
        self.assertIn("all right", done.stdout)
        self.assertEqual(done.returncode, 0)

    def test_a_subinterpreter_is_refused_in_words(self) -> None:
        if sys.version_info < (3, 12):
            self.skipTest("interpreters with a lock of their own came with Python 3.12")
        done = self.run_python("""
import kernwright
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
child = interpreters.create()
try:
    problem = interpreters.exec(child, "import kernwright") if hasattr(interpreters, "exec") else interpreters.run_string(child, "import kernwright")
    print(problem)
except Exception as error:
    print(error)
""")
        self.assertRegex(done.stdout, "kernwright._native does not support loading in subinterpreters")

    def test_free_threaded_python_is_refused_in_words(self) -> None:
        done = self.run_python("""
import sysconfig
ask = sysconfig.get_config_var
sysconfig.get_config_var = lambda name: 1 if name == "Py_GIL_DISABLED" else ask(name)
import kernwright
""")
        self.assertRegex(done.stdout, "ImportError: kernwright does not support free-threaded Python")

    def test_the_command_line_program(self) -> None:
        done = subprocess.run([sys.executable, "-m", "kernwright", "--version"], text=True, capture_output=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout.strip()), (0, f"kernwright {kernwright.__version__}"))
        wrong = subprocess.run([sys.executable, "-m", "kernwright", "no-such-word"], text=True, capture_output=True, timeout=60)
        self.assertEqual(wrong.returncode, 2)

    def test_processes_that_start_together_compile_each_key_once(self) -> None:
        script = str(pathlib.Path(__file__).resolve().parent / "start_together.py")
        done = subprocess.run([sys.executable, script, "--device", "cpu", "--processes", "4"], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
