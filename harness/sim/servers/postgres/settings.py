"""Run-time parameters of the simulated PostgreSQL: defaults, and durations.

Source: https://www.postgresql.org/docs/15/runtime-config-client.html. Those that only describe the server may be set
and are kept, without an effect.
"""

from __future__ import annotations

import re
from typing import Final

from .errors import FIXED_PARAMETER, PgError, unsupported

DEFAULTS: Final = {
    "application_name": "", "client_encoding": "UTF8", "datestyle": "ISO, MDY", "deadlock_timeout": "1s",
    "default_transaction_isolation": "read committed", "extra_float_digits": "1",
    "idle_in_transaction_session_timeout": "0", "idle_session_timeout": "0", "in_hot_standby": "off",
    "integer_datetimes": "on", "intervalstyle": "postgres", "is_superuser": "on", "jit": "on", "lock_timeout": "0",
    "search_path": "public",
    "server_encoding": "UTF8", "server_version": "15.0", "session_authorization": "harness",
    "standard_conforming_strings": "on", "statement_timeout": "0", "synchronous_commit": "on",
    "synchronous_standby_names": "", "timezone": "UTC", "transaction_isolation": "read committed",
}  # fmt: skip
REPORTED: Final = {
    "application_name": "application_name", "client_encoding": "client_encoding", "datestyle": "DateStyle",
    "in_hot_standby": "in_hot_standby",
    "integer_datetimes": "integer_datetimes", "intervalstyle": "IntervalStyle", "is_superuser": "is_superuser",
    "server_encoding": "server_encoding", "server_version": "server_version",
    "session_authorization": "session_authorization", "standard_conforming_strings": "standard_conforming_strings",
    "timezone": "TimeZone",
}  # fmt: skip
"""Parameters that the server reports to clients, with the names in those messages."""
FIXED: Final = ("in_hot_standby", "synchronous_standby_names")
"""Parameters that no session can change."""
LEVELS: Final = ("read uncommitted", "read committed", "repeatable read")
_DURATION: Final = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*(us|ms|s|min|h|d)?\s*")
_NS: Final = {"us": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9, "d": 86400e9}
_UNITS_MS: Final = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000), ("ms", 1))


def known(name: str) -> str:
    """Return the name of a parameter in lower case. Raises PgError if there is none."""
    if name.lower() not in DEFAULTS:
        text = f'unrecognized configuration parameter "{name}"'
        raise PgError("42704", text, lacks=f"the parameter {name} of PostgreSQL")
    return name.lower()


def checked(name: str, value: str) -> str:
    """Return the value of a parameter as SHOW shows it. Raises PgError for one that it cannot have."""
    if name in FIXED:
        raise PgError(FIXED_PARAMETER, f'parameter "{name}" cannot be changed')
    if name.endswith("_timeout"):
        return _duration_text(duration_ns(name, value) // 1_000_000)
    if name.endswith("_isolation"):
        level = " ".join(value.lower().split())
        if level not in LEVELS:
            raise unsupported(f"isolation level {level}")
        return level
    return value


def duration_ns(name: str, value: str) -> int:
    """Return a duration in ns; a number without a unit is in ms. Raises PgError."""
    found = _DURATION.fullmatch(value)
    if found is None or float(found[1]) < 0:
        raise PgError("22023", f'invalid value for parameter "{name}": "{value}"')
    return round(float(found[1]) * _NS[found[2] or "ms"])


def _duration_text(milliseconds: int) -> str:
    if not milliseconds:
        return "0"
    return next(f"{milliseconds // size}{unit}" for unit, size in _UNITS_MS if milliseconds % size == 0)
