"""InnoDB's locking rules, observed with PyMySQL on the simulated MariaDB; a mutant for each rule must be noticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.fidelity.mysql.simulated import simulate
from harness.sim.servers.mysql import locks, rows, scan, transactions
from harness.sim.servers.mysql.locks import RecordLock
from harness.sim.servers.waits import WaitOutcome
from tests.sim.mysql_bench import MysqlBench

SETUP = [
    "CREATE TABLE locks (id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(8) NOT NULL UNIQUE, n INT DEFAULT 0)",
    "CREATE TABLE heap (name VARCHAR(8), n INT)",
    "INSERT INTO locks (name) VALUES ('a'), ('m')",
    "INSERT INTO heap VALUES ('a', 1), ('b', 2)",
]
A, B, C = 0, 1, 2
WAITS = "waits"
Step = tuple[int, str]
"""(connection, statement)."""


def outcomes_of(*steps: Step) -> list[Any]:
    """Run the steps and return the outcome of each: rows, affected rows, or an error's number.

    The outcome of a step that had to wait is (``WAITS``, outcome). At the end all transactions are rolled back.
    """
    rollbacks = [(connection, "ROLLBACK") for connection in (A, B, C)] * 3
    results = simulate(SETUP, [("sql", *step) for step in (*steps, *rollbacks)])
    found: list[Any] = []
    for at, (connection, _) in enumerate(steps):
        outcome = results[at].outcome
        late = next((one.ended[connection] for one in results[at:] if connection in one.ended), None)
        assert outcome is not None or late is not None, f"step {at} is never unblocked"
        found.append((WAITS, late[1]) if outcome is None and late is not None else outcome and outcome[1])
    return found


def row_is_locked_until_the_transaction_ends() -> list[Any]:
    row = "SELECT n FROM locks WHERE name = 'a' FOR UPDATE"
    return outcomes_of((A, row), (B, row), (C, "SELECT n FROM locks WHERE name = 'm' FOR UPDATE"), (A, "COMMIT"))


def autocommit_releases_locks() -> list[Any]:
    row = "SELECT n FROM locks WHERE name = 'a' FOR UPDATE"
    return outcomes_of((A, "SET autocommit=1"), (A, row), (B, row))


def search_without_an_index_locks_every_row() -> list[Any]:
    return outcomes_of(
        (A, "SELECT n FROM heap WHERE name = 'a' FOR UPDATE"),
        (B, "SELECT n FROM heap WHERE name = 'b' FOR UPDATE NOWAIT"),
        (B, "INSERT INTO heap VALUES ('c', 3)"),
    )


def gap_locks_are_compatible_and_block_inserts() -> list[Any]:
    row = "SELECT n FROM locks WHERE name = 'f' FOR UPDATE"
    insert = "INSERT INTO locks (name) VALUES ('f')"
    return outcomes_of((A, row), (B, row), (A, insert), (B, insert), (A, "COMMIT"))


def insert_waits_for_an_uncommitted_duplicate() -> list[Any]:
    insert = "INSERT INTO locks (name) VALUES ('f')"
    return outcomes_of((A, insert), (B, insert), (A, "COMMIT"), (B, "COMMIT"), (A, insert))


def insert_continues_when_the_duplicate_is_rolled_back() -> list[Any]:
    insert = "INSERT INTO locks (name) VALUES ('f')"
    return outcomes_of((A, insert), (B, insert), (A, "ROLLBACK"))


def one_of_three_inserts_is_a_deadlock_victim() -> list[Any]:
    """The example in MySQL's manual: a rollback gives two others shared locks, and both request exclusive ones."""
    insert = "INSERT INTO locks (name) VALUES ('f')"
    return outcomes_of((A, insert), (B, insert), (C, insert), (A, "ROLLBACK"), (B, "COMMIT"))


def deadlock_has_a_victim() -> list[Any]:
    one, other = (f"UPDATE locks SET n = n + 1 WHERE id = {number}" for number in (1, 2))
    look = "SELECT n FROM locks"
    return outcomes_of((A, one), (B, other), (B, "SELECT 1"), (A, other), (B, one), (A, "COMMIT"), (B, look))


def lock_timeout_undoes_only_the_statement() -> list[Any]:
    return outcomes_of(
        (A, "UPDATE locks SET n = 7 WHERE name = 'm'"),
        (B, "SET innodb_lock_wait_timeout = 0"),
        (B, "UPDATE locks SET n = 5 WHERE name = 'a'"),
        (B, "UPDATE locks SET n = 6 WHERE id IN (1, 2)"),
        (B, "SELECT n FROM locks WHERE name = 'a'"),
        (C, "SELECT n FROM locks WHERE name = 'a' FOR UPDATE NOWAIT"),
    )


