"""Compiles SQL expressions of PostgreSQL to functions, and infers the types of parameters as PostgreSQL does.

Source: https://www.postgresql.org/docs/15/typeconv.html, for the types in :mod:`.values`. A literal in quotes and a
parameter have no type until the expression around them gives them one.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from sqlglot import expressions as exp

from . import ordered_calls
from .errors import NO_COLUMN, NO_FUNCTION, PgError, unsupported
from .functions import FUNCTIONS, no_function
from .sql import PARAMETER
from .storage import Table, Values
from .values import (
    BOOL,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    INTEGERS,
    INTERVAL,
    NAMES,
    OID,
    TEXT,
    TEXTS,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNKNOWN,
    VARCHAR,
    as_text,
    in_range,
    parse_text,
)


@dataclass(slots=True)
class Context:
    """What an expression is computed from. ``proposed`` is the row of an INSERT that met a conflict."""

    session: Any
    parameters: list[Any]
    results: list[Any] = field(default_factory=list)
    row: Values = ()
    proposed: Values = ()


class Expr(NamedTuple):
    """A compiled expression and its type."""

    value: Callable[[Context], Any]
    oid: int


TYPES: Final = {
    exp.DataType.Type.BIGINT: INT8, exp.DataType.Type.INT: INT4, exp.DataType.Type.SMALLINT: INT2,
    exp.DataType.Type.TEXT: TEXT, exp.DataType.Type.VARCHAR: VARCHAR, exp.DataType.Type.BOOLEAN: BOOL,
    exp.DataType.Type.DOUBLE: FLOAT8, exp.DataType.Type.TIMESTAMP: TIMESTAMP,
    exp.DataType.Type.TIMESTAMPTZ: TIMESTAMPTZ, exp.DataType.Type.INTERVAL: INTERVAL,
}  # fmt: skip
_COMPARISONS: Final[dict[type, Callable[[Any, Any], bool]]] = {
    exp.EQ: operator.eq, exp.NEQ: operator.ne, exp.LT: operator.lt, exp.LTE: operator.le, exp.GT: operator.gt,
    exp.GTE: operator.ge,
}  # fmt: skip
_SYMBOLS: Final = {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_NODES: Final = {
    exp.CurrentTimestamp: "now", exp.CurrentSchema: "current_schema", exp.Upper: "upper", exp.Lower: "lower",
    exp.Length: "length", exp.CurrentVersion: "version",
}  # fmt: skip
"""Functions for which sqlglot has a class."""


def type_of(node: Any) -> int:
    """Return the type that a column definition or a cast names. Raises PgError."""
    found = TYPES.get(node.this)
    if found is None:
        raise unsupported(f"type {node.sql('postgres')}")
    return found


def coerce(found: Expr, oid: int) -> Expr:
    """Return an expression whose value is of a type, as for an assignment or an argument. Raises PgError."""
    value, own = found
    if oid in (own, UNKNOWN):
        return found
    if own == UNKNOWN:
        return Expr(lambda c: None if (text := value(c)) is None else parse_text(text, oid), oid)
    if own in INTEGERS and oid in INTEGERS:
        return Expr(lambda c: None if (number := value(c)) is None else in_range(number, oid), oid)
    if own in INTEGERS and oid == FLOAT8:
        return Expr(lambda c: None if (number := value(c)) is None else float(number), oid)
    if own in TEXTS and oid in TEXTS:
        return Expr(value, oid)
    if own == TIMESTAMP and oid == TIMESTAMPTZ:
        return Expr(lambda c: _aware(value(c)), oid)
    raise PgError("42804", f"{NAMES.get(own, own)} cannot be taken for {NAMES.get(oid, oid)}")


def _aware(value: datetime | None) -> datetime | None:
    return None if value is None else value.replace(tzinfo=UTC)


class Compiler:
    """Compiles the expressions of one statement.

    ``declared`` are the types of parameters that the client has named, 0 for none; ``parameters`` collects all of them.
    ``calls`` collects the calls that lock or wait: (name, arguments).
    """

    def __init__(self, table: Table | None, declared: tuple[int, ...]) -> None:
        self.table = table
        self.alias = ""
        self.parameters: dict[int, int] = {at + 1: oid for at, oid in enumerate(declared) if oid not in (0, UNKNOWN)}
        self.calls: list[tuple[str, list[Expr]]] = []

    def compile(self, node: Any, expected: int = UNKNOWN) -> Expr:
        """Compile an expression; ``expected`` is the type of an untyped parameter. Raises PgError."""
        kind = type(node)
        if kind in _COMPARISONS:
            return self._comparison(node)
        if kind in _NODES:
            arguments = [node.this] if isinstance(node.this, exp.Expression) else []
            return self._function(_NODES[kind], arguments)
        method = _COMPILERS.get(kind)
        if method is None:
            raise unsupported(node.sql("postgres"))
        return method(self, node, expected)

    def _paren(self, node: Any, expected: int) -> Expr:
        return self.compile(node.this, expected)

    def _dot(self, node: Any, expected: int) -> Expr:
        if node.this.name != "pg_catalog":
            raise unsupported(node.sql("postgres"))
        return self.compile(node.expression, expected)

    def _literal(self, node: Any, expected: int) -> Expr:  # noqa: ARG002
        text = str(node.this)
        if node.is_string:
            return Expr(lambda _: text, UNKNOWN)
        if not text.isdigit():
            number = float(text)
            return Expr(lambda _: number, FLOAT8)
        whole = int(text)
        return Expr(lambda _: whole, INT4 if whole < 1 << 31 else INT8)

    def _boolean(self, node: Any, expected: int) -> Expr:  # noqa: ARG002
        value = bool(node.this)
        return Expr(lambda _: value, BOOL)

    def _null(self, node: Any, expected: int) -> Expr:  # noqa: ARG002
        return Expr(lambda _: None, UNKNOWN)

    def _parameter(self, node: Any, expected: int) -> Expr:
        number = int(str(node.this).removeprefix(PARAMETER))
        oid = self.parameters.setdefault(number, TEXT if expected == UNKNOWN else expected)
        return Expr(lambda c: c.parameters[number - 1], oid)

    def _column(self, node: Any, expected: int) -> Expr:  # noqa: ARG002
        table, owner = self.table, node.table
        at = None if table is None else table.column(node.name)
        if table is None or at is None or owner not in ("", table.name, self.alias, "excluded"):
            raise PgError(NO_COLUMN, f'column "{node.name}" does not exist')
        if owner == "excluded":
            return Expr(lambda c: c.proposed[at], table.columns[at].oid)
        return Expr(lambda c: c.row[at], table.columns[at].oid)

    def _interval(self, node: Any, expected: int) -> Expr:  # noqa: ARG002
        unit = node.args.get("unit")
        span = parse_text(f"{node.this.this} {unit.name if unit is not None else ''}", INTERVAL)
        return Expr(lambda _: span, INTERVAL)

    def _cast(self, node: Any, expected: int) -> Expr:  # noqa: ARG002
        oid = type_of(node.args["to"])
        found = self.compile(node.this, oid)
        if oid in TEXTS and found.oid not in TEXTS:
            value, own = found
            return Expr(lambda c: None if (one := value(c)) is None else as_text(one, own), oid)
        if found.oid in TEXTS:
            found = Expr(found.value, UNKNOWN)
        return coerce(found, oid)

    def _negative(self, node: Any, expected: int) -> Expr:
        value, oid = self.compile(node.this, expected)
        return Expr(lambda c: None if (one := value(c)) is None else -one, oid)

    # Operators.

    def pair(self, left: Any, right: Any) -> tuple[Expr, Expr]:
        """Compile two operands; one without a type takes the other's."""
        if isinstance(left, exp.Placeholder):
            second = self.compile(right)
            first = self.compile(left, second.oid)
        else:
            first = self.compile(left)
            second = self.compile(right, first.oid)
        if first.oid == UNKNOWN:
            first = coerce(first, TEXT if second.oid == UNKNOWN else second.oid)
        if second.oid == UNKNOWN:
            second = coerce(second, first.oid)
        return first, second

    def _comparison(self, node: Any) -> Expr:
        compare = _COMPARISONS[type(node)]
        first, second = self.pair(node.this, node.expression)
        if _family(first.oid) != _family(second.oid):
            names = f"{NAMES[first.oid]} {_SYMBOLS[type(node)]} {NAMES[second.oid]}"
            raise PgError(NO_FUNCTION, f"operator does not exist: {names}")
        one, two = first.value, second.value

        def compute(c: Context) -> bool | None:
            left, right = one(c), two(c)
            return None if left is None or right is None else compare(left, right)

        return Expr(compute, BOOL)

    def _arithmetic(self, node: Any, expected: int) -> Expr:  # noqa: ARG002
        first, second = self.pair(node.this, node.expression)
        compute, oid = _arithmetic_of(type(node), first.oid, second.oid)
        one, two = first.value, second.value

        def computed(c: Context) -> Any:
            left, right = one(c), two(c)
            if left is None or right is None:
                return None
            return in_range(compute(left, right), oid) if oid in INTEGERS else compute(left, right)

        return Expr(computed, oid)

    def _concatenation(self, node: Any, expected: int) -> Expr:  # noqa: ARG002
        (one, left), (two, right) = self.compile(node.this, TEXT), self.compile(node.expression, TEXT)

        def compute(c: Context) -> str | None:
            first, second = one(c), two(c)
            return None if first is None or second is None else as_text(first, left) + as_text(second, right)

        return Expr(compute, TEXT)

    def condition(self, node: Any) -> Callable[[Context], Any]:
        """Compile a condition. Raises PgError if it is no boolean."""
        found = self.compile(node, BOOL)
        if found.oid not in (BOOL, UNKNOWN):
            raise PgError("42804", f"argument must be type boolean, not type {NAMES[found.oid]}")
        return coerce(found, BOOL).value

    def _and(self, node: Any, expected: int) -> Expr:  # noqa: ARG002
        one, two = self.condition(node.this), self.condition(node.expression)

        def compute(c: Context) -> bool | None:
            left = one(c)
            right = False if left is False else two(c)
            return False if right is False else None if left is None or right is None else True

        return Expr(compute, BOOL)

    def _or(self, node: Any, expected: int) -> Expr:  # noqa: ARG002
        one, two = self.condition(node.this), self.condition(node.expression)

        def compute(c: Context) -> bool | None:
            left = one(c)
            right = True if left else two(c)
            return True if right else None if left is None or right is None else False

        return Expr(compute, BOOL)

    def _not(self, node: Any, expected: int) -> Expr:  # noqa: ARG002
        value = self.condition(node.this)
        return Expr(lambda c: None if (one := value(c)) is None else not one, BOOL)

    def _is(self, node: Any, expected: int) -> Expr:  # noqa: ARG002
        value, _ = self.compile(node.this)
        other, _ = self.compile(node.expression)
        negated = bool(node.args.get("negate"))
        return Expr(lambda c: (value(c) is other(c)) is not negated, BOOL)

    def _in(self, node: Any, expected: int) -> Expr:  # noqa: ARG002
        if not node.expressions:
            raise unsupported(node.sql("postgres"))
        pairs = [self.pair(node.this, item) for item in node.expressions]

        def compute(c: Context) -> bool | None:
            found = [None if None in (left := one(c), right := two(c)) else left == right for one, two in values]
            return True if True in found else None if None in found else False

        values = [(one.value, two.value) for one, two in pairs]
        return Expr(compute, BOOL)

    def _coalesce(self, node: Any, expected: int) -> Expr:
        items = [self.compile(item, expected) for item in (node.this, *node.expressions)]
        oid = next((item.oid for item in items if item.oid != UNKNOWN), TEXT)
        values = [coerce(item, oid).value for item in items]
        return Expr(lambda c: next((one for value in values if (one := value(c)) is not None), None), oid)

    # Functions.

    def _anonymous(self, node: Any, expected: int) -> Expr:  # noqa: ARG002
        return self._function(str(node.this).lower(), node.expressions)

    def _function(self, name: str, nodes: list[Any]) -> Expr:
        waiting = ordered_calls.signature(name, len(nodes))
        if waiting is not None:
            arguments = self._arguments(name, nodes, waiting[0])
            self.calls.append((name, arguments))
            at = len(self.calls) - 1
            return Expr(lambda c: c.results[at], waiting[1])
        found = FUNCTIONS.get((name, len(nodes)))
        if found is None:
            types = ", ".join(NAMES[self.compile(node).oid] for node in nodes)
            raise no_function(name, types, lacks=f"the SQL function {name}({types})")
        values = [argument.value for argument in self._arguments(name, nodes, found.arguments)]

        def compute(c: Context) -> Any:
            given = [value(c) for value in values]
            return None if found.strict and None in given else found.call(c.session, *given)

        return Expr(compute, found.result)

    def _arguments(self, name: str, nodes: list[Any], oids: tuple[int, ...]) -> list[Expr]:
        found = [self.compile(node, oid) for node, oid in zip(nodes, oids, strict=True)]
        try:
            return [coerce(one, oid) for one, oid in zip(found, oids, strict=True)]
        except PgError as error:
            if error.state != "42804":
                raise
            raise no_function(name, ", ".join(NAMES[one.oid] for one in found)) from error


