"""Near-miss scores of schedules: the nearer to a violation, the higher, and a real violation scores highest."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.checkers import catalogue
from harness.checkers.running import run_all
from harness.documents.lock import LockFacts
from harness.history import History, Op, OpType
from harness.history.key_owners import ownerships
from harness.history.lock_keys import KeyState
from harness.plan import FaultSpec, Plan, load
from harness.search.distance import DOUBLE, STALE, STUCK, VIOLATED, double_hold_score, near_miss_scores
from harness.search.trials import Trial, judged, run_trial

SCENARIOS = Path(__file__).parent.parent.parent / "scenarios"
QUORUM = Plan(lock="redlock", clients=1, sections=1, hold=0.6, time_limit=6.0)
SINGLE = msgspec.structs.replace(QUORUM, lock="redis-token", hold=0.1)


@cache
def score_with_jumps(servers: str) -> float:
    """Return the score of a redlock run in which clock jumps on ``servers`` end the holder's leases there."""
    jump = FaultSpec("clock-jump", on="read", params={"target": servers, "seconds": 3.0})
    return double_hold_score(run_trial(msgspec.structs.replace(QUORUM, faults=(jump,) if servers else ())))


def scores_with_pause(seconds: float, **more: Any) -> dict[str, float]:
    """Return the scores of a run with a single-server lock whose holder is paused."""
    pause = FaultSpec("client-pause", on="read", client=0, for_=seconds)
    return near_miss_scores(run_trial(msgspec.structs.replace(SINGLE, faults=(pause,), **more)))


def scenario(name: str) -> Trial:
    return run_trial(load(SCENARIOS / f"{name}.toml"))


# Double holds.


@pytest.mark.slow
def test_each_server_lost_brings_a_quorum_closer() -> None:
    scores = [score_with_jumps(servers) for servers in ("", "n1", "n1,n2", "n1,n2,n3")]
    assert scores == sorted(set(scores))
    assert scores[0] < 0.2
    assert 1 / 3 < scores[1] < 0.5 < scores[2] < 1.0 < scores[3] < VIOLATED


def test_the_score_does_not_depend_on_which_server_is_lost() -> None:
    assert score_with_jumps("n4") == pytest.approx(score_with_jumps("n1"), abs=0.01)


def test_a_longer_pause_scores_higher() -> None:
    scores = [scores_with_pause(seconds)[DOUBLE] for seconds in (0.5, 1.5, 2.5, 3.5)]
    assert scores == sorted(set(scores))
    assert scores[1] < 0.5
    assert 1.0 < scores[2] < scores[3] < VIOLATED


def test_a_second_client_during_a_lost_hold_makes_a_double_hold() -> None:
    assert scores_with_pause(2.5)[DOUBLE] < VIOLATED <= scores_with_pause(2.5, clients=2, wait=4.0)[DOUBLE]


def test_a_pause_after_the_release_scores_near_zero() -> None:
    late = FaultSpec("client-pause", on="release", client=0, for_=2.5)
    assert double_hold_score(run_trial(msgspec.structs.replace(SINGLE, faults=(late,)))) < 0.1


VIOLATIONS = ("ttl-overrun", "zk-pause", "rl-restart", "mc-evict", "db-async-failover", "getlock-second", "etcd-pause")
SAFE = ("ttl-overrun.safe", "redis-async-failover.safe", "uniq-crash.safe", "zk-reentry.safe")


@pytest.mark.slow
@pytest.mark.parametrize("name", VIOLATIONS)
def test_a_double_hold_scores_at_least_the_violation_score(name: str) -> None:
    trial = scenario(name)
    assert "mutual-exclusion" in trial.broken()
    assert double_hold_score(trial) >= VIOLATED


@pytest.mark.slow
@pytest.mark.parametrize("name", SAFE)
def test_a_run_without_a_double_hold_scores_below_a_violation(name: str) -> None:
    trial = scenario(name)
    assert not trial.broken()
    assert double_hold_score(trial) < VIOLATED


@pytest.mark.slow
@pytest.mark.parametrize("name", VIOLATIONS)
def test_server_state_alone_gives_a_high_score_to_a_double_hold(name: str) -> None:
    """The search needs a score that rises before the violation. Each of these holders lost more than the unused rest
    of a lease."""
    trial = scenario(name)
    blind = {**trial.verdicts, "mutual-exclusion": run_all(History(), catalogue.all())["mutual-exclusion"]}
    near = double_hold_score(replace(trial, verdicts=blind))
    assert 0.6 < near < VIOLATED


def test_the_same_trial_scores_the_same() -> None:
    assert scores_with_pause(2.5) == scores_with_pause(2.5)


# Handwritten trials.

Entry = tuple[float, int, OpType, str]


def trial_of(*entries: Entry, keys: tuple[KeyState, ...] = (), **plan: Any) -> Trial:
    """Return a trial of a single-server lock with a ttl of 1 s and slack of 1 s. An entry is seconds, client, type,
    function."""
    start = {"clients": ["c0", "c1"], "servers": ["n1"], "ttl": 1.0, "slack": 1.0, "discipline": "trusting"}
    ops = [Op(0, 0, 0, -1, "info", "start", value=start)]
    for at, client, kind, f in entries:
        time = int(at * 1e9)
        ops.append(Op(len(ops), time, time, client, kind, f, key="k0", node=f"c{client}"))
    ops.append(Op(len(ops), ops[-1].time, 0, -1, "info", "stop", value={"reason": "time limit"}))
    history = History(ops)
    made = Plan(lock="redis-token", kind="redis-single", nodes=1, clients=2, ttl=1.0, **plan)
    return judged(made, LockFacts(name="redis-token"), history, list(keys), catalogue.all())


