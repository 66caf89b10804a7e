"""libkernwright.so over ctypes: the structs of kernwright.h, and calls that raise."""

from __future__ import annotations

import ctypes
import operator
import os
import pathlib
from typing import Any, ClassVar

from ._errors import error_of

FOLDER = pathlib.Path(__file__).resolve().parent
HOST = -1
UNION_AUTO, UNION_OFF = 0, 1

LogCallback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p, ctypes.c_size_t)


def whole_number(value: Any, kind: Any, argument: str) -> int:
    """The value as an int that the C type holds: ctypes itself would cut it off."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ValueError(f"argument {argument}: it is {value!r}; legal is a whole number") from None
    bits = 8 * ctypes.sizeof(kind)
    signed = kind(-1).value < 0
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    if not low <= number <= high:
        raise ValueError(f"argument {argument}: it is {number}; legal is a whole number from {low} to {high}")
    return number


class Struct(ctypes.Structure):
    """Sets its first member, as kw_init() does. Members are named as the arguments that they come from."""

    def __init__(self, **values: Any) -> None:
        kinds = {name: kind for name, kind, *_ in self._fields_}
        for name, value in values.items():
            if kinds.get(name) in WHOLE_NUMBERS:
                values[name] = whole_number(value, kinds[name], name)
        super().__init__(size=ctypes.sizeof(type(self)), **values)


_text = ctypes.c_char_p
_texts = ctypes.POINTER(ctypes.c_char_p)
_i32 = ctypes.c_int32
_u64 = ctypes.c_uint64
_size = ctypes.c_size_t
_f64 = ctypes.c_double
WHOLE_NUMBERS = (ctypes.c_int32, ctypes.c_uint32, ctypes.c_int64, ctypes.c_uint64)


class RuntimeOptions(Struct):
    _fields_ = [
        ("size", _size), ("store", _text), ("read_only_stores", _texts), ("read_only_store_count", _size), ("memory_only", _i32),
        ("store_shared", _i32), ("sealed", _i32), ("compiles_at_once", _i32), ("store_limit", _u64), ("compiler", _text),
        ("template_folder", _text), ("tuning_folder", _text), ("cuda_driver", _text), ("nvrtc", _text),
        ("nvrtc_search_folders", _texts), ("nvrtc_search_folder_count", _size), ("compile_time_limit_seconds", _f64),
        ("lock_wait_limit_seconds", _f64), ("shared_memory_limit", _u64), ("remote_url", _text), ("remote_key_file", _text),
        ("remote_name_space", _text), ("host_mode", _i32), ("host_workers", _i32), ("host_shared_memory", _u64), ("host_seed", _u64),
        ("host_compiler", _text), ("log", LogCallback), ("log_user", ctypes.c_void_p), ("log_level", _i32), ("reserved", _i32),
    ]


class DeviceInfo(Struct):
    _fields_ = [
        ("size", _size), ("capability_major", _i32), ("capability_minor", _i32), ("max_threads_per_block", _i32),
        ("multiprocessors", _i32), ("shared_memory_per_block", _u64), ("l2_bytes", _u64), ("memory_bytes", _u64),
        ("target", ctypes.c_char * 16), ("name", ctypes.c_char * 128),
    ]


class Counters(Struct):
    _fields_ = [("size", _size)] + [
        (name, _f64 if name == "compile_seconds" else _u64)
        for name in ("memory_hits", "store_hits", "remote_hits", "remote_bad", "remote_unavailable", "misses", "sealed_misses",
                     "compiles", "compile_seconds", "waits", "lock_waits", "lock_failures", "bad_entries", "step_downs", "fits_read",
                     "fits_written", "store_warnings", "launches")
    ]


class SourceFile(Struct):
    _fields_ = [("size", _size), ("name", _text), ("content", _text), ("content_bytes", _size)]


class TemplateSource(Struct):
    _fields_ = [("size", _size), ("manifest", _text), ("files", ctypes.POINTER(ctypes.POINTER(SourceFile))), ("file_count", _size)]


class PrepareRequest(Struct):
    _fields_ = [("size", _size), ("template_name", _text), ("specialisation", _text), ("tile", _text), ("params_bytes", _size),
                ("device", _i32), ("reserved", _i32)]


class Plan(Struct):
    _fields_ = [("size", _size)] + [
        (name, _i32) for name in ("threads", "dynamic_shared", "rows_per_block", "blocks_per_sm", "cluster", "params_bytes")]


class PrepareReport(Struct):
    _fields_ = [
        ("size", _size), ("template_name", _text), ("specialisation", _text), ("target", _text), ("tile_asked", _text),
        ("tile_fitted", _text), ("fit_reason", _text), ("key", _text), ("compile_ms", _f64), ("cache", _i32), ("device", _i32),
        ("fit_recorded", _i32), ("registers", _i32), ("spill_stores", _u64), ("spill_loads", _u64),
    ]


class WarmRequest(Struct):
    _fields_ = [("size", _size), ("template_name", _text), ("specialisation", _text), ("target", _text), ("tile", _text),
                ("first_only", _i32), ("reserved", _i32)]


class WarmProgress(Struct):
    _fields_ = [("size", _size), ("planning", _i32), ("reserved", _i32), ("done", _size), ("total", _size), ("seconds_left", _f64),
                ("finished", _text)]


WarmCallback = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(WarmProgress))


class WarmOptions(Struct):
    _fields_ = [("size", _size), ("jobs", _i32), ("reserved", _i32), ("progress", WarmCallback), ("user", ctypes.c_void_p)]


class WarmSummary(Struct):
    _fields_: ClassVar[Any] = [("size", _size)] + [(name, _size) for name in ("built", "hit", "skipped", "failed", "not_begun", "not_stored")] + [
        ("cancelled", _i32), ("reserved", _i32), ("seconds", _f64)]


class WarmItem(Struct):
    _fields_ = [("size", _size), ("template_name", _text), ("specialisation", _text), ("target", _text), ("tile", _text),
                ("reason", _text), ("key", _text), ("compile_ms", _f64), ("outcome", _i32), ("reserved", _i32)]


class SparseMlaPrefillOptions(Struct):
    _fields_: ClassVar[Any] = [("size", _size)] + [
        (name, _i32) for name in ("device", "heads", "max_topk", "d_qk", "d_v", "dtype", "group_size", "deterministic", "index_kpool",
                                  "reserved")] + [("workspace_limit", _u64), ("tile", _text)]


library = ctypes.CDLL(str(next((FOLDER / "lib").glob("libkernwright.so.*"))))
library.kw_last_error.restype = ctypes.c_char_p
library.kw_version.restype = ctypes.c_uint32


def call(name: str, *arguments: Any) -> None:
    """Calls a function that answers a kw_status; raises where that is not KW_OK."""
    status = getattr(library, name)(*arguments)
    if status != 0:
        raise error_of(status, library.kw_last_error() or b"")


def destroy(name: str, handle: ctypes.c_void_p) -> None:
    function = getattr(library, name)
    function.restype = None
    function(handle)


def encoded(text: str | os.PathLike[str] | None) -> bytes | None:
    """UTF-8 for the C interface; None stays None."""
    if text is None:
        return None
    return text.encode() if isinstance(text, str) else os.fsencode(text)


def text_array(texts: list[str] | None) -> tuple[Any, int]:
    """An array for `const char* const*`; not null where the list is empty."""
    if texts is None:
        return None, 0
    array = (ctypes.c_char_p * max(1, len(texts)))(*[encoded(text) for text in texts])
    return ctypes.cast(array, _texts), len(texts)


def reports(ask: str, handle: ctypes.c_void_p) -> list[dict[str, Any]]:
    """What prepare did, one dict a kernel."""
    held = ctypes.c_void_p()
    call(ask, handle, ctypes.byref(held))
    try:
        count = ctypes.c_size_t()
        call("kw_reports_count", held, ctypes.byref(count))
        found = []
        for index in range(count.value):
            report = PrepareReport()
            call("kw_reports_get", held, ctypes.c_size_t(index), ctypes.byref(report))
            values = as_dict(report)
            values["cache"] = ("memory", "store", "remote", "built")[report.cache]
            values["device"] = "host" if report.device == HOST else f"cuda:{report.device}"
            values["fit_recorded"] = bool(report.fit_recorded)
            found.append(values)
        return found
    finally:
        destroy("kw_reports_destroy", held)


def as_dict(struct: ctypes.Structure) -> dict[str, Any]:
    """The members without size and reserved; text decoded."""
    values = {name: getattr(struct, name) for name, *_ in struct._fields_ if name not in ("size", "reserved")}
    return {name: value.decode("utf-8", "replace") if isinstance(value, bytes) else value for name, value in values.items()}
