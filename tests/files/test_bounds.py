"""Absurd sizes and endless or deeply nested input: one line, exit status 2, and little memory."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from harness.cli.main import main
from harness.conformance.program import _json, _looks_like_answer
from harness.errors import USAGE, UsageError
from harness.history.lock_keys import read_keys
from harness.plan import Plan
from harness.run.plans.bounds import refuse_endless
from harness.run.plans.completion import complete

DEEP = 200_000
Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True, scope="module")
def _garbage_of_others() -> Iterator[None]:
    """Collect what other tests left behind: deep in nested input, its finalizers would reach the recursion limit, and
    Python would print that."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def refusal(capsys: Capture, *arguments: str) -> str:
    """Return the line with which a command ends."""
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    err = capsys.readouterr().err
    assert ended.value.code == USAGE, err
    assert err.count("\n") == 1, err
    return err


@pytest.mark.parametrize("command", ["run", "hunt"])
@pytest.mark.parametrize("option", ["clients", "nodes"])
def test_an_absurd_number_is_refused_with_an_estimate(command: str, option: str, capsys: Capture) -> None:
    line = refusal(capsys, command, "redis-token", f"--{option}", "2147483648")
    assert f"{option} must be at most" in line
    assert "got 2,147,483,648" in line
    assert "GB of memory" in line


def test_too_many_keys_are_refused_with_an_estimate(capsys: Capture) -> None:
    assert "keys must be at most 100,000, got 1,000,000" in refusal(capsys, "run", "redis-token", "--keys", "1000000")


def test_too_many_workers_are_refused_with_an_estimate(capsys: Capture) -> None:
    line = refusal(capsys, "hunt", "redis-token", "--workers", "2147483648")
    assert "workers must be at most 1,000" in line
    assert "GB of memory" in line


def test_a_run_whose_history_does_not_fit_into_memory_is_refused(capsys: Capture) -> None:
    line = refusal(capsys, "run", "redis-token", "--time-limit", "99999999s", "--hold", "1ms")
    assert "time_limit" in line
    assert "GB of memory; this machine has" in line


def test_a_long_run_with_few_sections_is_not_refused() -> None:
    plan = Plan(lock="redis-token", time_limit=9e7, hold=0.001, sections=3)
    refuse_endless(plan)
    assert complete(plan).sections == 3
    with pytest.raises(UsageError):
        complete(msgspec.structs.replace(plan, sections=0))


@pytest.mark.parametrize("command", [("replay",), ("scenario", "run")], ids=" ".join)
def test_a_device_is_no_plan(command: tuple[str, ...], capsys: Capture) -> None:
    assert "/dev/zero: expected a file, got a device or a pipe" in refusal(capsys, *command, "/dev/zero")


def test_a_pipe_without_a_writer_is_no_plan(tmp_path: Path, capsys: Capture) -> None:
    os.mkfifo(tmp_path / "plan.toml")
    assert "got a device or a pipe" in refusal(capsys, "replay", str(tmp_path / "plan.toml"))


def test_a_huge_file_is_no_plan(tmp_path: Path, capsys: Capture) -> None:
    with (tmp_path / "plan.toml").open("wb") as file:
        file.truncate(2**40)
    assert "expected a file of at most 4,194,304 bytes" in refusal(capsys, "replay", str(tmp_path / "plan.toml"))


@pytest.mark.parametrize("command", [("check", "--model", "mutex"), ("export", "out.edn")], ids=lambda it: it[0])
def test_a_device_is_no_history(
    command: tuple[str, ...], tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("endless.jsonl").symlink_to("/dev/zero")
    assert "device" in refusal(capsys, command[0], "endless.jsonl", *command[1:])


@pytest.mark.parametrize("command", [("replay",), ("scenario", "run"), ("scenario", "show")], ids=" ".join)
@pytest.mark.parametrize("depth", [900, 20_000])
def test_a_deeply_nested_plan_is_refused(command: tuple[str, ...], depth: int, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(f'lock = "redis-token"\n[lock_options]\nx = {"[" * depth}{"]" * depth}\n')
    assert str(path) in refusal(capsys, *command, str(path))


@pytest.mark.parametrize("option", ["--lock-option", "--server-option"])
def test_a_deeply_nested_option_is_refused(option: str, capsys: Capture) -> None:
    value = f"x={'[' * 2000}{']' * 2000}"
    assert "nested too deeply" in refusal(capsys, "hunt", "redis-token", option, value)


@pytest.mark.parametrize("name", ["history.edn", "history.jsonl"])
def test_a_deeply_nested_history_is_refused(name: str, tmp_path: Path, capsys: Capture) -> None:
    nested = "[" * DEEP + "]" * DEEP
    entry = {"index": 0, "time": 1, "wall": 1, "process": 0, "type": "invoke", "f": "acquire", "value": 0}
    text = msgspec.json.encode(entry).decode().replace('"value":0', f'"value":{nested}')
    (tmp_path / name).write_text(nested if name.endswith(".edn") else text + "\n")
    assert name in refusal(capsys, "check", str(tmp_path / name), "--model", "mutex")
    if name.endswith(".jsonl"):
        assert name in refusal(capsys, "export", str(tmp_path / name), str(tmp_path / "out.edn"))


def test_deeply_nested_states_of_keys_are_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "keys.jsonl").write_text('{"time":1,"host":' + "[" * DEEP + "\n")
    states, problem = read_keys(tmp_path / "keys.jsonl")
    assert states == []
    assert "line 1" in problem


@pytest.mark.parametrize("depth", [10, 500, 900, 950, 1_000, DEEP])
def test_a_deeply_nested_line_of_a_lock_program_is_no_crash(depth: int) -> None:
    line = b"[" * depth + b'{"id":1}' + b"]" * depth
    assert _looks_like_answer(_json(line)) is (_json(line) is not None)
