"""The wall clock of a server during a recording, as far as it is known: an interval for each moment."""

from __future__ import annotations

from typing import Final, NamedTuple

from harness.clusters.wire import WireRecording

TOLERANCE_NS: Final = 1_000_000
"""Inexactness of a clock that a fault has moved."""


class _Setting(NamedTuple):
    """A setting of the clock, which was made between two times."""

    earliest_ns: int
    latest_ns: int
    offset_ns: int = 0
    rate: float = 0.0
    since_ns: int = 0

    def at(self, time_ns: int) -> int:
        return self.offset_ns + round(self.rate * (time_ns - self.since_ns))


class Pauses:
    """Pauses of a server."""

    def __init__(self, recording: WireRecording) -> None:
        self._pauses: list[tuple[int, int]] = []
        paused: int | None = None
        for event in recording.events:
            if event.what == "pause":
                paused = event.until
            elif event.what in ("resume", "kill", "start") and paused is not None:
                self._pauses.append((paused, event.time))
                paused = None

    def awake(self, time_ns: int) -> int:
        """Return the earliest time from ``time_ns`` on at which the server can run."""
        return next((last for first, last in self._pauses if first <= time_ns < last), time_ns)


class ServerClock:
    """Wall clock of a server. A process starts with true time; faults set it afterwards."""

    def __init__(self, recording: WireRecording) -> None:
        self._true_ns = recording.wall_ns
        self._settings = [_Setting(0, 0)]
        for event in recording.events:
            if event.what == "start":
                self._settings.append(_Setting(event.time, event.until))
            elif event.what == "clock":
                setting = _Setting(event.time, event.until, event.offset_ns, event.rate, event.since_ns)
                self._settings.append(setting)

    def interval(self, first_ns: int, last_ns: int) -> tuple[int, int]:
        """Return the earliest and the latest reading of the clock between two monotonic times."""
        found: list[int] = []
        following = [*self._settings[1:], None]
        for setting, later in zip(self._settings, following, strict=True):
            first = max(first_ns, setting.earliest_ns)
            last = last_ns if later is None else min(last_ns, later.latest_ns)
            if first <= last:
                inexact = TOLERANCE_NS if setting.since_ns else 0
                low, high = (self._true_ns + time + setting.at(time) for time in (first, last))
                found += [low - inexact, high + inexact]
        return min(found), max(found)
