"""Types and values of the simulated PostgreSQL, and their text and binary forms on the wire.

Values are None, bool, int, float, str, datetime (UTC for timestamptz, naive for timestamp) and timedelta.
Source: https://www.postgresql.org/docs/15/datatype.html and PostgreSQL 15 itself.
"""

from __future__ import annotations

import re
import struct
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from .errors import BAD_TEXT, PgError, unsupported

BOOL, INT8, INT2, INT4, TEXT, OID, FLOAT8 = 16, 20, 21, 23, 25, 26, 701
UNKNOWN, VARCHAR, TIMESTAMP, TIMESTAMPTZ, INTERVAL, VOID, NAME = 705, 1043, 1114, 1184, 1186, 2278, 19
SIZES: Final = {
    BOOL: 1, INT8: 8, INT2: 2, INT4: 4, OID: 4, FLOAT8: 8, TIMESTAMP: 8, TIMESTAMPTZ: 8, INTERVAL: 16, VOID: 4,
    NAME: 64, UNKNOWN: -2,
}  # fmt: skip
"""Bytes of each type's values; -1 for all other types, whose length varies."""
NAMES: Final = {
    BOOL: "boolean", INT8: "bigint", INT2: "smallint", INT4: "integer", TEXT: "text", OID: "oid",
    FLOAT8: "double precision", VARCHAR: "character varying", TIMESTAMP: "timestamp without time zone",
    TIMESTAMPTZ: "timestamp with time zone", INTERVAL: "interval", VOID: "void", NAME: "name", UNKNOWN: "unknown",
}  # fmt: skip
INTEGERS: Final = frozenset({INT2, INT4, INT8, OID})
TEXTS: Final = frozenset({TEXT, VARCHAR, NAME, UNKNOWN})
_BITS: Final = {INT2: 16, INT4: 32, INT8: 64}
_PACKED: Final = {INT2: ">h", INT4: ">i", INT8: ">q", OID: ">I", FLOAT8: ">d"}
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_TRUE: Final = ("t", "true", "y", "yes", "on", "1")
_FALSE: Final = ("f", "false", "n", "no", "off", "0")
_INTERVAL: Final = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-z]+)", re.IGNORECASE)
_CLOCK: Final = re.compile(r"([+-]?)(?:(\d+) days? ?)?(\d+):(\d+):(\d+(?:\.\d+)?)")
_UNITS: Final = {
    "microsecond": 1e-6, "millisecond": 1e-3, "ms": 1e-3, "s": 1, "sec": 1, "second": 1, "min": 60, "minute": 60,
    "h": 3600, "hour": 3600, "day": 86400,
}  # fmt: skip


def parse_text(text: str, oid: int) -> Any:
    """Return the value that a text stands for as a literal of a type. Raises PgError."""
    try:
        if oid in INTEGERS:
            return in_range(int(text.strip()), oid)
        if oid == FLOAT8:
            return float(text)
        if oid == BOOL:
            return _parse_bool(text)
        if oid in (TIMESTAMPTZ, TIMESTAMP):
            return _parse_moment(text, oid)
        if oid == INTERVAL:
            return _parse_interval(text)
    except ValueError:
        raise PgError(BAD_TEXT, f'invalid input syntax for type {NAMES[oid]}: "{text}"') from None
    return text


def in_range(number: int, oid: int) -> int:
    """Return an integer, unless its type cannot hold it: PgError."""
    bits = _BITS.get(oid, 64)
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise PgError("22003", f"{NAMES[oid]} out of range")
    return number


def _parse_bool(text: str) -> bool:
    word = text.strip().lower()
    if word not in (*_TRUE, *_FALSE):
        raise ValueError(text)
    return word in _TRUE


def _parse_moment(text: str, oid: int) -> datetime:
    found = datetime.fromisoformat(text.strip())
    if oid == TIMESTAMP:
        return found.replace(tzinfo=None)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _parse_interval(text: str) -> timedelta:
    clock = _CLOCK.fullmatch(text.strip())
    if clock is not None:
        sign, days, hours, minutes, seconds = clock.groups()
        span = timedelta(days=int(days or 0), hours=int(hours), minutes=int(minutes), seconds=float(seconds))
        return -span if sign == "-" else span
    parts = _INTERVAL.findall(text)
    if not parts:
        return timedelta(seconds=float(text))
    seconds = 0.0
    for number, unit in parts:
        name = unit.lower()
        name = name if name in _UNITS else name.removesuffix("s")
        if name not in _UNITS:
            raise ValueError(text)
        seconds += float(number) * _UNITS[name]
    return timedelta(seconds=seconds)


def as_text(value: Any, oid: int) -> str:
    """Return the text form of a value that is not NULL."""
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, float):
        return f"{value:g}" if value == int(value) and abs(value) < 1e15 else repr(value)
    if isinstance(value, datetime):
        text = value.strftime("%Y-%m-%d %H:%M:%S")
        if value.microsecond:
            text += f".{value.microsecond:06}".rstrip("0")
        return f"{text}+00" if oid == TIMESTAMPTZ else text
    if isinstance(value, timedelta):
        return _interval_text(value)
    return str(value)


def _interval_text(span: timedelta) -> str:
    micros = span // _MICROSECOND
    sign, micros = ("-" if micros < 0 else ""), abs(micros)
    seconds, rest = divmod(micros, 1_000_000)
    text = f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{rest:06}".rstrip("0") if rest else text


def encode(value: Any, oid: int, *, binary: bool) -> bytes | None:
    """Return a value as it is sent, None for NULL."""
    if value is None:
        return None
    if not binary or oid in TEXTS:
        return as_text(value, oid).encode()
    if oid == VOID:
        return b""
    if oid == BOOL:
        return b"\1" if value else b"\0"
    if oid in _PACKED:
        return struct.pack(_PACKED[oid], value)
    if oid in (TIMESTAMPTZ, TIMESTAMP):
        return struct.pack(">q", (value.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND)
    if oid == INTERVAL:
        return struct.pack(">qii", value // _MICROSECOND, 0, 0)
    raise unsupported(f"binary values of type {oid}")


def decode(data: bytes | None, oid: int, *, binary: bool) -> Any:
    """Return the value of a parameter. Raises PgError."""
    if data is None:
        return None
    if not binary or oid in TEXTS:
        return parse_text(data.decode(), oid)
    if oid == BOOL:
        return data != b"\0"
    if oid in _PACKED:
        return struct.unpack(_PACKED[oid], data)[0]
    if oid in (TIMESTAMPTZ, TIMESTAMP):
        moment = _EPOCH + struct.unpack(">q", data)[0] * _MICROSECOND
        return moment if oid == TIMESTAMPTZ else moment.replace(tzinfo=None)
    if oid == INTERVAL:
        micros, days, months = struct.unpack(">qii", data)
        return timedelta(microseconds=micros, days=days + 30 * months)
    raise unsupported(f"binary parameters of type {oid}")
