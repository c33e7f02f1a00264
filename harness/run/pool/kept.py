"""Keep objects, such as containers, in a worker from one job to the next; the first job that needs one makes it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any, TypeVar

Resource = TypeVar("Resource")
_open = ExitStack()
_kept: dict[Callable[[], Any], Any] = {}


def keep(make: Callable[[], AbstractContextManager[Resource]]) -> Resource:
    """Return what this process keeps of ``make()``, which is entered once, and left when the worker ends."""
    if make not in _kept:
        _kept[make] = _open.enter_context(make())
    found: Resource = _kept[make]
    return found


def close_kept() -> None:
    """Leave everything that this process keeps."""
    _kept.clear()
    _open.close()
