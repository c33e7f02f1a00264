"""InnoDB's rules as a lock meets them, seen by real PyMySQL on the simulated MariaDB; and that each rule bites."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.sim.servers.mysql import locks, rows, scan, transactions
from harness.sim.servers.mysql.locks import Lock, Outcome
from tests.sim.mysql_play import Bench, Step, play_simulated

SETUP = [
    "CREATE TABLE locks (id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(8) NOT NULL UNIQUE, n INT DEFAULT 0)",
    "CREATE TABLE heap (name VARCHAR(8), n INT)",
    "INSERT INTO locks (name) VALUES ('a'), ('m')",
    "INSERT INTO heap VALUES ('a', 1), ('b', 2)",
]
A, B, C = 0, 1, 2
WAITS = "waits"


def told(*steps: Step) -> list[Any]:
    """What became of each step (not of the roll-backs at the end): rows, rows affected, or an error's number; after
    ``WAITS`` for one that had to wait."""
    found: list[Any] = []
    for _, _, waited, outcome in play_simulated(SETUP, list(steps))[: len(steps)]:
        brief = outcome[1]
        found.append((WAITS, brief) if waited else brief)
    return found


def a_row_is_locked_until_the_end() -> list[Any]:
    row = "SELECT n FROM locks WHERE name = 'a' FOR UPDATE"
    return told((A, row), (B, row), (C, "SELECT n FROM locks WHERE name = 'm' FOR UPDATE"), (A, "COMMIT"))


def autocommit_ends_a_lock() -> list[Any]:
    row = "SELECT n FROM locks WHERE name = 'a' FOR UPDATE"
    return told((A, "SET autocommit=1"), (A, row), (B, row))


def a_search_without_an_index_locks_every_row() -> list[Any]:
    return told(
        (A, "SELECT n FROM heap WHERE name = 'a' FOR UPDATE"),
        (B, "SELECT n FROM heap WHERE name = 'b' FOR UPDATE NOWAIT"),
        (B, "INSERT INTO heap VALUES ('c', 3)"),
    )


def gap_locks_go_together_and_block_inserts() -> list[Any]:
    row = "SELECT n FROM locks WHERE name = 'f' FOR UPDATE"
    insert = "INSERT INTO locks (name) VALUES ('f')"
    return told((A, row), (B, row), (A, insert), (B, insert), (A, "COMMIT"))


def an_insert_waits_for_an_uncommitted_duplicate() -> list[Any]:
    insert = "INSERT INTO locks (name) VALUES ('f')"
    return told((A, insert), (B, insert), (A, "COMMIT"), (B, "COMMIT"), (A, insert))


def an_insert_goes_on_when_the_duplicate_is_taken_back() -> list[Any]:
    insert = "INSERT INTO locks (name) VALUES ('f')"
    return told((A, insert), (B, insert), (A, "ROLLBACK"))


def of_three_inserts_one_is_a_deadlocks_victim() -> list[Any]:
    """The manual's example: a roll-back gives two others shared locks, and both want more."""
    insert = "INSERT INTO locks (name) VALUES ('f')"
    return told((A, insert), (B, insert), (C, insert), (A, "ROLLBACK"), (B, "COMMIT"))


def a_deadlock_has_a_victim() -> list[Any]:
    one, other = (f"UPDATE locks SET n = n + 1 WHERE id = {number}" for number in (1, 2))
    look = "SELECT n FROM locks"
    return told((A, one), (B, other), (B, "SELECT 1"), (A, other), (B, one), (A, "COMMIT"), (B, look))


def a_time_out_takes_back_the_statement_only() -> list[Any]:
    return told(
        (A, "UPDATE locks SET n = 7 WHERE name = 'm'"),
        (B, "SET innodb_lock_wait_timeout = 0"),
        (B, "UPDATE locks SET n = 5 WHERE name = 'a'"),
        (B, "UPDATE locks SET n = 6 WHERE id IN (1, 2)"),
        (B, "SELECT n FROM locks WHERE name = 'a'"),
        (C, "SELECT n FROM locks WHERE name = 'a' FOR UPDATE NOWAIT"),
    )


def a_snapshot_stays() -> list[Any]:
    look, change = "SELECT n FROM locks WHERE name = 'a'", "UPDATE locks SET n = n + 1 WHERE name = 'a'"
    return told(
        (A, "START TRANSACTION"), (A, look), (B, change), (B, "COMMIT"), (A, look), (A, look + " FOR UPDATE"),
        (A, change), (A, look),
    )  # fmt: skip


