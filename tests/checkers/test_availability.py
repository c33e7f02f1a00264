"""Availability of a lock: windows, the longest unavailability, and the time from a heal or a death to a grant."""

from __future__ import annotations

import numpy as np

from harness.checkers import availability
from harness.checkers.availability import Recovery, Served
from harness.checkers.liveness import LivenessChecker
from harness.checkers.stuck import Stretches
from tests.checkers.story import SECOND, Story


def stretches(story: Story) -> Stretches:
    found = availability.stretches_of(story.history())
    assert found is not None
    return found


def strip(one: Served) -> str:
    """Return one letter per window: served, missed or not requested."""
    return "".join("#" if good else "." if bad else " " for good, bad in zip(one.served, one.missed, strict=True))


def only(story: Story) -> Served:
    (one,) = availability.served(stretches(story))
    return one


def hold(story: Story, client: str, begin: float, granted: float, released: float, **more: object) -> Story:
    return story.acquire(client, begin, granted, **more).release(client, released)  # type: ignore[arg-type]


def story_with_refused_requests() -> Story:
    """The lock is granted at once and held until 0.4 s. All requests from then until 2.0 s fail."""
    story = hold(Story(), "c0", 0.0, 0.01, 0.4)
    story.acquire("c1", 0.4, 1.0, "fail").acquire("c1", 1.2, 1.5, "fail")
    return hold(story, "c2", 1.3, 2.0, 3.0)


def test_a_window_is_served_by_a_grant_or_a_hold_and_missed_if_requests_fail() -> None:
    one = only(story_with_refused_requests())
    assert strip(one) == "##......#### "  # [0.25, 0.5): held for more than half of it
    assert availability.share([one]) == 0.5
    assert one.gap == (4 * SECOND // 10, 2 * SECOND)  # the pause from 1.0 to 1.2 s does not end the attempt


def test_no_window_is_missed_without_requests() -> None:
    story = hold(hold(Story(), "c0", 0.0, 0.01, 0.2), "c0", 3.01, 3.02, 3.2)
    assert strip(only(story)) == "#" + 11 * " " + "#"
    assert availability.share([only(story)]) == 1.0
    gap = only(story).gap
    assert gap is not None
    assert gap[1] - gap[0] == SECOND // 100


def test_a_hold_beyond_its_lease_does_not_serve_a_window() -> None:
    story = hold(Story(), "c0", 0.0, 0.01, 3.99, valid_for=1.0).acquire("c1", 0.1, 3.9, "fail")
    assert strip(only(story)) == "####............"
    assert strip(only(hold(Story(), "c0", 0.0, 0.01, 3.99).acquire("c1", 0.1, 3.9, "fail"))) == 16 * "#"


def test_each_key_counts_towards_the_share() -> None:
    story = hold(Story(), "c0", 0.0, 0.01, 0.9).acquire("c1", 0.0, 1.0, "fail", key="k1")
    keys = availability.served(stretches(story))
    assert [(one.key, strip(one)) for one in keys] == [("k0", "####"), ("k1", "....")]
    assert availability.share(keys) == 0.5
    assert availability.longest_gap(keys) == keys[1].gap


def test_a_heal_recovers_by_any_grant_and_a_death_by_one_of_the_same_key() -> None:
    story = hold(Story(), "c0", 0.0, 0.01, 0.5)
    for number, (until, taken_over) in enumerate([(1.0, True), (2.0, False)]):
        fault = {"id": number, "fault": "kill", "hosts": ["n1"]}
        story.nemesis(until - 0.5, "inject", "invoke", fault | {"disturbs": True})
        story.nemesis(until, "heal", "ok", fault | {"observed": {"superseded": True} if taken_over else {}})
    story.acquire("c1", 0.6, 2.25)
    story.nemesis(2.25, "crash", "info", {"host": "c1"})
    hold(story, "c2", 2.3, 2.5, 2.6, key="k1").acquire("c3", 2.3, 9.0, "fail")
    found = availability.recoveries(stretches(story))
    at = [round(second * SECOND) for second in (2.0, 2.25)]
    assert found == [
        Recovery("kill", ("n1",), "", at[0], at[1], disturbs=True, held=False),
        Recovery("its holder died", ("c1",), "k0", at[1], None, disturbs=False, held=False),
    ]
    assert [one.ns for one in found] == [SECOND // 4, None]
    assert LivenessChecker().check(story.history()).stats["recovery_s"] == [0.25]


def test_availability_is_none_without_slack_locks_or_requests() -> None:
    assert availability.stretches_of(Story(slack=None).acquire("c0", 0.0, 0.1).history()) is None
    assert availability.stretches_of(Story(locks=False).history()) is None
    assert availability.share([]) is None
    nothing = Served("k0", np.zeros(3, dtype=bool), np.zeros(3, dtype=bool), None)
    assert availability.share([nothing]) is None


def test_a_history_of_one_instant_has_one_window() -> None:
    assert strip(only(Story().acquire("c0", 0.0, 0.0))) == "#"
