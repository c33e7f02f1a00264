"""Blame for broken leases, in handwritten histories.

c0 requests the lock at 1.0 s and is granted it at 1.1 s for 2 s, so until 3.1 s. c1 requests it at 1.2 s and is
granted it too. Each case gives the blame, and each mutant of the rules gets one case wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, get_args

import pytest

from harness.checkers import clocks, fencing, leases
from harness.checkers.base import Blame, Verdict, Violation
from harness.checkers.clocks import EVER, Clock, Reading
from harness.checkers.faults import faults_among
from harness.checkers.fencing import FencingChecker
from harness.checkers.holds import FOREVER, Holds, holds
from harness.checkers.leases import BLAMES, Lease, Leases, lease_of
from harness.checkers.linearizable import LinearizabilityChecker
from harness.checkers.mutual_exclusion import MutualExclusionChecker
from harness.history import History
from harness.run.check.checking import check
from tests.checkers.lockserver import World
from tests.checkers.story import SECOND, Story

Change = Callable[[Story], Any]


def same(story: Story) -> Story:
    return story


def overlap_history(change: Change, granted: float, lease: float | None = 2.0, servers: int = 1) -> History:
    story = Story(servers=[f"n{number}" for number in range(1, servers + 1)])
    story.acquire("c0", 1.0, 1.1, valid_for=lease, fence=1).acquire("c1", 1.2, granted, valid_for=lease, fence=2)
    change(story)
    return story.release("c0", 9.0).release("c1", 9.5).history()


def extend(begin: float, end: float, then: Change = same, *, good: bool = True) -> Change:
    return lambda story: then(story.call("c0", "extend", begin, end, got={"extended": good}))


def jump(begin: float, ahead: float, end: float | None = None, host: str = "n1") -> Change:
    return lambda story: story.jump(begin, {host: ahead}, end)


def drift(rate: float, read: float) -> Change:
    """A drift from 0.5 s on, first read at 0.501 s."""
    return lambda story: story.jump(0.5, {"n1": read}, rate=rate)


def read(*readings: tuple[float, float]) -> Change:
    def add(story: Story) -> None:
        for at, ahead in readings:
            story.clocks(at, {"n1": ahead})

    return add


def pause_c0(story: Story) -> Story:
    return story.fault(90, "client-pause", ["c0"], 1.3, 5.0)


def cut_links(*links: str, begin: float = 1.3, end: float | None = 5.0) -> Change:
    hosts = sorted({host for link in links for host in link.split(">")})
    return lambda story: story.fault(91, "partition-clients", hosts, begin, end, observed={"cut": list(links)})


def back_to_truth(story: Story) -> Story:
    """A correction from 3 s behind, done at an unknown time before it is read at 2.2 s."""
    return story.jump(0.5, {"n1": -3.0}, 2.2)


def first_ahead_then_true(story: Story) -> Story:
    """The clock is set back during c0's request. c0's lease may have begun before or after; neither makes it
    shorter."""
    return story.jump(0.2, {"n1": 60.0}).jump(1.05, {"n1": 0.0})


def no_lease(change: Change, granted: float) -> History:
    return overlap_history(change, granted, lease=None)


def late_answer(begin: float, *, client: str = "c1", left: float | None = None, stated: float | None = 2.0) -> History:
    """c1 asks at 1.2 s and is granted the key at 5 s, when c0 holds it since 4.1 s. A client is stopped from ``begin``
    to 5 s. c1's grant says how much of its lease is ``left``, or else the start entry says how long leases are."""
    story = Story(**({} if stated is None else {"lease": stated})).acquire("c0", 4.0, 4.1)
    story.acquire("c1", 1.2, 5.0, valid_for=left).fault(0, "client-pause", [client], begin, 5.0)
    return story.release("c0", 5.5).release("c1", 9.5).history()


def late_grant(granted: float, *, written: float = 1.1, by: str = "c0", left: float = 2.0) -> History:
    """c0 asks at 1 s, and the key is written at 1.1 s with a lease of 2 s. The answer comes at 1.6 s."""
    story = Story(lease=2.0).acquire("c0", 1.0, 1.6).acquire("c1", 1.2, granted)
    story.server_key(written, "a", by=by, left=left)
    return story.release("c0", 9.0).release("c1", 9.5).history()


