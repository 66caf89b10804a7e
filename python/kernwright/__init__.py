"""Kernwright from Python: sparse MLA prefill with FlashMLA's conventions, and CUDA kernels of one's own, compiled at run time and kept in a
store on disk.

    import kernwright
    out, max_logits, lse = kernwright.flash_mla_sparse_fwd(q, kv, indices, sm_scale)

torch is needed for the functions that take its tensors and is imported with the first of them. ``python -m kernwright`` is the command-line
program. After a fork the child makes a runtime of its own by itself.
"""

from __future__ import annotations

import sysconfig
from typing import TYPE_CHECKING, Any

if sysconfig.get_config_var("Py_GIL_DISABLED"):
    raise ImportError("kernwright does not support free-threaded Python: use a build with the global interpreter lock")

from . import _native  # noqa: F401, I001 - first: an interpreter that may not load it hears of it by its name
from ._errors import Error
from ._kernel import Kernel
from ._library import library as _loaded
from ._prefill import SparseMlaPrefill
from ._runtime import Runtime, configure, default_runtime

if TYPE_CHECKING:
    from ._torch import flash_mla_sparse_fwd, sparse_mla_prefill

__all__ = ["Error", "Kernel", "Runtime", "SparseMlaPrefill", "configure", "default_runtime", "flash_mla_sparse_fwd", "register_torch_ops",
           "sparse_mla_prefill"]

_number = _loaded.kw_version()
__version__ = f"{_number // 10000}.{_number // 100 % 100}.{_number % 100}"


def register_torch_ops() -> None:
    """Imports torch and registers torch.ops.kernwright.*; the functions for torch do so by themselves."""
    from . import _torch  # noqa: F401


def __getattr__(name: str) -> Any:
    function: Any
    if name == "flash_mla_sparse_fwd":
        from ._torch import flash_mla_sparse_fwd as function
    elif name == "sparse_mla_prefill":
        import importlib.util

        if importlib.util.find_spec("torch") is not None:
            from ._torch import sparse_mla_prefill as function
        else:
            from ._prefill import sparse_mla_prefill as function
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = function  # found without this detour from now on
    return function
