"""Coverage of searches: it does not depend on client names or order, and it names what was never reached."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

import msgspec
import pytest

from harness.history import History
from harness.plan import FaultSpec, Plan
from harness.search.coverage import Coverage, coverage_of, merged, summary, unreached
from harness.search.request import HuntRequest
from harness.search.trials import Trial, run_trial
from harness.search.vocabulary import Vocabulary
from harness.search.walk import PHASES

QUORUM = Plan(lock="redlock", clients=2, sections=2, hold=0.4, stagger=0.1, time_limit=6.0)
PAUSE = FaultSpec("client-pause", on="read", client=0, for_=0.5)
JUMP = FaultSpec("clock-jump", on="read", client=0, params={"target": "n1,n2,n3", "seconds": 3.0})


@cache
def run_with(*faults: str) -> Trial:
    """Play a short run of a redlock with these faults: jump, pause, kill."""
    known = {"jump": JUMP, "pause": PAUSE, "kill": FaultSpec("kill", on="read", for_=0.5, params={"target": "n1"})}
    return run_trial(msgspec.structs.replace(QUORUM, faults=tuple(known[name] for name in faults)))


def swap_clients(trial: Trial) -> Trial:
    """Exchange the names of two clients everywhere."""

    def swap(value: Any) -> Any:
        if isinstance(value, str):
            return {"c0": "c1", "c1": "c0"}.get(value, value)
        if isinstance(value, list):
            return [swap(one) for one in value]
        return {name: swap(one) for name, one in value.items()} if isinstance(value, dict) else value

    def process(number: int) -> int:
        return number if number < 0 else number ^ 1

    replace = msgspec.structs.replace
    ops = [replace(op, process=process(op.process), value=swap(op.value), node=swap(op.node)) for op in trial.history]
    keys = [replace(state, by=swap(state.by)) for state in trial.keys]
    return dataclasses.replace(trial, history=History(ops), keys=keys)


# States.


def test_a_state_has_the_belief_of_clients_and_the_keys_of_servers() -> None:
    states = coverage_of(run_with("jump")).states
    assert "idle, idle | free 5" in states
    assert "holds 5, idle | clock-jump" in states
    assert "holds 2, asking | free 3 | clock-jump" in states
    assert "holds 3, holds 2 | clock-jump" in states


def test_without_a_fault_no_state_has_two_holders() -> None:
    states = coverage_of(run_with()).states
    assert not [state for state in states if state.count("holds") > 1]
    assert not [state for state in states if "clock-jump" in state or "down" in state]


def test_a_server_that_is_down_is_part_of_the_state() -> None:
    assert [
        state for state in coverage_of(run_with("kill")).states if state.startswith("holds 4") and "down 1" in state
    ]


def test_a_checking_client_whose_lease_ended_is_idle() -> None:
    plan = msgspec.structs.replace(
        QUORUM, discipline="checking", faults=(FaultSpec("client-pause", on="read", client=0, for_=2.5),)
    )
    states = coverage_of(run_trial(plan)).states
    assert not [state for state in states if state.count("holds") > 1]
    assert [state for state in states if state.startswith("holds 5, idle") and "client-pause" in state]


def test_a_crashed_client_is_gone() -> None:
    crash = FaultSpec("client-crash", on="read", client=0, for_=0.5)
    states = coverage_of(run_trial(msgspec.structs.replace(QUORUM, faults=(crash,)))).states
    assert [state for state in states if "gone" in state and "client-crash" in state]


def test_coverage_does_not_depend_on_client_names() -> None:
    assert coverage_of(swap_clients(run_with("jump", "pause"))) == coverage_of(run_with("jump", "pause"))


@pytest.mark.slow
def test_coverage_hardly_depends_on_the_client_that_a_fault_strikes() -> None:
    """The clients' random choices differ, so their coverage is not quite equal."""
    both = [
        coverage_of(
            run_trial(msgspec.structs.replace(QUORUM, faults=(msgspec.structs.replace(PAUSE, client=client),)))
        ).states
        for client in (0, 1)
    ]
    assert len(both[0] & both[1]) >= 0.7 * len(both[0] | both[1])


def test_the_same_schedule_has_the_same_coverage() -> None:
    assert coverage_of(run_trial(run_with("jump").plan)) == coverage_of(run_with("jump"))


# Faults and outcomes of calls.


def test_coverage_has_pairs_events_and_moments_of_faults() -> None:
    found = coverage_of(run_with("jump", "pause"))
    assert found.pairs == {("client-pause", "clock-jump")}
    assert found.events == {"read"}
    assert {family for family, _ in found.moments} == {"client-pause", "clock-jump"}
    assert {phase for _, phase in found.moments} <= {"held", "held and asked for"}


