"""The simulated PostgreSQL server and Debian's give the same answers to the same steps."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.fidelity.comparison import AnswerPair, Step
from harness.fidelity.postgres import PostgresComparison
from harness.fidelity.postgres.pair import PostgresPair
from harness.fidelity.postgres.sides import simulate
from harness.fidelity.postgres.statements import SETUP, steps
from harness.sim.servers.postgres.locks import LockManager
from tests.fidelity.real import assert_agreement, same, started

SEEDS = range(3)
MANY_SEEDS = range(1000, 1100)
LOCK = "SELECT pg_advisory_lock(1)"
SHARE = "SELECT pg_advisory_lock_shared(1)"
GRANTED = "(pg_advisory_lock:2278); ['']; SELECT 1; I"


@pytest.fixture(scope="module")
def pair() -> Iterator[PostgresPair]:
    with started(PostgresComparison()) as found:
        yield found


@pytest.mark.real
def test_random_steps_get_the_answers_of_a_real_server(pair: PostgresPair) -> None:
    assert_agreement(pair, SEEDS, sum(len(steps(seed)) for seed in SEEDS))


@pytest.mark.real
@pytest.mark.slow
def test_many_random_steps_get_the_answers_of_a_real_server(pair: PostgresPair) -> None:
    assert_agreement(pair, MANY_SEEDS)


@pytest.mark.real
def test_session_that_closes_a_cycle_is_the_victim(pair: PostgresPair) -> None:
    deadlock = "ERROR 40P01 deadlock detected; I"
    assert same(
        pair, ("sql", 0, "SELECT pg_advisory_lock(1)"), ("sql", 1, "SELECT pg_advisory_lock(2)"),
        ("sql", 0, "SELECT pg_advisory_lock(2)"), ("sql", 1, "SELECT pg_advisory_lock(1)"), ("close", 1),
    ) == [GRANTED, GRANTED, "waits", deadlock, f"closed | session 0: {GRANTED}"]  # fmt: skip


@pytest.mark.real
def test_deadlock_of_row_locks_rolls_one_transaction_back(pair: PostgresPair) -> None:
    answers = same(
        pair, ("sql", 0, "BEGIN"), ("sql", 1, "BEGIN"), ("sql", 0, "UPDATE t SET v = 5 WHERE k = 'a'"),
        ("sql", 1, "UPDATE t SET v = 6 WHERE k = 'b'"), ("sql", 0, "UPDATE t SET v = 5 WHERE k = 'b'"),
        ("sql", 1, "UPDATE t SET v = 6 WHERE k = 'a'"), ("sql", 1, "SELECT 1"),
    )  # fmt: skip
    assert answers[4:6] == ["waits", "ERROR 40P01 deadlock detected; E | session 0: UPDATE 1; T"]
    assert answers[6].startswith("ERROR 25P02")


@pytest.mark.real
def test_exclusive_waiter_blocks_later_shared_requests(pair: PostgresPair) -> None:
    assert same(
        pair, ("sql", 0, SHARE), ("sql", 1, LOCK), ("sql", 2, "SELECT pg_try_advisory_lock_shared(1)"),
        ("sql", 2, SHARE), ("close", 0),
    )[1:] == [
        "waits", "(pg_try_advisory_lock_shared:16); ['f']; SELECT 1; I", "waits", f"closed | session 1: {GRANTED}",
    ]  # fmt: skip


@pytest.mark.real
def test_advisory_lock_of_a_session_outlives_a_rollback(pair: PostgresPair) -> None:
    assert same(
        pair, ("sql", 0, "BEGIN"), ("sql", 0, LOCK), ("sql", 0, "SELECT pg_advisory_xact_lock(2)"),
        ("sql", 0, "ROLLBACK"), ("sql", 1, "SELECT pg_try_advisory_lock(1), pg_try_advisory_lock(2)"),
    )[-1] == "(pg_try_advisory_lock:16, pg_try_advisory_lock:16); ['f', 't']; SELECT 1; I"  # fmt: skip


class _SimulatedTwice:
    """Compares the simulated server with a changed one, in the place of the real one."""

    version = "none"

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def steps(self, seed: int) -> list[Step]:
        return list(steps(seed))

    def run(self, steps: list[Step]) -> Iterator[AnswerPair]:
        right = simulate(SETUP, steps)
        with self._patch.context() as patch:
            patch.setattr(LockManager, "check_deadlock", lambda *_: None)
            wrong = simulate(SETUP, steps)
        for one, other in zip(right, wrong, strict=True):
            yield AnswerPair(one.text(), other.text())


def test_server_without_deadlock_detection_is_told_from_the_right_one(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = _SimulatedTwice(monkeypatch)
    assert any(one.real != one.simulated for seed in range(40) for one in changed.run(changed.steps(seed)))
