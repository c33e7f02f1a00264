"""Exploration of a nightly run: the hunts that it made, what they found, and how far all nights have searched."""

from __future__ import annotations

from datetime import datetime
from statistics import median
from typing import Literal, NamedTuple

import msgspec

from harness.plan import Mechanism, Plan
from harness.plan.mechanism import mechanism_text
from harness.wording import largest_share


class Pair(NamedTuple):
    """A lock of the catalogue and a family of faults. ``release`` changes with the lock's libraries and its source, so
    that what was explored before a change does not count after it."""

    lock: str
    fault: str
    release: str


class Explored(NamedTuple):
    """Sums over the visits of a pair."""

    visits: int = 0
    schedules: int = 0
    judged: int = 0


FailureState = Literal["new", "known", "gone", "error"]


class PairVisit(msgspec.Struct, frozen=True, kw_only=True):
    """A hunt of one round: a lock under one family of faults."""

    lock: str
    """Name of the lock in the catalogue."""
    fault: str
    """Family of faults."""
    release: str
    """Releases of the lock's libraries, and a digest of its source."""
    seed: int
    """Seed of the hunt."""
    round: int
    """Number of the round, from 1: visits of a pair count on over the nights."""
    schedules: int = 0
    """Schedules that were tried."""
    judged: int = 0
    """Schedules with a verdict on mutual exclusion."""
    seconds: float = 0.0
    """Real time that it took, seconds."""
    limits: tuple[str, ...] = ()
    """Documented limits of the lock that it reached."""
    failures: tuple[str, ...] = ()
    """Names of the failures that it found."""
    error: str = ""
    """Why it could not be made; empty if it was."""

    @property
    def pair(self) -> Pair:
        return Pair(self.lock, self.fault, self.release)


class ExploredPair(msgspec.Struct, frozen=True, kw_only=True):
    """A lock under one family of faults, over all nights with the present release of the lock."""

    lock: str
    """Name of the lock in the catalogue."""
    fault: str
    """Family of faults."""
    release: str
    """Releases of the lock's libraries, and a digest of its source."""
    visits: int = 0
    """Hunts that tried at least one schedule."""
    schedules: int = 0
    """Schedules that were tried."""
    judged: int = 0
    """Schedules with a verdict on mutual exclusion."""
    failures: int = 0
    """Failures that were found and still happen."""

    @property
    def bound(self) -> float | None:
        """Return the largest share of failing schedules that agrees with having seen none, with 95 % confidence.

        None if a failure is known, or no schedule was judged."""
        return None if self.failures or not self.judged else largest_share(self.judged)


class ExploredFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A failure that exploration found, shrunk. Failures of a lock with the same mechanism are the same failure."""

    name: str
    """Name, which is also that of the candidate scenario."""
    lock: str
    """Name of the lock in the catalogue."""
    fault: str
    """Family of faults of the visit that found it."""
    release: str
    """Releases of the lock's libraries, and a digest of its source."""
    found_at: datetime
    """Start of the nightly run that found it."""
    checker: str
    """Checker of the gravest violated property."""
    mechanism: Mechanism
    """Cause, clients, and order of events of the first violation."""
    summary: str
    """Summary of the run that shows it."""
    lines: tuple[str, ...]
    """Its story, a line a step."""
    plan: Plan
    """The candidate scenario."""
    folder: str | None = None
    """Folder of the run that shows it; null if nothing is stored."""
    state: FailureState = "new"
    """``new``: found in this night. ``known``: found in an earlier night, and it still happens. ``gone``: found in an
    earlier night, and it does not happen any more. ``error``: it could not be run."""
    why: str = ""
    """Result of its run in this night, in a sentence."""

    @property
    def reason(self) -> str:
        """Return the mechanism in one line."""
        return mechanism_text(self.mechanism)


class Exploration(msgspec.Struct, frozen=True, kw_only=True):
    """Exploration of a nightly run. A pair is a lock of the catalogue and a family of faults that can strike it."""

    seed: int
    """Seed of its hunts."""
    budget_s: float
    """Real time that it was given, seconds."""
    seconds: float
    """Real time that it took, seconds."""
    interrupted: bool = False
    """True if it was interrupted; the visits are then those until the interruption."""
    visits: tuple[PairVisit, ...]
    """The hunts of this night, in the order in which they ended."""
    pairs: tuple[ExploredPair, ...]
    """All pairs, with the visits of all nights."""
    failures: tuple[ExploredFailure, ...] = ()
    """Failures found in this night, and those of earlier nights."""

    @property
    def share(self) -> float:
        """Return the share of pairs with at least one judged schedule, 0 to 1."""
        return sum(pair.judged > 0 for pair in self.pairs) / len(self.pairs) if self.pairs else 0.0

    @property
    def bound(self) -> float | None:
        """Return the median of the pairs' bounds; None if no pair has one."""
        bounds = [bound for pair in self.pairs if (bound := pair.bound) is not None]
        return median(bounds) if bounds else None

    @property
    def new(self) -> tuple[ExploredFailure, ...]:
        """Return the failures that no earlier night had found."""
        return tuple(one for one in self.failures if one.state == "new")
