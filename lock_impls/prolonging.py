"""Find the method of a lock class by which its library prolongs a lease, and call it for a whole ttl from now on.

``reacquire()`` of redis-py is preferred to ``extend``. A parameter for the new lease is filled in by name, if it has no
default: :data:`TTL_NAMES`, or ``additional_time`` if there is also ``replace_ttl``, which is then True. Without that,
redis-py adds the time to the rest of the lease, which the harness does not know.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

from .constructor_arguments import TTL_NAMES

METHODS: Final = ("reacquire", "extend")


def prolonging(cls: type, ttl: float) -> Callable[[Any], Any] | None:
    """Return a function that prolongs the lease of a lock of this class to ``ttl`` seconds; None if it cannot."""
    for name in METHODS:
        arguments = _arguments_of(cls, name, ttl)
        if arguments is not None:
            return _calling(name, arguments)
    return None


def prolonging_method(cls: type) -> str | None:
    """Return the name of the method that :func:`prolonging` calls; None if there is none."""
    return next((name for name in METHODS if _arguments_of(cls, name, 1.0) is not None), None)


def _arguments_of(cls: type, name: str, ttl: float) -> dict[str, Any] | None:
    method = getattr(cls, name, None)
    return _arguments(method, ttl) if callable(method) else None


def _calling(name: str, arguments: dict[str, Any]) -> Callable[[Any], Any]:
    return lambda lock: getattr(lock, name)(**arguments)


def _arguments(method: Callable[..., Any], ttl: float) -> dict[str, Any] | None:
    """Return the arguments of a method of a class; None if it needs some that are not known."""
    try:
        _, *parameters = inspect.signature(method).parameters.values()
    except ValueError:
        return None
    names = {one.name for one in parameters}
    if {"additional_time", "replace_ttl"} <= names:
        return {"additional_time": ttl, "replace_ttl": True}
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    required = [one.name for one in parameters if one.default is one.empty and one.kind not in variable]
    return dict.fromkeys(required, ttl) if set(required) <= set(TTL_NAMES) else None
