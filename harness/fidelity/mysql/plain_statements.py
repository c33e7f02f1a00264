"""Random SQL statements of all kinds that the simulated MySQL server implements, over a few small tables."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

GREETING: Final = ("SELECT DATABASE()", "SELECT @@sql_mode", "SELECT @@lower_case_table_names", "ROLLBACK")
"""The statements that SQLAlchemy sends over a new connection."""


class PlainStatements:
    """Generates statements. ``waits``: reads may wait for locked rows; otherwise some have NOWAIT."""

    def __init__(self, rng: Random, *, waits: bool) -> None:
        self.rng = rng
        self.waits = waits
        self.makers: list[Callable[[], str]] = [
            getattr(self, name) for name in sorted(dir(type(self))) if name.startswith("make_")
        ]

    def statement(self) -> str:
        return self.rng.choice(self.makers)()

    def one(self, *options: str) -> str:
        return self.rng.choice(options)

    def name(self) -> str:
        return self.one("'a'", "'b'", "'c'", "'d'", "'e'", "'A'")

    def key(self) -> str:
        return str(self.rng.randint(0, 8))

    def ten(self) -> str:
        return str(self.rng.choice([5, 10, 15, 20, 25, 30, 35]))

    def number(self) -> str:
        return self.one("0", "1", "2", "10", "-3", "20")

    def reading(self) -> str:
        how = ["", "", " FOR UPDATE", " FOR UPDATE", " LOCK IN SHARE MODE"]
        return self.rng.choice(how if self.waits else [*how, " FOR UPDATE NOWAIT"])

    # Transactions.

    def make_begin(self) -> str:
        return self.one("BEGIN", "START TRANSACTION", "BEGIN")

    def make_end(self) -> str:
        return self.one("COMMIT", "COMMIT", "ROLLBACK")

    def make_end_too(self) -> str:
        return self.one("COMMIT", "ROLLBACK")

    def make_greeting(self) -> str:
        return self.rng.choice(GREETING)

    def make_setting(self) -> str:
        return self.one("SET autocommit=0", "SET autocommit=1", "SET autocommit=1")

    # A table of locks.

    def make_lock(self) -> str:
        return f"INSERT INTO locks (name, owner) VALUES ({self.name()}, {self.name()})"

    def make_lock_ignore(self) -> str:
        return f"INSERT IGNORE INTO locks (name, n) VALUES ({self.name()}, {self.number()})"

    def make_locks(self) -> str:
        return f"INSERT INTO locks (name) VALUES ({self.name()}), ({self.name()})"

    def make_lock_update(self) -> str:
        change = self.one("n = n + 1", "owner = VALUES(owner)", "n = n + 1, id = LAST_INSERT_ID(id)", "n = n")
        return f"INSERT INTO locks (name, owner) VALUES ({self.name()}, {self.name()}) ON DUPLICATE KEY UPDATE {change}"

    def make_unlock(self) -> str:
        more = self.one("", "", f" AND owner = {self.name()}")
        return f"DELETE FROM locks WHERE name = {self.name()}{more}"

    def make_take(self) -> str:
        test = self.one(f"owner = {self.name()}", "owner IS NULL", "n < 5")
        return f"UPDATE locks SET owner = {self.name()}, n = n + 1 WHERE name = {self.name()} AND {test}"

    def make_rename(self) -> str:
        return f"UPDATE locks SET name = {self.name()} WHERE name = {self.name()}"

    def make_look(self) -> str:
        what = self.one("*", "id, n + 1", "COUNT(*)", "name, owner")
        return f"SELECT {what} FROM locks WHERE name = {self.name()}{self.reading()}"

    def make_look_in(self) -> str:
        return f"SELECT name, n FROM locks WHERE id = {self.key()}{self.reading()}"

    def make_all(self) -> str:
        return "SELECT * FROM locks ORDER BY id"

    def make_ids(self) -> str:
        return "SELECT LAST_INSERT_ID(), ROW_COUNT()"

    # A table with an index that is not unique.

    def make_pair(self) -> str:
        return f"INSERT INTO pairs (k, a) VALUES ({self.key()}, {self.number()})"

    def make_pair_change(self) -> str:
        where = self.one(f"k = {self.key()}", f"a = {self.number()}")
        return f"UPDATE pairs SET {self.one('a', 'a', 'k')} = {self.key()} WHERE {where}"

    def make_pair_delete(self) -> str:
        return f"DELETE FROM pairs WHERE {self.one('k', 'k', 'a')} = {self.key()}"

    def make_pairs(self) -> str:
        where = self.one(f"k = {self.key()}", f"k > {self.key()}", f"k IN ({self.key()}, {self.key()})")
        return f"SELECT * FROM pairs WHERE {where} ORDER BY k{self.reading()}"

    def make_pair_count(self) -> str:
        return f"SELECT COUNT(*), MAX(k), MIN(a) FROM pairs WHERE k BETWEEN {self.key()} AND {self.key()}"

    # Tables whose rows are far apart, and without an index.

    def make_plain(self) -> str:
        return f"INSERT INTO plain VALUES ({self.ten()}, {self.number()})"

    def make_plain_delete(self) -> str:
        return f"DELETE FROM plain WHERE k = {self.ten()}"

    def make_plain_change(self) -> str:
        where = self.one(f"k = {self.ten()}", f"v = {self.number()}", f"k >= {self.ten()}")
        return f"UPDATE plain SET v = v + {self.number()} WHERE {where}"

    def make_plain_look(self) -> str:
        where = self.one(f"k = {self.ten()}", f"k < {self.ten()}", f"v = {self.number()}")
        return f"SELECT * FROM plain WHERE {where} ORDER BY k{self.reading()}"

    def make_heap(self) -> str:
        return self.one(
            f"INSERT INTO heap (x, y) VALUES ({self.number()}, {self.name()})",
            "INSERT INTO heap VALUES (1, 'too long', NULL)",
            "INSERT INTO heap VALUES (1)",
            f"UPDATE heap SET y = {self.name()} WHERE x = {self.number()}",
            f"DELETE FROM heap WHERE x = {self.number()}",
            f"SELECT x, y FROM heap WHERE y = {self.name()} OR x IS NULL ORDER BY x, y{self.reading()}",
        )

    def make_expression(self) -> str:
        return self.one(
            f"SELECT {self.number()} + {self.number()} * 2, {self.number()} / 4, NULL = 1, 7 % 3, 'a' = 'A '",
            "SELECT 'x' + 1, 1 = '1', NULL IS NULL, 1 IN (2, NULL), NOT 0, -(-1), 3 DIV 2, 1.5 + 1",
            "SELECT IFNULL(NULL, 2), COALESCE(NULL, NULL, 'z'), IF(1 > 2, 'a', 'b'), GREATEST(1, 3, 2)",
            "SELECT ADDTIME('2026-01-01 00:01:00', '-00:02:00'), DATE_ADD('2026-01-01', INTERVAL 90 SECOND)",
            "SELECT nope FROM locks", "SELECT * FROM nope", "SELECT 1 FROM dual WHERE", "UPDATE locks SET id = 'x'",
            "INSERT INTO plain (k) VALUES (1)", "INSERT INTO plain VALUES (1, NULL)",
            "INSERT INTO plain VALUES (99999999999, 1)", "SET no_such_variable=1", "SELECT NO_SUCH_FUNCTION(1)",
        )  # fmt: skip
