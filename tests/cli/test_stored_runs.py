"""``harness report`` and ``harness replay`` of stored runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from .commands import harness, stored_run


@pytest.mark.slow
def test_a_truncated_history_is_reported_up_to_its_last_line(capsys: pytest.CaptureFixture[str]) -> None:
    folder = stored_run()
    path = folder / "history.jsonl"
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    line = data[: len(data) // 2].count(b"\n") + 1
    capsys.readouterr()
    assert harness("report", str(folder)) == 3
    said = capsys.readouterr()
    assert f"history.jsonl: the history is truncated at line {line}; what was recorded before it is shown" in said.err
    assert (folder / "report.html").exists()


@pytest.mark.slow
def test_a_cut_short_history_with_a_violation_is_reported_as_one() -> None:
    assert harness("run", "redis-token", "--nemesis", "client-pause", "--time-limit", "20s", "--quiet") == 1
    folder = Path("store/latest").resolve()
    (folder / "results.json").unlink()  # as if the command had been killed at its end
    path = folder / "history.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    assert harness("report", str(folder)) == 1


def test_a_damaged_history_is_refused_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    folder = stored_run()
    path = folder / "history.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:9], b"{}\n", *lines[10:]]))
    capsys.readouterr()
    assert harness("report", str(folder)) == 2
    message = capsys.readouterr().err
    assert "history.jsonl, line 10: expected one history entry as a JSON object, got '{}'" in message


@pytest.mark.parametrize("what", ["nowhere", "."])
def test_a_report_of_a_missing_run_is_refused(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("report", what) == 2
    assert what in capsys.readouterr().err


def test_replay_repeats_byte_for_byte() -> None:
    assert harness("run", "redlock", "--nemesis", "clock-skew,client-pause", "--time-limit", "8s", "--seed", "5") == 1
    first = Path("store/latest").resolve()
    assert harness("replay", str(first)) == 1
    second = Path("store/latest").resolve()
    assert first != second
    assert (first / "history.jsonl").read_bytes() == (second / "history.jsonl").read_bytes()
    assert (first / "plan.toml").read_bytes() == (second / "plan.toml").read_bytes()
