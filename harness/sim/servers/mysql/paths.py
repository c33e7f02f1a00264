"""Chooses how a statement finds its rows: by a unique key, a prefix of an index, a range of an index, or a full scan.

InnoDB locks the records that it reads, so this choice decides what is locked. Abstracted: the optimizer's statistics.
A usable index is always used; MariaDB may scan a small table instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from sqlglot import expressions as exp

from .expressions import Compiler, Context, Fn
from .storage import Key, SqlTable, TableIndex
from .values import ColumnDefinition, Value, sort_key, to_datetime, to_number

_MIRRORED: Final = {"EQ": "EQ", "LT": "GT", "GT": "LT", "LTE": "GTE", "GTE": "LTE"}
_UNUSABLE: Final = object()


@dataclass(frozen=True, slots=True)
class Condition:
    """A comparison of a column with values that do not depend on the row: EQ, LT, LTE, GT, GTE, IN or BETWEEN."""

    column: int
    operator: str
    values: list[Fn]


@dataclass(slots=True)
class AccessPath:
    """A way to find rows through an index.

    With ``points``, these prefixes of keys are looked up (complete keys of a unique index if ``unique``). Otherwise all
    keys from ``low`` to ``high`` are read; both are prefixes, or None for no bound, and excluded if ``low_open`` or
    ``high_open``.
    """

    index: TableIndex
    points: list[Key] | None = None
    unique: bool = False
    low: Key | None = None
    low_open: bool = False
    high: Key | None = None
    high_open: bool = False

    def inside(self, key: Key) -> bool:
        """Return whether a key is within the upper bound."""
        if self.high is None:
            return True
        part = key[: len(self.high)]
        return part < self.high or (part == self.high and not self.high_open)

    def begins(self, key: Key) -> bool:
        """Return whether a key is within the lower bound."""
        if self.low is None:
            return True
        part = key[: len(self.low)]
        return part > self.low or (part == self.low and not self.low_open)


@dataclass(slots=True)
class WhereClause:
    """A compiled WHERE clause: the complete test, and the conditions for which an index may be used.

    ``constant``: the clause names no column.
    """

    table: SqlTable
    test: Fn | None
    conditions: list[Condition] = field(default_factory=list)
    constant: bool = False

    def matches(self, c: Context) -> bool:
        """Return whether the present row of ``c`` satisfies the clause."""
        value = None if self.test is None else self.test(c)
        return self.test is None or (value is not None and to_number(value) != 0)

    def path(self, c: Context) -> AccessPath | None:
        """Choose the access path; None if no row can match."""
        equal: dict[int, list[Key]] = {}
        low: dict[int, tuple[Any, bool]] = {}
        high: dict[int, tuple[Any, bool]] = {}
        for condition in self.conditions:
            values = [_index_value(self.table.columns[condition.column], value(c)) for value in condition.values]
            if _UNUSABLE in values:
                continue
            if None in values and condition.operator != "IN":
                return None
            keys = [sort_key(value) for value in values if value is not None]
            _add_bounds(condition, keys, equal, low, high)
        return self._by_points(equal) or self._by_range(low, high) or AccessPath(self.table.clustered)

    def _by_points(self, equal: dict[int, list[Key]]) -> AccessPath | None:
        best: AccessPath | None = None
        for index in self.table.indexes:
            bound = [equal[at] for at in index.columns if at in equal]
            if index.unique and index.columns and len(bound) == len(index.columns):
                return AccessPath(index, _product(bound), unique=True)
            used = 0
            while used < len(index.columns) and index.columns[used] in equal:
                used += 1
            if used and (best is None or best.points is None or used > len(best.points[0])):
                best = AccessPath(index, _product([equal[at] for at in index.columns[:used]]))
        return best

    def _by_range(self, low: dict[int, tuple[Any, bool]], high: dict[int, tuple[Any, bool]]) -> AccessPath | None:
        for index in self.table.indexes:
            first = index.columns[0] if index.columns else -1
            if first in low or first in high:
                path = AccessPath(index)
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


def _add_bounds(
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


def _index_value(column: ColumnDefinition, value: Value) -> Any:
    """Convert a value to the type of the column's index, or return ``_UNUSABLE`` if that is not possible exactly."""
    if value is None:
        return None
    if column.kind == "text":
        return value if isinstance(value, str) else _UNUSABLE
    if column.kind in ("datetime", "timestamp"):
        moment = to_datetime(value)
        return _UNUSABLE if moment is None else moment
    if isinstance(value, datetime):
        return _UNUSABLE
    number = to_number(value)
    if column.kind == "double":
        return float(number)
    if column.kind == "decimal":
        return Decimal(str(number))
    return int(number) if number == int(number) else _UNUSABLE


def compile_where(compiler: Compiler, table: SqlTable, where: Any) -> WhereClause:
    """Compile a WHERE clause; ``where`` is None if the statement has none. Raises SqlError."""
    if where is None:
        return WhereClause(table, None)
    compiler.clause = "where clause"
    found = WhereClause(table, compiler.compile(where.this))
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
        if isinstance(left, exp.Column) and _are_constant([right]):
            return Condition(compiler.column(left), name, compiler.many([right]))
        if isinstance(right, exp.Column) and _are_constant([left]):
            return Condition(compiler.column(right), _MIRRORED[name], compiler.many([left]))
    elif name == "In" and isinstance(node.this, exp.Column) and _are_constant(node.expressions):
        return Condition(compiler.column(node.this), "IN", compiler.many(node.expressions))
    elif (
        name == "Between" and isinstance(node.this, exp.Column) and _are_constant([node.args["low"], node.args["high"]])
    ):
        bounds = compiler.many([node.args["low"], node.args["high"]])
        return Condition(compiler.column(node.this), "BETWEEN", bounds)
    return None


def _are_constant(nodes: Sequence[Any]) -> bool:
    """Return whether the expressions name no column."""
    return all(node.find(exp.Column) is None for node in nodes)