def key_state(
    at: float, owner: str | None, by: str | None = None, host: str = "n1", *, left: float | None = 1.0
) -> KeyState:
    ends = None if left is None or owner is None else int(left * 1e9)
    return KeyState(int(at * 1e9), host, "k0", owner, ends, by)


HELD: tuple[Entry, ...] = ((0.0, 0, "invoke", "acquire"), (0.0, 0, "ok", "acquire"))


def test_a_request_during_a_lost_hold_raises_the_score() -> None:
    keys = (key_state(0.0, "a", "c0"), key_state(1.0, None))
    alone = trial_of(*HELD, (1.5, 0, "invoke", "release"), keys=keys)
    asked = trial_of(*HELD, (1.2, 1, "invoke", "acquire"), (1.5, 0, "invoke", "release"), keys=keys)
    early = trial_of(
        *HELD, (0.2, 1, "invoke", "acquire"), (0.4, 1, "fail", "acquire"), (1.5, 0, "invoke", "release"), keys=keys
    )
    assert double_hold_score(alone) == pytest.approx(1.15)
    assert double_hold_score(asked) == pytest.approx(1.45)
    assert double_hold_score(early) == double_hold_score(alone)


def test_another_owner_during_a_lost_hold_raises_the_score() -> None:
    keys = (key_state(0.0, "a", "c0"), key_state(1.0, None), key_state(1.2, "b", "c1"))
    assert double_hold_score(trial_of(*HELD, (1.5, 0, "invoke", "release"), keys=keys)) == pytest.approx(1.45)


def test_an_extended_lease_is_not_lost() -> None:
    """The server extended the key after half its lease."""
    keys = (key_state(0.0, "a", "c0"), key_state(0.5, "a", "c0"), key_state(1.0, "a", "c0"))
    assert double_hold_score(trial_of(*HELD, (1.5, 0, "invoke", "release"), keys=keys)) == pytest.approx(0.25)


def test_a_server_that_is_down_counts_as_possibly_lost() -> None:
    down = KeyState(int(0.1e9), "n1", "k0", answers=False)
    assert double_hold_score(
        trial_of(*HELD, (0.2, 0, "invoke", "release"), keys=(key_state(0.0, "a", "c0"), down))
    ) == pytest.approx(0.5)


def test_without_visible_keys_the_score_depends_on_time() -> None:
    short = double_hold_score(trial_of(*HELD, (0.5, 0, "invoke", "release")))
    over = double_hold_score(trial_of(*HELD, (1.5, 0, "invoke", "release")))
    assert short == pytest.approx(0.25)
    assert over == pytest.approx(1.15)


def test_an_empty_trial_scores_zero() -> None:
    assert near_miss_scores(trial_of()) == {DOUBLE: 0.0, STUCK: 0.0, STALE: 0.0}


def test_stuck_is_the_longest_time_without_a_grant() -> None:
    """A retry after a refusal continues the same attempt. Time during which another client holds does not count."""
    refused: list[Entry] = [(1.0, 1, "invoke", "acquire"), (2.0, 1, "fail", "acquire"), (2.1, 1, "invoke", "acquire")]
    served = trial_of(*refused, (3.0, 1, "ok", "acquire"))
    held = trial_of(*HELD, *refused, (3.0, 0, "invoke", "release"), (3.0, 1, "ok", "acquire"))
    assert near_miss_scores(served)[STUCK] == pytest.approx(1.0)
    assert near_miss_scores(held)[STUCK] == 0.0


def test_stuck_lasts_to_the_end_of_a_run_without_grants() -> None:
    trial = trial_of((1.0, 1, "invoke", "acquire"), (5.0, 0, "invoke", "read"))
    assert near_miss_scores(trial)[STUCK] == pytest.approx(2.0)


def test_stale_is_the_time_from_the_loss_to_the_last_accepted_access() -> None:
    keys = (key_state(0.0, "a", "c0"), key_state(1.0, None))
    touched: tuple[Entry, ...] = ((1.2, 0, "invoke", "write"), (1.3, 0, "ok", "write"), (1.5, 0, "invoke", "release"))
    rejected: tuple[Entry, ...] = (
        (1.2, 0, "invoke", "write"),
        (1.3, 0, "fail", "write"),
        (1.5, 0, "invoke", "release"),
    )
    assert near_miss_scores(trial_of(*HELD, *touched, keys=keys))[STALE] == pytest.approx(0.3)
    assert near_miss_scores(trial_of(*HELD, *rejected, keys=keys))[STALE] == 0.0


# Owners of keys.


def test_a_replicated_key_belongs_to_the_client_of_the_primary() -> None:
    assert [one.client for one in ownerships([key_state(0, "a", "c0"), key_state(0.1, "a", None, "n2")])] == [
        "c0",
        "c0",
    ]


def test_extending_a_key_does_not_change_its_owner() -> None:
    assert [one.client for one in ownerships([key_state(0, "a", "c0"), key_state(0.1, "a", "c1")])] == ["c0", "c0"]


def test_a_value_that_all_clients_write_belongs_to_the_last_writer() -> None:
    states = [key_state(0, "1", "c0"), key_state(0.1, None), key_state(0.2, "1", "c1"), key_state(0.3, "x", None)]
    assert [(one.taken, one.client) for one in ownerships(states)] == [
        (True, "c0"),
        (False, None),
        (True, "c1"),
        (True, None),
    ]
