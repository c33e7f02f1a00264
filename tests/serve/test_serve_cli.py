"""The command ``harness serve``: messages, exit statuses and refused arguments."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.cli.main import main
from tests.serve import stores


@contextmanager
def command(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run ``harness serve``, and read its address from its output."""
    program = [sys.executable, "-m", "harness", "serve", "--port", "0", *arguments]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def serve_error(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int | str | None, str]:
    with pytest.raises(SystemExit) as ended:
        main(["serve", *arguments])
    return ended.value.code, capsys.readouterr().err


def test_a_taken_port_is_one_message(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        status, said = serve_error(capsys, "--port", str(taken.getsockname()[1]))
    assert status == 4
    assert said.count("\n") == 1
    assert "Address already in use; --port 0" in said


def test_an_invalid_store_port_or_address_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for arguments, said in (
        (["--store", str(tmp_path / "file")], "expected the folder of a store, got a file"),
        (["--store", str(tmp_path / "file" / "store")], "expected the folder of a store, got a file"),
        (["--store", str(tmp_path / ("x" * 300))], "cannot read the store"),
        (["--port", "65536"], "port must be from 0 to 65535"),
        (["--host", "999.0.0.1", "--port", "0"], "cannot listen on 999.0.0.1"),
    ):
        status, told = serve_error(capsys, *arguments)
        assert status == 2
        assert said in told
        assert told.count("\n") == 1


def test_help_names_the_default_address() -> None:
    from harness.cli.main import app

    assert "127.0.0.1" in CliRunner().invoke(app, ["serve", "--help"]).output


@pytest.mark.slow
def test_ctrl_c_ends_the_server_at_once_even_during_a_response(tmp_path: Path) -> None:
    run = stores.add(tmp_path, 0)
    with (run / "history.jsonl").open("wb") as file:
        file.truncate(2_000_000_000)
    with command("--store", str(tmp_path)) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        address = next(word for word in line.split() if word.startswith("http://127.0.0.1:"))
        assert b"Safe" in urllib.request.urlopen(address).read()
        sending = urllib.request.urlopen(f"{address}store/redlock/{stores.name(0)}/history.jsonl")
        assert sending.read(10) == bytes(10)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
        assert (process.returncode, said) == (0, "")


@pytest.mark.slow
def test_a_missing_store_is_shown_as_empty_and_a_public_address_warns(tmp_path: Path) -> None:
    with command("--store", str(tmp_path / "none"), "--host", "0.0.0.0") as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.endswith("; there is no such folder yet\n")
        address = next(word for word in line.split() if word.startswith("http://"))
        page = urllib.request.urlopen(address.replace("0.0.0.0", "127.0.0.1")).read()
        assert b"This store has no runs yet" in page
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
    assert process.returncode == 0
    assert said == "harness: anybody who reaches 0.0.0.0 can read this store: there is no password\n"
    assert not (tmp_path / "none").exists()