def repeatable_read_keeps_its_snapshot() -> list[Any]:
    look, change = "SELECT n FROM locks WHERE name = 'a'", "UPDATE locks SET n = n + 1 WHERE name = 'a'"
    return outcomes_of(
        (A, "START TRANSACTION"), (A, look), (B, change), (B, "COMMIT"), (A, look), (A, look + " FOR UPDATE"),
        (A, change), (A, look),
    )  # fmt: skip


def read_committed_sees_commits() -> list[Any]:
    look = "SELECT n FROM locks WHERE name = 'a'"
    level = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
    change = "UPDATE locks SET n = n + 1 WHERE name = 'a'"
    return outcomes_of((A, level), (A, look), (B, change), (A, look), (B, "COMMIT"), (A, look))


def serializable_reads_lock_rows() -> list[Any]:
    look, level = "SELECT n FROM locks WHERE id = 1", "SET tx_isolation = 'SERIALIZABLE'"
    change = "UPDATE locks SET n = 5 WHERE id = 1"
    return outcomes_of(
        (A, look), (B, level), (B, look), (A, change), (B, "COMMIT"), (A, "COMMIT"), (A, look), (B, change)
    )


def auto_increment_values_are_not_reused() -> list[Any]:
    insert = "INSERT INTO locks (name) VALUES ('f')"
    last = "SELECT LAST_INSERT_ID()"
    return outcomes_of((A, insert), (A, "ROLLBACK"), (A, insert), (A, last))


def locks_are_granted_in_order_of_request() -> list[Any]:
    row, shared = "SELECT n FROM locks WHERE id = 1 FOR UPDATE", "SELECT n FROM locks WHERE id = 1 LOCK IN SHARE MODE"
    return outcomes_of((A, shared), (B, row), (C, shared), (A, "COMMIT"), (B, "COMMIT"))


def skip_locked_skips_rows() -> list[Any]:
    return outcomes_of(
        (A, "SELECT id FROM locks WHERE id = 1 FOR UPDATE"),
        (B, "SELECT id FROM locks ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"),
        (C, "SELECT id FROM locks WHERE id = 1 FOR UPDATE NOWAIT"),
    )


def second_delete_of_a_row_finds_nothing() -> list[Any]:
    delete = "DELETE FROM locks WHERE name = 'a'"
    return outcomes_of((A, delete), (B, delete), (A, "COMMIT"), (B, "INSERT INTO locks (name) VALUES ('a')"))


def insert_succeeds_after_a_committed_delete() -> list[Any]:
    """The deleted row is purged after the commit, and its key is free."""
    return outcomes_of(
        (A, "DELETE FROM locks WHERE name = 'a'"), (A, "COMMIT"),
        (B, "INSERT INTO locks (name) VALUES ('a')"), (B, "SELECT COUNT(*) FROM locks WHERE name = 'a'"),
    )  # fmt: skip


Behaviour = Callable[[], list[Any]]
ZERO = ((0,),)
EXPECTED: dict[Behaviour, list[Any]] = {
    row_is_locked_until_the_transaction_ends: [ZERO, (WAITS, ZERO), ZERO, 0],
    autocommit_releases_locks: [0, ZERO, ZERO],
    search_without_an_index_locks_every_row: [((1,),), 1205, (WAITS, 1)],
    gap_locks_are_compatible_and_block_inserts: [(), (), (WAITS, 1), 1213, 0],
    insert_waits_for_an_uncommitted_duplicate: [1, (WAITS, 1062), 0, 0, 1062],
    insert_continues_when_the_duplicate_is_rolled_back: [1, (WAITS, 1), 0],
    one_of_three_inserts_is_a_deadlock_victim: [1, (WAITS, 1), (WAITS, 1213), 0, 0],
    deadlock_has_a_victim: [1, 1, ((1,),), (WAITS, 1), 1213, 0, ((1,), (1,))],
    lock_timeout_undoes_only_the_statement: [1, 0, 1, 1205, ((5,),), 1205],
    repeatable_read_keeps_its_snapshot: [0, ZERO, 1, 0, ZERO, ((1,),), 1, ((2,),)],
    read_committed_sees_commits: [0, ZERO, 1, ZERO, 0, ((1,),)],
    serializable_reads_lock_rows: [ZERO, 0, ZERO, (WAITS, 1), 0, 0, ((5,),), 0],
    auto_increment_values_are_not_reused: [1, 0, 1, ((4,),)],
    locks_are_granted_in_order_of_request: [ZERO, (WAITS, ZERO), (WAITS, ZERO), 0, 0],
    skip_locked_skips_rows: [((1,),), ((2,),), 1205],
    second_delete_of_a_row_finds_nothing: [1, (WAITS, 0), 0, 1],
    insert_succeeds_after_a_committed_delete: [1, 0, 1, ((1,),)],
}


