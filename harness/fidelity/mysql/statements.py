"""Random steps for MySQL servers: mostly what lock libraries send, the rest everything that the simulated server knows.

Steps are ``("settings", connection, statements)``, executed when that connection opens; ``("sql", connection,
statement)``, to which the seconds are added within which a statement's own time-out ends; ``("close", connection)``;
and faults. ``{id0}`` in a statement is the id of connection 0.

The outcomes depend neither on the clock nor on the optimizer. Sequences are of three kinds. In ``"fail"`` no statement
waits for a row. In ``"wait"`` they do, and there are only two connections: on a real server, the order of two
statements that continue together is random. In ``"named"`` several connections wait for named locks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final, Literal

from harness.fidelity.comparison import Step

from .plain_statements import PlainStatements

Kind = Literal["fail", "wait", "named"]
VOCABULARY: Final = Path(__file__).with_name("vocabulary.json")
"""For each lock of the catalogue the forms of its statements. ``tests/fidelity/record_mysql.py`` records them."""
LENGTH: Final = 100
"""Steps of a sequence."""
KINDS: Final[tuple[Kind, ...]] = ("named", "fail", "named", "wait")
CONNECTIONS: Final = {"fail": 3, "wait": 2, "named": 4}
_CREATE: Final = re.compile(r"CREATE TABLE IF NOT EXISTS (\w+)")
_SPANS: Final = ("'01:00:00'", "'-01:00:00'", "'00:30:00.250000'")
"""Leases end an hour before or after now, so that the outcome does not depend on the duration of the sequence."""
USUAL_NAMES: Final = ("'order-7'", "'Order-7'", "'k0'")
ODD_NAMES: Final = (
    "'order-7 '", "'órder-7'", "'K0'", "''", "' '", "NULL", "7", "1.5", f"'{'n' * 64}'", f"'{'n' * 65}'",
    f"'{'n' * 192}'", f"'{'n' * 193}'", f"'{'ó' * 96}'", f"'{'ó' * 97}'", "'a b'", "'a\\'b'",
)  # fmt: skip
ODD_TIMEOUTS: Final = ("-1", "-0.5", "-1.5", "NULL", "'0'", "'x'", "'-1'", "1e-3", "0.0001", "-0.0")
SHORT_S: Final = (0.05, 0.1, 0.2)
LONG_S: Final = "1000"
"""Longer than any sequence: another step ends the wait, or the sequence ends."""


def lock_statements() -> list[str]:
    """Return the forms of all statements that the catalogue's locks send."""
    found: dict[str, list[str]] = json.loads(VOCABULARY.read_text(encoding="utf-8"))
    return sorted({form for forms in found.values() for form in forms})


def _tables() -> dict[str, str]:
    """Return the tables of the catalogue's locks: name → the statement that creates it."""
    return {found[1]: form for form in lock_statements() if (found := _CREATE.match(form))}


SETUP: Final = [
    f"DROP TABLE IF EXISTS {', '.join(['locks', 'pairs', 'heap', 'plain', *_tables()])}",
    "CREATE TABLE locks (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(8) NOT NULL, owner VARCHAR(8),"
    " n INT NOT NULL DEFAULT 0, UNIQUE KEY by_name (name)) ENGINE=InnoDB",
    "CREATE TABLE pairs (k INT PRIMARY KEY, a INT, b VARCHAR(8) DEFAULT 'x', KEY by_a (a)) ENGINE=InnoDB",
    "CREATE TABLE heap (x INT, y VARCHAR(4), t DATETIME) ENGINE=InnoDB",
    "CREATE TABLE plain (k INT PRIMARY KEY, v INT NOT NULL) ENGINE=InnoDB",
    *_tables().values(),
    "INSERT INTO locks (name, owner, n) VALUES ('a', 'me', 1), ('c', NULL, 2), ('e', 'you', 3)",
    "INSERT INTO pairs (k, a) VALUES (1, 10), (3, 10), (5, 20), (7, NULL)",
    "INSERT INTO heap VALUES (1, 'a', '2026-01-01 00:00:00'), (2, 'b', NULL)",
    "INSERT INTO plain VALUES (10, 1), (20, 2), (30, 3)",
]
"""Statements before each sequence."""
FINAL: Final = [
    "SELECT * FROM locks ORDER BY id",
    "SELECT * FROM pairs ORDER BY k",
    "SELECT x, y FROM heap ORDER BY x, y",
    "SELECT * FROM plain ORDER BY k",
    *(f"SELECT COUNT(*) FROM {table}" for table in _tables()),
    *(f"SELECT IS_FREE_LOCK({name})" for name in USUAL_NAMES),
]
"""Statements after each sequence, which show what it has done."""


def steps(seed: int) -> Sequence[Step]:
    """Return the steps of a seed."""
    return StatementGenerator(seed, KINDS[seed % len(KINDS)]).steps()


