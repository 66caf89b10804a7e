"""What a failed call raises."""

from __future__ import annotations

#: Names of kw_status, by number.
STATUS_NAMES = (
    "ok", "invalid_argument", "not_found", "unsupported", "does_not_fit", "compiler_unavailable", "compile_failed",
    "driver_unavailable", "load_failed", "launch_failed", "out_of_memory", "device_fault", "io", "malformed", "capturing",
    "timed_out", "sealed_miss", "internal",
)
INVALID_ARGUMENT = 1


class Error(RuntimeError):
    """A call that failed for another reason than its arguments. ``code`` is one of the names in the C header, such as ``sealed_miss``."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return (type(self), (self.code, str(self)))


def error_of(status: int, text: bytes | str) -> Exception:
    """The exception for a status of the C interface: ValueError where the caller's argument was wrong, else Error."""
    message = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    code = STATUS_NAMES[status] if 0 <= status < len(STATUS_NAMES) else "unknown"
    if status == INVALID_ARGUMENT:
        return ValueError(message.removeprefix("invalid_argument: "))
    return Error(code, message)