def test_a_fault_that_strikes_twice_forms_a_pair() -> None:
    twice = msgspec.structs.replace(PAUSE, times=2, every=0.1, for_=0.1)
    found = coverage_of(run_trial(msgspec.structs.replace(QUORUM, faults=(twice,))))
    assert found.pairs == {("client-pause", "client-pause")}


def test_a_fault_whose_event_never_came_covers_nothing() -> None:
    late = msgspec.structs.replace(PAUSE, nth=50)
    found = coverage_of(run_trial(msgspec.structs.replace(QUORUM, faults=(late, JUMP))))
    assert found.pairs == frozenset()
    assert {family for family, _ in found.moments} == {"clock-jump"}
    missed = coverage_of(run_trial(msgspec.structs.replace(QUORUM, faults=(late,))))
    assert missed.events == frozenset() == missed.moments


def test_a_fault_without_effect_covers_nothing() -> None:
    """The fault is over before it can be observed."""
    found = coverage_of(run_trial(msgspec.structs.replace(QUORUM, faults=(msgspec.structs.replace(PAUSE, for_=0.0),))))
    assert summary(found) == {**summary(found), "events": 0, "moments": 0, "pairs": 0}
    assert not [state for state in found.states if "client-pause" in state]


def test_outcomes_include_every_kind_of_call() -> None:
    assert {"acquire", "release", "read", "write"} <= coverage_of(run_with()).outcomes


# Many schedules.


def test_merging_coverage_is_commutative_and_idempotent() -> None:
    parts = [coverage_of(run_with()), coverage_of(run_with("jump")), coverage_of(run_with("kill"))]
    whole = merged(parts)
    assert whole == merged(reversed(parts))
    assert whole == merged([merged(parts[:2]), parts[2]]) == merged([parts[0], merged(parts[1:])])
    assert whole == merged([*parts, *parts, Coverage()])
    assert summary(whole)["states"] > max(summary(part)["states"] for part in parts)
    assert merged([]) == Coverage()


REQUEST = HuntRequest(lock="redlock", faults=("clock-jump", "client-pause", "kill"), kind="redis-independent", nodes=5)
WORDS = Vocabulary(events=("acquire:invoke", "acquire", "read"), commands=("SET",), renews=False)


def test_empty_coverage_leaves_everything_unreached() -> None:
    assert unreached(REQUEST, WORDS, Coverage()) == [
        "Never struck: client-pause, clock-jump, kill (3 of 3 families of faults).",
        "Never succeeded: acquire (1 of 1 calls of the lock).",
        "Never failed: acquire (1 of 1 calls of the lock).",
        "Never ended unknown: acquire (1 of 1 calls of the lock).",
    ]


def test_reached_faults_are_no_longer_named() -> None:
    some = unreached(REQUEST, WORDS, coverage_of(run_with("jump")))
    assert some[0] == "Never struck: client-pause, kill (2 of 3 families of faults)."
    assert some[1] == "Never struck in one schedule: clock-jump twice (1 of 1 pairs of faults)."
    more = unreached(REQUEST, WORDS, merged([coverage_of(run_with("jump")), coverage_of(run_with("kill", "pause"))]))
    assert not [sentence for sentence in more if sentence.startswith("Never struck:")]
    assert more[0] == (
        "Never struck in one schedule: client-pause with clock-jump, clock-jump with kill, client-pause twice and 2 "
        "more (5 of 6 pairs of faults)."
    )


def test_moments_missed_by_every_fault_are_named_once() -> None:
    found = merged([coverage_of(run_with("jump")), coverage_of(run_with("pause"))])
    sentence = next(one for one in unreached(REQUEST, WORDS, found) if one.startswith("Never struck the lock"))
    assert "any fault while it was free" in sentence
    assert "clock-jump while it was free" not in sentence
    assert "of 12 moments" in sentence


def test_events_without_a_fault_are_named() -> None:
    sentences = unreached(REQUEST, WORDS, coverage_of(run_with("jump")))
    assert "No fault struck on: acquire:invoke, acquire, request:SET and 1 more (4 of 5 events)." in sentences


def test_pairs_are_not_expected_with_one_fault_per_schedule() -> None:
    one = msgspec.structs.replace(REQUEST, most_faults=1)
    assert not [said for said in unreached(one, WORDS, coverage_of(run_with("jump"))) if "in one schedule" in said]


def test_full_coverage_leaves_nothing_unreached() -> None:
    families = sorted(REQUEST.faults)
    found = Coverage(
        pairs=frozenset((one, other) for one in families for other in families if one <= other),
        moments=frozenset((name, phase) for name in families for phase in PHASES),
        events=frozenset({*WORDS.events, "request:SET", "reply:SET"}),
        outcomes=frozenset({"acquire", "acquire:fail", "acquire:info"}),
    )
    assert unreached(REQUEST, WORDS, found) == []
