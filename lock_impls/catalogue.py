"""Find locks by name: every class of this package and of ``thirdparty`` that has an ``info``. There is no list of
locks.

Names and descriptions are read without importing anything (:mod:`.descriptions`), so they are there for every lock.
Finding a lock reads and imports its file alone, and needs the client library that the file imports.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import pkgutil
import re
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final

from harness.errors import MISSING, MissingLibrary
from harness.plugins import Registry

from . import foreign
from .base import LockClass, LockInfo, LockLookupError
from .descriptions import infos_in

PACKAGES = ("harness.lock_impls", "harness.lock_impls.thirdparty")


class UnknownLockError(LockLookupError):
    """No lock has the requested name; ``nearest`` are the most similar names."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        self.name = name
        self.nearest = tuple(difflib.get_close_matches(name, known, 3, 0.5))
        hint = f"did you mean {' or '.join(self.nearest)}?" if self.nearest else f"there are: {', '.join(known)}"
        module = name.removesuffix(".py")
        if Path(f"{module}.py").is_file():
            hint = f"the class in {module}.py is given as {module}:Class"
        elif name.endswith(".toml") and Path(name).is_file():
            hint = f"a plan is run by 'harness replay {name}'"
        else:
            hint += " (a class of your own is given as package.module:Class)"
        super().__init__(f"no lock is called {name!r}; {hint}")


class MissingClientLibraryError(LockLookupError, MissingLibrary):
    """The lock's file exists, but the client library that it uses is not installed."""

    exit_status = MISSING

    def __init__(self, info: LockInfo, library: str) -> None:
        self.name = info.name
        self.library = library
        super().__init__(
            f"{info.name} needs the Python module {library!r}, which is not installed: {installation(info)}"
        )


class UnsuitableReleaseError(LockLookupError):
    """The lock's file cannot be imported with the releases of its client library that are installed."""

    def __init__(self, info: LockInfo, error: Exception) -> None:
        self.name = info.name
        found = [f"{name} {version}" for name, version in _installed_releases(info).items() if version]
        super().__init__(
            f"{info.name} cannot be loaded with {' and '.join(found)}: {type(error).__name__}: {error}; "
            f"it requires {', '.join(info.requires)}"
        )


def _installed_releases(info: LockInfo) -> dict[str, str]:
    """Return the installed release of each distribution that a lock requires, "" for one that is not installed."""
    found = {}
    for requirement in info.requires:
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = ""
    return found


def _lookup_error(info: LockInfo, error: Exception) -> Exception:
    """Return the error for a lock whose file cannot be imported."""
    absent = isinstance(error, ModuleNotFoundError) and "." not in (error.name or "") and not _within_library(error)
    releases = _installed_releases(info)
    if releases and all(releases.values()) and not absent:
        return UnsuitableReleaseError(info, error)
    if isinstance(error, ModuleNotFoundError):
        return MissingClientLibraryError(info, error.name or str(error))
    return error


def _within_library(error: Exception) -> bool:
    """Return whether an installed library raised the error, rather than a file of ours."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    files = [frame.f_code.co_filename for frame in frames if not frame.f_globals["__name__"].startswith("harness.")]
    return any("site-packages" in file or "dist-packages" in file for file in files)


def installation(info: LockInfo) -> str:
    """Return the command that installs what a lock requires."""
    pinned = any("==" in one for one in info.requires)
    service = info.kinds[0].partition("-")[0]
    wanted = info.requires if pinned or service == "redis" else (f"lock-harness[{service}]",)
    return " ".join(["pip install", *(f"'{one}'" for one in wanted)])


class _Own(Mapping[str, LockClass]):
    """Our own locks by name. Looking one up imports its file alone."""

    def __getitem__(self, name: str) -> LockClass:
        lock = own_description(name)
        if lock is None:
            raise KeyError(name)
        try:
            found: LockClass = getattr(importlib.import_module(lock.module), lock.cls)
        except Exception as error:
            raise _lookup_error(lock.info, error) from error
        return found

    def __contains__(self, name: object) -> bool:
        """Return whether there is such a lock, also where its library is not installed."""
        return isinstance(name, str) and own_description(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(all_descriptions())

    def __len__(self) -> int:
        return len(all_descriptions())


LOCKS: Final[Registry[LockClass]] = Registry(
    "lock", "locks", _Own(), foreign.usable, unknown=lambda name, known: UnknownLockError(name, tuple(sorted(known)))
)


def resolve(name: str) -> LockClass:
    """Return the lock for a name (ours, or an entry point's), or for ``package.module:Class``; raises UsageError."""
    return LOCKS.find(name)


def find(name: str) -> LockClass:
    """Return our lock called ``name``; raises :class:`UnknownLockError` or :class:`MissingClientLibraryError`."""
    found = LOCKS.own.get(name)
    if found is None:
        raise UnknownLockError(name, names())
    return found


def description(name: str) -> LockInfo:
    """Return the description of the lock that :func:`resolve` finds. One of ours needs no client library for that."""
    own = own_description(name)
    return resolve(name).info if own is None else own.info


def own_description(name: str) -> LockDescription | None:
    """Return the description of our lock called ``name``, None if there is none."""
    return _in_its_file(name) or all_descriptions().get(name)


def names() -> tuple[str, ...]:
    """Names of all locks, sorted."""
    return tuple(all_descriptions())


def infos() -> tuple[LockInfo, ...]:
    """Descriptions of all locks, in the order of :func:`names`."""
    return tuple(lock.info for lock in all_descriptions().values())


def unavailable() -> dict[str, str]:
    """Map each lock whose file cannot be imported to the error, which says what to install."""
    missing: dict[str, str] = {}
    for name in names():
        try:
            LOCKS.own[name]
        except LockLookupError as error:
            missing[name] = str(error)
    return missing


@dataclass(frozen=True, slots=True)
class LockDescription:
    """The description of a lock, with its module and class."""

    info: LockInfo
    module: str
    cls: str


@cache
def all_descriptions() -> dict[str, LockDescription]:
    """Return the descriptions of all our locks by name, sorted, without importing the locks."""
    found = {lock.info.name: lock for module in _module_names() for lock in _descriptions_in(module)}
    return dict(sorted(found.items()))


def _descriptions_in(module: str) -> list[LockDescription]:
    return [LockDescription(info, module, cls) for cls, info in infos_in(module).items()]


@cache
def _in_its_file(name: str) -> LockDescription | None:
    """Return the description of a lock that is in the file of its name (with ``_`` for ``-``), as nearly all are.

    Reading all files takes a tenth of a second, which every run would wait for."""
    stem = name.replace("-", "_")
    files = [f"{package}.{stem}" for package in PACKAGES if stem.isidentifier() and _exists(package)]
    return next(
        (lock for file in files if _exists(file) for lock in _descriptions_in(file) if lock.info.name == name), None
    )


def _module_names() -> Iterator[str]:
    for package in filter(_exists, PACKAGES):
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
            if not module.ispkg:
                yield module.name


def _exists(module_name: str) -> bool:
    return importlib.util.find_spec(module_name) is not None
