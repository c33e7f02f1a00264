"""``harness conformance``: exit statuses, output, and one message for each mistake."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from harness.cli.main import main
from harness.conformance.containers import program_of, with_lock_times
from harness.conformance.testbed import ConformanceSettings
from harness.lock_impls.base import LockInfo
from harness.lock_impls.program import ProgramLock
from tests.conformance import server

ROOT = Path(__file__).parents[2]
PROGRAM = [sys.executable, "-S", "-m", "tests.conformance.program"]
MUTANT = [sys.executable, "-S", "-m", "tests.conformance.mutants"]


class UserAdapter(ProgramLock):
    info: ClassVar = LockInfo(
        name="own", title="", algorithm="", source="", safety="E", kinds=("etcd",), on_death="nothing", overtime=2.0,
        runtime="own:1",
    )  # fmt: skip
    command: ClassVar = ("./own",)


class AdapterWithoutCommand(ProgramLock):
    info: ClassVar = UserAdapter.info


class CommandIsText(UserAdapter):
    command: ClassVar = "./own"  # type: ignore[assignment]


class MisspelledKind(UserAdapter):
    info: ClassVar = replace(UserAdapter.info, kinds=("redis-sngle",))


@pytest.fixture(autouse=True)
def _test_programs_are_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with server.running() as (host, port):
        yield f"{host}:{port}"


def conformance(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["conformance", *arguments])
    return int(ended.value.code or 0)


def local(servers: str, *arguments: str) -> list[str]:
    seconds = ["--ttl", "2s", "--timeout", "600ms", "--patience", "10s"]
    return ["--kind", "redis-single", "--servers", servers, *seconds, *arguments, "--"]


def test_each_check_that_holds_is_one_line(servers: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert conformance(*local(servers, "--only", "prompt", "--only", "opens"), *PROGRAM) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[:2]] == [["ok", "opens"], ["ok", "prompt"]]
    assert "2 checks, 2 ok" in lines[2]


def test_a_failure_shows_request_answer_and_expectation(servers: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert conformance(*local(servers, "--only", "release-unheld"), *MUTANT, "SaysFreed") == 1
    output = capsys.readouterr().out
    assert output.startswith("FAILED  release-unheld")
    assert '"op":"release"' in output
    assert '{"id": 2, "ok": null}' in output
    assert "expected 'fail': c0 never acquired this key" in output


def test_json_output_is_only_the_document(servers: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert conformance(*local(servers, "--only", "opens", "--json"), *MUTANT, "Refuses") == 1
    output = capsys.readouterr()
    document = json.loads(output.out)
    assert (document["valid"], document["checks"][0]["verdict"], output.err) == (False, "failed", "")
    assert "no licence" in document["checks"][0]["seen"][0]


def test_a_program_that_does_not_open_gets_no_further_checks(servers: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert conformance(*local(servers), *MUTANT, "Refuses") == 1
    assert "1 check, 1 FAILED" in (output := capsys.readouterr().out)
    assert "the other checks were not run" in output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "mutant", "status", "word"),
    [("extends", "CannotExtend", 3, "skipped"), ("keys", "Slow", 3, "unknown"), ("prompt", "Slow", 1, "FAILED")],
)
def test_a_run_with_only_skipped_checks_is_unknown(
    check: str, mutant: str, status: int, word: str, servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = local(servers, "--only", check)
    assert conformance(*arguments, *MUTANT, mutant) == status
    assert capsys.readouterr().out.split()[:2] == [word, check]


@pytest.mark.slow
def test_a_skipped_check_beside_one_that_holds_passes(servers: str) -> None:
    assert conformance(*local(servers, "--only", "extends", "--only", "opens"), *MUTANT, "CannotExtend") == 0


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("redis-token",), 2, "redis-token is a Python class, not a program"),
        (("redison-lock",), 2, "no lock is called 'redison-lock'; did you mean"),
        (("x", "--lock", "y"), 2, "lock: requires --servers"),
        (("./a", "b"), 2, "./a b is a command, which requires --servers"),
        (("--kind", "redis-single", "--", "./a"), 2, "./a is a command, which requires --servers"),
        (("--kind", "redis-single", "--", "sh"), 2, "sh is a command, which requires --servers"),
        (
            ("--servers", "127.0.0.1:1", "--kind", "redis-sngle", "--", "./a"),
            2,
            "unknown kind 'redis-sngle': did you mean redis-single",
        ),
        ((f"{__name__}:AdapterWithoutCommand",), 2, "command must be the program and its arguments"),
        ((f"{__name__}:CommandIsText",), 2, "a tuple of texts, got './own'"),
        ((f"{__name__}:MisspelledKind",), 2, "MisspelledKind 'redis-sngle': did you mean redis-single"),
        (("--servers", "127.0.0.1:1", "--", "./a"), 2, "kind: --servers requires --kind"),
        (("--servers", "127.0.0.1", "--kind", "etcd", "--", "./a"), 2, "expected HOST:PORT, got '127.0.0.1'"),
        (
            ("--servers", "127.0.0.1:1", "--kind", "etcd", "--", "./a"),
            3,
            "no server at 127.0.0.1:1: Connection refused",
        ),
        (("--servers", "127.0.0.1:1", "--kind", "redis-sentinel", "--", "./a"), 2, "send their own addresses"),
        (("x", "--only", "silent"), 2, "unknown check 'silent': did you mean silent-"),
        (("x", "--ttl", "0s"), 2, "ttl must be more than 0 seconds, got 0"),
    ],
)
def test_a_usage_error_is_one_message(
    arguments: tuple[str, ...], status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert conformance(*arguments) == status
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_a_missing_command_is_one_message(servers: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert conformance(*local(servers), "./nothing") == 2
    assert capsys.readouterr().err == "harness: cannot start './nothing': No such file or directory\n"


def test_a_user_adapter_can_be_checked() -> None:
    adapter = program_of(f"{__name__}:UserAdapter")
    assert adapter is UserAdapter
    settings = with_lock_times(ConformanceSettings(), adapter.info)
    assert (settings.overtime, settings.expires) == (2.0, False)


def test_the_documented_adapter_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    documented = (ROOT / "docs" / "client-protocol.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```$", documented, re.DOTALL | re.MULTILINE)
    (tmp_path / "pasted.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    adapter = program_of("pasted:Mine")
    assert (adapter.info.runtime, adapter.command) == ("mylock-client:1", ("/usr/local/bin/mylock",))


@pytest.mark.slow
def test_an_interrupt_ends_the_program(servers: str, tmp_path: Path) -> None:
    """The program reports its process id, and outlives its stdin."""
    pid_file = tmp_path / "pid"
    script = f"echo $$ > {pid_file}; exec {' '.join(MUTANT)} Lingers"
    command = [sys.executable, "-m", "harness", "conformance", *local(servers), "sh", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while not (pid_file.exists() and pid_file.read_text()) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid_file.read_text()), 0)
