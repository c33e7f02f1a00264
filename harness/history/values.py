"""Values that Python has no type for: keywords, and what maps hold, which is no set."""

from __future__ import annotations

from typing import Any


class Keyword(str):
    """``:x``, which no text equals."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keyword) and str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((":", self[:]))

    def __str__(self) -> str:
        return ":" + self[:]

    __repr__ = __str__


class Items(frozenset[Any]):
    """The keys of a map with their values, as something that sets can hold; no set equals it."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Items) and frozenset.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(("{}", frozenset.__hash__(self)))


def bare(value: Any) -> str:
    """The name that ``value`` is, be it a keyword, a symbol or text."""
    return value[:] if isinstance(value, str) else str(value)
