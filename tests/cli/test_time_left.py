"""The estimate of the time that is left, and progress as lines."""

from __future__ import annotations

import pytest

from harness.cli.phase_lines import EVERY_S, PhaseLines
from harness.cli.time_left import TimeLeft, clock_text


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_time_left_follows_the_speed_since_the_work_began() -> None:
    clock = Clock()
    left = TimeLeft(clock)
    left.tell(0.0)
    clock.now += 60  # images are built
    left.tell(0.1)
    assert left.text() == "", "one point says nothing about the speed"
    clock.now += 10
    left.tell(0.3)
    assert left.seconds() == pytest.approx(35)
    clock.now += 5
    assert left.text() == "0:30 left", "it counts down between two reports"
    clock.now += 1000
    assert left.seconds() == 0.0
    left.tell(1.0)
    assert left.text() == ""


def test_a_short_or_small_advance_gives_no_estimate() -> None:
    clock = Clock()
    left = TimeLeft(clock)
    left.tell(0.1)
    clock.now += 1
    left.tell(0.5)
    assert left.seconds() is None, "too short"
    other = TimeLeft(clock)
    other.tell(0.1)
    clock.now += 60
    other.tell(0.105)
    assert other.seconds() is None, "too small"


def test_clock_texts() -> None:
    assert [clock_text(seconds) for seconds in (0, 65.9, 3605)] == ["0:00", "1:05", "1:00:05"]


def test_phases_are_lines_and_a_long_phase_repeats_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    lines = PhaseLines("redlock", clock)
    lines.tell(0.0, "starting: redis")
    lines.tell(0.1, "running: 1 of 10 s")
    clock.now += 1
    lines.tell(0.2, "running: 2 of 10 s")
    clock.now += EVERY_S
    lines.tell(0.5, "running: 5 of 10 s")
    assert capsys.readouterr().err.splitlines() == [
        "redlock: 0:00: starting: redis",
        "redlock: 0:00: running: 1 of 10 s",
        "redlock: 0:11, 0:13 left: running: 5 of 10 s",
    ]
