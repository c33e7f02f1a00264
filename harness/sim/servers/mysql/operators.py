"""Operators of SQL on values: arithmetic, comparison, and the addition of an interval to a time.

Source: https://mariadb.com/kb/en/operators/. NULL as an operand, or a division by zero, gives NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from .errors import SqlError
from .values import Value, as_text, compare, to_datetime, to_number

_LOW, _HIGH = -(1 << 63), (1 << 63) - 1


def shift_datetime(base: Value, amount: Value, micros: int) -> Value:
    moment = to_datetime(base)
    if moment is None or amount is None:
        return None
    shifted = moment + timedelta(microseconds=int(Decimal(str(to_number(amount))) * micros))
    return shifted if isinstance(base, datetime) else as_text(shifted)


def _check_range(value: int | Decimal | float, sign: str) -> Value:
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
        return _check_range(of(a, b), sign)

    return operator


def _divide(a: Any, b: Any) -> Any:
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


plus = _arithmetic("+", lambda a, b: a + b)
minus = _arithmetic("-", lambda a, b: a - b)


def _comparison(test: Callable[[int], bool]) -> Callable[[Value, Value], Value]:
    return lambda left, right: None if (order := compare(left, right)) is None else int(test(order))


BINARY: Final[dict[str, Callable[[Value, Value], Value]]] = {
    "Mul": _arithmetic("*", lambda a, b: a * b),
    "Div": _arithmetic("/", _divide),
    "Mod": _arithmetic("%", _remainder),
    "IntDiv": _arithmetic("DIV", _whole),
    "EQ": _comparison(lambda order: order == 0),
    "NEQ": _comparison(lambda order: order != 0),
    "LT": _comparison(lambda order: order < 0),
    "LTE": _comparison(lambda order: order <= 0),
    "GT": _comparison(lambda order: order > 0),
    "GTE": _comparison(lambda order: order >= 0),
}
"""Operators of two operands, by the names of sqlglot's classes."""