CASES: dict[str, tuple[History, Blame]] = {
    "a lease that ended on the server": (late_grant(3.2), "client"),
    "a lease that lasts on the server": (late_grant(3.0), "service"),
    "a lease of another client on the server": (late_grant(3.2, by="c2"), "service"),
    "a lease that the server had before": (late_grant(3.2, written=0.9), "service"),
    "a server rounds the lease down": (late_grant(2.0, left=0.8), "client"),
    "a lease in the wrong unit": (late_grant(2.0, left=0.002), "service"),
    "all clocks are true": (overlap_history(same, 2.0), "service"),
    "just before the lease ends": (overlap_history(same, 3.099), "service"),
    "just when it ends": (overlap_history(same, 3.1), "client"),
    "after it": (overlap_history(same, 4.0), "client"),
    "a pause within a lease": (overlap_history(pause_c0, 2.0), "service"),
    "a jump past the end": (overlap_history(jump(1.5, 3.0), 2.0), "clock"),
    "a jump to the very end": (overlap_history(jump(1.5, 1.1), 2.0), "clock"),
    "a jump to just before the end": (overlap_history(jump(1.5, 1.099), 2.0), "service"),
    "a jump, and true time has passed the end too": (overlap_history(jump(1.5, 3.0), 3.2), "client"),
    "a jump before c0 asks": (overlap_history(jump(0.5, 3.0), 2.0), "service"),
    "a jump while c0 asks": (overlap_history(jump(1.05, 3.0), 2.0), "clock"),
    "a jump that is read after the grant": (overlap_history(jump(1.9995, 3.0), 2.0), "clock"),
    "a jump after the grant": (overlap_history(jump(2.5, 3.0), 2.0), "service"),
    "a jump back": (overlap_history(jump(1.5, -3.0), 2.0), "service"),
    "a jump forward, undone before the grant": (overlap_history(jump(1.5, 3.0, 1.8), 2.0), "clock"),
    "a jump back, undone before the grant": (overlap_history(jump(1.5, -3.0, 1.8), 2.0), "service"),
    "put right during the lease": (overlap_history(back_to_truth, 2.0), "clock"),
    "put back while c0 asks": (overlap_history(first_ahead_then_true, 2.0), "service"),
    "the clock of a client jumps": (overlap_history(jump(1.5, 3.0, host="c1"), 2.0), "service"),
    "one of five servers": (overlap_history(jump(1.5, 3.0, host="n3"), 2.0, servers=5), "clock"),
    "extended after the jump": (overlap_history(extend(1.6, 1.61, jump(1.5, 3.0)), 2.0), "service"),
    "extended before the jump": (overlap_history(extend(1.3, 1.31, jump(1.5, 3.0)), 2.0), "clock"),
    "extended beyond the jump": (overlap_history(extend(1.3, 1.9, jump(1.35, 1.5)), 3.5), "clock"),
    "extended after the grant": (overlap_history(extend(2.1, 2.2, jump(1.5, 3.0)), 2.0), "service"),
    "a drift, not yet": (overlap_history(drift(1.0, 0.001), 2.0), "service"),
    "a drift, in time": (overlap_history(drift(1.0, 0.001), 2.1), "clock"),
    "a drift that has ended": (
        overlap_history(lambda story: story.jump(0.5, {"n1": 0.001}, 0.9, rate=1.0), 2.1),
        "service",
    ),
    "too slow a clock": (overlap_history(drift(-0.5, -0.0005), 3.0), "service"),
    "readings that leave the time open": (overlap_history(read((1.15, 0.0), (2.5, 3.0)), 2.0), "clock"),
    "readings that do not": (overlap_history(read((1.15, 0.0), (2.1, 0.0), (2.5, 3.0)), 2.0), "service"),
    "a clock that was never true": (overlap_history(read((1.5, 3.0)), 2.0), "service"),
    "nothing is left of the later lease": (late_answer(4.9, left=0.0), "client"),
    "little is left of the later lease": (late_answer(1.3, left=0.001), "service"),
    "stopped for a lease before the answer": (late_answer(3.0), "client"),
    "stopped for less than a lease before the answer": (late_answer(3.1), "service"),
    "the earlier one stopped before the answer": (late_answer(3.0, client="c0"), "service"),
    "stopped before it asked": (late_answer(1.1), "service"),
    "stopped before the answer, no lease": (late_answer(3.0, stated=None), "service"),
    "no lease": (no_lease(same, 4.0), "service"),
    "no lease, a pause": (no_lease(pause_c0, 2.0), "client"),
    "no lease, the holder's clock jumps": (no_lease(jump(1.5, 3.0, host="c0"), 2.0), "service"),
    "a cut within a lease": (overlap_history(cut_links("c0>n1", "n1>c0"), 2.0), "service"),
    "no lease, cut off": (no_lease(cut_links("c0>n1", "n1>c0"), 2.0), "client"),
    "no lease, cut off one way": (no_lease(cut_links("n1>c0"), 2.0), "client"),
    "no lease, the other one cut off": (no_lease(cut_links("c1>n1", "n1>c1"), 2.0), "service"),
    "no lease, cut off before": (no_lease(cut_links("c0>n1", begin=0.1, end=0.9), 2.0), "service"),
    "no lease, cut off after": (no_lease(cut_links("c0>n1", begin=2.5), 2.0), "service"),
    "no lease, cut off from one server of two": (
        overlap_history(cut_links("c0>n1"), 2.0, lease=None, servers=2),
        "service",
    ),
    "no lease, cut off from both": (overlap_history(cut_links("c0>n1", "n2>c0"), 2.0, lease=None, servers=2), "client"),
    "no lease, a jump by a third": (no_lease(jump(1.5, 0.667), 2.0), "clock"),
    "no lease, a jump by less": (no_lease(jump(1.5, 0.666), 2.0), "service"),
    "no lease, a jump long ago": (no_lease(jump(1.5, 3.0), 4.0), "service"),
    "no lease, a jump before c0 asks": (no_lease(jump(0.5, 3.0), 2.0), "service"),
}


