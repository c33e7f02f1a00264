"""Values of the simulated MySQL: columns and what they hold, conversion in strict mode, comparison, text.

A value is None, int, Decimal, float, str or datetime (in UTC, as the whole server). Source:
https://mariadb.com/kb/en/data-types/. Abstracted: one collation, utf8mb4_general_ci (neither case nor accents nor
trailing spaces matter); no dates alone, times alone, or bytes.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from typing import Any, Final, Literal

from harness.sim.servers.mysql import protocol
from harness.sim.servers.mysql.errors import SqlError

Value = None | int | Decimal | float | str | datetime
Kind = Literal["int", "decimal", "double", "text", "datetime", "timestamp"]
_NUMBER: Final = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)")
_MOMENT: Final = re.compile(
    r"\s*(\d{4})-(\d{1,2})-(\d{1,2})(?:[T ]+(\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{0,6})\d*)?)?)?\s*"
)
_EPOCH: Final = datetime(1970, 1, 1)
_WIRE: Final = {
    "int": protocol.LONGLONG,
    "decimal": protocol.DECIMAL,
    "double": protocol.DOUBLE,
    "text": protocol.VARSTRING,
    "datetime": protocol.DATETIME,
    "timestamp": protocol.TIMESTAMP,
}


@dataclass(slots=True)
class Column:
    """A column's definition. ``size``: characters, digits of the fraction of a second, or digits after the point.
    ``default`` is called with a moment, or None: there is none."""

    name: str
    kind: Kind
    size: int = 0
    bounds: tuple[int, int] = (0, 0)
    nullable: bool = True
    auto_increment: bool = False
    default: Callable[[Any], Value] | None = None
    on_update: bool = False

    @property
    def wire(self) -> int:
        return _WIRE[self.kind]


@lru_cache(maxsize=4096)
def collate(text: str) -> str:
    """What decides whether two strings are equal, and which comes first."""
    text = text.rstrip(" ")
    if text.isascii():
        return text.upper()
    plain = unicodedata.normalize("NFD", text)
    return "".join(char for char in plain if not unicodedata.combining(char)).upper()


def now(wall_ns: int, digits: int) -> datetime:
    """A moment with that many digits of the fraction of a second, the rest cut off."""
    micros = wall_ns // 1000
    return _EPOCH + timedelta(microseconds=micros - micros % 10 ** (6 - digits))


def to_ns(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000


def cut(moment: datetime, digits: int) -> datetime:
    return moment.replace(microsecond=moment.microsecond - moment.microsecond % 10 ** (6 - digits))


def to_moment(value: Value) -> datetime | None:
    """A moment that a value spells, or None."""
    if isinstance(value, datetime) or value is None:
        return value
    text = str(value)
    found = _MOMENT.fullmatch(text)
    try:
        if found is not None:
            *whole, fraction = found.groups()
            numbers = [int(part or 0) for part in whole]
            return datetime(*numbers, microsecond=int((fraction or "").ljust(6, "0")))  # type: ignore[misc,arg-type]
        if re.fullmatch(r"\d{14}", text):
            return datetime.strptime(text, "%Y%m%d%H%M%S")
        if re.fullmatch(r"\d{8}", text):
            return datetime.strptime(text, "%Y%m%d")
    except ValueError:
        return None
    return None


def to_number(value: Value) -> int | Decimal | float:
    """A value as a number: strings by what they begin with, moments as YYYYMMDDhhmmss."""
    if isinstance(value, str):
        found = _NUMBER.match(value)
        return float(found[1]) if found else 0.0
    if isinstance(value, datetime):
        whole = int(value.strftime("%Y%m%d%H%M%S"))
        return whole + Decimal(value.microsecond) / 10**6 if value.microsecond else whole
    return 0 if value is None else value


def compare(left: Value, right: Value) -> int | None:
    """Negative, 0 or positive; None if either is NULL."""
    if left is None or right is None:
        return None
    a: Any = left
    b: Any = right
    if isinstance(a, str) and isinstance(b, str):
        a, b = collate(a), collate(b)
    elif isinstance(a, datetime) or isinstance(b, datetime):
        a, b = _as_moments(a, b)
        if a is None or b is None:
            return None
    else:
        a, b = to_number(a), to_number(b)
        if isinstance(a, float) or isinstance(b, float):
            a, b = float(a), float(b)
    return 0 if a == b else 1 if a > b else -1


def _as_moments(a: Value, b: Value) -> tuple[Any, Any]:
    if isinstance(a, int | float | Decimal) or isinstance(b, int | float | Decimal):
        return to_number(a), to_number(b)
    return to_moment(a), to_moment(b)


def is_true(value: Value) -> bool | None:
    return None if value is None else to_number(value) != 0


def sort_key(value: Value) -> tuple[Any, ...]:
    """Orders values of one column: NULL comes first."""
    if value is None:
        return (0,)
    return (1, collate(value) if isinstance(value, str) else value)


def convert(column: Column, value: Value, table: str, row: int) -> Value:
    """A value as a column keeps it, or the error of strict mode."""
    if value is None:
        return None
    if column.kind == "text":
        return _text(column, value, row)
    if column.kind in ("datetime", "timestamp"):
        moment = to_moment(value)
        if moment is None:
            raise SqlError(1292, value, protocol.ACCOUNT, table, column.name, row)
        return cut(moment, column.size)
    return _number(column, value, table, row)


def _text(column: Column, value: Value, row: int) -> str:
    text = as_text(value)
    if len(text) > column.size:
        if text[column.size :].strip(" "):
            raise SqlError(1406, column.name, row)
        text = text[: column.size]
    return text


def _number(column: Column, value: Value, table: str, row: int) -> Value:
    if isinstance(value, str) and not re.fullmatch(_NUMBER.pattern + r"\s*", value):
        kind = {"int": "integer"}.get(column.kind, column.kind)
        raise SqlError(1366, kind, value, protocol.ACCOUNT, table, column.name, row)
    number = to_number(value)
    if column.kind == "double":
        return float(number)
    exact = Decimal(value.strip()) if isinstance(value, str) else Decimal(str(number))
    if column.kind == "decimal":
        return exact.quantize(Decimal(1).scaleb(-column.size), ROUND_HALF_UP)
    whole = int(exact.to_integral_value(ROUND_HALF_UP))
    low, high = column.bounds
    if not low <= whole <= high:
        raise SqlError(1264, column.name, row)
    return whole


def as_text(value: Value, digits: int | None = None) -> str:
    """A value as results show it; ``digits`` of the fraction of a second if it is a moment."""
    if isinstance(value, datetime):
        if digits is None:
            digits = 6 if value.microsecond else 0
        text = value.isoformat(" ", "seconds")
        return f"{text}.{value.microsecond:06d}"[: len(text) + 1 + digits] if digits else text
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, Decimal):
        return f"{value:f}"
    return str(value)


def wire_type(value: Value) -> int:
    """How a result describes a column that is computed."""
    if value is None:
        return protocol.NULL
    if isinstance(value, int):
        return protocol.LONGLONG
    if isinstance(value, Decimal):
        return protocol.DECIMAL
    if isinstance(value, float):
        return protocol.DOUBLE
    return protocol.DATETIME if isinstance(value, datetime) else protocol.VARSTRING


def from_epoch(seconds: float | Decimal) -> datetime:
    return datetime.fromtimestamp(float(seconds), UTC).replace(tzinfo=None)
