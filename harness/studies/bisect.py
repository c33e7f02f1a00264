"""Search for the release that changed the answer to a question: a binary search, as ``git bisect`` does it.

A trial answers the question for one release: the failure happens there (``bad``), it does not (``good``), or there is
no answer (``unknown``; ``missing`` if the release cannot be installed). Releases without an answer are skipped. Nothing
here runs a lock; the caller passes the function that does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from harness.documents.bisect import BisectTrial
from harness.errors import UNKNOWN, USAGE, HarnessError, UsageError
from harness.wording import listed

Trial = Callable[[str], BisectTrial]
"""Answer the question for a release. It may raise an error that ends the search."""
OnTrial = Callable[[BisectTrial, "Range"], None]
"""Callback with each trial and with the range that is left after it."""
CLAIMS = {"good": "the failure does not happen", "bad": "the failure happens"}
SKIPPED = ("unknown", "missing")


class UnsuitableEnd(HarnessError):
    """An end of the range does not do what was claimed; ``trial`` is what it does instead."""

    def __init__(self, message: str, trial: BisectTrial) -> None:
        super().__init__(message)
        self.trial = trial
        self.exit_status = UNKNOWN if trial.outcome in SKIPPED else USAGE


@dataclass(frozen=True, slots=True)
class Range:
    """Releases among which the change is: ``unchanged`` is the last that is known to be as before, ``changed`` the
    first that is known to be different. ``between`` are those that lie between them, without those that were skipped;
    ``skipped`` are these."""

    unchanged: str
    changed: str
    between: tuple[str, ...]
    skipped: tuple[str, ...] = ()

    @property
    def steps_left(self) -> int:
        """Return the number of trials that are left if none is skipped."""
        return len(self.between).bit_length()

    @property
    def candidates(self) -> tuple[str, ...]:
        """Return the releases that may be the first with the change, in an unspecified order."""
        return (*self.between, *self.skipped, self.changed)


@dataclass(frozen=True, slots=True)
class Bisection:
    """Result of a search. ``first_changed`` is None if skipped releases leave several candidates, which ``remaining``
    has in the order of the releases; ``before`` is the last release that is as before."""

    first_changed: str | None
    before: str
    remaining: tuple[str, ...]
    trials: tuple[BisectTrial, ...]
    interrupted: bool = False


@dataclass(slots=True)
class _Search:
    """State of a search: the releases in their order, the trials, and the positions of the range's ends."""

    versions: tuple[str, ...]
    trial: Trial
    on_trial: OnTrial
    trials: list[BisectTrial] = field(default_factory=list)
    low: int = 0
    high: int = 0
    skipped: set[int] = field(default_factory=set)

    def range(self) -> Range:
        inside = range(self.low + 1, self.high)
        return Range(
            self.versions[self.low],
            self.versions[self.high],
            tuple(self.versions[n] for n in inside if n not in self.skipped),
            tuple(self.versions[n] for n in inside if n in self.skipped),
        )

    def middle(self) -> int | None:
        """Return the position nearest to the middle of the range that was not skipped; None if there is none."""
        untried = [n for n in range(self.low + 1, self.high) if n not in self.skipped]
        return min(untried, key=lambda n: (abs(2 * n - self.low - self.high), n), default=None)

    def answer(self, position: int) -> BisectTrial:
        found = self.trial(self.versions[position])
        self.trials.append(found)
        return found

    def narrow(self, position: int, changed_to: str) -> None:
        """Try one release within the range, and move an end of the range there, or skip it."""
        found = self.answer(position)
        if found.outcome in SKIPPED:
            self.skipped.add(position)
        elif found.outcome == changed_to:
            self.high = position
        else:
            self.low = position
        self.on_trial(found, self.range())


def bisect(versions: Sequence[str], *, good: str, bad: str, trial: Trial, on_trial: OnTrial) -> Bisection:
    """Return the first release, in the order of ``versions``, that differs from those before it.

    ``versions`` are releases in their order, from one of ``good`` and ``bad`` to the other. Both ends are tried first;
    UnsuitableEnd says which one does not do what was claimed. The search assumes that the answer changed only once
    between the ends. After KeyboardInterrupt the result has what is known until then.
    """
    if len(set(versions)) < 2 or {versions[0], versions[-1]} != {good, bad}:
        raise UsageError(f"--good and --bad must be two releases, got {good} and {bad}")
    search = _Search(tuple(versions), trial, on_trial, high=len(versions) - 1)
    changed_to = "bad" if versions[-1] == bad else "good"
    interrupted = False
    try:
        _verify_ends(search, bad)
        while (position := search.middle()) is not None:
            search.narrow(position, changed_to)
    except KeyboardInterrupt:
        interrupted = True
    left = search.range()
    candidates = set(left.candidates)
    remaining = tuple(version for version in search.versions if version in candidates)
    known = not interrupted and len(remaining) == 1
    return Bisection(remaining[0] if known else None, left.unchanged, remaining, tuple(search.trials), interrupted)


def _verify_ends(search: _Search, bad: str) -> None:
    # The end where the failure is claimed goes first: without it there is no question.
    ends = sorted((0, search.high), key=lambda position: search.versions[position] != bad)
    for position in ends:
        found = search.answer(position)
        claimed = "bad" if search.versions[position] == bad else "good"
        if found.outcome != claimed:
            raise UnsuitableEnd(_unsuitable(found, claimed), found)
        search.on_trial(found, search.range())


def _unsuitable(found: BisectTrial, claimed: str) -> str:
    claim = f"{found.version} was given as --{claimed}, where {CLAIMS[claimed]}"
    match found.outcome:
        case "missing":
            return f"{claim}, but it cannot be installed: {found.reason}"
        case "unknown":
            return f"{claim}, but its runs do not tell: {found.reason}"
        case _:
            more = f": {found.summary}" if found.summary else ""
            return f"{claim}, but there {CLAIMS[found.outcome]}{more}"


def conclusion(found: Bisection, package: str, bad: str, versions: Sequence[str]) -> str:
    """Return the result of a search in one sentence."""
    verb = "introduced" if versions[-1] == bad else "fixed"
    if found.first_changed is not None:
        return f"{package} {found.first_changed} {verb} the failure; {found.before} is the last release before it."
    if found.interrupted and len(found.trials) < 2:
        return "The search was interrupted before both ends were tried."
    if found.interrupted:
        return f"The search was interrupted. One of {_several(found.remaining)} {verb} the failure."
    tried = {one.version for one in found.trials}
    skipped = [version for version in found.remaining[:-1] if version in tried]
    return (
        f"One of {package} {listed(found.remaining, 'or')} {verb} the failure; "
        f"{listed(skipped)} {'was' if len(skipped) == 1 else 'were'} skipped."
    )


def _several(versions: Sequence[str]) -> str:
    if len(versions) <= 4:
        return f"the releases {listed(versions, 'or')}"
    return f"the {len(versions)} releases from {versions[0]} to {versions[-1]}"
