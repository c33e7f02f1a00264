"""Random statements of several sessions: advisory locks, row locks, unique keys, transactions."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final

from harness.fidelity.comparison import Step

SETUP: Final = (
    "DROP TABLE IF EXISTS t",
    "CREATE TABLE t (k text PRIMARY KEY, v int NOT NULL DEFAULT 0, u text UNIQUE)",
    "INSERT INTO t (k, v, u) VALUES ('a', 1, 'x'), ('b', 2, NULL), ('c', 3, 'z')",
)
SESSIONS: Final = 4
STEPS: Final = 40
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
    name = rng.choice(_ADVISORY)
    number = rng.randrange(3)
    keys = f"{number}" if rng.random() < 0.8 else f"0, {number}"
    return f"SELECT {name}({keys})"


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


_CHOICES: Final[tuple[tuple[Callable[[random.Random], str], int], ...]] = (
    (_advisory, 8), (_select, 6), (_insert, 4), (_update, 5), (_delete, 2), (_expression, 2),
    (lambda rng: rng.choice(_BEGINS), 5), (lambda rng: rng.choice(_ENDS), 5),
)  # fmt: skip


def _crossing(rng: random.Random) -> list[Step]:
    """Return the steps of two sessions that take two locks in opposite orders, which is a deadlock if both succeed."""
    one, other = rng.sample(range(SESSIONS), 2)
    if rng.random() < 0.5:
        first, second = "SELECT pg_advisory_lock(1)", "SELECT pg_advisory_lock(2)"
    else:
        first, second = "UPDATE t SET v = v + 1 WHERE k = 'a'", "SELECT v FROM t WHERE k = 'b' FOR UPDATE"
    order = ((one, "BEGIN"), (other, "BEGIN"), (one, first), (other, second), (one, second), (other, first))
    return [("sql", session, statement) for session, statement in order]


def steps(seed: int) -> Sequence[Step]:
    """Return the steps of a seed: ("sql", session, statement) and ("close", session)."""
    rng = random.Random(seed)
    makers, weights = zip(*_CHOICES, strict=True)
    found: list[Step] = []
    while len(found) < STEPS:
        session = rng.randrange(SESSIONS)
        if rng.random() < 0.02:
            found.append(("close", session))
        elif rng.random() < 0.03:
            found += _crossing(rng)
        else:
            found.append(("sql", session, rng.choices(makers, weights)[0](rng)))
    return found
