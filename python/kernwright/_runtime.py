"""The runtime: options, counters, warming; and the one that functions use where none is given."""

from __future__ import annotations

import ctypes
import logging
import os
import pathlib
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from . import _library as c
from . import _native
from ._errors import error_of

_LEVELS = {"error": 1, "warn": 2, "info": 3, "debug": 4}
_LOGGING_LEVELS = {1: logging.ERROR, 2: logging.WARNING, 3: logging.INFO, 4: logging.DEBUG}
_HOST_MODES = {"fibers": 1, "fibers-asan": 2, "threads": 3}
_OUTCOMES = ("built", "hit", "skipped", "failed")


def _to_logging(level: str, line: str) -> None:
    logging.getLogger("kernwright").log(_LOGGING_LEVELS[_LEVELS[level]], "%s", line)


def device_number(device: Any) -> int:
    """A CUDA ordinal, or -1 for the host interpreter. Takes an int, "cuda", "cuda:1", "host", "cpu" or a torch.device."""
    if isinstance(device, int) and not isinstance(device, bool):
        if device < 0:
            raise ValueError(f"argument device: it is {device}; legal is the ordinal of a CUDA device, or 'host'")
        return device
    text = str(device)
    if text in ("host", "cpu"):
        return c.HOST
    if text == "cuda":
        return 0
    if text.startswith("cuda:") and text[5:].isdigit():
        return int(text[5:])
    raise ValueError(f"argument device: it is {device!r}; legal is 'cuda:N', an ordinal, or 'host'")


def _nvrtc_of_this_python() -> list[str]:
    """Where pip put NVRTC for this interpreter, torch's for example: the library itself knows only of VIRTUAL_ENV and PYTHONPATH."""
    folders = {str(file.parent) for entry in sys.path if entry for file in pathlib.Path(entry).glob("nvidia/*/lib/libnvrtc.so.*")}
    return sorted(folders)


def _switch(value: bool | None) -> int:
    return 0 if value is None else (1 if value else 2)


def _choice(value: str | None, names: Mapping[str, int], argument: str) -> int:
    if value is None:
        return 0
    if value not in names:
        raise ValueError(f"argument {argument}: it is {value!r}; legal is one of {', '.join(names)}")
    return names[value]


