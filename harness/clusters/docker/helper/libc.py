"""Calls of the C library that Python has no function for."""

from __future__ import annotations

import ctypes
import os


def libc() -> ctypes.CDLL:
    """Return the C library of this process. Its calls leave their error in :func:`ctypes.get_errno`."""
    return ctypes.CDLL(None, use_errno=True)


def succeeded(result: int, what: str) -> int:
    """Return the result of a call. Raises OSError, which names the call, if the result is negative."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result
