"""SQL functions that take locks, wait, or act on other sessions. A statement executes them in the order of their text.

Source: https://www.postgresql.org/docs/15/functions-admin.html, "Advisory Lock Functions".
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Final, NamedTuple

from harness.sim.servers.waits import Wait

from .interface import SessionInterface
from .locks import Mode, Scope, Tag
from .values import BOOL, FLOAT8, INT4, INT8, VOID

NS_PER_S: Final = 1_000_000_000


class AdvisoryCall(NamedTuple):
    """What a function of advisory locks does: ``lock``, ``try`` or ``unlock``."""

    action: str
    mode: Mode
    scope: Scope


def _advisory() -> dict[str, AdvisoryCall]:
    calls = {}
    modes: tuple[tuple[str, Mode], ...] = (("", "X"), ("_shared", "S"))
    for suffix, mode in modes:
        for start, action in (("pg_", "lock"), ("pg_try_", "try")):
            calls[f"{start}advisory_lock{suffix}"] = AdvisoryCall(action, mode, "session")
            calls[f"{start}advisory_xact_lock{suffix}"] = AdvisoryCall(action, mode, "transaction")
        calls[f"pg_advisory_unlock{suffix}"] = AdvisoryCall("unlock", mode, "session")
    return calls


ADVISORY: Final = _advisory()
_OTHERS: Final[dict[tuple[str, int], tuple[tuple[int, ...], int]]] = {
    ("pg_advisory_unlock_all", 0): ((), VOID),
    ("pg_sleep", 1): ((FLOAT8,), VOID),
    ("pg_terminate_backend", 1): ((INT4,), BOOL),
    ("pg_cancel_backend", 1): ((INT4,), BOOL),
}


def signature(name: str, count: int) -> tuple[tuple[int, ...], int] | None:
    """Return (types of arguments, type of the result) of a function with ``count`` arguments, None if unknown."""
    if name not in ADVISORY:
        return _OTHERS.get((name, count))
    result = VOID if ADVISORY[name].action == "lock" else BOOL
    return {1: ((INT8,), result), 2: ((INT4, INT4), result)}.get(count)


def advisory_tag(keys: Sequence[int]) -> Tag:
    """Return the tag of an advisory lock with one key of 64 bits or two of 32 bits, which are different locks."""
    return ("advisory", *keys)


def call(session: SessionInterface, name: str, arguments: list[Any]) -> Generator[Wait, None, Any]:
    """Execute one call and return its result."""
    if None in arguments:
        return None
    if name in ADVISORY:
        return (yield from _call_advisory(session, ADVISORY[name], advisory_tag(arguments)))
    if name == "pg_advisory_unlock_all":
        session.server.locks.release_scope(session.holder, "session", "advisory")
        return ""
    if name == "pg_sleep":
        wait = Wait(round(max(arguments[0], 0.0) * NS_PER_S))
        yield wait
        session.raise_if_interrupted()
        return ""
    other = session.server.session(arguments[0])
    if other is None:
        session.warn(f"PID {arguments[0]} is not a PostgreSQL backend process", "01000")
        return False
    other.interrupt(terminate=name == "pg_terminate_backend")
    session.raise_if_interrupted()
    return True


def _call_advisory(session: SessionInterface, what: AdvisoryCall, tag: Tag) -> Generator[Wait, None, Any]:
    locks = session.server.locks
    if what.action == "lock":
        yield from session.lock(tag, what.mode, what.scope)
        return ""
    if what.action == "try":
        return locks.try_acquire(session.holder, tag, what.mode, what.scope)
    if locks.release(session.holder, tag, what.mode, what.scope):
        return True
    kind = "ExclusiveLock" if what.mode == "X" else "ShareLock"
    session.warn(f"you don't own a lock of type {kind}", "01000")
    return False