def read_committed_sees_what_is_committed() -> list[Any]:
    look = "SELECT n FROM locks WHERE name = 'a'"
    level = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
    change = "UPDATE locks SET n = n + 1 WHERE name = 'a'"
    return told((A, level), (A, look), (B, change), (A, look), (B, "COMMIT"), (A, look))


def serializable_reads_lock() -> list[Any]:
    look, level = "SELECT n FROM locks WHERE id = 1", "SET tx_isolation = 'SERIALIZABLE'"
    change = "UPDATE locks SET n = 5 WHERE id = 1"
    return told((A, look), (B, level), (B, look), (A, change), (B, "COMMIT"), (A, "COMMIT"), (A, look), (B, change))


def numbers_are_not_given_back() -> list[Any]:
    insert = "INSERT INTO locks (name) VALUES ('f')"
    last = "SELECT LAST_INSERT_ID()"
    return told((A, insert), (A, "ROLLBACK"), (A, insert), (A, last))


def who_waits_longer_comes_first() -> list[Any]:
    row, shared = "SELECT n FROM locks WHERE id = 1 FOR UPDATE", "SELECT n FROM locks WHERE id = 1 LOCK IN SHARE MODE"
    return told((A, shared), (B, row), (C, shared), (A, "COMMIT"), (B, "COMMIT"))


def locked_rows_are_skipped() -> list[Any]:
    return told(
        (A, "SELECT id FROM locks WHERE id = 1 FOR UPDATE"),
        (B, "SELECT id FROM locks ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"),
        (C, "SELECT id FROM locks WHERE id = 1 FOR UPDATE NOWAIT"),
    )


def two_deletes_of_a_row() -> list[Any]:
    delete = "DELETE FROM locks WHERE name = 'a'"
    return told((A, delete), (B, delete), (A, "COMMIT"), (B, "INSERT INTO locks (name) VALUES ('a')"))


def a_swept_row_lets_others_in() -> list[Any]:
    """The row's deletion is seen by nobody after the commit, and the place is free."""
    return told(
        (A, "DELETE FROM locks WHERE name = 'a'"), (A, "COMMIT"),
        (B, "INSERT INTO locks (name) VALUES ('a')"), (B, "SELECT COUNT(*) FROM locks WHERE name = 'a'"),
    )  # fmt: skip


Story = Callable[[], list[Any]]
ZERO = ((0,),)
EXPECTED: dict[Story, list[Any]] = {
    a_row_is_locked_until_the_end: [ZERO, (WAITS, ZERO), ZERO, 0],
    autocommit_ends_a_lock: [0, ZERO, ZERO],
    a_search_without_an_index_locks_every_row: [((1,),), 1205, (WAITS, 1)],
    gap_locks_go_together_and_block_inserts: [(), (), (WAITS, 1), 1213, 0],
    an_insert_waits_for_an_uncommitted_duplicate: [1, (WAITS, 1062), 0, 0, 1062],
    an_insert_goes_on_when_the_duplicate_is_taken_back: [1, (WAITS, 1), 0],
    of_three_inserts_one_is_a_deadlocks_victim: [1, (WAITS, 1), (WAITS, 1213), 0, 0],
    a_deadlock_has_a_victim: [1, 1, ((1,),), (WAITS, 1), 1213, 0, ((1,), (1,))],
    a_time_out_takes_back_the_statement_only: [1, 0, 1, 1205, ((5,),), 1205],
    a_snapshot_stays: [0, ZERO, 1, 0, ZERO, ((1,),), 1, ((2,),)],
    read_committed_sees_what_is_committed: [0, ZERO, 1, ZERO, 0, ((1,),)],
    serializable_reads_lock: [ZERO, 0, ZERO, (WAITS, 1), 0, 0, ((5,),), 0],
    numbers_are_not_given_back: [1, 0, 1, ((4,),)],
    who_waits_longer_comes_first: [ZERO, (WAITS, ZERO), (WAITS, ZERO), 0, 0],
    locked_rows_are_skipped: [((1,),), ((2,),), 1205],
    two_deletes_of_a_row: [1, (WAITS, 0), 0, 1],
    a_swept_row_lets_others_in: [1, 0, 1, ((1,),)],
}


@pytest.mark.parametrize("story", EXPECTED, ids=lambda story: story.__name__)
def test_a_rule_of_innodb(story: Story) -> None:
    assert story() == EXPECTED[story]


# Servers that break a rule, each of which some story notices.


def _gaps_exclude_each_other(patch: pytest.MonkeyPatch) -> None:
    usual = Lock.must_wait_for

    def must_wait_for(self: Lock, other: Lock) -> bool:
        both = self.kind is other.kind is locks.GAP and self.trx is not other.trx
        return both or usual(self, other)

    patch.setattr(Lock, "must_wait_for", must_wait_for)


