"""Values that Python lacks: keywords, the items of a map as a hashable set, numbers that differ by their type."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any


class Keyword(str):
    """A keyword such as ``:x``; it differs from every string."""

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
    """The items of a map, hashable; it differs from every set."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Items) and frozenset.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(("{}", frozenset.__hash__(self)))


@dataclass(frozen=True, slots=True)
class Exact:
    """A number or truth value that differs from equal values of other types.

    Python takes ``True``, ``1``, ``1.0`` and ``Decimal("1")`` for equal; in JSON and EDN they are four values.
    """

    kind: str
    value: bool | float | Decimal

    @classmethod
    def of(cls, value: bool | float | Decimal) -> Exact:
        return cls(type(value).__name__, value)


def bare(value: Any) -> str:
    """Return the name of a keyword or symbol, or the text itself."""
    return value[:] if isinstance(value, str) else str(value)