class StatementGenerator:
    """Generates the steps of a seed. A further connection, ``admin``, never waits."""

    def __init__(self, seed: int, kind: Kind) -> None:
        self.rng = Random(seed)
        self.kind = kind
        self.admin = CONNECTIONS[kind]
        self.lock_forms = [form for form in lock_statements() if not _CREATE.match(form) and "VERSION()" not in form]
        self.plain = PlainStatements(self.rng, waits=kind == "wait")

    def steps(self, length: int = LENGTH) -> list[Step]:
        made: list[Step] = [("settings", number, self.settings()) for number in range(self.admin + 1)]
        fault = self.rng.randrange(length) if self.rng.random() < 0.15 else None
        for number in range(length):
            made.append(self.fault() if number == fault else self.step())
        return made + [("sql", self.admin, statement) for statement in FINAL]

    def settings(self) -> tuple[str, ...]:
        level = self.rng.choice(("REPEATABLE-READ", "REPEATABLE-READ", "READ-COMMITTED"))
        timeout = 1000 if self.kind == "wait" else 0
        return (f"SET innodb_lock_wait_timeout={timeout}, tx_isolation='{level}', autocommit={self.rng.randint(0, 1)}",)

    def fault(self) -> Step:
        chance = self.rng.random()
        if chance < 0.4:
            return ("fault", "pause", 0.1, self.rng.randrange(self.admin), self.lock_statement())
        return ("fault", "restart", "with data" if chance < 0.85 else "without data")

    def step(self) -> Step:
        connection, chance = self.rng.randrange(self.admin), self.rng.random()
        if self.kind == "named" and chance < 0.06:
            return ("sql", self.admin, self.kill())
        if chance < 0.07:
            return ("close", connection)
        if chance < (0.5 if self.kind == "named" else 0.2):
            return self.named(connection)
        if chance < 0.75:
            return ("sql", connection, self.lock_statement())
        return ("sql", connection, self.plain.statement())

    def kill(self) -> str:
        kind = self.rng.choice(("KILL", "KILL CONNECTION", "KILL QUERY", "KILL QUERY"))
        return f"{kind} {{id{self.rng.randrange(self.admin)}}}"

    # Statements of lock libraries.

    def lock_statement(self) -> str:
        """Return a statement of a lock library with a few keys and owners, which does not wait for a named lock."""
        form = self.rng.choice(self.lock_forms)
        number: Callable[[], str] = lambda: self.rng.choice("0123")  # noqa: E731
        if "GET_LOCK" in form:
            number = lambda: "0"  # noqa: E731
        elif "innodb_lock_wait_timeout" in form:
            number = lambda: LONG_S if self.kind == "wait" else "0"  # noqa: E731
        fillers: dict[str, Callable[[], str]] = {
            "key": lambda: self.rng.choice(USUAL_NAMES), "owner": lambda: self.rng.choice(("'me'", "'you'")),
            "span": lambda: self.rng.choice(_SPANS), "number": number,
        }  # fmt: skip
        return re.sub(r"\{(\w+)\}", lambda found: fillers[found[1]](), form)

    # Named locks.

    def name(self) -> str:
        return self.rng.choice(ODD_NAMES if self.rng.random() < 0.15 else USUAL_NAMES)

    def named(self, connection: int) -> Step:
        """Return a step with named locks, which may wait."""
        chance = self.rng.random()
        if chance < 0.15 and self.kind == "named":
            return ("sql", connection, f"SELECT GET_LOCK({self.name()}, {LONG_S})")
        if chance < 0.2:
            seconds = self.rng.choice(SHORT_S)
            waiting = f"GET_LOCK({self.name()}, {seconds})" if self.rng.random() < 0.8 else f"SLEEP({seconds})"
            return ("sql", connection, f"SELECT {waiting}", 2 * seconds)
        if chance < 0.25:
            return ("sql", connection, f"SELECT GET_LOCK({self.name()}, {self.rng.choice(ODD_TIMEOUTS)})")
        return ("sql", connection, self.rng.choice(self.immediate()))

    def immediate(self) -> list[str]:
        name, other = self.name(), self.name()
        owner = f"{{id{self.rng.randrange(self.admin)}}}"
        return [
            f"SELECT GET_LOCK({name}, 0)", f"SELECT GET_LOCK({name}, 0)", f"SELECT RELEASE_LOCK({name})",
            f"SELECT RELEASE_LOCK({name})", f"SELECT RELEASE_LOCK({name})", f"DO RELEASE_LOCK({name})",
            "SELECT RELEASE_ALL_LOCKS()", f"SELECT IS_FREE_LOCK({name})", f"SELECT IS_USED_LOCK({name}) = {owner}",
            f"SELECT IS_USED_LOCK({name}) = CONNECTION_ID()", f"SELECT RELEASE_LOCK({name}), GET_LOCK({other}, 0)",
            f"SELECT GET_LOCK({name}, 0), GET_LOCK({other}, 0)", f"DO GET_LOCK({name}, 0)",
            f"SELECT GET_LOCK({name}, 0), IS_FREE_LOCK({name}), RELEASE_LOCK({name})",
            f"SELECT IF(IS_FREE_LOCK({name}), 'free', 'held')", f"SELECT COALESCE(RELEASE_LOCK({name}), -1)",
        ]  # fmt: skip