def _no_gap_locks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transactions.Transaction, "read_committed", True)


def _no_deadlocks_are_looked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(locks, "victim", lambda trx: None)


def _time_outs_roll_back_everything(patch: pytest.MonkeyPatch) -> None:
    usual = transactions.Transactions.rollback_to
    patch.setattr(transactions.Transactions, "rollback_to", lambda self, trx, mark, log: usual(self, trx, 0, 0))


def _snapshots_are_renewed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transactions.Transactions, "view", lambda self, trx: self.new_view(trx.number))


def _the_last_comes_first(patch: pytest.MonkeyPatch) -> None:
    usual = locks.request

    def request(trx: Any, index: Any, key: Any, mode: Any, kind: Any, **how: Any) -> Lock | None:
        lock = usual(trx, index, key, mode, kind, **how)
        if (
            lock is not None
            and mode == "S"
            and not any(map(lock.must_wait_for, (other for other in index.locks[key] if other.wait is None)))
        ):
            wait, lock.wait = lock.wait, None
            trx.waiting = None
            assert wait is not None
            wait.ended = Outcome.GRANTED
            return None
        return lock

    patch.setattr(locks, "request", request)


def _duplicates_are_not_locked(patch: pytest.MonkeyPatch) -> None:
    def check(self: rows.Rows, index: Any, row: Any, check: Any) -> Any:
        prefix = index.prefix(row)
        key = index.at_least(prefix)
        if key[: len(prefix)] == prefix and not index.entries[key].deleted:
            raise rows.Duplicate(index, index.entries[key].record, row)
        yield from ()
        return False

    patch.setattr(rows.Rows, "_check_unique", check)


def _only_matching_rows_are_locked(patch: pytest.MonkeyPatch) -> None:
    usual = scan.LockingRead._entry

    def entry(self: scan.LockingRead, index: Any, key: Any, kind: Any, mark: int, *, semi: bool) -> Any:
        row = index.entries[key].record.versions[0].row
        if row is not None and not self.test(row):
            return False
        return (yield from usual(self, index, key, locks.REC, mark, semi=semi))

    patch.setattr(scan.LockingRead, "_entry", entry)


def _locks_end_with_the_statement(patch: pytest.MonkeyPatch) -> None:
    usual = scan.LockingRead.run

    def run(self: scan.LockingRead, path: Any) -> Any:
        yield from usual(self, path)
        locks.release_all(self.trx)

    patch.setattr(scan.LockingRead, "run", run)


MUTANTS: list[tuple[Callable[[pytest.MonkeyPatch], None], Story]] = [
    (_gaps_exclude_each_other, gap_locks_go_together_and_block_inserts),
    (_no_gap_locks, gap_locks_go_together_and_block_inserts),
    (_no_gap_locks, a_snapshot_stays),
    (_time_outs_roll_back_everything, a_time_out_takes_back_the_statement_only),
    (_snapshots_are_renewed, a_snapshot_stays),
    (_the_last_comes_first, who_waits_longer_comes_first),
    (_duplicates_are_not_locked, an_insert_waits_for_an_uncommitted_duplicate),
    (_only_matching_rows_are_locked, a_search_without_an_index_locks_every_row),
    (_locks_end_with_the_statement, a_row_is_locked_until_the_end),
    (_no_deadlocks_are_looked_for, a_deadlock_has_a_victim),
]


@pytest.mark.parametrize(("mutant", "story"), MUTANTS, ids=lambda part: getattr(part, "__name__", ""))
def test_a_server_that_breaks_the_rule_is_noticed(
    mutant: Callable[[pytest.MonkeyPatch], None], story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    try:
        seen = story()
    except AssertionError:  # whoever is never freed is noticed by the player
        return
    assert seen != EXPECTED[story]


def test_a_lock_wait_ends_after_its_time() -> None:
    bench = Bench(lock_wait_timeout=3)

    def main() -> tuple[Any, float]:
        import time

        import pymysql

        first, second = bench.connect(), bench.connect()
        with first.cursor() as cursor:
            for statement in SETUP:
                cursor.execute(statement)
        first.commit()
        with first.cursor() as cursor:
            cursor.execute("SELECT * FROM locks FOR UPDATE")
        began = time.monotonic()
        with second.cursor() as cursor, pytest.raises(pymysql.err.OperationalError) as raised:
            cursor.execute("DELETE FROM locks WHERE id = 1")
        return raised.value.args[0], time.monotonic() - began

    ((number, took),) = bench.run(main)
    assert number == 1205
    assert 3 <= took < 3.1