def verdict(history: History) -> Verdict:
    return MutualExclusionChecker().check(history)


def blames(history: History) -> list[Blame | None]:
    return [violation.blame for violation in verdict(history).evidence]


@pytest.mark.parametrize("name", CASES)
def test_overlap_is_blamed_on_the_cause(name: str) -> None:
    history, blame = CASES[name]
    assert blames(history) == [blame]
    assert {of: count for of, count in verdict(history).stats.items() if of in BLAMES and count} == {blame: 1}
    found = holds(history)
    assert Leases.of(history).overlap(found, 0, 1)[1].blame == blame


def from_the_acquire(found: Holds, row: int) -> Lease:
    start, end = int(found.start[row]), int(found.lease_end[row])
    return Lease(found[row].client, int(found.view.time[found.acquire[row]]), start, end)


def known_when_read(self: Clock, since: int, read: int, offset: int, rate: float) -> None:
    self._readings.append(Reading(read, read, offset, rate))
    self._read.append(read)


OVER = Clock.over
MUTANTS: list[tuple[str, Any, str, Any]] = [
    ("clocks are true", Clock, "over", lambda *_: None),
    ("whatever moved has passed it", Clock, "over", lambda *_: (0, 0)),
    (
        "only the last counts",
        Clock,
        "over",
        lambda self, asked, given, end, until: OVER(self, until, until, end, until),
    ),
    ("older jumps count", Clock, "over", lambda self, _, given, end, until: OVER(self, EVER, given, end, until)),
    ("the promise was made in the end", Clock, "over", lambda self, asked, given, *t: OVER(self, given, given, *t)),
    ("later jumps count", Clock, "over", lambda self, asked, given, end, _: OVER(self, asked, given, end, FOREVER)),
    ("a jump happens when it is read", Clock, "add", known_when_read),
    ("a heal happens when it is read", clocks, "HEALING", 0),
    ("drifts stop", clocks, "_note_drift", lambda *_: None),
    ("who is paused renews", leases, "STILL", frozenset()),
    ("all faults are pauses", leases, "STILL", frozenset({"client-pause", "clock-jump"})),
    ("who is cut off renews", leases, "faults_among", lambda ops: [f for f in faults_among(ops) if not f.cut]),
    ("one link is enough", leases, "all", any),
    ("extends prolong nothing", leases, "lease_of", from_the_acquire),
    ("the servers' record is not used", leases, "keys_of", lambda history: None),
    ("who is stopped learns of its grant", Leases, "_stopped", lambda *_: None),
    ("a client that requests the lock is stopped", Leases, "_stopped", lambda self, lease: lease.requested_ns),
    ("a lease is for ever", leases, "FOREVER", 0),
]


def first_cause(history: History) -> Blame | None:
    """Use a fresh view, because a view caches what it finds."""
    return next(iter(blames(History(list(history)))), None)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant[0])
