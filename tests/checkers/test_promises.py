"""Queue order and nested acquires in their simplest form, compared with the checkers on random histories."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from harness.checkers.fairness import FairnessChecker
from harness.checkers.holds import holds, nested_calls
from harness.checkers.reentrancy import ReentrancyChecker
from harness.history import Call, History
from tests.checkers.naive import naive_holds
from tests.checkers.story import SECOND, Story

HALF = SECOND // 2
WAKE = 3 * SECOND
"""ttl and slack."""


def queue(rng: Random) -> History:
    """Draw three clients that acquire and release, mostly the same key and mostly with success, and sometimes a
    fault."""
    story = Story(workload="queue")
    if rng.random() < 0.3:
        begin = rng.randrange(12) / 4
        story.fault(0, "client-pause", [rng.choice(["c0", "c1", "n1"])], begin, begin + rng.randrange(1, 4) / 4)
    for client in ("c0", "c1", "c2"):
        at = rng.randrange(8) / 4
        for _ in range(rng.randrange(2, 6)):
            at = _section(rng, story, client, at, rng.choice(["k0", "k0", "k0", "k0", "k0", "k1"]))
    return story.history()


def _section(rng: Random, story: Story, client: str, at: float, key: str) -> float:
    """Return when the critical section ends."""
    done = at + rng.randrange(12) / 4
    outcome: Any = rng.choice(["ok"] * 8 + ["fail", "info"])
    error = None if outcome == "ok" else rng.choice(["busy", "LockError: gone"])
    asked = {"timeout": rng.choice([0.5, 10.0, 10.0])}
    got: Any = {} if outcome == "ok" else None
    story.call(client, "acquire", at, done, outcome, key=key, asked=asked, got=got, error=error)
    if outcome == "ok" and rng.random() < 0.85:
        released = done + rng.randrange(3) / 4
        story.release(client, released, released + 0.01, "ok" if rng.random() < 0.9 else "fail", key=key)
        done = released + 0.01
    return done + rng.randrange(3) / 4


def naive_overtaken(history: History) -> int:
    """Return grants that overtook a client which had asked half a second earlier, certainly had a place, and still
    had it."""
    calls = history.calls("acquire", "release")
    inner = {history_index for _, history_index in naive_nested(history)}
    acquires = [call for call in calls if call.invoke.f == "acquire" and call.invoke.index not in inner]
    return sum(any(_overtook(history, calls, b, a) for a in acquires) for b in acquires)


def _overtook(history: History, calls: list[Call], b: Call, a: Call) -> bool:
    if a.done is None or b.done is None or b.outcome != "ok" or a.invoke.key != b.invoke.key:
        return False
    if not (_well(calls, a) and _well(calls, b)) or not _ended_well(a):
        return False
    until = min([a.done.time, a.invoke.time + round(a.invoke.value["timeout"] * SECOND)])
    for begin, end in _faults(history, str(a.invoke.node)):
        if begin <= until and a.invoke.time <= end:
            until = max(a.invoke.time, begin)
    return a.invoke.time <= b.invoke.time - HALF and until > b.done.time


def _ended_well(call: Call) -> bool:
    return call.outcome == "ok" or (call.invoke.f == "acquire" and call.done is not None and call.done.error == "busy"
                                    and call.outcome == "fail")  # fmt: skip


def _well(calls: list[Call], call: Call) -> bool:
    """Return whether the client's last call on the key succeeded."""
    mine = [c for c in calls if (c.invoke.node, c.invoke.key) == (call.invoke.node, call.invoke.key)]
    before = [c for c in mine if c.invoke.index < call.invoke.index]
    return bool(before) and _ended_well(max(before, key=lambda c: c.invoke.index))


def _faults(history: History, host: str) -> list[tuple[int, int]]:
    begun = [op for op in history.nemesis("inject") if op.type == "invoke"]
    healed = history.nemesis("heal")
    spans = [(b.time, h.time, b.value["hosts"]) for b, h in zip(begun, healed, strict=True)]
    return [(b, h + (h - b) + WAKE) for b, h, hosts in spans if host in hosts or "n1" in hosts]


def naive_nested(history: History) -> list[tuple[int, int]]:
    """Return for each acquire invoked inside a hold of the same client and key the hold's number and the invocation's
    index."""
    calls = history.calls("acquire")
    return [
        (number, call.invoke.index)
        for number, held in enumerate(naive_holds(history))
        for call in calls
        if (call.invoke.node, call.invoke.key) == (held.client, held.key)
        and _after_grant(calls, held.start, call)
        and call.invoke.time < held.end
    ]


def _after_grant(calls: list[Call], start: int, call: Call) -> bool:
    """Return whether it was invoked after, or at the same time as, the grant at ``start``."""
    mine = [c for c in calls if (c.invoke.node, c.invoke.key) == (call.invoke.node, call.invoke.key)]
    grants = [c.done.index for c in mine if c.done is not None and c.outcome == "ok" and c.done.time == start]
    return any(index < call.invoke.index for index in grants)


@pytest.mark.slow
def test_fairness_matches_its_definition_on_random_queues() -> None:
    overtaken = 0
    for seed in range(500):
        history = queue(Random(seed))
        verdict = FairnessChecker().check(history)
        assert verdict.stats["overtakings"] == naive_overtaken(history), f"seed {seed}"
        assert (verdict.valid is False) == (verdict.stats["overtakings"] > 0)
        overtaken += verdict.valid is False
    assert overtaken > 40


def test_reentrancy_matches_its_definition_on_random_nesting() -> None:
    nested = 0
    for seed in range(300):
        history = queue(Random(seed))
        found = nested_calls(holds(history))
        assert sorted(index for _, index in found) == sorted(index for _, index in naive_nested(history)), (
            f"seed {seed}"
        )
        assert ReentrancyChecker().check(history).stats["nested"] == len(found)
        nested += len(found)
    assert nested > 100
