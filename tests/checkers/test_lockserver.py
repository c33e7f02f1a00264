"""Ownership, deadlock and liveness checked against a simulated service that knows what happened: 840 runs of 25 s."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from harness.checkers.base import Verdict, Violation
from harness.checkers.deadlock import DeadlockChecker
from harness.checkers.faults import faults
from harness.checkers.holds import holds
from harness.checkers.liveness import LivenessChecker
from harness.checkers.mutual_exclusion import MutualExclusionChecker
from harness.checkers.ownership import OwnershipChecker
from harness.history import History
from tests.checkers.lockserver import World

SECOND = 1_000_000_000
SEEDS = range(25)
FEW = [*SEEDS[:6], *(pytest.param(seed, marks=pytest.mark.slow) for seed in SEEDS[6:])]
CORRECT: dict[str, dict[str, Any]] = {
    "calm": {},
    "pauses": {"pauses": 0.3},
    "clock jumps": {"jumps": True},
    "pauses and clock jumps": {"pauses": 0.3, "jumps": True},
    "crashes": {"crashes": 0.05},
    "lost replies": {"losses": 0.1},
    "everything": {"pauses": 0.2, "jumps": True, "crashes": 0.03, "losses": 0.1},
}


@pytest.mark.few(30)
@pytest.mark.parametrize("name", CORRECT)
@pytest.mark.parametrize("seed", SEEDS)
def test_no_violation_is_reported_for_a_correct_lock(name: str, seed: int) -> None:
    history = World(seed, **CORRECT[name]).run()
    for checker in (OwnershipChecker(), DeadlockChecker(), LivenessChecker()):
        verdict = checker.check(history)
        assert verdict.valid is not False, verdict.explanation


@pytest.mark.parametrize("seed", SEEDS)
def test_without_pauses_and_jumps_nothing_overlaps(seed: int) -> None:
    assert MutualExclusionChecker().check(World(seed, crashes=0.05, losses=0.1).run()).valid is not False


@pytest.mark.few(3)
@pytest.mark.parametrize("jumps", [False, True])
@pytest.mark.parametrize("seed", FEW)
def test_exactly_the_foreign_releases_are_reported(seed: int, jumps: bool) -> None:
    world = World(seed, trusts=True, pauses=0.3, jumps=jumps)
    history = world.run()
    verdict = OwnershipChecker().check(history)
    truth = [round(at * SECOND) for at, _, _ in world.server.foreign]
    for violation in verdict.evidence:
        assert any(violation.from_ns <= at <= violation.until_ns for at in truth), violation.sentence
    for at in truth:
        if has_documented_shape(history, at):
            assert violation_at(verdict, at), at / SECOND


def has_documented_shape(history: History, at: int) -> bool:
    """Return whether the foreign release at ``at`` has the shape that the checker's module promises to find."""
    everything = sorted(holds(history), key=lambda hold: hold.start_ns)
    for victim, third in pairwise(everything):
        older = [hold for hold in everything if hold.start_ns < victim.start_ns and hold.client != victim.client]
        begin, end = victim.start_ns, third.start_ns
        active = [hold for hold in older if hold.end_ns < end and hold.end_ns + SECOND // 40 > begin]
        lease = victim.lease_end_ns or 0
        hosts = {"n1", victim.client}
        struck = [fault for fault in faults(history) if fault.hosts & hosts]
        if (
            begin < at < end < victim.end_ns
            and end + SECOND // 4 < lease
            and third.client != victim.client
            and len(active) == 1
            and active[0].end_ns > begin
            and (active[0].lease_end_ns or 0) <= begin
            and not any(fault.during(history.time[victim.acquire], end) for fault in struck)
        ):
            return True
    return False


def violation_at(verdict: Verdict, at: int) -> Violation | None:
    return next((v for v in verdict.evidence if v.from_ns <= at <= v.until_ns), None)


@pytest.mark.slow
def test_the_documented_shape_occurs() -> None:
    """Otherwise the test above would prove nothing."""
    shapes = 0
    for seed in SEEDS[: len(SEEDS) // 2]:
        world = World(seed, trusts=True, pauses=0.3)
        history = world.run()
        shapes += sum(has_documented_shape(history, round(at * SECOND)) for at, _, _ in world.server.foreign)
    assert shapes > 10


@pytest.mark.parametrize("seed", SEEDS)
def test_a_lock_without_exclusion_has_no_foreign_releases(seed: int) -> None:
    history = World(seed, grants_all=True, pauses=0.1).run()
    assert MutualExclusionChecker().check(history).valid is False
    assert OwnershipChecker().check(history).valid is not False


@pytest.mark.parametrize("fault", [{"crashes": 0.2}, {"losses": 0.1}])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_lock_without_expiry_deadlocks(seed: int, fault: dict[str, Any]) -> None:
    """A deadlock is found exactly if the key was taken for ttl + slack and the time of requests before the end."""
    world = World(seed, ttl=None, **fault)
    history = world.run()
    stuck_for = world.span - max(world.server.since, *world.crashed, 0.0)
    orphaned = not any(hold.ended == "open" for hold in holds(history)) and world.server.owner is not None
    verdict, live = DeadlockChecker().check(history), LivenessChecker().check(history)
    assert (verdict.valid is False) == (live.valid is False)
    if orphaned and stuck_for > 9:
        assert verdict.valid is False
    if verdict.valid is False:
        assert orphaned or world.server.owner is None or stuck_for > 3


def test_the_same_seed_gives_the_same_world() -> None:
    first, second = (list(World(5, pauses=0.2).run()) for _ in range(2))
    assert first == second