def test_every_mutant_of_the_rules_is_caught(
    mutant: tuple[str, Any, str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, where, name, replacement = mutant
    monkeypatch.setattr(where, name, replacement, raising=name != "all")
    assert any(first_cause(history) != blame for history, blame in CASES.values())


def may_be_over(course: list[Reading], asked: int, given: int, end: int, until: int) -> int | None:
    """Try all instants and all places where the clock may have stood."""
    ended = [later.read_ns for later in course[1:]] + [until]

    def places(at: int) -> list[tuple[int, int]]:
        spans = enumerate(zip(course, ended, strict=True))
        return [(number, one.at(at)) for number, (one, over) in spans if one.since_ns <= at <= over]

    found = [
        then
        for made in range(asked, min(given, until) + 1)
        for then in range(made, until + 1)
        for first, before in places(made)
        for second, after in places(then)
        if first <= second and then + after >= end + before
    ]
    return min(found, default=None)


@pytest.mark.parametrize("seed", range(150))
def test_possible_lease_ends_agree_with_trying_every_instant(seed: int) -> None:
    dice = Random(seed)
    times = sorted(dice.sample(range(1, 24), 6))
    course = [Reading(EVER, EVER, 0)]
    clock = Clock()
    for since, read in zip(times[::2], times[1::2], strict=True):
        course.append(Reading(since, read, dice.randint(-6, 12), float(dice.randint(0, 1))))
        clock.add(since, read, course[-1].offset_ns, course[-1].rate)
    asked, given, until = sorted(dice.sample(range(24), 3))
    end = dice.randint(given + 1, given + 12)
    hit = clock.over(asked, given, end, until)
    assert (None if hit is None else hit[0]) == may_be_over(course, asked, given, end, until)


def sentence(history: History) -> str:
    return verdict(history).explanation


def test_explanations_name_the_clock_and_the_time() -> None:
    begin = "Two clients held k0 at the same time for 7.000 s: c0 until 9.000 s, and c1 from 2.000 s; "
    assert sentence(overlap_history(same, 2.0)) == f"{begin}the service had promised the lock to c0 until 3.100 s"
    assert sentence(overlap_history(jump(1.5, 12.4), 2.0)) == (
        f"{begin}c0's lease lasted until 3.100 s, but it ended at 1.500 s by n1's clock, which had gained 12.400 s"
    )
    two = overlap_history(lambda story: story.jump(1.5, {"n2": 3.0, "n5": 1.2, "n4": 0.5}), 2.0, servers=5)
    assert sentence(two) == (
        f"{begin}c0's lease lasted until 3.100 s, but it ended at 1.500 s by 2 of 5 servers' clocks (n2's had gained "
        "3.000 s)"
    )
    assert sentence(late_grant(2.0, left=0.002)).endswith(
        "the service had promised the lock to c0 until 3.600 s, but its key was written for 0.002 s only"
    )
    assert sentence(no_lease(same, 2.0)) == (
        f"{begin}the service had granted the lock to c0 without a stated lease, and c0 still held it"
    )
    assert sentence(no_lease(jump(1.5, 3.0), 2.0)) == (
        f"{begin}c0's lock stated no lease, and any lease ended by 1.500 s by n1's clock, which had gained 3.000 s"
    )
    assert sentence(no_lease(pause_c0, 2.0)) == f"{begin}c0 was stopped and could not renew its lease"
    assert sentence(no_lease(cut_links("c0>n1"), 2.0)) == (
        f"{begin}c0 was cut off from all servers and could not renew its lease"
    )
    drifting = sentence(overlap_history(drift(1.0, 0.001), 2.1))
    assert drifting.endswith("until 3.100 s, but it ended at 2.050 s by n1's clock, which had gained 1.050 s")


def test_without_server_names_every_clock_except_the_clients_counts() -> None:
    history = overlap_history(lambda story: story.jump(1.5, {"n7": 3.0, "c1": 9.0}), 2.0, servers=0)
    assert Leases(history.nemesis()).rule(lease_of(holds(history), 0), 2 * SECOND).host == "n7"


def test_one_history_may_have_all_three_causes() -> None:
    story = Story()
    for at in (1.0, 11.0, 21.0):
        story.acquire("c0", at, at + 0.1, valid_for=2.0)
    story.jump(11.5, {"n1": 3.0}, 14.0)
    for at in (2.0, 12.0, 24.0):
        story.acquire("c1", at - 0.1, at, valid_for=2.0)
    for at in (5.0, 15.0, 25.0):
        story.release("c0", at).release("c1", at + 0.1)
    assert blames(story.history()) == ["service", "clock", "client"]


def test_a_lock_that_a_clock_ended_stays_lost() -> None:
    story = Story().acquire("c0", 1.0, 1.1).jump(1.5, {"n1": 3.0}, 1.9)
    for at in (2.0, 6.0):
        story.acquire("c1", at - 0.1, at).release("c1", at + 0.5)
    assert blames(story.release("c0", 9.0).history()) == ["clock"]
    story = Story().acquire("c0", 1.0, 1.1).acquire("c1", 1.2, 1.3).release("c1", 1.4).jump(1.5, {"n1": 3.0}, 1.9)
    story.acquire("c1", 5.9, 6.0).release("c1", 6.5)
    assert blames(story.release("c0", 9.0).history()) == ["service"]


def test_check_gives_no_cause_for_a_history_with_values_that_no_run_writes(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    overlap_history(same, 2.0).save(path)
    assert "the service had promised" in check(path, "owner-mutex").verdict.explanation
    path.write_text(path.read_text().replace('"value":{"fence":1,"valid_for":2.0}', '"value":5', 1))
    found = check(path, "owner-mutex").verdict
    assert (found.valid, "the service had promised" in found.explanation) == (False, False)


def test_overlaps_of_every_cause_are_counted() -> None:
    assert set(BLAMES) == set(get_args(Blame))
    assert Leases(overlap_history(same, 2.0).nemesis()).blames == 2
    assert Leases(overlap_history(jump(1.5, 3.0), 2.0).nemesis()).blames == 3


@pytest.mark.few(20)
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("jumps", "pauses"), [(True, 0.0), (True, 0.3), (False, 0.3)])
def test_a_correct_service_is_never_blamed(jumps: bool, pauses: float, seed: int) -> None:
    """Its clock jumps by a minute. A grant is early by true time only if that clock jumped."""
    history = World(seed, jumps=jumps, pauses=pauses, losses=0.1).run()
    found = set(blames(history))
    assert "service" not in found
    assert jumps or "clock" not in found
    assert pauses or "client" not in found


def test_the_simulated_worlds_produce_every_cause() -> None:
    worlds = [World(seed, jumps=True, pauses=0.3).run() for seed in range(4)]
    assert {blame for history in worlds for blame in blames(history)} == {"clock", "client"}
    assert "service" in blames(World(0, jumps=True, grants_all=True).run())


def stale(change: Change, granted: float, **settings: str) -> Violation:
    """c1 uses its newer token, and afterwards c0 uses its older one."""
    story = Story(**settings).acquire("c0", 1.0, 1.1, valid_for=2.0, fence=1)
    story.acquire("c1", 1.2, granted, valid_for=2.0, fence=2)
    story.access("c1", "write", granted + 0.1, 1, 1, fence=2).access("c0", "write", granted + 0.2, 2, 1, fence=1)
    change(story)
    (found,) = FencingChecker().check(story.history()).evidence
    return found


@pytest.mark.parametrize(
    ("change", "granted", "blame"),
    [
        (same, 2.0, "service"),
        (jump(1.5, 3.0), 2.0, "clock"),
        (same, 4.0, "client"),
        (lambda story: story.release("c0", 1.5), 2.0, "client"),
    ],
)
def test_stale_accesses_are_judged_by_the_leases_of_their_tokens(change: Change, granted: float, blame: Blame) -> None:
    found = stale(change, granted)
    assert found.blame == blame
    assert ("c1 had acquired k0 at 2.000 s" in found.sentence) == (blame != "client")
    assert stale(change, granted, fencing="on").blame == "service"


def test_an_older_token_granted_later_is_blamed_on_the_service() -> None:
    story = Story().acquire("c0", 1.0, 2.1, valid_for=2.0, fence=1).acquire("c1", 1.2, 2.0, valid_for=0.0, fence=2)
    story.access("c1", "write", 2.2, 1, 1, fence=2).access("c0", "write", 2.3, 2, 1, fence=1)
    found = FencingChecker().check(story.history()).evidence
    assert [one.blame for one in found if one.kind == "stale-accepted"] == ["service"]


def test_a_token_without_a_hold_is_blamed_on_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fencing._Grants, "rows", {})
    assert stale(same, 2.0).blame == "client"


@pytest.mark.parametrize(("ahead", "blame"), [(3.0, "clock"), (0.5, None)])
def test_a_lock_that_says_early_that_it_is_lost_is_blamed_on_a_clock(ahead: float, blame: str | None) -> None:
    story = Story(lease=2.0).acquire("c0", 0.1, 0.11).jump(0.2, {"n1": ahead})
    story.call("c0", "extend", 0.5, 0.51, got={"extended": False})
    (violation,) = LinearizabilityChecker().check(story.history()).evidence
    assert violation.blame == blame
    assert "c0's extend said that it was lost at 0.510 s" in violation.sentence
