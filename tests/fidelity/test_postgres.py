"""The simulated PostgreSQL server and Debian's give the same answers to the same steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from harness.fidelity.comparison import AnswerPair, Step
from harness.fidelity.postgres import PostgresComparison
from harness.fidelity.postgres.pair import PostgresPair
from harness.fidelity.postgres.simulated import OrderSearch, SimulatedPlayer
from harness.fidelity.postgres.statements import SETUP, steps
from harness.sim.servers.postgres.locks import LockManager
from tests.fidelity.real import assert_agreement, same, started

SEEDS = range(1)
MANY_SEEDS = range(1000, 1040)
LOCK = "SELECT pg_advisory_lock(1)"
SHARE = "SELECT pg_advisory_lock_shared(1)"
GRANTED = "(pg_advisory_lock:2278); ['']; SELECT 1; I"


@pytest.fixture(scope="module")
def pair() -> Iterator[PostgresPair]:
    with started(PostgresComparison()) as found:
        yield found


@pytest.mark.slow
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


BEGIN, COMMIT = "BEGIN", "COMMIT"
ADD = "UPDATE t SET v = v + 1 WHERE k = 'b' RETURNING v"
READ = "SELECT v FROM t WHERE k = 'b' FOR UPDATE"


@pytest.mark.real
def test_waiter_of_an_old_version_of_a_row_has_no_turn_before_later_ones(pair: PostgresPair) -> None:
    """Sessions 2 and 3 both wait for the end of session 0, and either may continue first."""
    answers = same(
        pair, ("sql", 1, BEGIN), ("sql", 1, ADD), ("sql", 0, BEGIN), ("sql", 0, ADD), ("sql", 2, ADD),
        ("sql", 1, COMMIT), ("sql", 3, READ), ("sql", 0, "ROLLBACK"),
    )  # fmt: skip
    if "session 2" in answers[5]:  # it woke before session 0 at the commit, as it may on a loaded machine
        assert answers[-1] == "ROLLBACK; I | session 3: (v:23); ['4']; SELECT 1; I"
        return
    assert answers[-1] in {
        f"ROLLBACK; I | session 2: (v:23); ['4']; UPDATE 1; I | session 3: (v:23); ['{value}']; SELECT 1; I"
        for value in (3, 4)
    }


@pytest.mark.real
def test_waiters_of_one_version_of_a_row_have_turns(pair: PostgresPair) -> None:
    assert same(
        pair, ("sql", 0, BEGIN), ("sql", 0, ADD), ("sql", 1, ADD), ("sql", 2, READ), ("sql", 0, "ROLLBACK"),
    )[-1] == "ROLLBACK; I | session 1: (v:23); ['3']; UPDATE 1; I | session 2: (v:23); ['3']; SELECT 1; I"  # fmt: skip


@pytest.mark.real
@pytest.mark.parametrize("clause", ["", " ON CONFLICT DO NOTHING", " ON CONFLICT (k) DO UPDATE SET v = 9"])
def test_insert_that_waits_for_a_unique_key_is_in_the_keys_before_it(clause: str, pair: PostgresPair) -> None:
    """Session 1 waits for the end of the row with u = 'x', and others find its k; not so if both keys are asked."""
    insert = "INSERT INTO t (k, v, u) VALUES ('e', {}, {})" + clause
    answers = same(
        pair, ("sql", 0, BEGIN), ("sql", 0, "DELETE FROM t WHERE k = 'a'"), ("sql", 1, insert.format(1, "'x'")),
        ("sql", 2, insert.format(2, "NULL")), ("sql", 0, "COMMIT"), ("sql", 3, "SELECT v FROM t WHERE k = 'e'"),
    )  # fmt: skip
    assert answers[3] == ("INSERT 0 1; I" if "NOTHING" in clause else "waits")


@pytest.mark.real
def test_deadlock_of_two_unique_keys(pair: PostgresPair) -> None:
    insert = "INSERT INTO t (k, u) VALUES ('{}', '{}')"
    answers = same(
        pair, ("sql", 0, BEGIN), ("sql", 1, BEGIN), ("sql", 0, insert.format("e", "p")),
        ("sql", 1, insert.format("f", "q")), ("sql", 0, insert.format("g", "q")), ("sql", 1, insert.format("g", "r")),
    )  # fmt: skip
    assert answers[-1] == "ERROR 40P01 deadlock detected; E | session 0: INSERT 0 1; T"


@pytest.mark.real
def test_terminated_backend_rolls_back_and_frees_its_locks(pair: PostgresPair) -> None:
    assert same(
        pair, ("sql", 0, BEGIN), ("sql", 0, ADD), ("sql", 0, LOCK), ("sql", 1, LOCK), ("sql", 2, READ),
        ("sql", 3, "SELECT pg_terminate_backend({pid0})"),
    )[-1] == (
        "(pg_terminate_backend:16); ['t']; SELECT 1; I"
        " | session 0: FATAL 57P01 terminating connection due to administrator command; closed"
        f" | session 1: {GRANTED} | session 2: (v:23); ['2']; SELECT 1; I"
    )  # fmt: skip


@pytest.mark.real
def test_canceled_statement_waits_no_longer(pair: PostgresPair) -> None:
    canceled = "session 1: ERROR 57014 canceling statement due to user request; I"
    assert same(
        pair, ("sql", 0, LOCK), ("sql", 1, LOCK), ("cancel", 1), ("sql", 1, LOCK),
        ("sql", 0, "SELECT pg_cancel_backend({pid1})"),
    )[2::2] == [f"requested | {canceled}", f"(pg_cancel_backend:16); ['t']; SELECT 1; I | {canceled}"]  # fmt: skip


@pytest.mark.real
def test_wait_after_a_canceled_one_has_its_own_look_for_a_deadlock(pair: PostgresPair) -> None:
    """Otherwise the comparison takes the report of the canceled wait for one of the next wait."""
    for _ in range(5):
        answers = same(
            pair, ("sql", 0, LOCK), ("sql", 1, LOCK), ("cancel", 1), ("sql", 1, "SELECT pg_advisory_lock(2)"),
            ("sql", 1, LOCK), ("sql", 0, "SELECT pg_advisory_lock(2)"),
        )  # fmt: skip
        assert answers[-1] == "ERROR 40P01 deadlock detected; I"


@pytest.mark.real
def test_lock_of_a_waiter_that_disconnected_passes_through_its_session(pair: PostgresPair) -> None:
    assert same(
        pair, ("sql", 0, LOCK), ("sql", 1, LOCK), ("close", 1), ("sql", 2, "SELECT pg_try_advisory_lock(1)"),
        ("close", 0), ("sql", 2, "SELECT pg_try_advisory_lock(1)"),
    )[3::2] == [f"(pg_try_advisory_lock:16); ['{got}']; SELECT 1; I" for got in "ft"]  # fmt: skip


@pytest.mark.real
def test_extended_query_of_a_client_that_disconnected_is_committed(pair: PostgresPair) -> None:
    delete = ("parse", "", "DELETE FROM t WHERE k = 'b'"), ("bind", "", "", (), 0), ("execute", "", 0)
    assert same(
        pair, ("sql", 1, BEGIN), ("sql", 1, ADD), extended(*delete), ("close", 0), ("sql", 1, COMMIT),
        ("sql", 1, "SELECT count(*) FROM t"),
    )[-1] == "(count:20); ['2']; SELECT 1; I"  # fmt: skip


@pytest.mark.real
def test_idle_sessions_are_ended(pair: PostgresPair) -> None:
    answers = same(
        pair, ("sql", 0, LOCK), ("idle", 0, "idle_session_timeout"), ("sql", 1, BEGIN), ("sql", 1, LOCK),
        ("idle", 1, "idle_session_timeout"), ("idle", 1, "idle_in_transaction_session_timeout"), ("sql", 2, LOCK),
    )  # fmt: skip
    assert [answer.split(" / ")[-1] for answer in answers[1:]] == [
        "FATAL 57P05 terminating connection due to idle-session timeout; closed", "BEGIN; T", GRANTED[:-1] + "T",
        "RESET; T", "FATAL 25P03 terminating connection due to idle-in-transaction timeout; closed",
        "(pg_advisory_lock:2278); ['']; SELECT 1; I",
    ]  # fmt: skip


@pytest.mark.real
def test_restart_keeps_committed_rows_and_no_lock(pair: PostgresPair) -> None:
    assert same(
        pair, ("sql", 0, ADD), ("sql", 0, LOCK), ("sql", 1, BEGIN), ("sql", 1, ADD), ("sql", 2, LOCK),
        ("restart", "with data"), ("sql", 2, LOCK), ("sql", 2, READ),
    )[-3:] == [
        "restarted | session 0: closed | session 1: closed | session 2: closed", GRANTED, "(v:23); ['3']; SELECT 1; I",
    ]  # fmt: skip


def extended(*messages: tuple[Any, ...]) -> Step:
    return ("extended", 0, (*messages, ("sync",)))


@pytest.mark.real
def test_simple_query_drops_the_unnamed_statement(pair: PostgresPair) -> None:
    prepared, bound = extended(("parse", "", "SELECT 1")), extended(("bind", "", "", (), 0), ("execute", "", 0))
    assert same(pair, prepared, bound, ("sql", 0, "SELECT 2"), bound)[1::2] == [
        "bound; ['1']; SELECT 1; I", "ERROR 26000 unnamed prepared statement does not exist; I",
    ]  # fmt: skip


@pytest.mark.real
def test_portal_returns_its_rows_in_parts_and_runs_once(pair: PostgresPair) -> None:
    rows = ("parse", "", "SELECT k FROM t ORDER BY k"), ("bind", "p", "", (), 0)
    change = ("parse", "", "DELETE FROM t WHERE k = 'a'"), ("bind", "p", "", (), 0)
    assert same(
        pair, extended(*rows, ("execute", "p", 2), ("execute", "p", 2), ("execute", "p", 0)),
        extended(*change, ("execute", "p", 0), ("execute", "p", 0)), extended(("execute", "p", 0)),
    ) == [
        "parsed; bound; ['a']; ['b']; suspended; ['c']; SELECT 1; SELECT 0; I",
        'parsed; bound; DELETE 1; ERROR 55000 portal "p" cannot be run; I', 'ERROR 34000 portal "p" does not exist; I',
    ]  # fmt: skip


@pytest.mark.real
def test_portal_ends_with_its_transaction(pair: PostgresPair) -> None:
    portal = ("parse", "", "SELECT 1"), ("bind", "p", "", (), 0)
    commit = ("parse", "", "COMMIT"), ("bind", "", "", (), 0), ("execute", "", 0), ("execute", "", 0)
    answers = same(
        pair, ("sql", 0, BEGIN), extended(*portal), extended(*portal), ("sql", 0, "ROLLBACK"), ("sql", 0, BEGIN),
        extended(*portal), extended(*commit), ("sql", 0, COMMIT), extended(*commit),
    )  # fmt: skip
    assert answers[1:3] == ["parsed; bound; T", 'parsed; ERROR 42P03 cursor "p" already exists; E']
    assert answers[-3:] == [
        'parsed; bound; COMMIT; ERROR 34000 portal "" does not exist; I',
        "WARNING 25P01 there is no transaction in progress; COMMIT; I",
        "WARNING 25P01 there is no transaction in progress; parsed; bound; COMMIT;"
        ' ERROR 34000 portal "" does not exist; I',
    ]


@pytest.mark.real
def test_failed_transaction_refuses_what_is_no_end_of_it(pair: PostgresPair) -> None:
    same(
        pair, extended(("parse", "s1", "SELECT $1::int")), ("sql", 0, BEGIN), ("sql", 0, "SELECT no_column"),
        extended(("parse", "s1", "SELECT 1")), extended(("parse", "", "")), extended(("describe", "S", "s1")),
        extended(("bind", "", "s1", ("1",), 0)), extended(("bind", "", "s1", (), 0)), extended(("execute", "p", 0)),
        extended(("parse", "", "ROLLBACK"), ("bind", "", "", (), 0), ("execute", "", 0)),
    )  # fmt: skip


@pytest.mark.real
def test_isolation_level_after_a_query_begins_no_block(pair: PostgresPair) -> None:
    assert same(pair, ("sql", 0, "SELECT 1; BEGIN ISOLATION LEVEL REPEATABLE READ"))[0].endswith("; I")


@pytest.mark.real
def test_local_setting_outside_a_transaction_is_warned_of(pair: PostgresPair) -> None:
    assert same(pair, ("sql", 0, "SET LOCAL lock_timeout = '1s'"), ("sql", 0, "SHOW lock_timeout"))[1] == (
        "(lock_timeout:25); ['0']; SHOW; I"
    )


def simulated(steps: Sequence[Step]) -> list[str]:
    player = SimulatedPlayer(SETUP)
    return [player.run(step).text() for step in steps]


RACE: list[Step] = [("sql", 0, BEGIN), ("sql", 0, "DELETE FROM t WHERE k = 'b'"), *(
    ("sql", number, f"INSERT INTO t (k, v) VALUES ('b', {number}) ON CONFLICT DO NOTHING RETURNING v")
    for number in (1, 2)
), ("sql", 0, COMMIT)]  # fmt: skip


def test_every_order_of_sessions_that_continue_together_is_accepted() -> None:
    usual = simulated(RACE)
    assert usual[-1] == "COMMIT; I | session 1: (v:23); ['1']; INSERT 0 1; I | session 2: (v:23); INSERT 0 0; I"
    other = "COMMIT; I | session 1: (v:23); INSERT 0 0; I | session 2: (v:23); ['2']; INSERT 0 1; I"
    impossible = other.replace("INSERT 0 0", "INSERT 0 1")
    for last, accepted in ((usual[-1], True), (other, True), (impossible, False)):
        search = OrderSearch(SETUP, RACE)
        assert [search.match(text) for text in usual[:-1]] == usual[:-1]
        assert (search.match(last) == last) is accepted


def test_order_that_only_a_later_answer_shows_is_found() -> None:
    store = "INSERT INTO t (k, v) VALUES ('b', {}) ON CONFLICT (k) DO UPDATE SET v = excluded.v"
    waiters = [("sql", number, store.format(number)) for number in (1, 2)]
    steps = [*RACE[:2], *waiters, RACE[-1], ("sql", 3, "SELECT v FROM t WHERE k = 'b'")]
    usual = simulated(steps)
    assert usual[-2:] == [
        "COMMIT; I | session 1: INSERT 0 1; I | session 2: INSERT 0 1; I", "(v:23); ['2']; SELECT 1; I",
    ]  # fmt: skip
    real = [*usual[:-1], usual[-1].replace("'2'", "'1'")]
    search = OrderSearch(SETUP, steps)
    assert [search.match(text) for text in real] == real


def test_two_looks_for_a_deadlock_before_its_victim_has_rolled_back() -> None:
    """Seed 500069 on PostgreSQL 15.18. Session 1's client leaves, and its statement waits on. When session 2 fails,
    that statement gets the row a and waits for b, which session 0 has. Session 1's second statement waits for it, and
    session 0 for that one. Both sessions that have begun to wait look for a deadlock: the second statement is the
    victim, and the first one finds none, since nobody waits for it yet. Session 0 then does."""
    steps: list[Step] = [
        ("sql", 2, BEGIN), ("sql", 0, BEGIN), ("sql", 2, "DELETE FROM t WHERE k = 'a'"),
        ("sql", 1, "SELECT k, v, u FROM t ORDER BY k FOR UPDATE"), ("close", 1),
        ("sql", 1, "UPDATE t SET v = v + 1 WHERE k = 'a'"), ("sql", 0, "SELECT v FROM t WHERE k = 'b' FOR UPDATE"),
        ("sql", 0, "UPDATE t SET v = v + 1 WHERE k = 'a'"),
        ("sql", 2, "SELECT k, v, u FROM t WHERE k = 'b' ORDER BY k FOR UPDATE NOWAIT"),
    ]  # fmt: skip
    refused = 'ERROR 55P03 could not obtain lock on row in relation "t"; E'
    victim = "ERROR 40P01 deadlock detected"
    *before, usual = simulated(steps)
    assert usual == f"{refused} | session 0: UPDATE 1; T | session 1: UPDATE 1; I"
    real = f"{refused} | session 0: {victim}; E | session 1: {victim}; I"
    for last, accepted in ((usual, True), (real, True), (f"{refused} | session 0: {victim}; E", False)):
        search = OrderSearch(SETUP, steps)
        assert [search.match(text) for text in before] == before
        assert (search.match(last) == last) is accepted


class _SimulatedTwice:
    """Compares the simulated server with a changed one, in the place of the real one."""

    version = "none"

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def steps(self, seed: int) -> list[Step]:
        return list(steps(seed))

    def run(self, steps: list[Step]) -> Iterator[AnswerPair]:
        right = simulated(steps)
        with self._patch.context() as patch:
            patch.setattr(LockManager, "check_deadlock", lambda *_: None)
            wrong = simulated(steps)
        for one, other in zip(right, wrong, strict=True):
            yield AnswerPair(one, other)


def test_server_without_deadlock_detection_is_told_from_the_right_one(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = _SimulatedTwice(monkeypatch)
    assert any(one.real != one.simulated for seed in range(10) for one in changed.run(changed.steps(seed)))


@pytest.mark.real
@pytest.mark.parametrize("bound", [False, True], ids=["parsed", "bound"])
def test_repeatable_transaction_has_the_snapshot_of_its_first_parsed_or_bound_query(
    pair: PostgresPair, bound: bool
) -> None:
    parse = ("parse", "s1", "SELECT $1::int + 1")
    bind = ("bind", "p", "s1", ("1",), 0)
    before = [("extended", 0, (parse, ("sync",)))] if bound else []
    query = bind if bound else parse
    answers = same(
        pair, *before, ("sql", 0, "BEGIN ISOLATION LEVEL REPEATABLE READ"), ("extended", 0, (query, ("sync",))),
        ("sql", 1, "UPDATE t SET v = 77 WHERE k = 'a'"), ("sql", 0, "SELECT v FROM t WHERE k = 'a'"),
    )  # fmt: skip
    assert "['77']" not in answers[-1]


@pytest.mark.real
def test_portals_of_a_failed_transaction_stay_until_it_ends(pair: PostgresPair) -> None:
    bound = (("parse", "", "ROLLBACK"), ("bind", "p", "", (), 0))
    rollback = extended(*bound, ("execute", "p", 0))
    duplicate = ("sql", 0, "INSERT INTO t (k, v, u) VALUES ('a', 1, 'q')")
    answers = same(
        pair, ("sql", 0, "BEGIN"), extended(*bound), duplicate, rollback,
        extended(("execute", "p", 0)), ("sql", 0, "ROLLBACK"), ("sql", 0, "BEGIN"), rollback,
    )  # fmt: skip
    assert "ERROR 42P03" in answers[3]
    assert "ERROR 25P02" in answers[4]
    assert answers[7].endswith("ROLLBACK; I")


@pytest.mark.real
def test_a_key_is_not_looked_up_again_after_a_wait_for_another(pair: PostgresPair) -> None:
    """Session 3 has found no row with the key d when it begins to wait for session 2."""
    assert same(
        pair, ("sql", 0, "UPDATE t SET u = 'y' WHERE k = 'b'"), ("sql", 0, "BEGIN"), ("sql", 2, "BEGIN"),
        ("sql", 2, "DELETE FROM t WHERE k = 'b'"),
        ("sql", 3, "INSERT INTO t (k, v, u) VALUES ('d', 0, 'y') ON CONFLICT DO NOTHING"),
        ("sql", 0, "INSERT INTO t (k, v, u) VALUES ('d', 0, NULL) ON CONFLICT DO NOTHING"), ("close", 2),
    )[4:] == ["waits", "INSERT 0 1; T", "closed | session 3: INSERT 0 0; I"]  # fmt: skip


@pytest.mark.real
def test_a_cycle_of_two_queues_is_broken_at_the_farthest_wait(pair: PostgresPair) -> None:
    answers = same(
        pair, ("sql", 2, "SELECT pg_advisory_lock_shared(0)"), ("sql", 1, "SELECT pg_advisory_lock_shared(1)"),
        ("sql", 3, "SELECT pg_advisory_xact_lock(0)"), ("sql", 0, "SELECT pg_advisory_lock(1)"),
        ("sql", 2, "SELECT pg_advisory_lock_shared(1)"), ("sql", 1, "SELECT pg_advisory_lock_shared(0)"),
    )  # fmt: skip
    assert answers[2:5] == ["waits"] * 3
    assert answers[5].startswith("waits | session 2: ")


@pytest.mark.real
def test_a_setting_of_null_is_the_servers_value(pair: PostgresPair) -> None:
    answers = same(
        pair, ("sql", 0, "SELECT set_config('lock_timeout', '1000s', false)"),
        ("sql", 0, "SELECT set_config('lock_timeout', NULL, NULL)"), ("sql", 0, "SELECT set_config(NULL, '1', false)"),
    )  # fmt: skip
    assert "['0']" in answers[1]
    assert answers[2].startswith("ERROR 22004")
