"""What searches have seen: clients are alike, order does not matter, and what was left out is named."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec
import pytest

from harness.history import History
from harness.hunting.asked import Asked
from harness.hunting.coverage import Coverage, covered, merged, never, summary
from harness.hunting.trials import Trial, play
from harness.hunting.vocabulary import Vocabulary
from harness.hunting.walk import PHASES
from harness.plan import FaultSpec, Plan

QUORUM = Plan(lock="redlock", clients=2, sections=2, hold=0.4, stagger=0.1, time_limit=6.0)
PAUSE = FaultSpec("client-pause", on="read", client=0, for_=0.5)
JUMP = FaultSpec("clock-jump", on="read", client=0, params={"target": "n1,n2,n3", "seconds": 3.0})


@cache
def tried(*faults: str) -> Trial:
    """A short run of a redlock with these faults: jump, pause, kill."""
    known = {"jump": JUMP, "pause": PAUSE, "kill": FaultSpec("kill", on="read", for_=0.5, params={"target": "n1"})}
    return play(msgspec.structs.replace(QUORUM, faults=tuple(known[name] for name in faults)))


def renamed(trial: Trial) -> Trial:
    """The same with the names of two clients exchanged, wherever they stand."""

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
    return Trial(trial.plan, History(ops), keys, trial.verdicts)


# States.


def test_a_state_says_what_clients_believe_and_servers_have() -> None:
    states = covered(tried("jump")).states
    assert "idle, idle | free 5" in states
    assert "holds 5, idle | clock-jump" in states
    assert "holds 2, asking | free 3 | clock-jump" in states
    assert "holds 3, holds 2 | clock-jump" in states


def test_without_a_fault_nobody_holds_beside_another() -> None:
    states = covered(tried()).states
    assert not [state for state in states if state.count("holds") > 1]
    assert not [state for state in states if "clock-jump" in state or "down" in state]


def test_a_server_that_is_down_is_a_state() -> None:
    assert [state for state in covered(tried("kill")).states if state.startswith("holds 4") and "down 1" in state]


def test_who_stops_believing_by_its_own_clock_is_idle() -> None:
    plan = msgspec.structs.replace(
        QUORUM, discipline="checking", faults=(FaultSpec("client-pause", on="read", client=0, for_=2.5),)
    )
    states = covered(play(plan)).states
    assert not [state for state in states if state.count("holds") > 1]
    assert [state for state in states if state.startswith("holds 5, idle") and "client-pause" in state]


def test_a_client_that_crashed_is_gone() -> None:
    crash = FaultSpec("client-crash", on="read", client=0, for_=0.5)
    states = covered(play(msgspec.structs.replace(QUORUM, faults=(crash,)))).states
    assert [state for state in states if "gone" in state and "client-crash" in state]


def test_clients_are_alike() -> None:
    assert covered(renamed(tried("jump", "pause"))) == covered(tried("jump", "pause"))


@pytest.mark.slow
def test_whom_a_fault_strikes_hardly_makes_a_difference() -> None:
    """The clients' chances differ, so not quite all."""
    both = [
        covered(play(msgspec.structs.replace(QUORUM, faults=(msgspec.structs.replace(PAUSE, client=client),)))).states
        for client in (0, 1)
    ]
    assert len(both[0] & both[1]) >= 0.7 * len(both[0] | both[1])


def test_the_same_schedule_covers_the_same() -> None:
    assert covered(play(tried("jump").plan)) == covered(tried("jump"))


# Faults and outcomes.


def test_faults_are_seen_with_each_other_and_with_what_they_struck() -> None:
    found = covered(tried("jump", "pause"))
    assert found.pairs == {("client-pause", "clock-jump")}
    assert found.events == {"read"}
    assert {family for family, _ in found.moments} == {"client-pause", "clock-jump"}
    assert {phase for _, phase in found.moments} <= {"held", "held and asked for"}


def test_a_fault_that_strikes_twice_is_a_pair() -> None:
    twice = msgspec.structs.replace(PAUSE, times=2, every=0.1, for_=0.1)
    found = covered(play(msgspec.structs.replace(QUORUM, faults=(twice,))))
    assert found.pairs == {("client-pause", "client-pause")}


