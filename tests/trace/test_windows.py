"""Which messages of a run are kept: the times around its violations, and the bound on their number."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from harness.checkers.base import Violation
from harness.documents.messages import LOG, TRACE, MessageTrace
from harness.history import SECOND, History
from harness.trace import building
from harness.trace.reading import load_trace
from harness.trace.storing import TracedRun, stored_log
from harness.trace.windows import windows_of, within

from .logged import LoggedRun, run_logged
from .test_messages import PLAN, status_of


def violation(at_s: float) -> Violation:
    at = round(at_s * SECOND)
    return Violation("overlap", "k0", "Two clients held k0.", at, at)


def test_every_violation_has_a_window() -> None:
    windows = windows_of([violation(10.0 * number) for number in range(300, 0, -1)], History())
    assert len(windows) == 300
    assert all(any(first < 10 * number * SECOND < last for first, last in windows) for number in range(1, 301))


def test_windows_that_touch_become_one() -> None:
    first, last = windows_of([violation(number / 2) for number in range(100)], History())[0]
    assert (first, last) == (-SECOND // 2, 50 * SECOND)


def test_a_message_is_within_if_it_touches_any_window() -> None:
    rng = random.Random(3)
    windows = windows_of([violation(rng.uniform(0, 400)) for _ in range(60)], History())
    assert len(windows) > 20
    for _ in range(2_000):
        since = round(rng.uniform(-5, 405) * SECOND)
        until = since + round(rng.uniform(0, 8) * SECOND)
        expected = any(begin <= until and since <= end for begin, end in windows)
        assert within(windows, since, until) == expected
    assert not within((), 0, 1)


@pytest.fixture(scope="module")
def logged() -> LoggedRun:
    return run_logged(PLAN)


@pytest.fixture
def folder(logged: LoggedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run whose trace has the messages around a violation at its beginning."""
    monkeypatch.setattr("harness.trace.storing.SHORT", 5)
    history = logged.history()
    begun = Violation("overlap", "k0", "Two clients held k0.", history.time[0], history.time[0])
    packed = stored_log(logged.messages, TracedRun("redis-single", "redis", "sim", "violations"), history, [begun])
    assert packed is not None
    (tmp_path / LOG).write_bytes(packed)
    history.save(tmp_path / "history.jsonl")
    return tmp_path


def loaded(folder: Path) -> MessageTrace:
    trace = load_trace(folder)
    assert trace is not None
    return trace


def test_the_earliest_messages_around_violations_are_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    around = loaded(folder)
    assert 20 < len(around.messages) < around.total
    assert around.dropped == 0
    monkeypatch.setattr(building, "MOST_AROUND", 20)
    trace = loaded(folder)
    assert trace.messages == around.messages[:20]
    assert trace.dropped == len(around.messages) - 20


def test_the_command_writes_the_messages_of_the_whole_run_for_its_report(folder: Path, logged: LoggedRun) -> None:
    part = loaded(folder)
    assert status_of("trace", str(folder)) == 0
    assert loaded(folder) == part
    assert status_of("trace", str(folder), "--all") == 0
    assert (folder / TRACE).is_file()
    whole = loaded(folder)
    assert len(whole.messages) == whole.total == part.total
    assert whole.messages == logged.trace().messages
    assert whole.windows == ()
