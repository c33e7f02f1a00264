"""Parts of Markdown documents: texts of strangers stay texts there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

_MARKED: Final = re.compile(r"([\\`*_{}\[\]<>#|~@])")
_FENCE: Final = re.compile(r"`+")


def escaped(text: str) -> str:
    """Return a text on one line, whose characters have no meaning as Markdown; nobody is mentioned by it."""
    return _MARKED.sub(r"\\\1", " ".join(text.split()))


def code(text: str) -> str:
    """Return a text on one line as inline code."""
    line = " ".join(text.split())
    fence = _longer_fence(line, 1)
    return f"{fence} {line} {fence}" if "`" in line else f"`{line}`"


def block(lines: Iterable[str], language: str = "") -> list[str]:
    """Return the lines of a code block; a fence within the text does not end it."""
    listed = list(lines)
    fence = _longer_fence("\n".join(listed), 3)
    return [f"{fence}{language}", *listed, fence]


def _longer_fence(text: str, least: int) -> str:
    longest = max((len(found[0]) for found in _FENCE.finditer(text)), default=0)
    return "`" * max(least, longest + 1)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table; the cells are Markdown already."""
    return [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}", *(f"| {' | '.join(row)} |" for row in rows)]
