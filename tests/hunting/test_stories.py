"""Stories of violations: few steps in plain words, each of which is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace as with_

from harness import scenarios
from harness.errors import UsageError
from harness.history.lock_keys import KeyState
from harness.plan import Delay, FaultSpec, Plan, load
from harness.search.stories.drops import Dies, Ends, WithoutDelay, WithoutFault
from harness.search.stories.keys import Keys
from harness.search.stories.story import StoryText, TrialStory, still, story_of
from harness.search.trials import run_trial

MOST_STEPS = 8
SCENARIOS = Path(scenarios.__file__).parent


def scenario(name: str, **changes: Any) -> Plan:
    """Return the plan of a scenario with two clients, without its expectation."""
    return with_(load(SCENARIOS / f"{name}.toml"), **{"clients": 2, "expect": None, **changes})


def checked_story(plan: Plan, checker: str) -> TrialStory:
    """Return the story. Check by playing that each of its steps is needed."""
    told = story_of(run_trial(plan), checker)
    assert 2 <= len(told.story.steps) <= MOST_STEPS, told.story.lines()
    state = told.trial.decision.properties[checker].state
    assert still(run_trial(told.trial.plan), checker, state)
    for step in told.story.steps:
        assert not still(run_trial(step.drop.of(told.trial.plan)), checker, state), f"not needed: {step.text}"
    return told


LATE_WRITE = Plan(
    lock="redis-token",
    clients=2,
    sections=1,
    ttl=1.0,
    stagger=0.2,
    time_limit=8.0,
    faults=(FaultSpec("client-pause", on="read", client=0, for_=1.5),),
)
"""A client is paused for longer than its lease, and then writes."""


def test_a_clock_jump_breaks_redlock_in_four_steps() -> None:
    told = checked_story(scenario("rl-clock-jump"), "mutual-exclusion")
    assert told.story.lines() == [
        "1. At 0.000 s c0 is cut off from n4 and n5.",
        "2. At 0.205 s c0 acquires k0 on n1, n2 and n3.",
        "3. At 0.205 s n3's wall clock jumps +3 s, just after c0's read: "
        "c0's key is lost there (but remains on n1 and n2).",
        "4. At 0.308 s c1 acquires k0 on n3, n4 and n5.",
        "Both hold k0 from 0.308 s to 0.705 s.",
    ]
    assert [type(step.drop) for step in told.story.steps] == [WithoutFault, Ends, WithoutFault, Ends]


def test_the_story_of_a_late_write_has_the_steps_that_it_needs() -> None:
    told = checked_story(LATE_WRITE, "resource")
    assert told.story.lines() == [
        "1. At 0.002 s c0 acquires k0 with a lease until 1.002 s.",
        "2. At 0.002 s c0 is paused until 1.502 s, just after its read.",
        "3. At 1.041 s c1 acquires k0 with a lease until 2.041 s (c0's key had expired at 1.002 s).",
        "4. At 1.142 s c1 writes k0, based on its read at 1.041 s.",
        "5. At 1.602 s c0 writes k0, based on its read at 0.002 s.",
        "c0 has overwritten c1's k0: c1's update is lost.",
    ]
    assert isinstance(told.story.steps[-1].drop, Dies), "who is in the middle of his work cannot end in good order"


def test_the_story_of_a_dead_holder_has_the_unsuccessful_requests() -> None:
    told = checked_story(
        scenario("setnx-crash", shuffle=0, faults=(FaultSpec("client-crash", on="acquire", client=0),)), "deadlock"
    )
    acquires, dies, asks = told.story.steps
    assert acquires.text == "c0 acquires k0"
    assert dies.text == "c0 dies"
    assert asks.text.startswith("c1 requests k0 ")
    assert asks.text.endswith("times until 10.000 s without success: c0 owns the key")


def test_unneeded_faults_and_clients_are_left_out_of_the_story() -> None:
    idle = (
        FaultSpec("clock-jump", at=0.1, params={"target": "c1", "seconds": -0.5}),
        FaultSpec("client-pause", at=4.0, for_=0.1, params={"target": "c1"}),
    )
    plan = with_(LATE_WRITE, clients=3, faults=(idle[0], *LATE_WRITE.faults, idle[1]))
    told = checked_story(plan, "mutual-exclusion")
    assert [spec.fault for spec in told.trial.plan.faults] == ["client-pause"]
    assert told.trial.plan.faults[0].on == "read"
    assert "wall clock" not in " ".join(told.story.lines())
    assert {step.text[:2] for step in told.story.steps} == {"c0", "c1"}, "the third client has no part"


@pytest.mark.slow
def test_the_check_detects_an_unneeded_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """The story contains unneeded steps if the check of each step is disabled."""
    trial = run_trial(with_(LATE_WRITE, clients=3))
    monkeypatch.setattr(
        "harness.search.stories.story.still", lambda played, checker, state="": played.plan == trial.plan
    )
    told = story_of(trial, "mutual-exclusion")
    steps = [step for step in told.story.steps if still(run_trial(step.drop.of(told.trial.plan)), "mutual-exclusion")]
    assert steps, "one of three clients is not needed, and nobody has noticed"


def test_a_late_message_is_a_step() -> None:
    late = Delay("c0", "resource", 2, 2.0)
    told = checked_story(with_(LATE_WRITE, faults=(), delays=(late,)), "mutual-exclusion")
    texts = [step.text for step in told.story.steps]
    assert "message 2 from c0 to resource arrives 2 s late" in texts
    assert any(step.drop == WithoutDelay(0) for step in told.story.steps)


@pytest.mark.slow
def test_a_write_while_the_run_settles_is_checked_too() -> None:
    """Faults no longer strike then, and the death of a client is a fault, so the run is made longer."""
    told = checked_story(with_(LATE_WRITE, time_limit=4.0, settle=2.4), "resource")
    last = told.story.steps[-1]
    assert last.text.startswith("c0 writes k0")
    assert isinstance(last.drop, Dies)
    assert last.drop.longer > 0


def test_a_story_without_a_violation_is_refused() -> None:
    with pytest.raises(ValueError, match="mutual-exclusion found no violation"):
        story_of(run_trial(with_(LATE_WRITE, faults=())), "mutual-exclusion")


def test_a_story_survives_serialisation() -> None:
    story = story_of(run_trial(LATE_WRITE), "mutual-exclusion").story
    assert msgspec.convert(msgspec.to_builtins(story), StoryText) == story


# Plans with clients that end early.


def test_clients_end_after_the_given_number_of_acquires() -> None:
    trial = run_trial(with_(LATE_WRITE, clients=3, sections=0, time_limit=4.0, faults=(), ends={"c1": 0, "c2": 2}))
    asked = [op.node for op in trial.history if (op.f, op.type) == ("acquire", "invoke")]
    assert (asked.count("c1"), asked.count("c2")) == (0, 2)
    assert asked.count("c0") > 2


@pytest.mark.parametrize("ends", [{"c9": 1}, {"c0": -1}])
def test_ends_of_unknown_clients_are_refused(ends: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="ends: expected c0 to c1 and 0 acquires or more"):
        with_(LATE_WRITE, ends=ends).check()


# Keys.


def state(time: int, owner: str | None, by: str | None = None, left: int | None = None) -> KeyState:
    return KeyState(time, "n1", "k0", owner, left, by)


def test_only_a_key_that_disappears_at_its_end_has_expired() -> None:
    second = 10**9
    keys = Keys([state(0, "a", "c0", 2 * second), state(2 * second, None), state(3 * second, "b", "c1", second),
                 state(3 * second + 10**8, None)], "k0")  # fmt: skip
    lost = [change for change in keys.changes if change.new is None]
    assert [change.expired for change in lost] == [True, False]
    assert keys.free_since(4 * second) == 3 * second + 10**8


def test_an_extension_does_not_change_the_owner() -> None:
    second = 10**9
    renewed = [state(0, "a", "c0", second), state(second // 2, "a", "c0", second), state(second, "a", None, second)]
    keys = Keys([*renewed, state(second * 3 // 2, None)], "k0")
    granted, lost = keys.changes
    assert (granted.new and granted.new.client, lost.old and lost.old.client) == ("c0", "c0")
    assert not lost.expired, "it had been prolonged"


def test_a_silent_server_is_not_known_to_have_lost_the_key() -> None:
    keys = Keys([state(0, "a", "c0"), KeyState(1, "n1", "k0", answers=False), state(2, "a")], "k0")
    assert len(keys.changes) == 1


# Documented failures.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "checker", "ending"),
    [
        ("rl-clock-jump", "resource", "update is lost"),
        ("ttl-pause-write", "resource", "c0 has overwritten"),
        ("setnx-crash", "liveness", "Nobody holds k0"),
        ("del-foreign", "resource", "update is lost"),
        ("etcd-pause", "fencing", "is accepted, though"),
        ("zk-pause", "mutual-exclusion", "Both hold k0"),
        ("uniq-cleaner-live", "mutual-exclusion", "Both hold k0"),
        ("watchdog-zombie", "liveness", "c0 holds k0"),
        ("lost-reply-acquire", "deadlock", "Nobody holds k0"),
        ("db-async-failover", "mutual-exclusion", "Both hold k0"),
        ("redis-restart-empty", "mutual-exclusion", "Both hold k0"),
        ("get-del-gap", "mutual-exclusion", "Both hold k0"),
        ("uniq-reent-nocount", "reentrancy", "A nested release freed k0"),
    ],
)
def test_stories_of_documented_failures_have_the_expected_ending(name: str, checker: str, ending: str) -> None:
    told = checked_story(scenario(name), checker)
    assert ending in told.story.ending
    assert len(told.trial.plan.faults) <= len(scenario(name).faults)


@pytest.mark.slow
def test_the_story_of_a_foreign_release_names_both_clients() -> None:
    told = checked_story(scenario("del-foreign", clients=3), "ownership")
    assert [step.text for step in told.story.steps] == [
        "c0 acquires k0 with a lease until 2.002 s",
        "c1 acquires k0 with a lease until 4.023 s (c0's key had expired at 2.002 s)",
        "c0 releases k0: c0 deletes c1's key",
        "c2 acquires k0 with a lease until 5.028 s",
    ]
    assert told.story.ending == "c0's release has ended c1's hold of k0, and c2 has acquired it."


@pytest.mark.slow
def test_the_story_of_a_failover_names_the_servers() -> None:
    told = checked_story(scenario("db-async-failover"), "mutual-exclusion")
    assert [step.text for step in told.story.steps] == [
        "n1 is cut off from n2 until 5.000 s, just before c0 requests it",
        "c0 acquires k0 on n1 with a lease until 8.001 s",
        "the primary n1 dies, and n2 takes over 1.1 s later",
        "c1 acquires k0 on n2 with a lease until 11.077 s",
    ]


def test_a_story_names_clients_that_check_the_lock() -> None:
    jump = FaultSpec("clock-jump", on="acquire", client=0, params={"by": 3.0})
    plan = Plan(lock="redis-token", clients=2, hold=1.0, stagger=0.1, time_limit=4.0, faults=(jump,))
    told = {
        discipline: story_of(run_trial(with_(plan, discipline=discipline)), "mutual-exclusion").story.ending
        for discipline in ("trusting", "checking")
    }
    assert told["trusting"].startswith("Both hold k0")
    assert "check the lock" not in told["trusting"]
    assert told["checking"].startswith("Both hold k0")
    assert told["checking"].endswith(". All clients check the lock before each write.")


def test_a_story_says_that_a_body_ran_without_the_lock() -> None:
    plan = Plan(lock="tests.workloads.context_locks:EntersAnyway", workload="context", clients=2, time_limit=6.0)
    steps = [step.text for step in story_of(run_trial(plan), "mutual-exclusion").story.steps]
    words = "enters the body of `with` for k0, although its acquire had failed"
    assert any(text.endswith(words) for text in steps), steps
