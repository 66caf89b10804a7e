"""Arrays of a CUDA device that are not torch's, over __dlpack__(), on a driver of the tests' own that runs nothing.

KERNWRIGHT_FAKE_CUDA names that driver; kernels are compiled with the NVRTC that is here."""

from __future__ import annotations

import ctypes
import os
import unittest
from typing import Any

import kernwright
from kernwright import _prefill

DRIVER = os.environ.get("KERNWRIGHT_FAKE_CUDA", "")
CPU, CUDA, ROCM = 1, 2, 10
CODES = {"int32": (0, 32), "uint8": (1, 8), "float32": (2, 32), "bfloat16": (4, 16), "uint16": (1, 16)}


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class DLManagedTensor(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class DeviceArray:
    """Says that it lies on a device; nothing looks behind its address."""

    def __init__(self, dtype: str, *shape: int, device: tuple[int, int] = (CUDA, 0), offset: int = 0) -> None:
        code, bits = CODES[dtype]
        self.asked: list[object] = []
        self.shape = shape
        extents = (ctypes.c_int64 * max(1, len(shape)))(*shape)
        tensor = DLTensor(1 << 30, *device, len(shape), code, bits, 1, extents, None, offset)
        self.held = DLManagedTensor(tensor, None, None)
        self.device = device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **words: object) -> Any:
        self.asked.append(words)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.held), b"dltensor", None)


@unittest.skipUnless(DRIVER, "KERNWRIGHT_FAKE_CUDA does not name the tests' driver")
class CudaArrays(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.runtime = kernwright.Runtime(cuda_driver=DRIVER)
        try:
            kernwright.SparseMlaPrefill(8, device="cuda:0", max_topk=64, union=4, runtime=cls.runtime)
        except kernwright.Error as error:
            if error.code == "compiler_unavailable":
                raise unittest.SkipTest("there is no NVRTC here") from error
            raise

    def call(self, changed: dict[str, Any] | None = None, **words: Any) -> dict[str, Any]:
        arrays = {"q": DeviceArray("bfloat16", 30, 8, 576), "kv": DeviceArray("bfloat16", 200, 576),
                  "indices": DeviceArray("int32", 30, 64), "out": DeviceArray("bfloat16", 30, 8, 512), **(changed or {})}
        _prefill.sparse_mla_prefill(arrays["q"], arrays["kv"], arrays["indices"], 0.04, out=arrays["out"], runtime=self.runtime, **words)
        return arrays

    def test_a_start_warns_of_what_a_user_can_measure_and_of_nothing_else(self) -> None:
        # The driver's device has another name than the one that the built-in tables were measured on.
        with self.assertLogs("kernwright", "WARNING") as said:
            runtime = kernwright.Runtime(cuda_driver=DRIVER)
            kernwright.SparseMlaPrefill(8, device="cuda:0", max_topk=64, union=4, runtime=runtime)
        self.assertEqual(len(said.output), 1, said.output)
        for part in ("sparse_mla/prefill", "heads=8", "Fake H200", "`kernwright tune sparse-mla`"):
            self.assertIn(part, said.output[0])

    def test_launches_on_the_default_stream(self) -> None:
        self.assertEqual(self.runtime.cuda_device_count(), 1)
        self.assertEqual(self.runtime.device("cuda:0")["target"], "sm_90a")
        before = self.runtime.counters()["launches"]
        arrays = self.call()
        self.assertEqual(self.runtime.counters()["launches"] - before, 1)
        for array in arrays.values():  # the standard's number of the legacy default stream
            self.assertEqual(array.asked, [{"stream": 1}])
        op = kernwright.SparseMlaPrefill(8, device=0, max_topk=64, union=4, runtime=self.runtime)
        self.call(union=4, workspace=DeviceArray("uint8", op.workspace_bytes(30, 200)))
        self.assertEqual(self.runtime.counters()["launches"] - before, 3)

    def test_an_op_takes_arrays_of_its_device_alone(self) -> None:
        op = kernwright.SparseMlaPrefill(8, device=0, max_topk=64, union=0, runtime=self.runtime)
        before = self.runtime.counters()["launches"]
        for device, message in (((CUDA, 1), "cuda:1"), ((CPU, 0), "the host")):
            arrays = [DeviceArray(*made, device=device) for made in (
                ("bfloat16", 30, 8, 576), ("bfloat16", 200, 576), ("int32", 30, 64), ("bfloat16", 30, 8, 512))]
            with self.assertRaisesRegex(ValueError, f"argument q: it is on {message}; the op was made for cuda:0"):
                op.run(*arrays[:3], 0.04, out=arrays[3])
        self.assertEqual(self.runtime.counters()["launches"], before)

    def test_what_cannot_be_launched_is_named(self) -> None:
        before = self.runtime.counters()["launches"]
        wrong = {
            r"argument kv: it is on device 1, and q on device 0": ({"kv": DeviceArray("bfloat16", 200, 576, device=(CUDA, 1))}, {}),
            r"argument indices: it is on device -1, and q on device 0": ({"indices": DeviceArray("int32", 30, 64, device=(CPU, 0))}, {}),
            r"argument q: it is on a device of DLPack type 10": ({"q": DeviceArray("bfloat16", 30, 8, 576, device=(ROCM, 0))}, {}),
            r"argument q: the dtype is uint16": ({"q": DeviceArray("uint16", 30, 8, 576)}, {}),
            r"argument q: the pointer is 0x40000002; legal is a multiple of 16 bytes": ({"q": DeviceArray("bfloat16", 30, 8, 576, offset=2)}, {}),
            r"argument workspace: it must be given where q is a DeviceArray; \d+ bytes are needed": ({}, {"union": 4}),
            r"argument out: it must be given where q is a DeviceArray": ({"out": None}, {}),
        }
        for pattern, (changed, words) in wrong.items():
            with self.subTest(pattern=pattern), self.assertRaisesRegex(ValueError, pattern):
                self.call(changed, **words)
        with self.assertRaises(kernwright.Error) as caught:
            self.call({name: DeviceArray(*made, device=(CUDA, 3)) for name, made in {
                "q": ("bfloat16", 30, 8, 576), "kv": ("bfloat16", 200, 576), "indices": ("int32", 30, 64), "out": ("bfloat16", 30, 8, 512)}.items()})
        self.assertEqual(caught.exception.code, "not_found")
        self.assertEqual(self.runtime.counters()["launches"], before)


if __name__ == "__main__":
    unittest.main()
