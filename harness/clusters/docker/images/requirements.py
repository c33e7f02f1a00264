"""Find out what a lock needs in a client's container: Python distributions to install, or a folder of sources."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path

from harness.errors import MissingLibrary, UsageError
from harness.plugins import search_working_directory

from .wheelhouse import DISTRIBUTION, LIBRARIES, PACKAGE, ROOT, origin

PRESENT = frozenset({DISTRIBUTION, *LIBRARIES})
"""Distributions that every client image contains."""
WITH_LOCKS = (f"{PACKAGE}.lock_impls.", f"{PACKAGE}.scenarios.locks.")
"""Modules of ours with locks, or with what several locks share, begin like this."""


def requirements_of(lock: str) -> tuple[tuple[str, ...], Path | None]:
    """Return the distributions to install in a client image, and the folder to put on its ``PYTHONPATH``, for a lock as
    a user gives it: those of :func:`imported_distributions` that not every image contains."""
    names, folder = imported_distributions(lock)
    return tuple(name for name in names if name not in _in_every_image()), folder


@cache
def _in_every_image() -> frozenset[str]:
    """Return :data:`PRESENT`, and what these distributions require themselves."""
    from packaging.requirements import Requirement  # late: environments of locks load this module, and do not have it

    found: set[str] = set()
    wanted = list(PRESENT - {DISTRIBUTION})  # clients have this project without most of its requirements
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        with suppress(metadata.PackageNotFoundError):
            distribution = metadata.distribution(name)
            found |= {name, distribution.name}
            requirements = map(Requirement, distribution.requires or ())
            wanted += [one.name for one in requirements if one.marker is None or one.marker.evaluate({"extra": ""})]
    return frozenset(found | PRESENT)


def imported_distributions(lock: str) -> tuple[tuple[str, ...], Path | None]:
    """Return the distributions that a lock imports, sorted, and the folder of its source.

    A catalogue name or a class of ours needs the imports of its module and of the locks that it builds on, and no
    folder. ``package.module:Class`` of an installed distribution needs that distribution. Plain source (in the working
    directory, anywhere on ``sys.path``, or installed in editable mode) needs the folder above its top-level package or
    module, and the distributions that it imports.

    Raises:
        UsageError: there is no such module.
    """
    module, is_class, _ = lock.partition(":")
    top = module.partition(".")[0]
    if not is_class:
        return _distributions_of(_imported_by(_adapter_of(lock))), None
    if top == PACKAGE:  # clients have this project, but not all libraries that its adapters import
        return _distributions_of(_imported_by(module)), None
    installed = _distribution_of(top)
    if installed is not None and not origin(installed).get("dir_info", {}).get("editable"):
        return (installed.name,), None
    folder = _folder_of(top, lock)
    return _distributions_of(_foreign_imports(module, folder)), folder


def source_file(lock: str) -> Path | None:
    """Return the file of a ``package.module:Class``; None for a catalogue name and for what is not Python source.

    Raises:
        UsageError: there is no such module.
    """
    module, is_class, _ = lock.partition(":")
    if not is_class:
        return None
    top = module.partition(".")[0]
    return _file_of(module, ROOT if top == PACKAGE else _folder_of(top, lock))


@cache
def _adapter_of(name: str) -> str:
    """Return the module of a catalogue lock that adapts another library; "" for any other name."""
    files = sorted((ROOT / PACKAGE / "lock_impls" / "thirdparty").glob("*.py"))
    stem = next((path.stem for path in files if f'name="{name}"' in path.read_text(encoding="utf-8")), None)
    return f"harness.lock_impls.thirdparty.{stem}" if stem else ""


@cache
def _imported_by(module: str) -> frozenset[str]:
    """Return the top-level names that one of our modules imports, itself or through other modules with locks of
    ours."""
    found: set[str] = set()
    seen: set[str] = set()
    wanted = [module]
    while wanted:
        name = wanted.pop()
        path = None if name in seen else _file_of(name, ROOT)
        seen.add(name)
        if path is not None:
            imported = list(_names(path, name))
            wanted += [one for one in imported if one.startswith(WITH_LOCKS)]
            found.update(one.partition(".")[0] for one in imported)
    return frozenset(found - {PACKAGE})


def _distributions_of(imported: Set[str]) -> tuple[str, ...]:
    return tuple(sorted({name for found in imported if (name := _name_of(found))} - {DISTRIBUTION}))


def _distribution_of(top: str) -> metadata.Distribution | None:
    names = _owners().get(top)
    return metadata.distribution(names[0]) if names else None


@cache
def _owners() -> Mapping[str, list[str]]:
    """Return the distributions by top-level name. Cached, since reading all installed ones takes 0.1 s."""
    return metadata.packages_distributions()


@cache
def _name_of(top: str) -> str | None:
    found = _distribution_of(top)
    return found.name if found else None


def _folder_of(top: str, lock: str) -> Path:
    here = search_working_directory()
    spec = importlib.util.find_spec(top)
    if spec is None:
        raise MissingLibrary(f"{lock}: there is no module {top!r} (looked in {here} and sys.path)")
    if top in sys.stdlib_module_names:
        raise UsageError(f"{lock}: {top} is part of Python itself and has no lock to test")
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations))).resolve().parent
    if spec.origin is None or not Path(spec.origin).is_file():
        raise UsageError(f"{lock}: the module {top} has no source file that a container could be given")
    return Path(spec.origin).resolve().parent


# Imports of a source file


def _foreign_imports(module: str, folder: Path) -> set[str]:
    """Return top-level names outside ``folder`` that a module imports, itself or through other modules in ``folder``.

    The source text is read, because importing would run the user's code and would miss later imports.
    """
    outside: set[str] = set()
    seen: set[str] = set()
    wanted = [module]
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        path = _file_of(name, folder)
        if path is not None:
            parent, _, _ = name.rpartition(".")
            wanted += [parent] if parent else []  # importing a module runs its parent packages first
            wanted += _names(path, name)
        elif _file_of(name.partition(".")[0], folder) is None:
            outside.add(name.partition(".")[0])
    return outside - sys.stdlib_module_names - {PACKAGE}


def _file_of(module: str, folder: Path) -> Path | None:
    stem = folder.joinpath(*module.split("."))
    candidates = (stem / "__init__.py", stem.with_name(f"{stem.name}.py"))
    return next((path for path in candidates if path.is_file()), None)


def _names(path: Path, module: str) -> Iterator[str]:
    """Yield the full names that a file imports. ``from a import b`` gives ``a`` and ``a.b``, which may be a module."""
    try:
        tree = ast.parse(path.read_bytes())
    except SyntaxError:  # loading the lock reports it better
        return
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
