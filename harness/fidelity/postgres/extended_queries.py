"""Random extended queries: what client libraries send to prepare, bind and execute statements, and mistakes in it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final

from .results import LONG

Message = tuple[Any, ...]
_NAMES: Final = ("", "", "s1", "s2")
_KEYS: Final = ("a", "b", "c", "d")
_NUMBERS: Final = ("0", "1", "2")
_STATEMENTS: Final[tuple[tuple[str, tuple[Sequence[str | None], ...]], ...]] = (
    ("SELECT pg_advisory_lock($1)", (_NUMBERS,)),
    ("SELECT pg_try_advisory_lock($1)", (_NUMBERS,)),
    ("SELECT pg_try_advisory_lock($1, $2)", (("0",), _NUMBERS)),
    ("SELECT pg_advisory_xact_lock($1)", (_NUMBERS,)),
    ("SELECT pg_try_advisory_xact_lock_shared($1)", (_NUMBERS,)),
    ("SELECT pg_advisory_unlock($1)", (_NUMBERS,)),
    ("SELECT pg_try_advisory_lock(hashtextextended($1, 0))", (_KEYS,)),
    ("SELECT k, v FROM t WHERE k = $1 FOR UPDATE", (_KEYS,)),
    ("SELECT k, v FROM t WHERE k = $1 FOR UPDATE NOWAIT", (_KEYS,)),
    ("SELECT k, v FROM t WHERE v >= $1 ORDER BY k FOR UPDATE SKIP LOCKED", (_NUMBERS,)),
    ("SELECT k, v FROM t ORDER BY k", ()),
    ("INSERT INTO t (k, v) VALUES ($1, $2) ON CONFLICT DO NOTHING", (_KEYS, _NUMBERS)),
    ("INSERT INTO t (k, v) VALUES ($1, $2)", (_KEYS, (*_NUMBERS, None))),
    ("UPDATE t SET v = v + $2 WHERE k = $1 RETURNING v", (_KEYS, _NUMBERS)),
    ("DELETE FROM t WHERE k = $1", (_KEYS,)),
    ("SELECT set_config('lock_timeout', $1, false)", (("0", LONG),)),
    ("SELECT $1::int + 1", (("1", "x", None),)),
    ("BEGIN", ()), ("COMMIT", ()), ("ROLLBACK", ()), ("", ()), ("SELECT no_column", ()),
)  # fmt: skip


class ExtendedQueries:
    """Generates the messages of steps. It remembers which statement it prepared last under each name."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._prepared: dict[str, tuple[str, tuple[Sequence[str | None], ...]]] = {}

    def messages(self) -> tuple[Message, ...]:
        """Return messages up to and with a Sync."""
        found: list[Message] = []
        for _ in range(self._rng.choice((1, 1, 1, 2))):
            found += self._query()
        return (*found, ("sync",))

    def _query(self) -> list[Message]:
        rng = self._rng
        name, portal = rng.choice(_NAMES), rng.choice(("", "", "", "p"))
        found: list[Message] = []
        if not (name in self._prepared and rng.random() < 0.5):
            self._prepared[name] = rng.choice(_STATEMENTS)
            found += [("close", "S", name)] if name and rng.random() < 0.6 else []
            found.append(("parse", name, self._prepared[name][0]))
        if rng.random() < 0.3:
            found.append(("describe", "S", name))
        if rng.random() < 0.1:
            return found
        text, parameters = self._prepared[name]
        values = tuple(rng.choice(choices) for choices in parameters)
        found.append(("bind", portal, name, values, rng.choice((0, 0, 1))))
        if rng.random() < 0.5:
            found.append(("describe", "P", portal))
        whole = "FOR UPDATE" in text or "RETURNING" in text  # docs/fidelity/postgresql.md, "Rows fetched in parts"
        found.append(("execute", portal, 0 if whole else rng.choice((0, 0, 1))))
        if rng.random() < 0.2:
            found.append(rng.choice((("execute", portal, 0), ("close", "P", portal), ("describe", "P", "none"))))
        return found
