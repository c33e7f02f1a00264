"""What has to be in a client's container for a lock: distributions, or a folder."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path

from ..errors import UsageError
from .wheelhouse import DISTRIBUTION, LIBRARIES, PACKAGES, ROOT, origin

PRESENT = frozenset({DISTRIBUTION, *LIBRARIES})
"""What every client image has."""


def requirements_of(lock: str) -> tuple[tuple[str, ...], Path | None]:
    """Distributions to install, and the folder to put on ``PYTHONPATH``, for a lock as a user gives it.

    A catalogue name and a class of ours need what their modules import, and no folder. For
    ``package.module:Class`` of an installed distribution, that distribution. For plain source (of the working
    directory, or anywhere on ``sys.path``, or installed in editable mode) the folder above its top-level package or
    module, and the distributions that the source imports.

    Raises:
        UsageError: there is no such module.
    """
    module, is_class, _ = lock.partition(":")
    top = module.partition(".")[0]
    if not is_class:
        return _new(tuple(_distributions(_imported_by(_adapter_of(lock))))), None
    if top in PACKAGES:  # the client has it, but not all that its adapters of libraries import
        return _new(tuple(_distributions(_imported_by(module)))), None
    installed = _distribution_of(top)
    if installed is not None and not origin(installed).get("dir_info", {}).get("editable"):
        return _new((installed.name,)), None
    folder = _folder_of(top, lock)
    return _new(tuple(_distributions(_imported(module, folder)))), folder


def _adapter_of(name: str) -> str:
    """The module that a catalogue lock around another library stands in, empty for any other name."""
    files = sorted((ROOT / "lock_impls" / "thirdparty").glob("*.py"))
    stem = next((path.stem for path in files if f'name="{name}"' in path.read_text(encoding="utf-8")), None)
    return f"lock_impls.thirdparty.{stem}" if stem else ""


def _imported_by(module: str) -> set[str]:
    """Top-level names that a module of ours imports itself."""
    path = _file_of(module, ROOT)
    return set() if path is None else {name.partition(".")[0] for name in _names(path, module)} - set(PACKAGES)


def _distributions(imported: set[str]) -> set[str]:
    return {name for found in imported if (name := _name_of(found))}


def _new(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(set(names) - PRESENT))


def _distribution_of(top: str) -> metadata.Distribution | None:
    names = _owners().get(top)
    return metadata.distribution(names[0]) if names else None


@cache
def _owners() -> Mapping[str, list[str]]:
    """Top-level name → distributions; reading all that is installed takes 0.1 s."""
    return metadata.packages_distributions()


def _name_of(top: str) -> str | None:
    found = _distribution_of(top)
    return found.name if found else None


def _folder_of(top: str, lock: str) -> Path:
    here = str(Path.cwd())
    if here not in sys.path:  # as lock_impls.foreign does: a console script does not look into the working directory
        sys.path.insert(0, here)
    spec = importlib.util.find_spec(top)
    if spec is None:
        raise UsageError(f"{lock}: there is no module {top!r} (looked in {here} and sys.path)")
    if top in sys.stdlib_module_names:
        raise UsageError(f"{lock}: {top} is part of Python itself and has no lock to test")
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations))).resolve().parent
    if spec.origin is None or not Path(spec.origin).is_file():
        raise UsageError(f"{lock}: the module {top} has no source file that a container could be given")
    return Path(spec.origin).resolve().parent


# What source imports


def _imported(module: str, folder: Path) -> set[str]:
    """Top-level names outside ``folder`` that a module imports, itself or through other modules in ``folder``.

    Read from the text: importing would run the user's code, and miss what it imports later.
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
            wanted += [parent] if parent else []  # importing a module runs its packages first
            wanted += _names(path, name)
        elif _file_of(name.partition(".")[0], folder) is None:
            outside.add(name.partition(".")[0])
    return outside - sys.stdlib_module_names - set(PACKAGES)


def _file_of(module: str, folder: Path) -> Path | None:
    stem = folder.joinpath(*module.split("."))
    candidates = (stem / "__init__.py", stem.with_name(f"{stem.name}.py"))
    return next((path for path in candidates if path.is_file()), None)


def _names(path: Path, module: str) -> Iterator[str]:
    """All that a file imports, by full names; ``from a import b`` is both ``a`` and ``a.b``, which may be a module."""
    try:
        tree = ast.parse(path.read_bytes())
    except SyntaxError:  # loading the lock says so better
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
