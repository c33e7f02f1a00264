"""Names of Redis scripts: those of the constants in the lock's source that have the script's text."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

_MOST_BYTES: Final = 1 << 20
_IMPORT: Final = re.compile(r"^from (?:\.(\w[\w.]*)|harness\.lock_impls\.(\w[\w.]*)) import ", re.MULTILINE)
_SHORTEST: Final = 12
"""Number of characters from which on a text may be a script."""


def script_names(texts: Iterable[str]) -> dict[str, str]:
    """Return names by the SHA-1 of the script. Scripts are searched in these texts of source files."""
    found: dict[str, str] = {}
    for text in texts:
        for name, script in _constants(_parsed(text)):
            found.setdefault(sha1(script.encode()), name)
    return found


def imported_texts(path: Path, text: str) -> Iterator[str]:
    """Yield the texts of the files of its package that a source file imports from. The search is quick: it is part of
    each run."""
    for match in _IMPORT.finditer(text):
        near, ours = match.groups()
        if near:
            yield _text(path.parent.joinpath(*near.split(".")).with_suffix(".py"))
        else:
            yield _text(path.parent.parent / f"{ours.rpartition('.')[2]}.py")


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