class Runtime:
    """Opens neither driver nor compiler nor store: each is opened when it is first needed. Usable from any thread.

    Every option left at None falls back to the environment variable of docs/embedding.md, then to the default.

    Args:
        store: folder of the writable store.
        read_only_stores: folders that are asked before it; an empty list: none.
        memory_only: use no disk store at all.
        sealed: nothing is compiled; what no store holds raises Error with code ``sealed_miss``.
        compiler: which of the compilers that stores list counts where none is used.
        log: called with (level, line) from any thread; level is "error", "warn", "info" or "debug". None: the logger "kernwright" of
            Python's logging gets the lines. It must not call into the runtime.
        log_level: the least urgent lines that are wanted.
        host: arrays in the host's memory run on the interpreter, which is for tests. None: only where KERNWRIGHT_TARGET is "host".
        nvrtc_search_folders: folders that are looked in for NVRTC before the usual places; None: pip's nvidia/*/lib of this Python.
        host_shared_memory: shared memory of a block of the interpreter, bytes.
    """

    def __init__(
        self,
        *,
        store: str | os.PathLike[str] | None = None,
        read_only_stores: Sequence[str] | None = None,
        memory_only: bool = False,
        store_shared: bool | None = None,
        store_limit: int = 0,
        sealed: bool | None = None,
        compiler: str | None = None,
        compiles_at_once: int = 0,
        template_folder: str | None = None,
        tuning_folder: str | None = None,
        cuda_driver: str | None = None,
        nvrtc: str | None = None,
        nvrtc_search_folders: Sequence[str] | None = None,
        shared_memory_limit: int = 0,
        compile_time_limit_seconds: float = 0.0,
        log: Callable[[str, str], None] | None = None,
        log_level: str | None = None,
        host: bool | None = None,
        host_mode: str | None = None,
        host_workers: int = 0,
        host_shared_memory: int = 0,
        host_seed: int = 0,
        host_compiler: str | None = None,
    ) -> None:
        self._handle = ctypes.c_void_p()
        self._abandoned = False
        self.host = host if host is not None else os.environ.get("KERNWRIGHT_TARGET") == "host"
        said = log or _to_logging
        names = {number: name for name, number in _LEVELS.items()}

        def forward(_user: object, level: int, line: bytes, _length: int) -> None:
            try:
                said(names[level], line.decode("utf-8", "replace"))
            except Exception:  # noqa: BLE001 - what a callback raises has nowhere to go but here
                sys.excepthook(*sys.exc_info())

        self._log = c.LogCallback(forward)  # kept as long as the library may call it
        for argument, folders_given in (("read_only_stores", read_only_stores), ("nvrtc_search_folders", nvrtc_search_folders)):
            if isinstance(folders_given, (str, bytes)):
                raise ValueError(f"argument {argument}: it is {folders_given!r}; legal is a list of folders")
        stores, store_count = c.text_array(list(read_only_stores) if read_only_stores is not None else None)
        folders, folder_count = c.text_array(list(_nvrtc_of_this_python() if nvrtc_search_folders is None else nvrtc_search_folders))
        options = c.RuntimeOptions(
            store=c.encoded(store), read_only_stores=stores, read_only_store_count=store_count, memory_only=int(memory_only),
            store_shared=_switch(store_shared), store_limit=store_limit, sealed=_switch(sealed), compiler=c.encoded(compiler),
            compiles_at_once=compiles_at_once, template_folder=c.encoded(template_folder), tuning_folder=c.encoded(tuning_folder),
            cuda_driver=c.encoded(cuda_driver), nvrtc=c.encoded(nvrtc), nvrtc_search_folders=folders,
            nvrtc_search_folder_count=folder_count, shared_memory_limit=shared_memory_limit,
            compile_time_limit_seconds=compile_time_limit_seconds, host_mode=_choice(host_mode, _HOST_MODES, "host_mode"),
            host_workers=host_workers, host_shared_memory=host_shared_memory, host_seed=host_seed,
            host_compiler=c.encoded(host_compiler), log=self._log, log_level=_choice(log_level, _LEVELS, "log_level"))
        c.call("kw_runtime_create", ctypes.byref(options), ctypes.byref(self._handle))
        weak = weakref.ref(self)

        def make_op(device: int, heads: int, d_qk: int, max_topk: int, group_size: int, deterministic: int) -> Any:
            from ._prefill import SparseMlaPrefill

            runtime = weak()
            if runtime is None:
                raise RuntimeError("the runtime is gone")
            if device == c.HOST and not runtime.host:
                raise ValueError(
                    "argument q: it is in the host's memory, and the interpreter runs only where it is asked for: set "
                    "KERNWRIGHT_TARGET=host or kernwright.configure(host=True), or pass tensors of a CUDA device")
            union: int | str = "auto" if group_size == c.UNION_AUTO else 0 if group_size == c.UNION_OFF else group_size
            return SparseMlaPrefill(heads, device="host" if device == c.HOST else device, d_qk=d_qk, max_topk=max_topk, union=union,
                                    deterministic=bool(deterministic), runtime=runtime)

        self._calls = _native.PrefillCalls(make_op, _scratch, error_of)
        _live.add(self)

    def _refuse_in_forked_child(self, what: str) -> None:
        if self._abandoned:
            raise RuntimeError(f"this {what} was made before the process was forked: its locks may be held by threads that are not here; "
                               f"legal is one that is made in the child")

    def __del__(self) -> None:
        if getattr(self, "_handle", None) and not self._abandoned and not sys.is_finalizing():
            c.destroy("kw_runtime_destroy", self._handle)

    @property
    def sealed(self) -> bool:
        value = ctypes.c_int32()
        c.call("kw_runtime_sealed", self._handle, ctypes.byref(value))
        return bool(value.value)

    @property
    def store_folder(self) -> str:
        """The writable store's folder; empty where there is none."""
        value = ctypes.c_char_p()
        c.call("kw_runtime_store_folder", self._handle, ctypes.byref(value))
        return os.fsdecode(value.value or b"")

    def counters(self) -> dict[str, Any]:
        """What the runtime did, so that a silent fall-back can be seen: hits, compiles, step-downs, launches."""
        values = c.Counters()
        c.call("kw_runtime_counters", self._handle, ctypes.byref(values))
        return c.as_dict(values)

    def template_launches(self, template: str) -> int:
        """Launches of one template's kernels so far."""
        value = ctypes.c_uint64()
        c.call("kw_runtime_template_launches", self._handle, c.encoded(template), ctypes.byref(value))
        return value.value

    def cuda_device_count(self) -> int:
        value = ctypes.c_int32()
        c.call("kw_runtime_cuda_device_count", self._handle, ctypes.byref(value))
        return value.value

    def device(self, device: Any) -> dict[str, Any]:
        """Name, target, capability and limits of a device."""
        info = c.DeviceInfo()
        c.call("kw_runtime_device", self._handle, ctypes.c_int32(device_number(device)), ctypes.byref(info))
        return c.as_dict(info)

    def register_template(self, manifest: str, files: Mapping[str, str]) -> None:
        """Adds a kernel template: its manifest (TOML) and its files by virtual name ("engine/scale.cu")."""
        held = [c.SourceFile(name=c.encoded(name), content=text.encode(), content_bytes=len(text.encode()))
                for name, text in files.items()]
        pointers = (ctypes.POINTER(c.SourceFile) * max(1, len(held)))(*[ctypes.pointer(file) for file in held])
        source = c.TemplateSource(manifest=manifest.encode(), files=pointers, file_count=len(held))
        c.call("kw_runtime_register_template", self._handle, ctypes.byref(source))

    def warm(
        self,
        requests: Iterable[Mapping[str, Any]],
        *,
        jobs: int = 0,
        progress: Callable[[dict[str, Any]], bool | None] | None = None,
    ) -> dict[str, Any]:
        """Compiles into the store what a process will prepare; needs the compiler, not the device.

        Args:
            requests: mappings with ``template``, ``target`` ("sm_90a", "host"), and optionally ``specialisation``
                ("heads=8 group_size=8"), ``tile`` and ``first_only``.
            jobs: compiles at once; 0: as many as cores and memory allow.
            progress: called with planning, done, total, seconds_left (None where unknown) and finished (a line, or None), from the
                threads that compile, one call at a time. Answering False cancels.

        Returns: counts (built, hit, skipped, failed, not_begun, not_stored), cancelled, seconds, and items.
        """
        held = [
            c.WarmRequest(template_name=c.encoded(request["template"]), specialisation=c.encoded(request.get("specialisation")),
                          target=c.encoded(request["target"]), tile=c.encoded(request.get("tile")),
                          first_only=int(bool(request.get("first_only"))))
            for request in requests
        ]
        pointers = (ctypes.POINTER(c.WarmRequest) * max(1, len(held)))(*[ctypes.pointer(request) for request in held])
        return self._warm("kw_warm", (pointers, ctypes.c_size_t(len(held))), jobs, progress)

    def warm_launch_list(
        self,
        file: str | os.PathLike[str],
        *,
        targets: Sequence[str] = (),
        jobs: int = 0,
        progress: Callable[[dict[str, Any]], bool | None] | None = None,
    ) -> dict[str, Any]:
        """The same for a launch list (TOML, docs/cache.md). ``targets``, where given, replace the list's."""
        array, count = c.text_array(list(targets))
        return self._warm("kw_warm_launch_list", (c.encoded(file), array, ctypes.c_size_t(count)), jobs, progress)

    def write_launch_list(self, file: str | os.PathLike[str]) -> None:
        """Writes the launch list of what this runtime has prepared so far."""
        c.call("kw_runtime_write_launch_list", self._handle, c.encoded(file))

    def _warm(self, function: str, arguments: tuple[Any, ...], jobs: int, progress: Callable[..., bool | None] | None) -> dict[str, Any]:
        raised: list[BaseException] = []

        def told(_user: object, pointer: Any) -> int:
            assert progress is not None
            try:
                values = c.as_dict(pointer.contents)
                values["planning"] = bool(values["planning"])
                values["seconds_left"] = None if values["seconds_left"] < 0 else values["seconds_left"]
                return 1 if progress(values) is False else 0
            except BaseException as error:  # noqa: BLE001 - cannot pass through C; it is raised behind the call
                raised.append(error)
                return 1

        options = c.WarmOptions(jobs=jobs)
        if progress is not None:
            options.progress = c.WarmCallback(told)
        result = ctypes.c_void_p()
        c.call(function, self._handle, *arguments, ctypes.byref(options), ctypes.byref(result))
        try:
            if raised:
                raise raised[0]
            summary = c.WarmSummary()
            c.call("kw_warm_result_summary", result, ctypes.byref(summary))
            values = c.as_dict(summary)
            values["cancelled"] = bool(values["cancelled"])
            count = ctypes.c_size_t()
            c.call("kw_warm_result_count", result, ctypes.byref(count))
            values["items"] = []
            for index in range(count.value):
                item = c.WarmItem()
                c.call("kw_warm_result_item", result, ctypes.c_size_t(index), ctypes.byref(item))
                entry = c.as_dict(item)
                entry["outcome"] = _OUTCOMES[item.outcome]
                values["items"].append(entry)
            return values
        finally:
            c.destroy("kw_warm_result_destroy", result)


