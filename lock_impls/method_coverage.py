"""Methods of a lock's class that the harness calls, and those that exist and are not called.

A method counts as called if the harness calls it, or a called method of the same class does (``self.do_acquire()``).
Of a library's lock behind an adapter, the methods that the adapter's module names count as called.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from .base import LockClass
from .contexts import enters
from .foreign import ForeignClass, optional_methods
from .program import ProgramLock
from .prolonging import prolonging_method

WITH: Final = "with"
"""Stands for the methods of a context manager."""
ENTER_AND_LEAVE: Final = ("__enter__", "__exit__", "__aenter__", "__aexit__")
PAIRS: Final = (("acquire", "release"), ("lock", "unlock"))
"""Methods by which a class of a library is recognised as a lock."""
ADAPTERS: Final = "harness.lock_impls.thirdparty."


@dataclass(frozen=True, slots=True)
class MethodCoverage:
    """The public methods of a class, sorted; ``with`` stands for its context manager."""

    cls: str
    called: tuple[str, ...]
    not_called: tuple[str, ...]


def method_coverage(lock: LockClass) -> tuple[MethodCoverage, ...]:
    """Return the coverage of a lock's class, then that of each lock class of a library which its module uses.

    The result is empty for a lock in another language, whose methods are in its program."""
    cls: Any = lock.cls if isinstance(lock, ForeignClass) else lock
    calls = _calls(lock)
    if not callable(getattr(cls, "open", None)):  # no adapter: the harness opens the class itself
        return (_coverage(cls, calls),)
    if issubclass(cls, ProgramLock):
        return ()
    modules = dict.fromkeys(
        base.__module__ for base in cls.__mro__ if base is cls or base.__module__.startswith(ADAPTERS)
    )
    trees = [(sys.modules[name], ast.parse(inspect.getsource(sys.modules[name]))) for name in modules]
    named = {name for _, tree in trees for name in _named(tree)}.union(calls & {*ENTER_AND_LEAVE})
    behind = dict.fromkeys(found for module, tree in trees for found in _library_locks(module, tree))
    return (_coverage(cls, calls), *(_coverage(found, named) for found in behind))


def _calls(lock: LockClass) -> set[str]:
    """Return the methods of a lock's class that the harness calls."""
    calls = {"acquire", "release", *optional_methods(lock)}
    if "context" in calls:
        calls.update(ENTER_AND_LEAVE)
    if isinstance(lock, ForeignClass) and "extend" in calls and not callable(getattr(lock.cls, "open", None)):
        calls = calls - {"extend"} | {prolonging_method(lock.cls) or "extend"}
    return calls


def _coverage(cls: type, calls: Iterable[str]) -> MethodCoverage:
    called = _with_their_own_calls(cls, calls)
    public = {name for name in dir(cls) if not name.startswith("_") and _is_instance_method(cls, name)}
    entered = {WITH} if enters(cls) else set()
    if called.isdisjoint(ENTER_AND_LEAVE):
        return MethodCoverage(_full_name(cls), _sorted(public & called), _sorted(public - called | entered))
    return MethodCoverage(_full_name(cls), _sorted(public & called | entered), _sorted(public - called))


def _with_their_own_calls(cls: type, names: Iterable[str]) -> set[str]:
    """Return these methods of a class, and those that they call on ``self``, directly or not."""
    found: set[str] = set()
    left = [name for name in names if callable(getattr(cls, name, None))]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += [other for other in _calls_on_self(getattr(cls, name)) if callable(getattr(cls, other, None))]
    return found


def _calls_on_self(method: Any) -> Iterator[str]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(method)))
    except (OSError, TypeError, SyntaxError):  # compiled, or not written as a function
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            yield node.attr


def _is_instance_method(cls: type, name: str) -> bool:
    return inspect.isroutine(inspect.getattr_static(cls, name)) and not isinstance(
        inspect.getattr_static(cls, name), (classmethod, staticmethod)
    )


def _named(tree: ast.Module) -> Iterator[str]:
    """Yield what a module names as an attribute or as a text: the methods that it calls are among that."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _library_locks(module: ModuleType, tree: ast.Module) -> Iterator[type]:
    """Yield the lock classes of libraries that a module uses: ``Lock``, or ``sherlock.RedisLock``."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            used = getattr(module, node.id, None)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            library = getattr(module, node.value.id, None)
            used = getattr(library, node.attr, None) if inspect.ismodule(library) else None
        else:
            continue
        if inspect.isclass(used) and _is_library_lock(used):
            yield used


def _is_library_lock(cls: type) -> bool:
    root = cls.__module__.partition(".")[0]
    if root == "harness" or root in sys.stdlib_module_names:
        return False
    return any(all(callable(getattr(cls, name, None)) for name in pair) for pair in PAIRS)


def _full_name(cls: type) -> str:
    return cls.__qualname__ if cls.__module__.startswith("harness.") else f"{cls.__module__}.{cls.__qualname__}"


def _sorted(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(names))
