"""Read the descriptions of locks without importing their files, which import client libraries.

A lock's ``info`` and ``origin`` are expressions of constants and small functions, of its own file or of others of ours.
Only those are evaluated: the names in the expression, then the names in their definitions, and so on. So ``harness
list`` shows every lock, whatever is installed.
"""

from __future__ import annotations
import __future__

import ast
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from .base import LockInfo
from .origins import Origin

PACKAGE: Final = __package__
_REAL: Final = ("harness.lock_impls.base", "harness.lock_impls.origins", "harness.errors")
"""Our modules that import no client library; they are imported as they are."""
_DESCRIBING: Final = ("info", "origin")
"""The attributes of a class that describe it."""


def infos_in(module: str) -> dict[str, LockInfo]:
    """Return the descriptions of the classes of one of our lock files, by the class's name.

    Raises:
        DescriptionError: a description needs a name of a client library.
    """
    own = _stated(module, "info")
    return {name: info for name, info in own.items() if isinstance(info, LockInfo)}


def origins_in(module: str) -> dict[str, Origin]:
    """Return what the classes of one of our lock files state as their ``origin``, by the class's name.

    Raises:
        DescriptionError: there is no such file, or an origin needs a name of a client library.
    """
    own = _stated(module, "origin")
    return {name: origin for name, origin in own.items() if isinstance(origin, Origin)}


def methods_in(module: str, name: str) -> frozenset[str]:
    """Return the names of the methods of a class of one of our lock files, with those of its bases in our files.

    Raises:
        DescriptionError: there is no such file.
    """
    return frozenset(_methods(_source(module), name))


def _methods(source: _Source, name: str) -> Iterator[str]:
    node = source.definitions.get(name)
    if isinstance(node, ast.ImportFrom):
        module = importlib.util.resolve_name("." * node.level + (node.module or ""), source.package)
        if module.startswith(f"{PACKAGE}."):
            yield from _methods(_source(module), name)
    if isinstance(node, ast.ClassDef):
        yield from (one.name for one in node.body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
        for base in node.bases:
            if isinstance(base, ast.Name):
                yield from _methods(source, base.id)


def _stated(module: str, attribute: str) -> dict[str, Any]:
    """Return an attribute of the classes of a file whose own body has it, by the class's name."""
    source = _source(module)
    classes = [node for node in source.definitions.values() if isinstance(node, ast.ClassDef)]
    stating = [node.name for node in classes if any(attribute in _defined_names(line) for line in _describing(node))]
    return {name: getattr(source.value(name), attribute) for name in stating}


class DescriptionError(ImportError):
    """A description cannot be read without importing a client library."""


class _Source:
    """The definitions of one file by name, of which those that were needed so far are evaluated in ``names``."""

    def __init__(self, module: str, path: Path, is_package: bool) -> None:
        self.module = module
        self.package = module if is_package else module.rpartition(".")[0]
        self.names: dict[str, Any] = {"__name__": module, "__file__": str(path)}
        tree = ast.parse(path.read_bytes())
        self.definitions: dict[str, ast.stmt] = {name: node for node in tree.body for name in _defined_names(node)}

    def value(self, name: str) -> Any:
        if name not in self.names:
            self._evaluate(name, self.definitions[name])
        return self.names[name]

    def _evaluate(self, name: str, node: ast.stmt) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            self.names[name] = self._imported(name, node)
            return
        if isinstance(node, ast.ClassDef):
            node = _only_description(node)
        for needed in _names_in(node):
            if needed in self.definitions and needed != name:
                self.value(needed)
        code = compile(
            ast.Module([node], []), self.names["__file__"], "exec", __future__.annotations.compiler_flag, True
        )
        exec(code, self.names)

    def _imported(self, name: str, node: ast.Import | ast.ImportFrom) -> Any:
        alias = next(one for one in node.names if (one.asname or one.name.partition(".")[0]) == name)
        if isinstance(node, ast.Import):
            return self._module(alias.name if alias.asname else name)
        relative = "." * node.level + (node.module or "")
        origin = importlib.util.resolve_name(relative, self.package)
        if origin.startswith(f"{PACKAGE}.") and origin not in _REAL:
            return _source(origin).value(alias.name)
        return getattr(self._module(origin), alias.name)

    def _module(self, name: str) -> ModuleType:
        if name in _REAL or name.partition(".")[0] in sys.stdlib_module_names:
            return importlib.import_module(name)
        raise DescriptionError(f"a description in {self.module} needs {name}, so it cannot be read without it")


@cache
def _source(module: str) -> _Source:
    found = importlib.util.find_spec(module)
    if found is None or found.origin is None:
        raise DescriptionError(f"there is no file of {module}")
    return _Source(module, Path(found.origin), found.submodule_search_locations is not None)


def _defined_names(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement of a module defines."""
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name))


def _describing(node: ast.ClassDef) -> list[ast.stmt]:
    """Return the statements of a class that give it a description."""
    return [line for line in node.body if not {*_DESCRIBING}.isdisjoint(_defined_names(line)) and _has_value(line)]


def _has_value(line: ast.stmt) -> bool:
    return getattr(line, "value", None) is not None


def _only_description(node: ast.ClassDef) -> ast.ClassDef:
    """Return the class without its bases and without everything but its description."""
    bare = ast.parse(f"class {node.name}: pass").body[0]
    assert isinstance(bare, ast.ClassDef)
    bare.body = _describing(node) or [ast.Pass(lineno=1, col_offset=0)]
    return bare


def _names_in(node: ast.AST) -> set[str]:
    """Return the names that a definition reads, apart from those in annotations, which are never evaluated."""
    found = {node.id} if isinstance(node, ast.Name) else set()
    for field, value in ast.iter_fields(node):
        if field not in ("annotation", "returns"):
            parts = value if isinstance(value, list) else [value]
            found |= {name for part in parts if isinstance(part, ast.AST) for name in _names_in(part)}
    return found
