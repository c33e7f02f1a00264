"""SQL functions that do not wait: dates and times, session information, strings, numbers, named locks.

Source: https://mariadb.com/kb/en/built-in-functions/. NOW() and its synonyms read the host's wall clock once per
statement, SYSDATE() at each call.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from .errors import SqlError
from .expressions import Context, Function
from .protocol import ACCOUNT, VERSION
from .values import Value, as_text, compare, datetime_of, from_epoch, to_datetime, to_ns, to_number

_TIME: Final = re.compile(r"\s*(-?)(?:(\d+):(\d{1,2}):)?(\d+)(?:\.(\d{1,6})\d*)?\s*")


def _now(c: Context, digits: Value = 0) -> Value:
    return datetime_of(c.moment_ns, int(to_number(digits)))


def _sysdate(c: Context, digits: Value = 0) -> Value:
    return datetime_of(c.env.wall_ns(), int(to_number(digits)))


def _span(value: Value) -> timedelta | None:
    """Parse a time span such as '-00:02:00', '1.5' (seconds) or '000200' (hhmmss); None if it is malformed."""
    found = _TIME.fullmatch(as_text(value))
    if value is None or found is None:
        return None
    sign, hours, minutes, seconds, fraction = found.groups()
    if hours is None:
        number = int(seconds)
        hours, minutes, seconds = number // 10000, number // 100 % 100, number % 100
    micros = int((fraction or "").ljust(6, "0"))
    span = timedelta(hours=int(hours), minutes=int(minutes), seconds=int(seconds), microseconds=micros)
    return -span if sign else span


def _addtime(_c: Context, base: Value, span: Value) -> Value:
    return _add_interval(base, span, 1)


def _subtime(_c: Context, base: Value, span: Value) -> Value:
    return _add_interval(base, span, -1)


def _add_interval(base: Value, span: Value, sign: int) -> Value:
    moment, length = to_datetime(base), _span(span)
    if moment is None or length is None:
        return None
    moved = moment + sign * length
    return moved if isinstance(base, datetime) else as_text(moved)


def _unix_timestamp(c: Context, *moment: Value) -> Value:
    if not moment:
        return c.moment_ns // 10**9
    when = to_datetime(moment[0])
    if when is None:
        return None
    micros = to_ns(when) // 1000
    return micros // 10**6 if micros % 10**6 == 0 else Decimal(micros).scaleb(-6)


def _from_unixtime(_c: Context, seconds: Value) -> Value:
    return None if seconds is None else from_epoch(to_number(seconds))


def _last_insert_id(c: Context, *value: Value) -> Value:
    if value:
        c.env.last_insert_id = 0 if value[0] is None else int(to_number(value[0]))
        return value[0]
    return c.env.last_insert_id


def _concat(_c: Context, *parts: Value) -> Value:
    return None if None in parts else "".join(map(as_text, parts))


def _length(_c: Context, value: Value) -> Value:
    return None if value is None else len(as_text(value).encode())


def _abs(_c: Context, value: Value) -> Value:
    number = to_number(value)
    return None if value is None else -number if number < 0 else number


def _extreme(sign: int) -> Function:
    def best(_c: Context, first: Value, *others: Value) -> Value:
        for other in others:
            order = compare(other, first)
            if order is None:
                return None
            if order * sign > 0:
                first = other
        return first

    return best


def _named_lock_function(name: str) -> Function:
    return lambda c, *args: c.env.named(name, args)


def _needs_a_session(_c: Context, *_args: Value) -> Value:
    raise SqlError(1235, "a function that waits in this place")


def _text(change: str) -> Function:
    def changed(_c: Context, value: Value) -> Value:
        if value is None:
            return None
        text = as_text(value)
        return text.lower() if change == "lower" else text.upper()

    return changed


FUNCTIONS: Final[dict[str, tuple[Function, int, int]]] = {
    "NOW": (_now, 0, 1),
    "CURRENT_TIMESTAMP": (_now, 0, 1),
    "LOCALTIME": (_now, 0, 1),
    "LOCALTIMESTAMP": (_now, 0, 1),
    "UTC_TIMESTAMP": (_now, 0, 1),
    "SYSDATE": (_sysdate, 0, 1),
    "ADDTIME": (_addtime, 2, 2),
    "SUBTIME": (_subtime, 2, 2),
    "UNIX_TIMESTAMP": (_unix_timestamp, 0, 1),
    "FROM_UNIXTIME": (_from_unixtime, 1, 1),
    "CONNECTION_ID": (lambda c: c.env.number, 0, 0),
    "LAST_INSERT_ID": (_last_insert_id, 0, 1),
    "ROW_COUNT": (lambda c: c.env.row_count, 0, 0),
    "VERSION": (lambda _c: VERSION, 0, 0),
    "DATABASE": (lambda c: c.env.database, 0, 0),
    "SCHEMA": (lambda c: c.env.database, 0, 0),
    "USER": (lambda _c: f"{ACCOUNT}@%", 0, 0),
    "CURRENT_USER": (lambda _c: f"{ACCOUNT}@%", 0, 0),
    "CONCAT": (_concat, 1, 99),
    "LOWER": (_text("lower"), 1, 1),
    "UPPER": (_text("upper"), 1, 1),
    "LENGTH": (_length, 1, 1),
    "ABS": (_abs, 1, 1),
    "GREATEST": (_extreme(1), 2, 99),
    "LEAST": (_extreme(-1), 2, 99),
    "NULLIF": (lambda _c, a, b: None if compare(a, b) == 0 else a, 2, 2),
    "GET_LOCK": (_needs_a_session, 2, 2),
    "SLEEP": (_needs_a_session, 1, 1),
    "RELEASE_LOCK": (_named_lock_function("RELEASE_LOCK"), 1, 1),
    "RELEASE_ALL_LOCKS": (_named_lock_function("RELEASE_ALL_LOCKS"), 0, 0),
    "IS_FREE_LOCK": (_named_lock_function("IS_FREE_LOCK"), 1, 1),
    "IS_USED_LOCK": (_named_lock_function("IS_USED_LOCK"), 1, 1),
}
