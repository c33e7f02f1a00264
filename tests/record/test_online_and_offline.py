"""The verdict while a history is recorded is that of the whole history, on random histories and for each monitor.

Whatever an online monitor finds, the check of the whole history must find. What it leaves to the end is counted, so
that a monitor that finds nothing fails.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings

from harness import check
from harness.checkers.base import Violation
from harness.checkers.mutual_exclusion import MutualExclusionChecker
from harness.checkers.online import Entry, HoldMonitor
from harness.checkers.run_watch import RunWatch
from harness.history import History, Op, OpType
from harness.run.check.checking import find_model
from harness.run.check.following import Follower
from tests.checkers.story import Story
from tests.checkers.test_holds import histories
from tests.record.drawn import MS
from tests.record.test_following import ONLINE

KEYS: Final = ("k0", "k1")
OUTCOMES: Final[tuple[OpType, ...]] = ("ok", "ok", "ok", "ok", "ok", "ok", "ok", "ok", "fail", "info")
REFUSALS: Final[tuple[OpType, ...]] = ("fail", "fail", "fail", "fail", "fail", "fail", "fail", "fail", "ok", "info")
SEEDS = [range(100), pytest.param(range(100, 1500), marks=pytest.mark.slow)]


@dataclass
class DrawnClient:
    """A client between two of its entries: the call that it has begun, and the keys that it believes to hold."""

    name: str
    process: int
    call: tuple[str, str] | None = None
    held: set[str] = field(default_factory=set)


class DrawnLock:
    """A lock that mostly keeps its promise: it sometimes grants a key that is held, and tokens that do not grow."""

    def __init__(self, random: Random, model: str) -> None:
        self.random, self.model = random, model
        self.holders: dict[str, tuple[str, float]] = {}
        self.token = 0

    def answer(self, client: DrawnClient, f: str, key: str, now: float) -> tuple[OpType, Any]:
        outcome = self.random.choice(OUTCOMES)
        holder, until = self.holders.get(key, ("", 0.0))
        free = not holder or until <= now or self.random.random() < 0.12
        if f == "acquire":
            if outcome == "ok" and not free:
                return "fail", None
            return outcome, self._grant(client, key, now) if outcome == "ok" else None
        if f == "release":
            if holder == client.name and (outcome == "ok" or self.random.random() < 0.3):
                del self.holders[key]
            return outcome if holder == client.name else self.random.choice(REFUSALS), None
        extended = holder == client.name and until > now
        if extended and outcome != "fail":
            self.holders[key] = client.name, now + 0.05
        return outcome, {"extended": extended, "valid_for": 0.05} if outcome == "ok" else None

    def _grant(self, client: DrawnClient, key: str, now: float) -> dict[str, Any]:
        self.token += self.random.choice([1, 1, 1, 1, 1, 1, 0, -1])
        lease = self.random.randint(1, 60) / 1000 if self.model == "lease-mutex" else 1e9
        self.holders[key] = client.name, now + lease
        fence = self.token if self.model == "fenced-mutex" else None
        return {"fence": fence, "valid_for": lease if self.model == "lease-mutex" else None}


def drawn_run(seed: int, model: str) -> History:
    """Return the entries of two or three clients on two keys, whose calls may fail, have unknown outcomes, or never
    return. After an unknown outcome the client goes on as another process."""
    random = Random(seed)
    lock, now, processes = DrawnLock(random, model), 0, 0
    clients = [DrawnClient(f"c{number}", number) for number in range(random.randint(2, 3))]
    processes = len(clients)
    history = History()

    def add(client: DrawnClient, type_: OpType, f: str, key: str, value: Any = None) -> None:
        at = (1 + now) * MS
        history.append(Op(len(history), at, at, client.process, type_, f, key, value, None, client.name))

    for _ in range(random.randint(6, 40)):
        now += random.choice([0, 1, 3, 10])
        client = random.choice(clients)
        if client.call is None:
            client.call = _next_call(random, client, model)
            add(client, "invoke", *client.call)
            continue
        (f, key), client.call = client.call, None
        type_, value = lock.answer(client, f, key, now / 1000)
        add(client, type_, f, key, value)
        if f == "acquire" and type_ == "ok":
            client.held.add(key)
        elif f == "release" and type_ != "fail":
            client.held.discard(key)
        if type_ == "info":
            client.process, processes = processes, processes + 1
    return history


def _next_call(random: Random, client: DrawnClient, model: str) -> tuple[str, str]:
    if client.held and random.random() < 0.8:
        key = random.choice(sorted(client.held))
        return ("extend" if model == "lease-mutex" and random.random() < 0.3 else "release"), key
    return random.choice(["acquire"] * 9 + ["release"]), random.choice(KEYS)


def interleaved(random: Random, history: History) -> Iterator[bytes]:
    """Yield the lines of the history, those of each client in order and those of different clients in any."""
    of: dict[str | None, list[Op]] = {}
    for op in history:
        of.setdefault(op.node, []).append(op)
    while of:
        client = random.choice(sorted(of, key=str))
        yield msgspec.json.encode(of[client].pop(0)) + b"\n"
        if not of[client]:
            del of[client]


def found_online(random: Random, history: History, model: str) -> Violation | None:
    follower = Follower(find_model(model, {}))
    source = follower.source(Path("drawn.jsonl"))
    stop = b'{"time":0,"process":-1,"type":"info","f":"stop"}\n'
    for line in (*interleaved(random, history), stop):
        if (found := follower.take(source, line)) is not None:
            return found
    return None


def count_verdicts(model: str, seeds: range) -> tuple[int, int]:
    """Check that what is found online is a violation of the whole; return how many were found, and how many are."""
    online = offline = 0
    for seed in seeds:
        history = drawn_run(seed, model)
        found = found_online(Random(seed), history, model)
        whole = check(history, model).verdict
        assert found is None or whole.valid is False, (seed, found, whole.explanation)
        online, offline = online + (found is not None), offline + (whole.valid is False)
    return online, offline


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
@pytest.mark.parametrize("model", ONLINE)
def test_a_followed_run_has_the_verdict_of_the_whole(model: str, seeds: range) -> None:
    online, offline = count_verdicts(model, seeds)
    print(f"{model}: {online} of {offline} violations in {len(seeds)} runs were found online")
    assert offline < len(seeds)
    assert online > offline // 4


@pytest.mark.parametrize(
    ("method", "unknown", "mistaken"),
    [("_released", "release", "fail"), ("_acquired", "acquire", "ok")],
    ids=["an unknown release is failed", "an unknown acquire is granted"],
)
def test_a_monitor_that_mistakes_an_outcome_is_detected(
    method: str, unknown: str, mistaken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = getattr(HoldMonitor, method)

    def wrong(monitor: HoldMonitor, slot: Any, entry: Entry, *rest: Any) -> None:
        if (entry.f, entry.type) == (unknown, "info"):
            entry = dataclasses.replace(entry, type=mistaken)
        right(monitor, slot, entry, *rest)

    monkeypatch.setattr(HoldMonitor, method, wrong)
    with pytest.raises(AssertionError):
        count_verdicts("owner-mutex", range(1000))


def test_a_monitor_that_does_not_wait_for_late_entries_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HoldMonitor, "_decidable", lambda monitor, pair: True)
    with pytest.raises(AssertionError):
        count_verdicts("owner-mutex", range(1000))


def watched(history: History, *, in_order: bool) -> Violation | None:
    """Return the violation that a watch finds while the run is recorded."""
    so_far = History()
    watch = RunWatch(so_far.in_order, in_order=in_order)
    for op in history:
        so_far.append(op)
        watch.add(op)
        if watch.violation is not None:
            return watch.violation
    return None


def same_verdict(history: History) -> tuple[bool, bool]:
    """Check that the watch finds nothing in a run that is not violated as a whole, and the first violation otherwise.
    Return whether it found one, and whether there is one."""
    whole = MutualExclusionChecker().check(history)
    for in_order in (False, True):
        found = watched(history, in_order=in_order)
        assert found is None or whole.valid is False, found
        assert found is None or found.key in {violation.key for violation in whole.evidence}
    return found is not None, whole.valid is False


@settings(max_examples=40)
@given(histories())
def test_a_watched_run_has_the_verdict_of_the_whole(history: History) -> None:
    same_verdict(history)


@pytest.mark.slow
@settings(max_examples=800)
@given(histories())
def test_many_watched_runs_have_the_verdict_of_the_whole(history: History) -> None:
    same_verdict(history)


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_most_violations_of_watched_runs_are_found_while_they_go_on(seeds: range) -> None:
    online = offline = 0
    for seed in seeds:
        story = Story()
        for op in drawn_run(seed, "owner-mutex"):
            story.entry(op.time / 1e9, op.node, op.type, op.f, op.key, op.value)
        found, violated = same_verdict(story.history())
        online, offline = online + found, offline + violated
    print(f"{online} of {offline} violations in {len(seeds)} runs were found while they went on")
    assert 0 < offline < len(seeds)
    assert online > offline // 2


# Memory.


def hold_after_hold(monitor: HoldMonitor, count: int) -> Iterator[int]:
    """Give the monitor ``count`` holds of short-lived clients on 50 keys, in order; yield after each thousand."""
    for number in range(count):
        client, key, at = f"c{number % 7}/{number}", f"k{number % 50}", 10 * number * MS
        for offset, type_, f, value in (
            (0, "invoke", "acquire", None), (1, "ok", "acquire", {"fence": number, "valid_for": 1.0}),
            (2, "invoke", "release", None), (3, "ok", "release", None),
        ):  # fmt: skip
            monitor.take(Entry(f"s{number % 7}", at + offset * MS, 0, number, type_, f, key, client, value))
        assert monitor.complete(f"s{number % 7}", at + 4 * MS) is None
        if number % 1000 == 999:
            yield number


def parts_kept(monitor: HoldMonitor) -> int:
    """Return how many objects the state of a monitor has."""
    holds = sum(len(key.ended) + len(key.lasting) for key in monitor._keys.values())
    return holds + len(monitor._slots) + len(monitor._keys) + len(monitor._pairs) + len(monitor._complete)


@pytest.mark.parametrize("count", [5_000, pytest.param(250_000, marks=pytest.mark.slow)])
def test_the_state_does_not_grow_with_the_number_of_entries(count: int) -> None:
    """250,000 holds are 1,000,000 entries."""
    for fenced in (False, True):
        monitor = HoldMonitor(leased=True, fenced=fenced)
        assert max(parts_kept(monitor) for _ in hold_after_hold(monitor, count)) < 300
