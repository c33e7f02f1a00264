"""SQL values of the simulated MySQL: column definitions, conversion in strict mode, comparison, conversion to text.

A value is None, int, Decimal, float, str or datetime (naive, in UTC like the whole server). Source:
https://mariadb.com/kb/en/data-types/. Abstracted: there is one collation, utf8mb4_general_ci (case, accents and
trailing spaces are ignored); there are no types for dates, times or bytes.
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

from . import protocol
from .errors import SqlError

Value = None | int | Decimal | float | str | datetime
ColumnKind = Literal["int", "decimal", "double", "text", "datetime", "timestamp"]
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
class ColumnDefinition:
    """A column's definition.

    ``size`` is in characters for text, in digits of the fraction for datetimes and decimals. ``bounds`` are the least
    and greatest integer. ``default`` is the compiled default, None if there is none.
    """

    name: str
    kind: ColumnKind
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
    """Return the collation key of a string: strings are equal and ordered as their keys are."""
    text = text.rstrip(" ")
    if text.isascii():
        return text.upper()
    plain = unicodedata.normalize("NFD", text)
    return "".join(char for char in plain if not unicodedata.combining(char)).upper()


def datetime_of(wall_ns: int, digits: int) -> datetime:
    """Return the datetime of a wall-clock time in ns, truncated to that many digits of the fraction of a second."""
    micros = wall_ns // 1000
    return _EPOCH + timedelta(microseconds=micros - micros % 10 ** (6 - digits))


def to_ns(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1) * 1000


def truncate_fraction(moment: datetime, digits: int) -> datetime:
    return moment.replace(microsecond=moment.microsecond - moment.microsecond % 10 ** (6 - digits))


def to_datetime(value: Value) -> datetime | None:
    """Convert a value to a datetime; None if it is not one."""
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
    """Convert a value to a number: strings by their numeric prefix, datetimes as YYYYMMDDhhmmss, NULL as 0."""
    if isinstance(value, str):
        found = _NUMBER.match(value)
        return float(found[1]) if found else 0.0
    if isinstance(value, datetime):
        whole = int(value.strftime("%Y%m%d%H%M%S"))
        return whole + Decimal(value.microsecond) / 10**6 if value.microsecond else whole
    return 0 if value is None else value


def compare(left: Value, right: Value) -> int | None:
    """Return a negative number, 0 or a positive number as in MariaDB's comparison; None if either is NULL."""
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
    return to_datetime(a), to_datetime(b)


def is_true(value: Value) -> bool | None:
    return None if value is None else to_number(value) != 0


def sort_key(value: Value) -> tuple[Any, ...]:
    """Return the key by which values of one column are ordered; NULL comes first."""
    if value is None:
        return (0,)
    return (1, collate(value) if isinstance(value, str) else value)


def convert(column: ColumnDefinition, value: Value, table: str, row: int) -> Value:
    """Convert a value for storage in a column. Raises SqlError as strict mode does; ``row`` is the row's number."""
    if value is None:
        return None
    if column.kind == "text":
        return _text(column, value, row)
    if column.kind in ("datetime", "timestamp"):
        moment = to_datetime(value)
        if moment is None:
            raise SqlError(1292, value, protocol.ACCOUNT, table, column.name, row)
        return truncate_fraction(moment, column.size)
    return _number(column, value, table, row)


def _text(column: ColumnDefinition, value: Value, row: int) -> str:
    text = as_text(value)
    if len(text) > column.size:
        if text[column.size :].strip(" "):
            raise SqlError(1406, column.name, row)
        text = text[: column.size]
    return text


def _number(column: ColumnDefinition, value: Value, table: str, row: int) -> Value:
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
    """Convert a value to text as results show it; ``digits`` is the number of digits of a datetime's fraction."""
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
    """Return the protocol type of a computed result column."""
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
