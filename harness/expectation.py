"""Holds what a run found against what its plan expects of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from checkers.base import Verdict

from .errors import UNKNOWN, VALID, VIOLATION
from .plan import Expect

State = Literal["as-expected", "missed", "late", "violated", "unknown", "error", "not-run"]
"""``missed``: a known failure was not found · ``late``: it was, but not in its time · ``violated``: what should be
safe was not · ``unknown``: nobody can tell · ``error``: the run broke · ``not-run``: no cluster can do it here."""
WRONG = ("missed", "late", "violated")
OPEN = ("unknown", "error")


@dataclass(frozen=True, slots=True)
class Judgement:
    """``why`` is a sentence; ``found_s`` when the first violation began, in seconds after the run's first entry."""

    state: State
    why: str
    found_s: float | None = None

    @property
    def exit_status(self) -> int:
        return status_of([self.state])


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one scenario on one cluster, as a night's document has it. ``found_s`` and ``time_limit`` are
    seconds after the run's start, ``real_seconds`` what it took, with its cluster's start."""

    scenario: str
    row: str
    title: str
    safe: bool
    lock: str
    kind: str
    faults: tuple[str, ...]
    workload: str
    cluster: str
    seed: int
    state: State
    why: str
    expected: dict[str, Any]
    valid: bool | None
    checkers: dict[str, bool | None]
    found_s: float | None
    time_limit: float
    real_seconds: float
    acquires: int
    folder: str | None


def status_of(states: list[State]) -> int:
    """The exit status of several runs: 1 if one is not as expected, else 3 if one is unknown or broke, else 0."""
    if any(state in WRONG for state in states):
        return VIOLATION
    return UNKNOWN if any(state in OPEN for state in states) else VALID


def judge(expect: Expect, verdicts: Mapping[str, Verdict], origin_ns: int) -> Judgement:
    """``origin_ns`` is the time of the history's first entry."""
    said = {name: verdict.valid for name, verdict in verdicts.items()}
    found_s = first_violation_s(expect.invalid or tuple(verdicts), verdicts, origin_ns)
    healthy = tuple(name for name in verdicts if name not in (*expect.invalid, *expect.ignored))
    must_be_valid = healthy if expect.safe else (*expect.valid, "faults")

    def because(name: str) -> str:
        return f"{name}: {verdicts[name].explanation}"

    for name in must_be_valid:
        if said[name] is False:
            return Judgement("violated", because(name), first_violation_s((name,), verdicts, origin_ns))
    for name in (*must_be_valid, *expect.invalid):
        if said[name] is None:
            return Judgement("unknown", because(name), found_s)
    for name in expect.invalid:
        if said[name] is True:
            return Judgement("missed", f"{name} says valid, and should have found the failure", found_s)
    if expect.invalid and expect.within and found_s is not None and found_s > expect.within:
        return Judgement("late", f"found at {found_s:.3f} s, expected within {expect.within:g} s", found_s)
    return Judgement(
        "as-expected", because(expect.invalid[0]) if expect.invalid else "every checker says valid", found_s
    )


def first_violation_s(names: Iterable[str], verdicts: Mapping[str, Verdict], origin_ns: int) -> float | None:
    """When the first violation that these checkers report begins, in seconds after the history's first entry."""
    begun = [violation.from_ns for name in names for violation in verdicts[name].evidence]
    return round((min(begun) - origin_ns) / 1e9, 3) if begun else None