@pytest.mark.parametrize("behaviour", EXPECTED, ids=lambda behaviour: behaviour.__name__)
def test_innodb_behaviour(behaviour: Behaviour) -> None:
    assert behaviour() == EXPECTED[behaviour]


# Mutants of the server, each noticed by one behaviour.


def _make_gap_locks_conflict(patch: pytest.MonkeyPatch) -> None:
    usual = RecordLock.must_wait_for

    def must_wait_for(self: RecordLock, other: RecordLock) -> bool:
        both_directions = self.kind is other.kind is locks.GAP and self.trx is not other.trx
        return both_directions or usual(self, other)

    patch.setattr(RecordLock, "must_wait_for", must_wait_for)


def _take_no_gap_locks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transactions.Transaction, "read_committed", True)


def _detect_no_deadlocks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(locks, "victim", lambda trx: None)


def _roll_back_everything_on_timeout(patch: pytest.MonkeyPatch) -> None:
    usual = transactions.Transactions.rollback_to
    patch.setattr(transactions.Transactions, "rollback_to", lambda self, trx, mark, log: usual(self, trx, 0, 0))


def _renew_snapshots(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(transactions.Transactions, "view", lambda self, trx: self.new_view(trx.number))


def _grant_the_last_request_first(patch: pytest.MonkeyPatch) -> None:
    usual = locks.request

    def request(trx: Any, index: Any, key: Any, mode: Any, kind: Any, **how: Any) -> RecordLock | None:
        lock = usual(trx, index, key, mode, kind, **how)
        if (
            lock is not None
            and mode == "S"
            and not any(map(lock.must_wait_for, (other for other in index.locks[key] if other.wait is None)))
        ):
            wait, lock.wait = lock.wait, None
            trx.waiting = None
            assert wait is not None
            wait.ended = WaitOutcome.GRANTED
            return None
        return lock

    patch.setattr(locks, "request", request)


def _do_not_lock_duplicates(patch: pytest.MonkeyPatch) -> None:
    def check(self: rows.RowWriter, index: Any, row: Any, check: Any) -> Any:
        prefix = index.prefix(row)
        key = index.at_least(prefix)
        if key[: len(prefix)] == prefix and not index.entries[key].deleted:
            raise rows.Duplicate(index, index.entries[key].record, row)
        yield from ()
        return False

    patch.setattr(rows.RowWriter, "_check_unique", check)


def _lock_only_matching_rows(patch: pytest.MonkeyPatch) -> None:
    usual = scan.LockingRead._visit_entry

    def entry(self: scan.LockingRead, index: Any, key: Any, kind: Any, mark: int, *, semi_consistent: bool) -> Any:
        row = index.entries[key].record.versions[0].row
        if row is not None and not self.test(row):
            return False
        return (yield from usual(self, index, key, locks.REC, mark, semi_consistent=semi_consistent))

    patch.setattr(scan.LockingRead, "_visit_entry", entry)


def _release_locks_after_each_statement(patch: pytest.MonkeyPatch) -> None:
    usual = scan.LockingRead.run

    def run(self: scan.LockingRead, path: Any) -> Any:
        yield from usual(self, path)
        locks.release_all(self.trx)

    patch.setattr(scan.LockingRead, "run", run)


MUTANTS: list[tuple[Callable[[pytest.MonkeyPatch], None], Behaviour]] = [
    (_make_gap_locks_conflict, gap_locks_are_compatible_and_block_inserts),
    (_take_no_gap_locks, gap_locks_are_compatible_and_block_inserts),
    (_take_no_gap_locks, repeatable_read_keeps_its_snapshot),
    (_roll_back_everything_on_timeout, lock_timeout_undoes_only_the_statement),
    (_renew_snapshots, repeatable_read_keeps_its_snapshot),
    (_grant_the_last_request_first, locks_are_granted_in_order_of_request),
    (_do_not_lock_duplicates, insert_waits_for_an_uncommitted_duplicate),
    (_lock_only_matching_rows, search_without_an_index_locks_every_row),
    (_release_locks_after_each_statement, row_is_locked_until_the_transaction_ends),
    (_detect_no_deadlocks, deadlock_has_a_victim),
]


@pytest.mark.parametrize(("mutant", "behaviour"), MUTANTS, ids=lambda part: getattr(part, "__name__", ""))
def test_mutant_is_noticed(
    mutant: Callable[[pytest.MonkeyPatch], None], behaviour: Behaviour, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    try:
        seen = behaviour()
    except AssertionError:  # outcomes_of notices a statement that is never unblocked
        return
    assert seen != EXPECTED[behaviour]


def test_lock_wait_times_out() -> None:
    bench = MysqlBench(lock_wait_timeout=3)

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
