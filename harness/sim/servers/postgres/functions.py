"""SQL functions of the simulated PostgreSQL that return at once.

Source: https://www.postgresql.org/docs/15/functions.html. Functions that lock or wait are in ``ordered_calls``.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple, Protocol

from .errors import NO_FUNCTION, PgError
from .hashing import hash_text, hash_text_extended
from .values import BOOL, INT4, INT8, NAME, TEXT, TIMESTAMPTZ

VERSION: Final = "PostgreSQL 15.0 (simulated)"


class Caller(Protocol):
    """The session that a function is called by."""

    number: int

    def wall_ns(self) -> int: ...

    def began_ns(self) -> int: ...

    def in_recovery(self) -> bool: ...

    def setting(self, name: str) -> str: ...

    def set_config(self, name: str, value: str | None, *, local: bool) -> str: ...


class Function(NamedTuple):
    """A function: types of its arguments, type of its result, and the code. A NULL argument gives NULL if it is
    ``strict``."""

    arguments: tuple[int, ...]
    result: int
    call: Callable[..., Any]
    strict: bool = True


def moment(wall_ns: int) -> datetime:
    """Return a wall-clock time as a value."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=wall_ns // 1000)


def _setting(caller: Caller, name: str) -> str:
    return caller.setting(name)


def _set_config(caller: Caller, name: str | None, value: str | None, local: bool | None) -> str:
    if name is None:
        raise PgError("22004", "SET requires parameter name")
    return caller.set_config(name, value, local=bool(local))


FUNCTIONS: Final[dict[tuple[str, int], Function]] = {
    ("now", 0): Function((), TIMESTAMPTZ, lambda caller: moment(caller.began_ns())),
    ("clock_timestamp", 0): Function((), TIMESTAMPTZ, lambda caller: moment(caller.wall_ns())),
    ("pg_backend_pid", 0): Function((), INT4, lambda caller: caller.number),
    ("pg_is_in_recovery", 0): Function((), BOOL, lambda caller: caller.in_recovery()),
    ("version", 0): Function((), TEXT, lambda _: VERSION),
    ("current_schema", 0): Function((), NAME, lambda _: "public"),
    ("hashtext", 1): Function((TEXT,), INT4, lambda _, text: hash_text(text)),
    ("hashtextextended", 2): Function((TEXT, INT8), INT8, lambda _, text, seed: hash_text_extended(text, seed)),
    ("current_setting", 1): Function((TEXT,), TEXT, _setting),
    ("set_config", 3): Function((TEXT, TEXT, BOOL), TEXT, _set_config, strict=False),
    ("upper", 1): Function((TEXT,), TEXT, lambda _, text: text.upper()),
    ("lower", 1): Function((TEXT,), TEXT, lambda _, text: text.lower()),
    ("length", 1): Function((TEXT,), INT4, lambda _, text: len(text)),
}


def no_function(name: str, arguments: str, *, lacks: str = "") -> PgError:
    """Return the error for a function that does not exist with such arguments."""
    return PgError(NO_FUNCTION, f"function {name}({arguments}) does not exist", lacks=lacks)
