"""How close schedules came: more of what makes a violation scores higher, and a real one highest."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from checkers import catalogue
from checkers.base import run_all
from harness.history import History, Op, OpType
from harness.history.lock_keys import KeyState
from harness.hunting.closeness import DOUBLE, STALE, STUCK, VIOLATED, closeness, score
from harness.hunting.owners import owned
from harness.hunting.trials import Trial, play
from harness.plan import FaultSpec, Plan, load

SCENARIOS = Path(__file__).parent.parent.parent / "scenarios"
QUORUM = Plan(lock="redlock", clients=1, sections=1, hold=0.6, time_limit=6.0)
SINGLE = msgspec.structs.replace(QUORUM, lock="redis-token", hold=0.1)


@cache
def jumped(servers: str) -> float:
    """The score of a redlock whose holder's votes on ``servers`` run out by a jump of their clocks."""
    jump = FaultSpec("clock-jump", on="read", params={"target": servers, "seconds": 3.0})
    return score(play(msgspec.structs.replace(QUORUM, faults=(jump,) if servers else ())))


def paused(seconds: float, **more: Any) -> dict[str, float]:
    """The scores of a single server's lock whose holder is paused."""
    pause = FaultSpec("client-pause", on="read", client=0, for_=seconds)
    return closeness(play(msgspec.structs.replace(SINGLE, faults=(pause,), **more)))


def scenario(name: str) -> Trial:
    return play(load(SCENARIOS / f"{name}.toml"))


# Double holds.


@pytest.mark.slow
def test_each_server_lost_brings_a_quorum_closer() -> None:
    scores = [jumped(servers) for servers in ("", "n1", "n1,n2", "n1,n2,n3")]
    assert scores == sorted(set(scores))
    assert scores[0] < 0.2
    assert 1 / 3 < scores[1] < 0.5 < scores[2] < 1.0 < scores[3] < VIOLATED


def test_which_server_is_lost_makes_no_difference() -> None:
    assert jumped("n4") == pytest.approx(jumped("n1"), abs=0.01)


def test_the_longer_a_pause_the_closer() -> None:
    scores = [paused(seconds)[DOUBLE] for seconds in (0.5, 1.5, 2.5, 3.5)]
    assert scores == sorted(set(scores))
    assert scores[1] < 0.5
    assert 1.0 < scores[2] < scores[3] < VIOLATED


def test_another_who_asks_while_a_lock_is_lost_is_a_double_hold() -> None:
    assert paused(2.5)[DOUBLE] < VIOLATED <= paused(2.5, clients=2, wait=4.0)[DOUBLE]


def test_a_pause_after_the_release_is_as_good_as_none() -> None:
    late = FaultSpec("client-pause", on="release", client=0, for_=2.5)
    assert score(play(msgspec.structs.replace(SINGLE, faults=(late,)))) < 0.1


VIOLATIONS = ("ttl-overrun", "zk-pause", "rl-restart", "mc-evict", "db-async-failover", "getlock-second", "etcd-pause")
SAFE = ("ttl-overrun.safe", "redis-async-failover.safe", "uniq-crash.safe", "zk-reentry.safe")


@pytest.mark.slow
@pytest.mark.parametrize("name", VIOLATIONS)
def test_a_real_double_hold_scores_above_all_that_only_come_close(name: str) -> None:
    trial = scenario(name)
    assert "mutual-exclusion" in trial.broken()
    assert score(trial) >= VIOLATED


@pytest.mark.slow
@pytest.mark.parametrize("name", SAFE)
def test_a_run_without_a_double_hold_scores_below(name: str) -> None:
    trial = scenario(name)
    assert not trial.broken()
    assert score(trial) < VIOLATED


@pytest.mark.slow
@pytest.mark.parametrize("name", VIOLATIONS)
def test_what_servers_show_rises_before_the_checker_sees_a_double_hold(name: str) -> None:
    """A search climbs what it is told before it arrives: each of these holders lost more than a lease left unused."""
    trial = scenario(name)
    blind = {**trial.verdicts, "mutual-exclusion": run_all(History(), catalogue.all())["mutual-exclusion"]}
    near = score(Trial(trial.plan, trial.history, trial.keys, blind))
    assert 0.6 < near < VIOLATED


def test_the_same_trial_scores_the_same() -> None:
    assert paused(2.5) == paused(2.5)


# By hand.

Entry = tuple[float, int, OpType, str]


def told(*entries: Entry, keys: tuple[KeyState, ...] = (), **plan: Any) -> Trial:
    """A trial of one server's lock with a ttl of 1 s and slack of 1 s; an entry is seconds, client, type, function."""
    start = {"clients": ["c0", "c1"], "servers": ["n1"], "ttl": 1.0, "slack": 1.0, "discipline": "trusting"}
    ops = [Op(0, 0, 0, -1, "info", "start", value=start)]
    for at, client, kind, f in entries:
        time = int(at * 1e9)
        ops.append(Op(len(ops), time, time, client, kind, f, key="k0", node=f"c{client}"))
    ops.append(Op(len(ops), ops[-1].time, 0, -1, "info", "stop", value={"reason": "time limit"}))
    history = History(ops)
    made = Plan(lock="redis-token", kind="redis-single", nodes=1, clients=2, ttl=1.0, **plan)
    return Trial(made, history, list(keys), run_all(history, catalogue.all()))