def _scratch(size: int, like: Any) -> Any:
    """`size` bytes where `like` is: the workspace of a call that was given none."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(like, torch.Tensor):
        return like.new_empty(size, dtype=torch.uint8)
    if type(like).__module__.partition(".")[0] == "numpy":
        return sys.modules["numpy"].empty(size, dtype="uint8")
    raise ValueError(f"argument workspace: it must be given where q is a {type(like).__name__}; {size} bytes are needed")


_live: weakref.WeakSet[Runtime] = weakref.WeakSet()
_lock = threading.Lock()
_default: Runtime | None = None


def checked_runtime(runtime: Runtime | None) -> Runtime:
    """The runtime that was given, or the default one."""
    if runtime is None:
        return default_runtime()
    if not isinstance(runtime, Runtime):
        raise ValueError(f"argument runtime: it is a {type(runtime).__name__}; legal is a kernwright.Runtime or None")
    return runtime


def default_runtime() -> Runtime:
    """The runtime of functions that are given none; made on first use with every option left to the environment."""
    global _default
    runtime = _default
    if runtime is None:
        with _lock:
            if _default is None:
                _default = Runtime()
            runtime = _default
    return runtime


def configure(**options: Any) -> Runtime:
    """Makes the default runtime with these options (those of Runtime). Ops made before keep the one that they were made with."""
    global _default
    runtime = Runtime(**options)
    with _lock:
        _default = runtime
    return runtime


def _after_fork_in_child() -> None:
    """The parent's runtimes may hold locks of threads that are not here: they are left alone, and a new one is made when needed."""
    global _default, _lock
    _lock = threading.Lock()
    _default = None
    for runtime in list(_live):
        runtime._abandoned = True
        runtime._calls.abandon()
        _abandoned.append(runtime)


_abandoned: list[Runtime] = []
os.register_at_fork(after_in_child=_after_fork_in_child)
