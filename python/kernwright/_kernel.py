"""Kernels of one's own: a template, a parameter struct, launches with tensors."""

from __future__ import annotations

import contextlib
import ctypes
import operator
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import _library as c
from . import _native
from ._runtime import Runtime, checked_runtime, device_number

_TYPES = {
    "pointer": ctypes.c_void_p, "int32": ctypes.c_int32, "int64": ctypes.c_int64, "uint32": ctypes.c_uint32, "uint64": ctypes.c_uint64,
    "float32": ctypes.c_float, "float64": ctypes.c_double,
}


class Kernel:
    """A prepared kernel of a template: compiled or read from the store, loaded, stepped down to the tile that fits. Usable from any thread."""

    def __init__(
        self,
        template: str,
        params: Sequence[tuple[str, str]],
        *,
        specialisation: Mapping[str, int | str] | None = None,
        device: Any = "cuda",
        tile: str | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        """Prepares a kernel of a template that is registered already.

        Args:
            template: as its manifest names it.
            params: the kernel's one parameter struct, member by member: (name, type), where type is "pointer", "int32", "int64",
                "uint32", "uint64", "float32" or "float64"; laid out as C does.
            specialisation: compile-time constants, e.g. {"hidden": 16384, "dtype": "bf16"}.
            device: "cuda:N", an ordinal, a torch.device, or "host".
            tile: None: the tuning tables', else the manifest's first.
        """
        self._pointer = ctypes.c_void_p()
        self._runtime = checked_runtime(runtime)
        self._device = device_number(device)
        for name, kind in params:
            if kind not in _TYPES:
                raise ValueError(f"argument params: {name} is a {kind!r}; legal is one of {', '.join(_TYPES)}")
        self._params = tuple(params)
        self._struct = type("Params", (ctypes.Structure,), {"_fields_": [(name, _TYPES[kind]) for name, kind in params]})
        words = " ".join(f"{name}={value}" for name, value in (specialisation or {}).items())
        request = c.PrepareRequest(template_name=c.encoded(template), specialisation=words.encode(), tile=c.encoded(tile),
                                   params_bytes=ctypes.sizeof(self._struct), device=self._device)
        c.call("kw_prepare", self._runtime._handle, ctypes.byref(request), ctypes.byref(self._pointer))

    @classmethod
    def from_source(
        cls,
        source: Mapping[str, str],
        manifest: str,
        params: Sequence[tuple[str, str]],
        *,
        specialisation: Mapping[str, int | str] | None = None,
        device: Any = "cuda",
        tile: str | None = None,
        runtime: Runtime | None = None,
    ) -> Kernel:
        """Registers a template and prepares a kernel of it; the same text may be registered again.

        Args:
            source: the template's files by the names under which they include each other, e.g. {"engine/scale.cu": "…"}.
            manifest: TOML; kernel_templates/README.md is its contract.
            params: as in Kernel().
        """
        name = re.search(r'^\s*name\s*=\s*"([^"]+)"', manifest.split("\n[", 1)[0], re.MULTILINE)
        if name is None:
            raise ValueError('argument manifest: it has no line `name = "…"` before its first table')
        chosen = checked_runtime(runtime)
        chosen.register_template(manifest, source)
        return cls(name.group(1), params, specialisation=specialisation, device=device, tile=tile, runtime=chosen)

    def __del__(self) -> None:
        if getattr(self, "_pointer", None) and not self._runtime._abandoned and not sys.is_finalizing():
            c.destroy("kw_kernel_destroy", self._pointer)

    @property
    def plan(self) -> dict[str, int]:
        """threads, dynamic_shared, rows_per_block, blocks_per_sm, cluster, params_bytes: the grid is derived from rows_per_block."""
        plan = c.Plan()
        c.call("kw_kernel_plan", self._pointer, ctypes.byref(plan))
        return c.as_dict(plan)

    @property
    def report(self) -> dict[str, Any]:
        """What prepare did: tile asked and fitted, why, where the artifact came from, its key in the store."""
        return c.reports("kw_kernel_reports", self._pointer)[0]

    def launch(self, grid: int | Sequence[int], *, stream: int | None = None, **values: Any) -> None:
        """Enqueues one launch. Every member of the parameter struct is given by name; a pointer takes an array of any dtype, None, or an
        address.

        Args:
            grid: blocks: x, or up to three of x, y, z.
            stream: a stream's handle; None: the current stream of the framework that the first array is of, else the default stream.
        """
        self._runtime._refuse_in_forked_child("kernel")
        names = [name for name, _ in self._params]
        if missing := [name for name in names if name not in values]:
            raise ValueError(f"launch: not given: {', '.join(missing)}; the kernel's parameters are {', '.join(names)}")
        if unknown := [name for name in values if name not in names]:
            raise ValueError(f"launch: unknown: {', '.join(unknown)}; the kernel's parameters are {', '.join(names)}")
        params = self._struct()
        where = stream
        for name, kind in self._params:
            value = values[name]
            if kind == "pointer" and value is not None and not isinstance(value, int):
                data, device, current = _native.locate(value, name, stream)
                if device != self._device:
                    raise ValueError(f"argument {name}: it is on {_name(device)}; the kernel was prepared for {_name(self._device)}")
                where = current if where is None and current else where
                value = data
            if _TYPES[kind] in c.WHOLE_NUMBERS:
                value = c.whole_number(value, _TYPES[kind], name)
            try:
                setattr(params, name, value)
            except TypeError as error:
                raise ValueError(f"argument {name}: it is {value!r}; the parameter is a {kind}") from error
        try:
            blocks = tuple(operator.index(n) for n in (grid if isinstance(grid, Iterable) else (grid,)))
        except TypeError:
            blocks = ()
        if not 1 <= len(blocks) <= 3 or any(not 1 <= n < 2**32 for n in blocks):
            raise ValueError(f"argument grid: it is {grid!r}; legal is one to three positive block counts")
        x, y, z = (*blocks, 1, 1)[:3]
        torch = sys.modules.get("torch")
        # A device's default stream has the same handle as every other's: which one it is, the current device says.
        guard = contextlib.nullcontext() if torch is None or where or self._device == c.HOST else torch.cuda.device(self._device)
        with guard:
            c.call("kw_kernel_launch", self._pointer, ctypes.c_uint32(x), ctypes.c_uint32(y), ctypes.c_uint32(z), ctypes.byref(params),
                   ctypes.c_size_t(ctypes.sizeof(params)), ctypes.c_void_p(where or None))


def _name(device: int) -> str:
    return "the host" if device == c.HOST else f"cuda:{device}"