def _family(oid: int) -> int:
    if oid in INTEGERS or oid == FLOAT8:
        return INT8
    return TEXT if oid in TEXTS else TIMESTAMPTZ if oid == TIMESTAMP else oid


def _quotient(left: int, right: int) -> int:
    if right == 0:
        raise PgError("22012", "division by zero")
    found = abs(left) // abs(right)
    return found if (left < 0) == (right < 0) else -found


def _remainder(left: int, right: int) -> int:
    return left - right * _quotient(left, right)


def _arithmetic_of(kind: type, left: int, right: int) -> tuple[Callable[[Any, Any], Any], int]:
    """Return (the function, the type of its result) of an operator on two types. Raises PgError."""
    whole: dict[type, Callable[[Any, Any], Any]] = {
        exp.Add: operator.add, exp.Sub: operator.sub, exp.Mul: operator.mul, exp.Div: _quotient, exp.Mod: _remainder,
    }  # fmt: skip
    if left in INTEGERS and right in INTEGERS and OID not in (left, right):
        return whole[kind], max(left, right, key=(INT2, INT4, INT8).index)
    numbers = (*INTEGERS, FLOAT8)
    if left in numbers and right in numbers and kind is not exp.Mod:
        return {**whole, exp.Div: operator.truediv}[kind], FLOAT8
    moments = (TIMESTAMPTZ, TIMESTAMP, INTERVAL)
    if left in moments and right == INTERVAL and kind in (exp.Add, exp.Sub):
        return whole[kind], left
    if left == right and left in moments and kind is exp.Sub:
        return operator.sub, INTERVAL
    if kind is exp.Mul and INTERVAL in (left, right) and (left in numbers or right in numbers):
        return operator.mul, INTERVAL
    raise PgError(NO_FUNCTION, f"operator does not exist: {NAMES[left]} {kind.__name__} {NAMES[right]}")


_COMPILERS: Final[dict[type, Callable[[Compiler, Any, int], Expr]]] = {
    exp.Paren: Compiler._paren, exp.Dot: Compiler._dot, exp.Literal: Compiler._literal,
    exp.Boolean: Compiler._boolean, exp.Null: Compiler._null, exp.Placeholder: Compiler._parameter,
    exp.Column: Compiler._column, exp.Interval: Compiler._interval, exp.Cast: Compiler._cast,
    exp.Neg: Compiler._negative, exp.And: Compiler._and, exp.Or: Compiler._or, exp.Not: Compiler._not,
    exp.Is: Compiler._is, exp.In: Compiler._in, exp.Coalesce: Compiler._coalesce,
    exp.Anonymous: Compiler._anonymous, exp.DPipe: Compiler._concatenation,
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod), Compiler._arithmetic),
}  # fmt: skip
