"""Compiles SQL expressions, given as sqlglot trees, to Python functions that are called for each row.

Source: https://mariadb.com/kb/en/operators/ (three-valued logic, conversions). Not supported: subqueries, windows,
GROUP BY, bit operators, CASE. These fail with error 1235, unknown functions with 1305.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any, Final, Protocol

from sqlglot import expressions as exp

from .errors import ILLEGAL_TYPE, SqlError
from .operators import BINARY, minus, plus, shift_datetime
from .values import ColumnDefinition, Value, as_text, compare, is_true, to_datetime, to_number

PARAMETER: Final = "\x01"
"""First character of a string literal that stands for a text of the statement, followed by its number: see
:mod:`.sql`."""


class SessionContext(Protocol):
    """The session, as SQL functions see it."""

    number: int
    last_insert_id: int
    row_count: int
    database: str | None

    def wall_ns(self) -> int: ...

    def variable(self, name: str, scope: str) -> Value: ...

    def named(self, function: str, args: Sequence[Value]) -> Value:
        """Call a function of named locks that does not wait, such as RELEASE_LOCK."""


class Context:
    """The input of an expression's evaluation.

    ``texts`` are the string literals of the statement, ``row`` is the present row, ``new`` the row that was to be
    inserted (for VALUES()), ``rows`` are all rows (for aggregates such as COUNT), ``ordered_results`` the results of
    :attr:`Compiler.ordered_calls`.
    """

    __slots__ = ("env", "moment_ns", "new", "ordered_results", "row", "rows", "texts")

    def __init__(self, env: SessionContext, texts: Sequence[str]) -> None:
        self.env = env
        self.texts = texts
        self.moment_ns = env.wall_ns()
        self.row: Sequence[Value] = ()
        self.new: Sequence[Value] = ()
        self.rows: list[Sequence[Value]] = []
        self.ordered_results: list[Value] = []


Fn = Callable[[Context], Value]
"""A compiled expression."""
Function = Callable[..., Value]
"""Called with the context and the arguments' values."""


