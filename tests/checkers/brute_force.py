"""A judge of histories without faults, in small and obvious code that shares nothing with the checkers.

It compares all pairs and reads one entry at a time. It states only what is certain, so that a checker that disagrees
is wrong: an unknown outcome, a nested or shared grant or a malformed sequence of entries makes no finding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from harness.history import History, Op

SECOND = 1_000_000_000
RELEASE_LIMIT_S = 2.0
"""Limit of a release in ``docs/histories.md``."""
LOCK_CALLS = ("acquire", "release")


class Malformed(Exception):
    """A client cannot have recorded these entries."""


@dataclass(frozen=True)
class OneCall:
    """A call of a client; ``done`` is None if it was never answered."""

    begun: Op
    done: Op | None

    @property
    def client(self) -> str:
        return str(self.begun.node)

    @property
    def outcome(self) -> str:
        return "info" if self.done is None else self.done.type

    @property
    def answer(self) -> Any:
        return None if self.done is None else self.done.value


def wrong(history: History) -> dict[str, str]:
    """Return the checkers that must find a violation, each with a reason. Raises :class:`Malformed`."""
    ops = list(history)
    settings = next((op.value for op in ops if op.f == "start"), None)
    if not isinstance(settings, dict):
        raise Malformed("no start entry")
    calls, end = paired(ops), ops[-1].time
    rules = {
        "mutual-exclusion": overlapping_holds(calls, end),
        "release": empty_releases(calls),
        "fencing": tokens_that_do_not_grow(calls),
        "answers": late_answers(calls, settings["slack"], end),
        "resource": lost_updates(calls),
    }
    return {name: reason for name, reasons in rules.items() if (reason := next(reasons, None)) is not None}


def paired(ops: list[Op]) -> list[OneCall]:
    """Return the calls in the order of their invocations: each process has one call at a time, on one host."""
    calls: list[OneCall | None] = []
    pending: dict[int, tuple[int, Op]] = {}
    hosts: dict[int, str | None] = {}
    for op in ops:
        if op.process < 0:
            continue
        if hosts.setdefault(op.process, op.node) != op.node:
            raise Malformed(f"process {op.process} is on two hosts")
        if op.type == "invoke":
            if op.process in pending:
                raise Malformed(f"process {op.process} has two calls at once")
            pending[op.process] = len(calls), op
            calls.append(OneCall(op, None))
            continue
        at, begun = pending.pop(op.process, (0, None))
        if begun is None or (begun.f, begun.key) != (op.f, op.key):
            raise Malformed(f"process {op.process} completes a call that it did not begin")
        calls[at] = OneCall(begun, op)
    return [call for call in calls if call is not None]


# The lock.


@dataclass(frozen=True)
class DefiniteHold:
    client: str
    key: str | None
    start: int
    end: int


def overlapping_holds(calls: list[OneCall], end: int) -> Iterator[str]:
    for one, two in combinations(definite_holds(calls, end), 2):
        if one.key == two.key and one.client != two.client and max(one.start, two.start) < min(one.end, two.end):
            yield f"{one} and {two} overlap"


def definite_holds(calls: list[OneCall], end: int) -> Iterator[DefiniteHold]:
    """Yield from each ok of an acquire to the client's next call on the key, which is not one that keeps the hold."""
    for call in calls:
        if call.begun.f != "acquire" or call.outcome != "ok" or call.begun.value.get("shared"):
            continue
        assert call.done is not None
        given = call.done
        until = next((op.begun.time for op in lock_calls(calls, call) if op.begun.time >= given.time), end)
        yield DefiniteHold(call.client, call.begun.key, given.time, until)


def lock_calls(calls: list[OneCall], like: OneCall) -> Iterator[OneCall]:
    """Yield the other lock calls of the same client on the same key."""
    for call in calls:
        same = (call.client, call.begun.key) == (like.client, like.begun.key)
        if same and call is not like and call.begun.f in LOCK_CALLS:
            yield call


def empty_releases(calls: list[OneCall]) -> Iterator[str]:
    for call in calls:
        if call.begun.f != "release" or call.outcome != "ok":
            continue
        before = [one for one in lock_calls(calls, call) if one.begun.time <= call.begun.time]
        granted = sum(one.begun.f == "acquire" and one.outcome != "fail" for one in before)
        released = sum(one.begun.f == "release" and one.outcome == "ok" for one in before)
        if granted <= released:
            yield f"{call.client} released {call.begun.key} at {call.begun.time} without a grant"


def tokens_that_do_not_grow(calls: list[OneCall]) -> Iterator[str]:
    """Compare grants of a key where the earlier one returned before the later one was requested."""
    grants = [one for one in calls if one.begun.f == "acquire" and one.outcome == "ok" and not one.answer.get("shared")]
    for one, two in ((a, b) for a in grants for b in grants):
        first, second = one.answer.get("fence"), two.answer.get("fence")
        if one is two or one.begun.key != two.begun.key or not isinstance(first, int) or not isinstance(second, int):
            continue
        assert one.done is not None
        nested = one.client == two.client and _nested(calls, one, two)
        if one.done.time < two.begun.time and second <= first and not nested:
            yield f"{two.begun.key}: token {second} of {two.client} after {first} of {one.client}"


def _nested(calls: list[OneCall], one: OneCall, two: OneCall) -> bool:
    """Return whether a client acquires again without a confirmed release between."""
    between = (call for call in lock_calls(calls, one) if one.begun.time < call.begun.time < two.begun.time)
    return not any(call.begun.f == "release" and call.outcome == "ok" for call in between)


def late_answers(calls: list[OneCall], slack: float, end: int) -> Iterator[str]:
    for call in calls:
        if call.begun.f not in LOCK_CALLS:
            continue
        limit = RELEASE_LIMIT_S if call.begun.f == "release" else call.begun.value["timeout"]
        lasted = (end if call.done is None else call.done.time) - call.begun.time
        if lasted > (limit + slack) * SECOND + 1:
            yield f"{call.client}'s {call.begun.f} took {lasted / SECOND:.3f} s, its limit was {limit:g} s"


# The resource.


def lost_updates(calls: list[OneCall]) -> Iterator[str]:
    """Find a write of another client that the resource accepted between a client's read and the write based on it."""
    accesses = [call for call in calls if call.begun.f in ("read", "write") and call.outcome == "ok"]
    if len({call.answer["arrival"] for call in accesses}) < len(accesses):
        return  # the resource numbers each access once
    in_order = sorted(accesses, key=lambda call: int(call.answer["arrival"]))
    for at, read in enumerate(in_order):
        if read.begun.f != "read":
            continue
        later = [one for one in in_order[at + 1 :] if one.begun.key == read.begun.key]
        own = next((one for one in later if one.client == read.client), None)
        if own is None or own.begun.f != "write" or _acquires_between(calls, read, own):
            continue
        between = [one for one in later[: later.index(own)] if one.begun.f == "write"]
        if between:
            yield f"{between[-1].client}'s write {between[-1].answer} came between {read.answer} and {own.answer}"


def _acquires_between(calls: list[OneCall], read: OneCall, write: OneCall) -> bool:
    """Return whether the client acquired the lock between two accesses, or they are not in the order of their calls."""
    if read.begun.time > write.begun.time:
        return True
    return any(
        call.client == read.client and call.begun.f == "acquire"
        and call.begun.time < write.begun.time and (call.done is None or call.done.time > read.begun.time)
        for call in calls
    )  # fmt: skip
