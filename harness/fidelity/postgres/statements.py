"""Random steps of several sessions: advisory locks, row locks, unique keys, transactions, time-outs, and faults.

Steps are ("sql", session, statement), ("extended", session, messages), ("close", session), ("cancel", session),
("idle", session, setting) and ("restart", "with data" or "without data"). A session whose statement waits is given no
step but the end of its wait; which ones wait is known from the simulated server.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

from harness.fidelity.comparison import Step

from .extended_queries import ExtendedQueries
from .results import IDLE_SETTINGS, LONG, SHORT
from .simulated import SimulatedPlayer

SETUP: Final = (
    "DROP TABLE IF EXISTS t",
    "CREATE TABLE t (k text PRIMARY KEY, v int NOT NULL DEFAULT 0, u text UNIQUE)",
    "INSERT INTO t (k, v, u) VALUES ('a', 1, 'x'), ('b', 2, NULL), ('c', 3, 'z')",
)
SESSIONS: Final = 4
STEPS: Final = 100
OBSERVER: Final = SESSIONS
"""A session that never waits."""
_KEYS: Final = ("a", "b", "c", "d")
_ENDS: Final = ("COMMIT", "ROLLBACK", "COMMIT", "ROLLBACK", "END")
_BEGINS: Final = ("BEGIN", "BEGIN", "BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION")
_ADVISORY: Final = (
    "pg_advisory_lock", "pg_try_advisory_lock", "pg_advisory_unlock", "pg_advisory_lock_shared",
    "pg_try_advisory_lock_shared", "pg_advisory_unlock_shared", "pg_advisory_xact_lock", "pg_try_advisory_xact_lock",
    "pg_advisory_xact_lock_shared", "pg_try_advisory_xact_lock_shared",
)  # fmt: skip
_EXPRESSIONS: Final = (
    "hashtext({text})", "hashtextextended({text}, {number})", "{number} + 1", "{number} / 3", "-{number} % 7",
    "{text} || 'x'", "coalesce(NULL, {number})", "{number} > 3 AND NULL", "{number} < 3 OR NULL", "NOT {number} = 2",
    "{text} IN ('', 'a')", "NULL IS NULL", "{number} IS NOT NULL", "length({text})", "{number}::bigint",
    "'{number}'::int", "{text}::int", "{number} / 0", "upper({text})", "interval '{number} seconds'",
    "no_function({number})", "no_column", "current_setting('lock_timeout')", "hashtext({number})",
)  # fmt: skip


def _advisory(rng: random.Random) -> str:
    if rng.random() < 0.04:
        return "SELECT pg_advisory_unlock_all()"
    return f"SELECT {_advisory_call(rng)}" + (f", {_advisory_call(rng)}" if rng.random() < 0.1 else "")


def _advisory_call(rng: random.Random) -> str:
    number = rng.randrange(3)
    keys = f"{number}" if rng.random() < 0.7 else f"0, {number}"
    return f"{rng.choice(_ADVISORY)}({keys})"


def _select(rng: random.Random) -> str:
    where = f" WHERE k = '{rng.choice(_KEYS)}'" if rng.random() < 0.6 else ""
    limit = f" LIMIT {rng.randrange(1, 3)}" if rng.random() < 0.3 else ""
    lock = rng.choice(("", " FOR UPDATE", " FOR UPDATE", " FOR UPDATE NOWAIT", " FOR UPDATE SKIP LOCKED"))
    if not lock and rng.random() < 0.2:
        return f"SELECT count(*), max(v), min(k) FROM t{where}"
    return f"SELECT k, v, u FROM t{where} ORDER BY k{limit}{lock}"


def _insert(rng: random.Random) -> str:
    key, other = rng.choice(_KEYS), rng.choice(("NULL", "'x'", "'y'"))
    conflict = rng.choice((
        "", " ON CONFLICT DO NOTHING", " ON CONFLICT (k) DO NOTHING",
        " ON CONFLICT (k) DO UPDATE SET v = excluded.v + t.v",
        " ON CONFLICT (k) DO UPDATE SET v = excluded.v WHERE t.v < 3",
    ))  # fmt: skip
    returning = rng.choice(("", " RETURNING k, v"))
    return f"INSERT INTO t (k, v, u) VALUES ('{key}', {rng.randrange(5)}, {other}){conflict}{returning}"


def _update(rng: random.Random) -> str:
    value = rng.choice(("v = v + 1", "v = 0", "u = 'y'", "u = NULL", "v = NULL"))
    return f"UPDATE t SET {value} WHERE {_row(rng)}{rng.choice(('', ' RETURNING *'))}"


def _delete(rng: random.Random) -> str:
    return f"DELETE FROM t WHERE {_row(rng)}{rng.choice(('', ' RETURNING v'))}"


def _row(rng: random.Random) -> str:
    return f"k = '{rng.choice(_KEYS)}'" + rng.choice(("", "", f" AND v < {rng.randrange(5)}"))


def _expression(rng: random.Random) -> str:
    text = "".join(rng.choice("ab4 ") for _ in range(rng.randrange(30)))
    return f"SELECT {rng.choice(_EXPRESSIONS)}".format(text=f"'{text}'", number=rng.randrange(9))


def _setting(rng: random.Random) -> str:
    name, value = rng.choice(("lock_timeout", "lock_timeout", "statement_timeout")), rng.choice((SHORT, LONG, "0"))
    return rng.choice((
        f"SET {name} = '{value}'", f"SET LOCAL {name} = '{value}'", f"SELECT set_config('{name}', '{value}', false)",
        f"SELECT set_config('{name}', '{value}', true)", f"RESET {name}", f"SHOW {name}",
    ))  # fmt: skip


def _kill(rng: random.Random) -> str:
    name = rng.choice(("pg_terminate_backend", "pg_cancel_backend"))
    return f"SELECT {name}({{pid{rng.randrange(SESSIONS)}}})"


def _begin(rng: random.Random) -> str:
    return rng.choice(_BEGINS)


def _end(rng: random.Random) -> str:
    return rng.choice(_ENDS)


def _several(rng: random.Random) -> str:
    """Return a simple query of several statements, which are one transaction."""
    makers = (_advisory, _select, _update, _insert, _begin, _end)
    return "; ".join(rng.choice(makers)(rng) for _ in range(rng.randint(2, 3)))


_CHOICES: Final[tuple[tuple[Callable[[random.Random], str], int], ...]] = (
    (_advisory, 8), (_select, 6), (_insert, 4), (_update, 5), (_delete, 2), (_expression, 2), (_setting, 2),
    (_kill, 1), (_several, 2),
    (_begin, 5), (_end, 5),
)  # fmt: skip


class StepGenerator:
    """Generates the steps of a seed."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._player = SimulatedPlayer(SETUP)
        self._extended = ExtendedQueries(self._rng)
        self._steps: list[Step] = []
        self._status = dict.fromkeys(range(SESSIONS), "I")
        """State of each session's transaction: I (none), T (in one) or E (in a failed one)."""

    def steps(self) -> list[Step]:
        """Return random steps, and final ones that end all waits and show the table."""
        restart = self._rng.randrange(STEPS) if self._rng.random() < 0.05 else -1
        while len(self._steps) < STEPS:
            if len(self._steps) == restart:
                self._add(("restart", self._rng.choice(("with data", "with data", "without data"))))
            self._add_some()
        for number in range(SESSIONS):
            self._add(("close", number))
        self._add(("sql", OBSERVER, "SELECT k, v, u FROM t ORDER BY k"))
        return self._steps

    def _add(self, step: Step) -> None:
        self._steps.append(step)
        answer = self._player.run(step).answer
        if answer.endswith(("; I", "; T", "; E")):
            self._status[step[1]] = answer[-1]

    def _add_some(self) -> None:
        rng, waiting = self._rng, self._player.waiting
        ready = [number for number in range(SESSIONS) if number not in waiting]
        chance = rng.random()
        if chance < 0.02 or not ready:
            self._add((rng.choice(("close", "cancel")), rng.randrange(SESSIONS)))
        elif chance < 0.03:
            self._add(("sql", OBSERVER, _kill(rng)))
        elif chance < 0.035:
            self._add(("idle", rng.choice(ready), rng.choice(IDLE_SETTINGS)))
        elif chance < 0.06 and len(ready) > 1:
            self._add_crossing(ready)
        elif chance < 0.2:
            self._add(("extended", rng.choice(ready), self._extended.messages()))
        else:
            session = rng.choice(ready)
            self._add(("sql", session, self._statement(self._status[session], len(waiting))))

    def _statement(self, status: str, waiting: int) -> str:
        rng = self._rng
        if waiting > 1 and rng.random() < 0.4:  # otherwise most sessions wait most of the time
            return rng.choice((*_ENDS, "SELECT pg_advisory_unlock_all()"))
        if status == "E" and rng.random() < 0.7:
            return rng.choice(_ENDS)
        makers, weights = zip(*_CHOICES, strict=True)
        maker = rng.choices(makers, weights)[0]
        useless = {"I": _end, "T": _begin}.get(status)
        return str((rng.choices(makers, weights)[0] if maker is useless else maker)(rng))

    def _add_crossing(self, ready: list[int]) -> None:
        """Add steps of two sessions that take two locks in opposite orders: a deadlock if both succeed."""
        one, other = self._rng.sample(ready, 2)
        first, second = self._rng.choice((
            ("SELECT pg_advisory_lock(1)", "SELECT pg_advisory_lock(2)"),
            ("SELECT pg_advisory_xact_lock(0, 1)", "SELECT pg_advisory_lock_shared(2)"),
            ("UPDATE t SET v = v + 1 WHERE k = 'a'", "SELECT v FROM t WHERE k = 'b' FOR UPDATE"),
            ("DELETE FROM t WHERE k = 'a'", "SELECT pg_advisory_lock(2)"),
            ("INSERT INTO t (k) VALUES ('e') ON CONFLICT DO NOTHING", "INSERT INTO t (k) VALUES ('f')"),
        ))  # fmt: skip
        order = ((one, "BEGIN"), (other, "BEGIN"), (one, first), (other, second), (one, second), (other, first))
        for session, statement in order:
            if session not in self._player.waiting:
                self._add(("sql", session, statement))


def steps(seed: int) -> Sequence[Step]:
    """Return the steps of a seed."""
    return StepGenerator(seed).steps()