class Compiler:
    """Compiles the expressions of one statement over one table.

    ``names`` are the qualifiers that its columns may have; ``functions`` gives for each SQL function its implementation
    and the least and greatest number of arguments. All methods raise SqlError for what is unknown or unsupported.
    """

    def __init__(
        self, columns: Sequence[ColumnDefinition], names: Sequence[str], functions: dict[str, tuple[Function, int, int]]
    ) -> None:
        self.columns = columns
        self._names = {name.lower() for name in names}
        self._index = {column.name.lower(): at for at, column in enumerate(columns)}
        self._functions = functions
        self.clause = "field list"
        self.aggregated = False
        self.ordered_calls: list[tuple[str, list[Fn]]] = []
        """Calls that are executed before the rest, in this order, because they wait or use named locks: name and
        arguments."""

    @property
    def waits(self) -> bool:
        """True if an expression calls a function that waits."""
        return any(name in WAITING_FUNCTIONS for name, _ in self.ordered_calls)

    def column(self, node: exp.Expression) -> int:
        """Return the index of the column that a node names."""
        table = node.args.get("table")
        name = node.name
        found = self._index.get(name.lower())
        if found is None or (table is not None and table.name.lower() not in self._names):
            raise SqlError(1054, f"{table.name}.{name}" if table is not None else name, self.clause)
        return found

    def compile(self, node: Any) -> Fn:
        """Compile one expression."""
        kind = type(node).__name__
        method = getattr(self, f"_{kind.lower()}", None)
        if method is not None:
            made: Fn = method(node)
            return made
        if kind in BINARY:
            return self._binary(BINARY[kind], node)
        if isinstance(node, exp.Func):
            args = [node.args.get("this"), node.args.get("expression"), *node.expressions]
            return self._call(_RENAMED.get(kind, kind.upper()), args)
        raise SqlError(1235, node.sql("mysql") if isinstance(node, exp.Expression) else str(node))

    def many(self, nodes: Sequence[Any]) -> list[Fn]:
        """Compile several expressions."""
        return [self.compile(node) for node in nodes]

    # Columns, literals and variables.

    def _column(self, node: exp.Column) -> Fn:
        if isinstance(node.this, exp.Star):
            raise SqlError(1064, "*")
        at = self.column(node)
        return lambda c: c.row[at]

    def _identifier(self, node: exp.Identifier) -> Fn:
        at = self.column(node)
        return lambda c: c.row[at]

    def _literal(self, node: exp.Literal) -> Fn:
        text = node.this
        if node.is_string:
            if text.startswith(PARAMETER):
                at = int(text[1:])
                return lambda c: c.texts[at]
            return lambda c: text  # noqa: ARG005
        value: Value = int(text) if text.isdigit() else float(text) if "e" in text.lower() else Decimal(text)
        return lambda c: value  # noqa: ARG005

    def _null(self, node: exp.Null) -> Fn:  # noqa: ARG002
        return lambda c: None  # noqa: ARG005

    def _boolean(self, node: exp.Boolean) -> Fn:
        value = int(node.this)
        return lambda c: value  # noqa: ARG005

    def _sessionparameter(self, node: exp.SessionParameter) -> Fn:
        name, scope = node.name.lower(), str(node.args.get("kind") or "").lower()
        return lambda c: c.env.variable(name, scope)

    # Operators.

    def _paren(self, node: exp.Paren) -> Fn:
        return self.compile(node.this)

    def _alias(self, node: exp.Alias) -> Fn:
        return self.compile(node.this)

    def _binary(self, operator: Callable[[Value, Value], Value], node: exp.Expression) -> Fn:
        left, right = self.compile(node.args["this"]), self.compile(node.args["expression"])
        return lambda c: operator(left(c), right(c))

    def _add(self, node: exp.Expression) -> Fn:
        return self._added(node, 1)

    def _sub(self, node: exp.Expression) -> Fn:
        return self._added(node, -1)

    def _added(self, node: exp.Expression, sign: int) -> Fn:
        right = node.args["expression"]
        if isinstance(right, exp.Interval):
            return self._shift(node.this, right.this, right.args.get("unit"), sign)
        if isinstance(node.this, exp.Interval):
            return self._shift(right, node.this.this, node.this.args.get("unit"), sign)
        return self._binary(plus if sign > 0 else minus, node)

    def _dateadd(self, node: exp.Expression) -> Fn:
        return self._shift(node.this, node.args["expression"], node.args.get("unit"), 1)

    def _datesub(self, node: exp.Expression) -> Fn:
        return self._shift(node.this, node.args["expression"], node.args.get("unit"), -1)

    def _shift(self, moment: Any, amount: Any, unit: Any, sign: int) -> Fn:
        if isinstance(amount, exp.Interval):
            amount, unit = amount.this, amount.args.get("unit")
        scale = _UNITS.get(unit.name.upper() if unit is not None else "")
        if scale is None:
            raise SqlError(1235, f"INTERVAL {unit}")
        base, size = self.compile(moment), self.compile(amount)
        return lambda c: shift_datetime(base(c), size(c), scale * sign)

    def _neg(self, node: exp.Neg) -> Fn:
        inner = self.compile(node.this)
        return lambda c: minus(0, value) if (value := inner(c)) is not None else None

    def _not(self, node: exp.Not) -> Fn:
        inner = self.compile(node.this)
        return lambda c: None if (truth := is_true(inner(c))) is None else int(not truth)

    def _and(self, node: exp.And) -> Fn:
        left, right = self.compile(node.this), self.compile(node.expression)

        def both(c: Context) -> Value:
            first = is_true(left(c))
            if first is False:
                return 0
            second = is_true(right(c))
            return 0 if second is False else None if first is None or second is None else 1

        return both

    def _or(self, node: exp.Or) -> Fn:
        left, right = self.compile(node.this), self.compile(node.expression)

        def either(c: Context) -> Value:
            first = is_true(left(c))
            if first:
                return 1
            second = is_true(right(c))
            return 1 if second else None if first is None or second is None else 0

        return either

    def _is(self, node: exp.Is) -> Fn:
        inner = self.compile(node.this)
        if isinstance(node.expression, exp.Null):
            return lambda c: int(inner(c) is None)
        if isinstance(node.expression, exp.Boolean):
            wanted = bool(node.expression.this)
            return lambda c: int(is_true(inner(c)) is wanted)
        raise SqlError(1235, node.sql("mysql"))

    def _nullsafeeq(self, node: exp.Expression) -> Fn:
        left, right = self.compile(node.args["this"]), self.compile(node.args["expression"])

        def same(c: Context) -> Value:
            a, b = left(c), right(c)
            return int(a is None and b is None) if a is None or b is None else int(compare(a, b) == 0)

        return same

    def _in(self, node: exp.In) -> Fn:
        if not node.expressions:
            raise SqlError(1235, node.sql("mysql"))
        inner, options = self.compile(node.this), self.many(node.expressions)

        def among(c: Context) -> Value:
            value = inner(c)
            found = [compare(value, option(c)) for option in options]
            return 1 if 0 in found else None if None in found else 0

        return among

    def _between(self, node: exp.Between) -> Fn:
        inner, low, high = self.many([node.this, node.args["low"], node.args["high"]])

        def inside(c: Context) -> Value:
            value = inner(c)
            left, right = compare(value, low(c)), compare(value, high(c))
            if (left is not None and left < 0) or (right is not None and right > 0):
                return 0
            return None if left is None or right is None else 1

        return inside

    def _if(self, node: exp.If) -> Fn:
        test, then, other = self.compile(node.this), self.compile(node.args["true"]), self.compile(node.args["false"])
        return lambda c: then(c) if is_true(test(c)) else other(c)

    def _case(self, node: exp.Case) -> Fn:
        raise SqlError(1235, node.sql("mysql"))

    def _coalesce(self, node: exp.Coalesce) -> Fn:
        options = self.many([node.this, *node.expressions])
        return lambda c: next((value for option in options if (value := option(c)) is not None), None)

    def _cast(self, node: exp.Cast) -> Fn:
        inner, kind = self.compile(node.this), node.to.this.name
        if kind in ("BIGINT", "INT", "UBIGINT", "UINT"):
            return lambda c: None if (value := inner(c)) is None else int(to_number(value))
        if kind in ("CHAR", "VARCHAR", "TEXT"):
            return lambda c: None if (value := inner(c)) is None else as_text(value)
        if kind in ("DATETIME", "TIMESTAMP"):
            return lambda c: to_datetime(inner(c))
        raise SqlError(1235, node.sql("mysql"))

    def _timestampdiff(self, node: exp.TimestampDiff) -> Fn:
        scale = _UNITS.get(node.args["unit"].name.upper())
        if scale is None:
            raise SqlError(1235, node.sql("mysql"))
        later, earlier = self.compile(node.this), self.compile(node.expression)

        def between(c: Context) -> Value:
            a, b = to_datetime(later(c)), to_datetime(earlier(c))
            if a is None or b is None:
                return None
            micros = (a - b) // timedelta(microseconds=1)
            return micros // scale if micros >= 0 else -(-micros // scale)

        return between

    # Aggregate functions.

    def _over_rows(self, node: exp.Expression) -> Fn:
        inner = self.compile(node.this)
        self.aggregated = True

        def values(c: Context) -> list[Value]:
            found: list[Value] = []
            for row in c.rows:
                c.row = row
                if (value := inner(c)) is not None:
                    found.append(value)
            return found

        return values  # type: ignore[return-value]

    def _count(self, node: exp.Count) -> Fn:
        self.aggregated = True
        if isinstance(node.this, exp.Star):
            return lambda c: len(c.rows)
        values: Any = self._over_rows(node)
        return lambda c: len(values(c))

    def _max(self, node: exp.Max) -> Fn:
        return self._extreme(node, 1)

    def _min(self, node: exp.Min) -> Fn:
        return self._extreme(node, -1)

    def _extreme(self, node: exp.Expression, sign: int) -> Fn:
        values: Any = self._over_rows(node)

        def best(c: Context) -> Value:
            chosen: Value = None
            for value in values(c):
                if chosen is None or (compare(value, chosen) or 0) * sign > 0:
                    chosen = value
            return chosen

        return best

    def _sum(self, node: exp.Sum) -> Fn:
        values: Any = self._over_rows(node)

        def total(c: Context) -> Value:
            numbers = [to_number(value) for value in values(c)]
            if not numbers:
                return None
            if any(isinstance(number, float) for number in numbers):
                return float(sum(float(number) for number in numbers))
            return Decimal(sum(Decimal(number) for number in numbers))

        return total

    # Other functions.

    def _anonymous(self, node: exp.Anonymous) -> Fn:
        name = str(node.this).upper()
        if name == "VALUES" and len(node.expressions) == 1:
            at = self.column(node.expressions[0])
            return lambda c: c.new[at]
        return self._call(name, node.expressions)

    def _call(self, name: str, nodes: Sequence[Any]) -> Fn:
        args = self.many([node for node in nodes if node is not None])
        if name not in self._functions:
            raise SqlError(1305, name)
        function, least, most = self._functions[name]
        if not least <= len(args) <= most:
            raise SqlError(1582, name)
        if (name == "GET_LOCK" or name in NAMED_LOCK_FUNCTIONS) and args and nodes[0].is_number:
            raise SqlError(ILLEGAL_TYPE, "int" if nodes[0].is_int else "decimal", name.lower())
        if name in WAITING_FUNCTIONS or (name in NAMED_LOCK_FUNCTIONS and not self.columns):
            self.ordered_calls.append((name, args))
            at = len(self.ordered_calls) - 1
            return lambda c: c.ordered_results[at]
        return lambda c: function(c, *[arg(c) for arg in args])


WAITING_FUNCTIONS: Final = frozenset({"GET_LOCK", "SLEEP"})
NAMED_LOCK_FUNCTIONS: Final = frozenset({"RELEASE_LOCK", "RELEASE_ALL_LOCKS", "IS_FREE_LOCK", "IS_USED_LOCK"})
"""They must see what a GET_LOCK before them in the same statement did, and not what one after them does."""
_UNITS: Final = {
    "MICROSECOND": 1, "SECOND": 10**6, "MINUTE": 60 * 10**6, "HOUR": 3600 * 10**6, "DAY": 86400 * 10**6,
    "WEEK": 7 * 86400 * 10**6,
}  # fmt: skip
_RENAMED: Final = {
    "UnixToTime": "FROM_UNIXTIME",
    "CurrentTimestamp": "NOW",
    "CurrentDatetime": "NOW",
    "UtcTimestamp": "UTC_TIMESTAMP",
    "CurrentVersion": "VERSION",
    "CurrentSchema": "DATABASE",
    "CurrentDatabase": "DATABASE",
    "CurrentUser": "USER",
    "SessionUser": "USER",
}
