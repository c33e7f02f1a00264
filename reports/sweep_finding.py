"""The conclusion of a sweep: where a lock was violated, how often, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Final

from harness.documents import SweepDocument
from harness.documents.sweep import SweepPoint
from harness.wording import certainty, counted

from .words import percent

AXES: Final = ("ttl", "hold", "pause")


@dataclass(frozen=True, slots=True)
class SweepFinding:
    """The conclusion in a sentence without a full stop, where the violations are, how sure that is, and the verdict."""

    headline: str
    where: str
    certainty: str
    judgement: str


def finding(document: SweepDocument) -> SweepFinding:
    """Return the conclusion of a sweep."""
    points = document.points
    violated = [point for point in points if point.violated]
    safe = [point for point in points if point.valid and not point.violated]
    runs = sum(point.violated + point.valid for point in points)
    if not runs:
        return SweepFinding("No run gave a verdict", "", f"Nothing was proved. {_undecided(points)}".strip(), "unknown")
    if not violated:
        headline = f"{document.lock} was not violated in {counted(runs, 'run')} at {counted(len(safe), 'point')}"
        return SweepFinding(headline, "", _certainty(points, violated, safe), _judgement(points))
    failed = sum(point.violated for point in violated)
    headline = (
        f"{document.lock} was violated in {failed:,} of {counted(runs, 'run')}, "
        f"at {len(violated)} of {counted(len(violated) + len(safe), 'point')}"
    )
    where = " ".join(part for part in (_separation(violated, safe), _most_often(violated)) if part)
    return SweepFinding(headline, where, _certainty(points, violated, safe), "invalid")


def _judgement(points: Sequence[SweepPoint]) -> str:
    return "unknown" if any(point.unknown or point.runs < point.asked for point in points) else "valid"


def _separation(violated: Sequence[SweepPoint], safe: Sequence[SweepPoint]) -> str:
    """Return what all violated points have in common and no other point has; empty if nothing simple separates them."""
    if not safe:
        return "Every point of the grid has a violation."
    for words, holds in _predicates(violated):
        if all(map(holds, violated)) and not any(map(holds, safe)):
            return f"The violations are exactly where {words}."
    return ""


def _predicates(violated: Sequence[SweepPoint]) -> Iterator[tuple[str, Callable[[SweepPoint], bool]]]:
    yield "something is paused", lambda point: point.pause > 0
    yield "the pause is longer than the ttl", lambda point: point.pause > point.ttl
    yield "hold and pause together are longer than the ttl", lambda point: point.hold + point.pause > point.ttl
    yield "the hold is longer than the ttl", lambda point: point.hold > point.ttl
    for axis in AXES:
        least = min(getattr(point, axis) for point in violated)
        most = max(getattr(point, axis) for point in violated)
        yield f"the {axis} is {least:g} s or longer", partial(_within, axis, least, inf)
        yield f"the {axis} is {most:g} s or shorter", partial(_within, axis, -inf, most)


def _within(axis: str, least: float, most: float, point: SweepPoint) -> bool:
    value: float = getattr(point, axis)
    return least <= value <= most


def _worst(violated: Sequence[SweepPoint]) -> SweepPoint:
    return max(violated, key=lambda point: (point.rate_low or 0.0, point.violated))


def _most_often(violated: Sequence[SweepPoint]) -> str:
    worst = _worst(violated)
    known = worst.violated + worst.valid
    return (
        f"Most often with ttl {worst.ttl:g} s, hold {worst.hold:g} s and pause {worst.pause:g} s on {worst.cluster}: "
        f"in {worst.violated} of {counted(known, 'run')}."
    )


def _certainty(points: Sequence[SweepPoint], violated: Sequence[SweepPoint], safe: Sequence[SweepPoint]) -> str:
    parts = []
    if violated:
        worst = _worst(violated)
        parts.append(
            "Each violation is proved by the history of its run. At the worst point "
            f"{percent(worst.rate_low)} to {percent(worst.rate_high)} of such runs fail, with 95 % confidence."
        )
    if safe:
        parts.append(f"A point without a violation: {certainty(min(point.valid for point in safe))}.")
    if undecided := _undecided(points):
        parts.append(undecided)
    return " ".join(parts)


def _undecided(points: Sequence[SweepPoint]) -> str:
    unknown = sum(point.unknown for point in points)
    missing = sum(point.asked - point.runs for point in points)
    parts = [f"{counted(unknown, 'run')} gave no verdict"] * bool(unknown) + [
        f"{counted(missing, 'run')} {'was' if missing == 1 else 'were'} not made"
    ] * bool(missing)
    return f"{' and '.join(parts)}." if parts else ""