def test_a_fault_whose_event_never_came_struck_nothing() -> None:
    late = msgspec.structs.replace(PAUSE, nth=50)
    found = covered(play(msgspec.structs.replace(QUORUM, faults=(late, JUMP))))
    assert found.pairs == frozenset()
    assert {family for family, _ in found.moments} == {"clock-jump"}
    missed = covered(play(msgspec.structs.replace(QUORUM, faults=(late,))))
    assert missed.events == frozenset() == missed.moments


def test_a_fault_without_an_effect_did_not_strike() -> None:
    """It is over before anybody can see it."""
    found = covered(play(msgspec.structs.replace(QUORUM, faults=(msgspec.structs.replace(PAUSE, for_=0.0),))))
    assert summary(found) == {**summary(found), "events": 0, "moments": 0, "pairs": 0}
    assert not [state for state in found.states if "client-pause" in state]


def test_outcomes_are_how_calls_ended() -> None:
    assert {"acquire", "release", "read", "write"} <= covered(tried()).outcomes


# Many schedules.


def test_what_was_seen_is_the_same_in_any_order() -> None:
    parts = [covered(tried()), covered(tried("jump")), covered(tried("kill"))]
    whole = merged(parts)
    assert whole == merged(reversed(parts))
    assert whole == merged([merged(parts[:2]), parts[2]]) == merged([parts[0], merged(parts[1:])])
    assert whole == merged([*parts, *parts, Coverage()])
    assert summary(whole)["states"] > max(summary(part)["states"] for part in parts)
    assert merged([]) == Coverage()


ASKED = Asked(lock="redlock", faults=("clock-jump", "client-pause", "kill"), kind="redis-independent", nodes=5)
WORDS = Vocabulary(events=("acquire:invoke", "acquire", "read"), commands=("SET",), renews=False)


def test_nothing_tried_is_nothing_struck() -> None:
    assert never(ASKED, WORDS, Coverage()) == [
        "Never struck: client-pause, clock-jump, kill (3 of 3 families of faults).",
        "Never succeeded: acquire (1 of 1 calls of the lock).",
        "Never failed: acquire (1 of 1 calls of the lock).",
        "Never ended unknown: acquire (1 of 1 calls of the lock).",
    ]


def test_what_is_reached_is_no_longer_named() -> None:
    some = never(ASKED, WORDS, covered(tried("jump")))
    assert some[0] == "Never struck: client-pause, kill (2 of 3 families of faults)."
    assert some[1] == "Never struck in one schedule: clock-jump twice (1 of 1 pairs of faults)."
    more = never(ASKED, WORDS, merged([covered(tried("jump")), covered(tried("kill", "pause"))]))
    assert not [sentence for sentence in more if sentence.startswith("Never struck:")]
    assert more[0] == (
        "Never struck in one schedule: client-pause with clock-jump, clock-jump with kill, client-pause twice and 2 "
        "more (5 of 6 pairs of faults)."
    )


def test_moments_that_no_fault_met_are_named_once() -> None:
    found = merged([covered(tried("jump")), covered(tried("pause"))])
    sentence = next(one for one in never(ASKED, WORDS, found) if one.startswith("What the lock"))
    assert "any fault while it was free" in sentence
    assert "clock-jump while it was free" not in sentence
    assert "of 12 moments" in sentence


def test_events_on_which_no_fault_struck_are_named() -> None:
    sentences = never(ASKED, WORDS, covered(tried("jump")))
    assert "No fault struck on: acquire:invoke, acquire, request:SET and 1 more (4 of 5 events)." in sentences


def test_of_one_fault_at_a_time_nobody_expects_pairs() -> None:
    one = msgspec.structs.replace(ASKED, most_faults=1)
    assert not [said for said in never(one, WORDS, covered(tried("jump"))) if "in one schedule" in said]


def test_nothing_is_said_of_what_was_reached_in_full() -> None:
    families = sorted(ASKED.faults)
    found = Coverage(
        pairs=frozenset((one, other) for one in families for other in families if one <= other),
        moments=frozenset((name, phase) for name in families for phase in PHASES),
        events=frozenset({*WORDS.events, "request:SET", "reply:SET"}),
        outcomes=frozenset({"acquire", "acquire:fail", "acquire:info"}),
    )
    assert never(ASKED, WORDS, found) == []
