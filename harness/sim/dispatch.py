"""Build replacements that act on simulated hosts and call the real function or class everywhere else."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from types import FunctionType, MethodType
from typing import Any

from greenlet import getcurrent

from .kernel import Task

Virtual = Callable[..., Any]
"""A simulated function. Its first argument is the task that calls it; the others are those of the real function."""
Replacement = tuple[Any, str, Any]
"""(module or class, attribute, value while a simulation runs)."""


def dispatch(real: Callable[..., Any], virtual: Virtual) -> Callable[..., Any]:
    """Return a function that calls ``virtual`` if a simulated task runs, and ``real`` otherwise."""

    @wraps(real)
    def either(*args: Any, **kwargs: Any) -> Any:
        task = getcurrent()
        if type(task) is Task:
            return virtual(task, *args, **kwargs)
        return real(*args, **kwargs)

    return either


class NotBound(staticmethod):  # type: ignore[type-arg]  # at run time it takes no arguments
    """A function that a class can hold as it holds a built-in one: calls on an instance do not pass the instance."""

    def __reduce__(self) -> str:
        """Copies are the function itself, as of every function."""
        return self.__qualname__


def bound_alike(new: Any, real: Any) -> Any:
    """Return the replacement ``new`` such that a class which holds it passes instances to it only if it does so to
    ``real``."""
    binds = hasattr(type(real), "__get__") and not isinstance(real, MethodType)
    return NotBound(new) if isinstance(new, FunctionType) and not binds else new


def dispatch_new(real: Any, simulated: type) -> Any:
    """Return a replacement of ``real`` that creates an instance of ``simulated`` if a simulated task runs.

    ``real`` is a class or a function that creates objects: ``threading.Lock`` is a function until Python 3.12 and a
    class since 3.13. The replacement of a class passes as a class: ``isinstance`` and ``|`` work with it.
    """
    either = dispatch(real, lambda task, *args, **kwargs: simulated(*args, **kwargs))  # noqa: ARG005
    if not isinstance(real, type):
        return either
    body = {"stands_for": (real, simulated), "__new__": lambda cls, *args, **kwargs: either(*args, **kwargs)}  # noqa: ARG005
    return StandsForClasses(real.__name__, (), body)


class StandsForClasses(type):
    """Metaclass of a class that stands for a real and a simulated class: their instances pass ``isinstance``."""

    stands_for: tuple[type, ...]

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.stands_for)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.stands_for)
