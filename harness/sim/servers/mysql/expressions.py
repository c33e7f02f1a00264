"""Expressions of SQL as Python functions: sqlglot's tree is walked once, and the function called for each row.

Source: https://mariadb.com/kb/en/operators/ (three-valued logic, conversions). Abstracted: subqueries, windows, GROUP
BY, bits, CASE. What is not known fails with error 1235 or 1305.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Protocol

from sqlglot import expressions as exp

from harness.sim.servers.mysql.errors import SqlError
from harness.sim.servers.mysql.values import Column, Value, as_text, compare, is_true, to_moment, to_number

PARAMETER: Final = "\x01"
"""A string that begins so stands for a text of the statement, by its number: see mysql_sql."""
_LOW, _HIGH = -(1 << 63), (1 << 63) - 1


class Surroundings(Protocol):
    """What a function may ask of the session it runs in."""

    number: int
    last_insert_id: int
    row_count: int
    database: str | None

    def wall_ns(self) -> int: ...

    def variable(self, name: str, scope: str) -> Value: ...

    def named(self, function: str, args: Sequence[Value]) -> Value:
        """GET_LOCK's siblings, which do not wait."""


class Context:
    """What an expression is worked out over. ``new`` is the row that was to be inserted (for VALUES()), ``rows`` all
    rows (for COUNT and its like), ``waited`` what the functions that wait have returned."""

    __slots__ = ("env", "moment_ns", "new", "row", "rows", "texts", "waited")

    def __init__(self, env: Surroundings, texts: Sequence[str]) -> None:
        self.env = env
        self.texts = texts
        self.moment_ns = env.wall_ns()
        self.row: Sequence[Value] = ()
        self.new: Sequence[Value] = ()
        self.rows: list[Sequence[Value]] = []
        self.waited: list[Value] = []


Fn = Callable[[Context], Value]
Function = Callable[..., Value]
"""Called with the context and the arguments' values."""


class Compiler:
    """Makes functions of the expressions of one statement over one table."""

    def __init__(
        self, columns: Sequence[Column], names: Sequence[str], functions: dict[str, tuple[Function, int, int]]
    ) -> None:
        self.columns = columns
        self._names = {name.lower() for name in names}
        self._index = {column.name.lower(): at for at, column in enumerate(columns)}
        self._functions = functions
        self.clause = "field list"
        self.aggregated = False
        self.waiting: list[tuple[str, list[Fn]]] = []
        """The functions that wait, in order: name and arguments."""

    def column(self, node: exp.Expression) -> int:
        """The number of the column that a node names."""
        table = node.args.get("table")
        name = node.name
        found = self._index.get(name.lower())
        if found is None or (table is not None and table.name.lower() not in self._names):
            raise SqlError(1054, f"{table.name}.{name}" if table is not None else name, self.clause)
        return found

    def compile(self, node: Any) -> Fn:
        kind = type(node).__name__
        method = getattr(self, f"_{kind.lower()}", None)
        if method is not None:
            made: Fn = method(node)
            return made
        if kind in _BINARY:
            return self._binary(_BINARY[kind], node)
        if isinstance(node, exp.Func):
            args = [node.args.get("this"), node.args.get("expression"), *node.expressions]
            return self._call(_RENAMED.get(kind, kind.upper()), args)
        raise SqlError(1235, node.sql("mysql") if isinstance(node, exp.Expression) else str(node))

    def many(self, nodes: Sequence[Any]) -> list[Fn]:
        return [self.compile(node) for node in nodes]

    # Leaves.

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
        return self._binary(_plus if sign > 0 else _minus, node)

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
        return lambda c: _moved(base(c), size(c), scale * sign)

    def _neg(self, node: exp.Neg) -> Fn:
        inner = self.compile(node.this)
        return lambda c: _minus(0, value) if (value := inner(c)) is not None else None

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
            return lambda c: to_moment(inner(c))
        raise SqlError(1235, node.sql("mysql"))

    def _timestampdiff(self, node: exp.TimestampDiff) -> Fn:
        scale = _UNITS.get(node.args["unit"].name.upper())
        if scale is None:
            raise SqlError(1235, node.sql("mysql"))
        later, earlier = self.compile(node.this), self.compile(node.expression)

        def between(c: Context) -> Value:
            a, b = to_moment(later(c)), to_moment(earlier(c))
            if a is None or b is None:
                return None
            micros = (a - b) // timedelta(microseconds=1)
            return micros // scale if micros >= 0 else -(-micros // scale)

        return between

    # Functions of all rows.

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
        if name in WAITING:
            if len(args) != WAITING[name]:
                raise SqlError(1582, name)
            self.waiting.append((name, args))
            at = len(self.waiting) - 1
            return lambda c: c.waited[at]
        if name not in self._functions:
            raise SqlError(1305, name)
        function, least, most = self._functions[name]
        if not least <= len(args) <= most:
            raise SqlError(1582, name)
        return lambda c: function(c, *[arg(c) for arg in args])


WAITING: Final = {"GET_LOCK": 2, "SLEEP": 1}
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


def _moved(base: Value, amount: Value, micros: int) -> Value:
    moment = to_moment(base)
    if moment is None or amount is None:
        return None
    shifted = moment + timedelta(microseconds=int(Decimal(str(to_number(amount))) * micros))
    return shifted if isinstance(base, datetime) else as_text(shifted)


def _checked(value: int | Decimal | float, sign: str) -> Value:
    if isinstance(value, int) and not _LOW <= value <= _HIGH:
        raise SqlError(1690, "BIGINT", sign)
    return value


def _arithmetic(sign: str, of: Callable[[Any, Any], Any]) -> Callable[[Value, Value], Value]:
    def operator(left: Value, right: Value) -> Value:
        if left is None or right is None:
            return None
        a, b = to_number(left), to_number(right)
        if isinstance(a, float) or isinstance(b, float):
            a, b = float(a), float(b)
        return _checked(of(a, b), sign)

    return operator


def _divided(a: Any, b: Any) -> Any:
    if not b:
        return None
    if isinstance(a, float):
        return a / b
    exponent = Decimal(a).as_tuple().exponent
    assert isinstance(exponent, int)
    return (Decimal(a) / Decimal(b)).quantize(Decimal(1).scaleb(min(exponent, 0) - 4))


def _remainder(a: Any, b: Any) -> Any:
    if not b:
        return None
    rest = abs(a) % abs(b)
    return -rest if a < 0 else rest


def _whole(a: Any, b: Any) -> Any:
    if not b:
        return None
    quotient = abs(Decimal(str(a))) // abs(Decimal(str(b)))
    return int(quotient if (a < 0) == (b < 0) else -quotient)


_plus = _arithmetic("+", lambda a, b: a + b)
_minus = _arithmetic("-", lambda a, b: a - b)


def _comparison(test: Callable[[int], bool]) -> Callable[[Value, Value], Value]:
    return lambda left, right: None if (order := compare(left, right)) is None else int(test(order))


_BINARY: Final[dict[str, Callable[[Value, Value], Value]]] = {
    "Mul": _arithmetic("*", lambda a, b: a * b),
    "Div": _arithmetic("/", _divided),
    "Mod": _arithmetic("%", _remainder),
    "IntDiv": _arithmetic("DIV", _whole),
    "EQ": _comparison(lambda order: order == 0),
    "NEQ": _comparison(lambda order: order != 0),
    "LT": _comparison(lambda order: order < 0),
    "LTE": _comparison(lambda order: order <= 0),
    "GT": _comparison(lambda order: order > 0),
    "GTE": _comparison(lambda order: order >= 0),
}
