"""Names of Redis scripts: those of the constants in the lock's source that have the script's text."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_MOST_BYTES: Final = 1 << 20
_SHORTEST: Final = 12
"""Number of characters from which on a text may be a script."""


def script_names(sources: Mapping[Path, str]) -> dict[str, str]:
    """Return names by the SHA-1 of the script. Scripts are searched in these files, and in the files of their packages
    that they import from."""
    found: dict[str, str] = {}
    for path, text in sources.items():
        tree = _parsed(text)
        for other in [path, *_imported(path, tree)]:
            for name, script in _constants(tree if other is path else _parsed(_text(other))):
                found.setdefault(sha1(script.encode()), name)
    return found


def sha1(script: bytes) -> str:
    return hashlib.sha1(script, usedforsecurity=False).hexdigest()


def _parsed(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8") if path.stat().st_size <= _MOST_BYTES else ""
    except (OSError, ValueError):
        return ""


def _imported(path: Path, tree: ast.Module) -> Iterator[Path]:
    """Yield the files of the same package that a module imports from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 1:
            yield path.parent.joinpath(*node.module.split(".")).with_suffix(".py")
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("harness.lock_impls."):
            yield path.parent.parent / f"{node.module.rpartition('.')[2]}.py"


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        value = getattr(node, "value", None)
        if not isinstance(node, ast.Assign | ast.AnnAssign) or not isinstance(value, ast.Constant):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            name = (
                target.id if isinstance(target, ast.Name) else target.attr if isinstance(target, ast.Attribute) else ""
            )
            if name and isinstance(value.value, str) and len(value.value) >= _SHORTEST:
                yield name, value.value
