"""Check the recordings of an application, one file for each process, as one history.

A verdict is a violation only if it is one for all clocks within their errors and whatever calls are missing. It is
valid only if no call can be missing, and if the clocks as they read give no violation either.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from harness.checkers.base import Verdict
from harness.checkers.linearizability.check import Checked
from harness.checkers.models import OWNED, FencedMutex, LeaseMutex, Model, OwnerMutex
from harness.errors import UsageError
from harness.history.calls import Calls
from harness.history.files import read_calls
from harness.history.merging import cut, excused, gaps, merged, widened
from harness.history.recordings import ClockOffset, Recording, clock_offsets, read_recording
from harness.wording import counted, in_seconds

EXCUSABLE: Final = (OwnerMutex, FencedMutex, LeaseMutex)
"""Models for which calls that may be missing can be added as calls of unknown outcome."""
MOST_STEERED_NS: Final = 10_000_000
"""The largest change of a wall clock against the monotonic clock that does not count as a step."""
CheckCalls = Callable[[Calls], Checked]


@dataclass(frozen=True, slots=True)
class Recordings:
    """Recordings with their calls, and the offsets of their clocks by name."""

    recordings: tuple[Recording, ...]
    calls: tuple[Calls, ...]
    offsets: dict[str, ClockOffset]

    def history(self, model: Model, offsets: dict[str, ClockOffset]) -> Calls:
        """Return the calls of the recordings on the clocks in ``offsets`` as one history for ``model``."""
        parts, ends = [], []
        for one, calls in zip(self.recordings, self.calls, strict=True):
            if one.clock not in offsets:
                continue
            missing, offset = gaps(one), offsets[one.clock]
            unnoticed = missing[:-1] if one.closed else missing
            parts.append(widened(excused(calls, missing) if type(model) in EXCUSABLE else calls, offset))
            ends += [since + offset.offset_ns - offset.error_ns for since, _ in unnoticed]
        whole = merged(parts)
        return cut(whole, min(ends)) if ends and type(model) not in EXCUSABLE else whole

    def doubts(self) -> list[str]:
        """Return why calls, or their true times, may be missing."""
        found = []
        for one in self.recordings:
            if one.lost:
                found.append(f"{counted(one.lost, 'call')} of {one.source} {'was' if one.lost == 1 else 'were'} lost")
            if len(self.offsets) > 1 and (step_ns := one.offset_high - one.offset_low) > MOST_STEERED_NS:
                found.append(f"the wall clock of {one.source} was moved by {in_seconds(step_ns)}")
            if not one.closed:
                found.append(
                    f"{one.source} has no end (its process was killed, still runs, or could not write any more), so "
                    "its last calls may be missing"
                )
        return found


def read_recordings(paths: Sequence[Path], model: Model, clock_error_ns: int | None) -> Recordings | None:
    """Read the recordings at ``paths``; None if there is one file, which is not a recording. Raises UsageError."""
    recordings = []
    for path in paths:
        try:
            recordings.append(read_recording(path))
        except (OSError, EOFError, zlib.error) as error:  # the last two are of a damaged .gz
            why = getattr(error, "strerror", None) or error
            raise UsageError(f"{path}: cannot read the history: {why}") from error
    found = [one for one in recordings if one is not None]
    if len(paths) == 1 and not found:
        return None
    if len(found) < len(paths):
        other = paths[recordings.index(None)]
        raise UsageError(f"{other} is not a recording of harness.record, and only recordings are checked together")
    try:
        offsets = clock_offsets(found, clock_error_ns)
        if len(offsets) == 1:  # the monotonic clock alone orders all calls
            offsets = dict.fromkeys(offsets, ClockOffset(0, 0))
    except ValueError as error:
        raise UsageError(f"{error}; pass --clock-error") from error
    return Recordings(tuple(found), tuple(read_calls(path, model.wants) for path in paths), offsets)


def check_recordings(found: Recordings, model: Model, check: CheckCalls) -> Checked:
    """Return the result for all recordings together; ``check`` checks one history."""
    if len(found.offsets) > 1 and type(model) in OWNED:
        # If the calls of some clients are left out of a correct history of these locks, the rest is correct.
        for clock in found.offsets:
            checked = check(found.history(model, {clock: ClockOffset(0, 0)}))
            if checked.verdict.valid is False:
                return checked
    checked = check(found.history(model, found.offsets))
    if checked.verdict.valid is not True:
        return checked
    explanation = checked.verdict.explanation
    if (error_ns := max(offset.error_ns for offset in found.offsets.values())) > 0:
        exact = {clock: replace(offset, error_ns=0) for clock, offset in found.offsets.items()}
        if (nominal := check(found.history(model, exact)).verdict).valid is not True:
            return _unknown(
                checked, f"within the errors of the clocks {explanation}; as they read: {nominal.explanation}"
            )
        explanation += f"; the clocks of the machines differ by {in_seconds(error_ns)} at most from true time"
        checked = replace(checked, verdict=replace(checked.verdict, explanation=explanation))
    if doubts := found.doubts():
        more = f" (and {len(doubts) - 1} more)" if len(doubts) > 1 else ""
        return _unknown(checked, f"{doubts[0]}{more}; of the calls that are recorded, {explanation}")
    return checked


def _unknown(checked: Checked, why: str) -> Checked:
    return replace(checked, verdict=Verdict(None, why, (), checked.verdict.stats))
