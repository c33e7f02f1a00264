"""Read the descriptions of locks without importing their files, which import client libraries.

A lock's ``info`` is an expression of constants and small functions, of its own file or of others of ours. Only those
are evaluated: the names in the expression, then the names in their definitions, and so on. So ``harness list`` shows
every lock, whatever is installed.
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

PACKAGE: Final = __package__
_REAL: Final = ("harness.lock_impls.base", "harness.errors")
"""Our modules that import no client library; they are imported as they are."""


def infos_in(module: str) -> dict[str, LockInfo]:
    """Return the descriptions of the classes of one of our lock files, by the class's name.

    Raises:
        DescriptionError: a description needs a name of a client library.
    """
    source = _source(module)
    classes = {name: node for name, node in source.definitions.items() if isinstance(node, ast.ClassDef)}
    own = {name: source.value(name) for name, node in classes.items() if _info_of(node) is not None}
    return {name: found.info for name, found in own.items() if isinstance(found.info, LockInfo)}


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
            node = _only_info(node)
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


def _info_of(node: ast.ClassDef) -> ast.stmt | None:
    return next((line for line in node.body if "info" in _defined_names(line) and getattr(line, "value", None)), None)


def _only_info(node: ast.ClassDef) -> ast.ClassDef:
    """Return the class without its bases and without everything but its ``info``."""
    bare = ast.parse(f"class {node.name}: pass").body[0]
    assert isinstance(bare, ast.ClassDef)
    bare.body = [_info_of(node) or ast.Pass(lineno=1, col_offset=0)]
    return bare


def _names_in(node: ast.AST) -> set[str]:
    """Return the names that a definition reads, apart from those in annotations, which are never evaluated."""
    found = {node.id} if isinstance(node, ast.Name) else set()
    for field, value in ast.iter_fields(node):
        if field not in ("annotation", "returns"):
            parts = value if isinstance(value, list) else [value]
            found |= {name for part in parts if isinstance(part, ast.AST) for name in _names_in(part)}
    return found
