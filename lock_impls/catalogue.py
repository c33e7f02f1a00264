"""Finds the locks: every class of this package (and of ``thirdparty``) with an ``info``. Nothing lists them.

A lock stands in the file of its name, with ``_`` for ``-``, so that finding one imports that file alone. A file may
hold more locks; they are found by looking through all files.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import pkgutil
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

from lock_impls import foreign
from lock_impls.base import LockClass, LockInfo, LockLookupError

PACKAGES = ("lock_impls", "lock_impls.thirdparty")


class UnknownLockError(LockLookupError):
    """No lock has that name; ``nearest`` are the names most like it."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        self.name = name
        self.nearest = tuple(difflib.get_close_matches(name, known, 3, 0.5))
        hint = f"did you mean {' or '.join(self.nearest)}?" if self.nearest else f"there are: {', '.join(known)}"
        super().__init__(f"no lock is called {name!r}; {hint} (a class of your own is given as package.module:Class)")


class MissingClientLibraryError(LockLookupError):
    """The lock's file is there, and the client library it is written with is not installed."""

    def __init__(self, name: str, library: str) -> None:
        self.name = name
        self.library = library
        super().__init__(f"{name} needs the Python module {library!r}, which is not installed")


def resolve(name: str) -> LockClass:
    """The lock that a user asked for: a catalogue name, or ``package.module:Class``."""
    return foreign.load(name) if ":" in name else find(name)


def find(name: str) -> LockClass:
    """The lock called ``name``; raises :class:`UnknownLockError` or :class:`MissingClientLibraryError`."""
    module = _module_named(name)
    own = _locks_of(module) if module else {}
    found = own.get(name) or _all().get(name)
    if found is None:
        raise UnknownLockError(name, names())
    return found


def names() -> tuple[str, ...]:
    """Of all locks whose client library is installed, sorted."""
    return tuple(sorted(_all()))


def infos() -> tuple[LockInfo, ...]:
    """What the locks say about themselves, in the order of :func:`names`."""
    return tuple(_all()[name].info for name in names())


def unavailable() -> dict[str, str]:
    """File name of each lock that cannot be imported here (with ``-`` for ``_``) → the module that it misses."""
    missing: dict[str, str] = {}
    for module_name in _module_names():
        try:
            importlib.import_module(module_name)
        except ImportError as error:
            missing[_lock_name(module_name)] = error.name or str(error)
    return missing


def _module_named(name: str) -> ModuleType | None:
    stem = name.replace("-", "_")
    if not stem.isidentifier():
        return None
    for package in PACKAGES:
        if _exists(package) and _exists(f"{package}.{stem}"):
            try:
                return importlib.import_module(f"{package}.{stem}")
            except ModuleNotFoundError as error:
                raise MissingClientLibraryError(name, error.name or str(error)) from error
    return None


@cache
def _all() -> dict[str, LockClass]:
    found: dict[str, LockClass] = {}
    absent = unavailable()
    for module_name in _module_names():
        if _lock_name(module_name) not in absent:
            found.update(_locks_of(importlib.import_module(module_name)))
    return found


def _module_names() -> Iterator[str]:
    for package in filter(_exists, PACKAGES):
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
            if not module.ispkg:
                yield module.name


def _locks_of(module: ModuleType) -> dict[str, LockClass]:
    own: list[Any] = [kind for kind in vars(module).values() if getattr(kind, "__module__", "") == module.__name__]
    return {kind.info.name: kind for kind in own if isinstance(getattr(kind, "info", None), LockInfo)}


def _lock_name(module_name: str) -> str:
    return module_name.rpartition(".")[2].replace("_", "-")


def _exists(module_name: str) -> bool:
    return importlib.util.find_spec(module_name) is not None
