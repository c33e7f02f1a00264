"""Loops over millions of entries, compiled by numba when they first run and kept on disk for the next time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Loop = TypeVar("Loop", bound=Callable[..., Any])


def compiled(loop: Loop) -> Loop:
    """``loop`` as machine code: numbers and numpy arrays in and out. It lets other threads run meanwhile.

    The first call with new types compiles, which takes a second or more; the result is cached beside the source, or
    in the user's cache folder if that cannot be written to.
    """
    return cast(Loop, numba.njit(cache=True, nogil=True)(loop))