def had(at: float, owner: str | None, by: str | None = None, host: str = "n1", *, left: float | None = 1.0) -> KeyState:
    ends = None if left is None or owner is None else int(left * 1e9)
    return KeyState(int(at * 1e9), host, "k0", owner, ends, by)


HELD: tuple[Entry, ...] = ((0.0, 0, "invoke", "acquire"), (0.0, 0, "ok", "acquire"))


def test_who_asks_during_a_loss_counts() -> None:
    keys = (had(0.0, "a", "c0"), had(1.0, None))
    alone = told(*HELD, (1.5, 0, "invoke", "release"), keys=keys)
    asked = told(*HELD, (1.2, 1, "invoke", "acquire"), (1.5, 0, "invoke", "release"), keys=keys)
    early = told(
        *HELD, (0.2, 1, "invoke", "acquire"), (0.4, 1, "fail", "acquire"), (1.5, 0, "invoke", "release"), keys=keys
    )
    assert score(alone) == pytest.approx(1.15)
    assert score(asked) == pytest.approx(1.45)
    assert score(early) == score(alone)


def test_what_another_has_by_then_counts() -> None:
    keys = (had(0.0, "a", "c0"), had(1.0, None), had(1.2, "b", "c1"))
    assert score(told(*HELD, (1.5, 0, "invoke", "release"), keys=keys)) == pytest.approx(1.45)


def test_a_lease_that_was_prolonged_is_not_lost() -> None:
    """Half a lease had run out when the server was told to keep the key for longer."""
    keys = (had(0.0, "a", "c0"), had(0.5, "a", "c0"), had(1.0, "a", "c0"))
    assert score(told(*HELD, (1.5, 0, "invoke", "release"), keys=keys)) == pytest.approx(0.25)


def test_a_server_that_is_down_may_be_lost() -> None:
    down = KeyState(int(0.1e9), "n1", "k0", answers=False)
    assert score(told(*HELD, (0.2, 0, "invoke", "release"), keys=(had(0.0, "a", "c0"), down))) == pytest.approx(0.5)


def test_without_visible_keys_time_tells() -> None:
    short = score(told(*HELD, (0.5, 0, "invoke", "release")))
    over = score(told(*HELD, (1.5, 0, "invoke", "release")))
    assert short == pytest.approx(0.25)
    assert over == pytest.approx(1.15)


def test_without_anything_all_is_zero() -> None:
    assert closeness(told()) == {DOUBLE: 0.0, STUCK: 0.0, STALE: 0.0}


def test_stuck_is_the_longest_time_in_which_nobody_is_served() -> None:
    """Asking again after a refusal is one wish; what a holder makes others wait is not counted."""
    refused: list[Entry] = [(1.0, 1, "invoke", "acquire"), (2.0, 1, "fail", "acquire"), (2.1, 1, "invoke", "acquire")]
    served = told(*refused, (3.0, 1, "ok", "acquire"))
    held = told(*HELD, *refused, (3.0, 0, "invoke", "release"), (3.0, 1, "ok", "acquire"))
    assert closeness(served)[STUCK] == pytest.approx(1.0)
    assert closeness(held)[STUCK] == 0.0


def test_stuck_lasts_to_the_end_of_a_run_that_serves_nobody() -> None:
    trial = told((1.0, 1, "invoke", "acquire"), (5.0, 0, "invoke", "read"))
    assert closeness(trial)[STUCK] == pytest.approx(2.0)


def test_stale_is_how_late_the_resource_let_a_holder_in() -> None:
    keys = (had(0.0, "a", "c0"), had(1.0, None))
    touched: tuple[Entry, ...] = ((1.2, 0, "invoke", "write"), (1.3, 0, "ok", "write"), (1.5, 0, "invoke", "release"))
    rejected: tuple[Entry, ...] = (
        (1.2, 0, "invoke", "write"),
        (1.3, 0, "fail", "write"),
        (1.5, 0, "invoke", "release"),
    )
    assert closeness(told(*HELD, *touched, keys=keys))[STALE] == pytest.approx(0.3)
    assert closeness(told(*HELD, *rejected, keys=keys))[STALE] == 0.0


# Whose keys are.


def test_a_replica_follows_for_the_client_that_told_its_primary() -> None:
    assert [one.client for one in owned([had(0, "a", "c0"), had(0.1, "a", None, "n2")])] == ["c0", "c0"]


def test_who_prolongs_a_lease_does_not_own_it() -> None:
    assert [one.client for one in owned([had(0, "a", "c0"), had(0.1, "a", "c1")])] == ["c0", "c0"]


def test_an_owner_that_all_clients_write_alike_is_whoever_put_it_there_last() -> None:
    states = [had(0, "1", "c0"), had(0.1, None), had(0.2, "1", "c1"), had(0.3, "x", None)]
    assert [(one.taken, one.client) for one in owned(states)] == [
        (True, "c0"),
        (False, None),
        (True, "c1"),
        (True, None),
    ]
