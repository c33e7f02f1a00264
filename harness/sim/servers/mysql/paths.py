"""How a statement finds its rows: a unique key, a part of an index, a range, or every row.

InnoDB locks what it reads, so this decides what is locked. Abstracted: the optimizer's statistics; an index that can be
used is used (MariaDB may read a whole small table instead).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from sqlglot import expressions as exp

from harness.sim.servers.mysql.expressions import Compiler, Context, Fn
from harness.sim.servers.mysql.storage import Index, Key, Table
from harness.sim.servers.mysql.values import Column, Value, sort_key, to_moment, to_number

_MIRRORED: Final = {"EQ": "EQ", "LT": "GT", "GT": "LT", "LTE": "GTE", "GTE": "LTE"}
_UNUSABLE: Final = object()


@dataclass(frozen=True, slots=True)
class Condition:
    """A column compared to what does not depend on the row: EQ, LT, LTE, GT, GTE, IN or BETWEEN."""

    column: int
    operator: str
    values: list[Fn]


@dataclass(slots=True)
class Path:
    """``points``: prefixes of keys that are looked up (whole keys of a unique index if ``unique``); else all keys
    between ``low`` and ``high`` (prefixes too; None: no bound), with or without the bounds themselves."""

    index: Index
    points: list[Key] | None = None
    unique: bool = False
    low: Key | None = None
    low_open: bool = False
    high: Key | None = None
    high_open: bool = False

    def inside(self, key: Key) -> bool:
        """Is a key not past the upper bound?"""
        if self.high is None:
            return True
        part = key[: len(self.high)]
        return part < self.high or (part == self.high and not self.high_open)

    def begins(self, key: Key) -> bool:
        """Is a key not before the lower bound?"""
        if self.low is None:
            return True
        part = key[: len(self.low)]
        return part > self.low or (part == self.low and not self.low_open)


@dataclass(slots=True)
class Search:
    """A WHERE: its conditions that an index may serve, and the whole as a test."""

    table: Table
    test: Fn | None
    conditions: list[Condition] = field(default_factory=list)
    constant: bool = False

    def matches(self, c: Context) -> bool:
        value = None if self.test is None else self.test(c)
        return self.test is None or (value is not None and to_number(value) != 0)

    def path(self, c: Context) -> Path | None:
        """The way to the rows; None: there can be none."""
        equal: dict[int, list[Key]] = {}
        low: dict[int, tuple[Any, bool]] = {}
        high: dict[int, tuple[Any, bool]] = {}
        for condition in self.conditions:
            values = [_usable(self.table.columns[condition.column], value(c)) for value in condition.values]
            if _UNUSABLE in values:
                continue
            if None in values and condition.operator != "IN":
                return None
            keys = [sort_key(value) for value in values if value is not None]
            _note(condition, keys, equal, low, high)
        return self._by_points(equal) or self._by_range(low, high) or Path(self.table.clustered)

    def _by_points(self, equal: dict[int, list[Key]]) -> Path | None:
        best: Path | None = None
        for index in self.table.indexes:
            bound = [equal[at] for at in index.columns if at in equal]
            if index.unique and index.columns and len(bound) == len(index.columns):
                return Path(index, _product(bound), unique=True)
            used = 0
            while used < len(index.columns) and index.columns[used] in equal:
                used += 1
            if used and (best is None or best.points is None or used > len(best.points[0])):
                best = Path(index, _product([equal[at] for at in index.columns[:used]]))
        return best

    def _by_range(self, low: dict[int, tuple[Any, bool]], high: dict[int, tuple[Any, bool]]) -> Path | None:
        for index in self.table.indexes:
            first = index.columns[0] if index.columns else -1
            if first in low or first in high:
                path = Path(index)
                if first in low:
                    path.low, path.low_open = (low[first][0],), low[first][1]
                else:  # NULL is never in a range
                    path.low, path.low_open = ((0,),), True
                if first in high:
                    path.high, path.high_open = (high[first][0],), high[first][1]
                return path
        return None


def _product(parts: list[list[Key]]) -> list[Key]:
    found: list[Key] = [()]
    for part in parts:
        found = [(*key, value) for key in found for value in sorted(set(part))]
    return found


def _note(
    condition: Condition,
    keys: list[Key],
    equal: dict[int, list[Key]],
    low: dict[int, tuple[Any, bool]],
    high: dict[int, tuple[Any, bool]],
) -> None:
    column, operator = condition.column, condition.operator
    if operator in ("EQ", "IN"):
        if column not in equal or len(keys) < len(equal[column]):
            equal[column] = keys
    elif operator == "BETWEEN":
        low[column], high[column] = (keys[0], False), (keys[1], False)
    elif operator in ("GT", "GTE"):
        low[column] = (keys[0], operator == "GT")
    else:
        high[column] = (keys[0], operator == "LT")


def _usable(column: Column, value: Value) -> Any:
    """A value as the column's index has it, or ``_UNUSABLE``."""
    if value is None:
        return None
    if column.kind == "text":
        return value if isinstance(value, str) else _UNUSABLE
    if column.kind in ("datetime", "timestamp"):
        moment = to_moment(value)
        return _UNUSABLE if moment is None else moment
    if isinstance(value, datetime):
        return _UNUSABLE
    number = to_number(value)
    if column.kind == "double":
        return float(number)
    if column.kind == "decimal":
        return Decimal(str(number))
    return int(number) if number == int(number) else _UNUSABLE


def search(compiler: Compiler, table: Table, where: Any) -> Search:
    """Compile a WHERE clause (None: there is none)."""
    if where is None:
        return Search(table, None)
    compiler.clause = "where clause"
    found = Search(table, compiler.compile(where.this))
    found.constant = where.find(exp.Column) is None
    _collect(compiler, where.this, found.conditions)
    return found


def _collect(compiler: Compiler, node: Any, into: list[Condition]) -> None:
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.And):
        _collect(compiler, node.this, into)
        _collect(compiler, node.expression, into)
        return
    made = _condition(compiler, node)
    if made is not None:
        into.append(made)


def _condition(compiler: Compiler, node: Any) -> Condition | None:
    name = type(node).__name__
    if name in _MIRRORED:
        left, right = node.this, node.expression
        if isinstance(left, exp.Column) and _fixed([right]):
            return Condition(compiler.column(left), name, compiler.many([right]))
        if isinstance(right, exp.Column) and _fixed([left]):
            return Condition(compiler.column(right), _MIRRORED[name], compiler.many([left]))
    elif name == "In" and isinstance(node.this, exp.Column) and _fixed(node.expressions):
        return Condition(compiler.column(node.this), "IN", compiler.many(node.expressions))
    elif name == "Between" and isinstance(node.this, exp.Column) and _fixed([node.args["low"], node.args["high"]]):
        bounds = compiler.many([node.args["low"], node.args["high"]])
        return Condition(compiler.column(node.this), "BETWEEN", bounds)
    return None


def _fixed(nodes: Sequence[Any]) -> bool:
    """Do these depend on no row?"""
    return all(node.find(exp.Column) is None for node in nodes)
