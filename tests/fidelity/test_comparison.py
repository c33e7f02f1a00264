"""The comparison counts the steps, repeats a divergence, shrinks it, and stores equal ones once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import msgspec

from harness.fidelity.comparison import ATTEMPTS, Step, compare, merged
from tests.fidelity.fake_server import FakePair, agrees, forgets_after_two_large_numbers


def undocumented(_step: Step) -> str:
    return ""


def test_servers_that_agree_have_no_divergence() -> None:
    found = compare("fake", FakePair(agrees, undocumented), range(3))
    assert (found.seeds, found.steps, found.differing, found.divergences) == (3, 150, 0, ())
    assert (found.server, found.version) == ("fake", "fake-server 1.0")


def test_divergence_is_shrunk_to_the_steps_that_show_it() -> None:
    found = compare("fake", FakePair(forgets_after_two_large_numbers, undocumented), range(1))
    (one,) = found.unknown
    assert len(one.steps) == 3
    assert all(int(step.strip("()").split(", ")[1]) >= 90 for step in one.steps)
    assert (one.real, one.simulated) == ("ok", "lost True")
    assert found.differing == 1


def test_equal_documented_divergences_are_stored_once_and_counted_each_time() -> None:
    found = compare("fake", FakePair(forgets_after_two_large_numbers, lambda _step: "Losses"), range(5))
    assert [one.known for one in found.divergences] == ["Losses"]
    assert found.unknown == ()
    assert found.differing == 4  # the other sequence has too few large numbers
    assert found.steps < 250


def test_known_difference_is_shrunk_once() -> None:
    pair = FakePair(forgets_after_two_large_numbers, lambda _step: "Losses")
    compare("fake", pair, range(1))
    first = pair.executed
    compare("fake", pair, range(5))
    assert pair.executed == 2 * first + 4


def test_difference_of_which_an_example_is_stored_is_counted_alone() -> None:
    pair = FakePair(forgets_after_two_large_numbers, lambda _step: "Losses")
    found = compare("fake", pair, range(5), stored=["Losses"])
    assert (found.divergences, found.differing, pair.executed) == ((), 4, 5)


def test_comparisons_are_merged_as_if_one_had_made_them() -> None:
    pair = FakePair(forgets_after_two_large_numbers, undocumented)
    parts = [compare("fake", pair, range(first, first + 3), stored=[]) for first in (0, 3)]
    one, whole = merged(*parts), compare("fake", pair, range(6))
    assert whole.divergences
    assert msgspec.structs.replace(one, seconds=0.0) == msgspec.structs.replace(whole, seconds=0.0)


def test_interruption_keeps_what_was_compared() -> None:
    def simulated(done: list[Step]) -> str:
        if pair.executed == 3 and len(done) == 10:
            raise KeyboardInterrupt
        return "ok"

    pair = FakePair(simulated, undocumented)
    found = compare("fake", pair, range(9))
    assert (found.seeds, found.steps, found.interrupted) == (2, 100, True)


def test_difference_that_does_not_repeat_is_no_divergence() -> None:
    first: Iterator[int] = count()
    pair = FakePair(lambda done: "late" if len(done) == 10 and next(first) == 0 else "ok", undocumented)
    found = compare("fake", pair, range(2))
    assert (found.divergences, found.differing, found.steps) == ((), 0, 100)


def test_divergence_that_cannot_be_shrunk_is_reported_as_it_was_seen() -> None:
    """A real server deletes expired keys at random moments, so a divergence may hide in later executions."""
    seen: Iterator[int] = count()
    pair = FakePair(lambda done: "late" if len(done) == 10 and next(seen) < ATTEMPTS else "ok", undocumented)
    found = compare("fake", pair, range(1))
    (one,) = found.unknown
    assert (len(one.steps), one.real, one.simulated, found.differing) == (10, "ok", "late", 1)


def test_budget_ends_the_comparison() -> None:
    pair = FakePair(agrees, undocumented)
    assert compare("fake", pair, count(), budget_s=0.05).seeds == pair.executed > 0


def test_progress_is_told_after_each_sequence() -> None:
    told: list[tuple[int, int]] = []
    pair = FakePair(agrees, undocumented)
    compare("fake", pair, range(2), on_seed=lambda found: told.append((found.steps, len(found.divergences))))
    assert told == [(50, 0), (100, 0)]
