"""The simulated MySQL server and Debian's MariaDB give the same answers to the same steps."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pytest

from harness.fidelity.comparison import AnswerPair, Step
from harness.fidelity.mysql import MysqlComparison
from harness.fidelity.mysql.pair import VICTIM, MysqlPair, is_other_victim
from harness.fidelity.mysql.simulated import simulate
from harness.fidelity.mysql.statements import FINAL, SETUP, VOCABULARY, steps
from harness.sim.servers.mysql import locks
from harness.sim.servers.mysql.named_locks import NamedLocks
from harness.sim.servers.mysql.values import collate
from tests.fidelity.documented import documented
from tests.fidelity.real import assert_agreement, same, started
from tests.fidelity.record_mysql import form_of, record

SEEDS = range(2)
MANY_SEEDS = range(1000, 1040)
CHECK = ("sql", 2, "SELECT IS_FREE_LOCK('Order-7'), IS_FREE_LOCK('order-7')")
TAKE = "SELECT GET_LOCK('Order-7', 0)"
WAIT = "SELECT GET_LOCK('Order-7', 1000)"
GRANTED, REFUSED = "('rows', ((1,),))", "('rows', ((0,),))"
WAITS = "waits or has no answer"


@pytest.fixture(scope="module")
def pair() -> Iterator[MysqlPair]:
    with started(MysqlComparison()) as found:
        yield found


@pytest.mark.slow
@pytest.mark.real
def test_random_steps_get_the_answers_of_a_real_server(pair: MysqlPair) -> None:
    assert_agreement(pair, SEEDS, sum(len(steps(seed)) for seed in SEEDS))


@pytest.mark.real
@pytest.mark.slow
def test_many_random_steps_get_the_answers_of_a_real_server(pair: MysqlPair) -> None:
    assert_agreement(pair, MANY_SEEDS)


@pytest.mark.real
def test_names_of_locks_differ_by_case(pair: MysqlPair) -> None:
    assert same(pair, ("sql", 0, TAKE), ("sql", 1, "SELECT GET_LOCK('order-7', 0)")) == [GRANTED, GRANTED]


@pytest.mark.real
def test_waiting_session_gets_the_lock_of_a_killed_one(pair: MysqlPair) -> None:
    assert same(pair, ("sql", 0, TAKE), ("sql", 1, WAIT), ("sql", 2, "KILL {id0}"), ("sql", 0, TAKE)) == [
        GRANTED, WAITS, f"('ok', 0, 0); connection 1: {GRANTED}", "('lost',)",
    ]  # fmt: skip


@pytest.mark.real
def test_killed_wait_returns_null_or_loses_the_connection(pair: MysqlPair) -> None:
    assert same(
        pair, ("sql", 0, TAKE), ("sql", 1, WAIT), ("sql", 2, "KILL QUERY {id1}"), ("sql", 1, WAIT),
        ("sql", 2, "KILL {id1}"), CHECK,
    )[2:] == [
        "('ok', 0, 0); connection 1: ('rows', ((None,),))", WAITS, "('ok', 0, 0); connection 1: ('lost',)",
        "('rows', ((0, 1),))",
    ]  # fmt: skip


@pytest.mark.real
def test_second_deadlock_of_named_locks_has_the_other_victim(pair: MysqlPair) -> None:
    assert same(
        pair, ("sql", 0, "SELECT GET_LOCK('a', 0)"), ("sql", 1, "SELECT GET_LOCK('b', 0)"),
        ("sql", 0, "SELECT GET_LOCK('b', 1000)"), ("sql", 1, "SELECT GET_LOCK('a', 1000)"),
        ("sql", 1, "SELECT GET_LOCK('a', 1000)"),
    )[2:] == [WAITS, "('error', 1213, '')", f"{WAITS}; connection 0: ('error', 1213, '')"]  # fmt: skip


@pytest.mark.real
def test_restart_frees_named_locks_and_keeps_committed_rows(pair: MysqlPair) -> None:
    found = same(
        pair,
        ("settings", 1, ("SET autocommit=1",)),
        ("sql", 0, TAKE),
        ("sql", 0, "INSERT INTO locks (name) VALUES ('x')"),
        ("sql", 1, "INSERT INTO locks (name) VALUES ('y')"),
        ("sql", 1, WAIT),
        ("fault", "restart", "with data"),
        CHECK,
        ("sql", 2, "SELECT name FROM locks WHERE name IN ('x', 'y')"),
    )
    assert found[-3:] == [f"{WAITS}; connection 1: ('lost',)", "('rows', ((1, 1),))", "('rows', (('y',),))"]


@pytest.mark.real
def test_uncommitted_numbers_are_given_again_after_a_restart_unless_their_rows_were_written(pair: MysqlPair) -> None:
    insert = "INSERT INTO locks (name) VALUES ('{}'), ('{}')"
    same(
        pair, ("sql", 0, insert.format("a", "x")), ("fault", "restart", "with data"),
        ("sql", 0, insert.format("x", "y")), ("sql", 0, "SELECT LAST_INSERT_ID()"),
    )  # fmt: skip


@pytest.mark.real
def test_restart_without_data_loses_the_tables_of_a_sequence(pair: MysqlPair) -> None:
    insert, count = "INSERT INTO locks (name) VALUES ('x')", ("sql", 0, "SELECT COUNT(*) FROM locks")
    found = same(pair, ("sql", 0, insert), ("sql", 0, "COMMIT"), count, ("fault", "restart", "without data"), count)
    assert found[2] == "('rows', ((4,),))"
    assert found[4] == "('rows', ((3,),))"


# Mutants of the simulated server.


def _ignore_case(patch: pytest.MonkeyPatch) -> None:
    get = NamedLocks.get
    patch.setattr(NamedLocks, "get", lambda all_locks, holder, name, wait: get(all_locks, holder, collate(name), wait))


def _keep_locks_of_dead_sessions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NamedLocks, "release_all", lambda *_: 0)


def _grant_gap_locks(patch: pytest.MonkeyPatch) -> None:
    must_wait_for = locks.RecordLock.must_wait_for
    patch.setattr(
        locks.RecordLock,
        "must_wait_for",
        lambda lock, other: lock.kind is not locks.INSERT_INTENTION and must_wait_for(lock, other),
    )


_CASE: tuple[Step, ...] = (("sql", 0, TAKE), ("sql", 1, "SELECT GET_LOCK('order-7', 0)"))
_KILLED: tuple[Step, ...] = (("sql", 0, TAKE), ("sql", 2, "KILL {id0}"), CHECK)
_GAP: tuple[Step, ...] = (
    ("sql", 0, "SELECT * FROM plain WHERE k = 15 FOR UPDATE"),
    ("settings", 1, ("SET innodb_lock_wait_timeout=0",)),
    ("sql", 1, "INSERT INTO plain VALUES (15, 1)"),
)
MUTANTS: list[tuple[Callable[[pytest.MonkeyPatch], None], Sequence[Step]]] = [
    (_ignore_case, _CASE),
    (_keep_locks_of_dead_sessions, _KILLED),
    (_grant_gap_locks, _GAP),
]


@pytest.mark.real
@pytest.mark.few(1)
@pytest.mark.parametrize(("mutant", "steps_of_it"), MUTANTS, ids=lambda part: getattr(part, "__name__", ""))
def test_mutant_is_noticed(
    mutant: Callable[[pytest.MonkeyPatch], None],
    steps_of_it: Sequence[Step],
    pair: MysqlPair,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    same(pair, *steps_of_it)
    mutant(monkeypatch)
    assert any(one.real != one.simulated for one in pair.run(steps_of_it))


# Without a real server.


@pytest.mark.parametrize("seed", [2, 1, 3])
def test_steps_get_the_same_answers_twice(seed: int) -> None:
    results = simulate(SETUP, steps(seed))
    assert results == simulate(SETUP, steps(seed))
    kinds = {result.outcome[0] for result in results if result.outcome is not None}
    assert kinds >= {"rows", "ok", "error"}
    waiting = [one for step, one in zip(steps(seed), results, strict=True) if step[0] == "sql" and one.outcome is None]
    assert bool(waiting) == (seed != 1)


def test_steps_are_the_same_in_each_call_and_of_all_kinds() -> None:
    assert steps(3) == steps(3)
    assert steps(0)[-1][2] == FINAL[-1]
    many = [step for seed in range(80) for step in steps(seed)]
    assert {step[0] for step in many} == {"settings", "sql", "close", "fault"}
    assert {step[1:3] for step in many if step[:2] == ("fault", "restart")} == {
        ("restart", "with data"), ("restart", "without data"),
    }  # fmt: skip


_VICTIM_NOW: Final = "('error', 1213, ''); connection 1: ('ok', 1, 0)"
_VICTIM_THEN: Final = "('ok', 2, 0); connection 1: ('error', 1213, '')"


def test_other_victim_of_a_deadlock_is_a_known_difference() -> None:
    assert is_other_victim(AnswerPair(_VICTIM_NOW, _VICTIM_THEN))
    assert is_other_victim(AnswerPair(_VICTIM_THEN, _VICTIM_NOW))


@pytest.mark.parametrize(
    "simulated",
    [
        "('ok', 2, 0)",
        "waits or has no answer",
        "('error', 1213, '')",
        _VICTIM_NOW.replace("('ok', 1, 0)", "('ok', 2, 0)"),
        _VICTIM_THEN.replace("('ok', 2, 0)", "waits or has no answer"),
        _VICTIM_THEN.replace("('ok', 2, 0)", "('error', 1213, '')"),
        _VICTIM_THEN.replace("connection 1", "connection 2"),
        _VICTIM_THEN + "; connection 2: ('ok', 1, 0)",
    ],
)
def test_other_difference_after_a_deadlock_is_not_known(simulated: str) -> None:
    assert not is_other_victim(AnswerPair(_VICTIM_NOW, simulated))
    assert not is_other_victim(AnswerPair(simulated, _VICTIM_NOW))


@pytest.mark.real
def test_known_difference_is_documented(pair: MysqlPair) -> None:
    answers = AnswerPair(_VICTIM_NOW, _VICTIM_THEN)
    assert pair.known(("sql", 0, "DELETE FROM locks"), answers) == VICTIM
    assert pair.known(("sql", 0, "SELECT GET_LOCK('k0', 1)"), answers) == ""
    assert VICTIM in documented("mysql")


@pytest.mark.slow
def test_every_statement_of_every_lock_is_recorded() -> None:
    assert record() == json.loads(VOCABULARY.read_text(encoding="utf-8")), "run: python -m tests.fidelity.record_mysql"


def test_form_has_no_key_owner_span_or_number() -> None:
    statement = "INSERT INTO lease VALUES ('conformance:7', '0f7a', 12,  ADDTIME(NOW(6), '00:00:02.000000'))"
    assert form_of(statement) == "INSERT INTO lease VALUES ({key}, {owner}, {number}, ADDTIME(NOW(6), {span}))"
    assert form_of("SELECT GET_LOCK('conformance:7', 1.0e0)") == "SELECT GET_LOCK({key}, {number})"
