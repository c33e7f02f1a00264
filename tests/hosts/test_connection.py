"""The connection to a host, and its loss. A program called ``ssh`` runs the helper on this machine."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.clusters.conversation import Unanswered
from harness.clusters.ssh import connection
from harness.clusters.ssh.connection import HostConnection

SSH = '#!/bin/sh\nfor command; do :; done\nSSH_CONNECTION="1.1.1.1 1 127.0.0.1 22" exec sh -c "exec $command"\n'


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HostConnection]:
    ssh = tmp_path / "ssh"
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(connection, "BEAT_S", 0.05)
    monkeypatch.setattr(connection, "SILENCE_S", 0.3)
    host = HostConnection("h1", tmp_path, 0)
    yield host
    host.close()
    shutil.rmtree(host.facts["folder"], ignore_errors=True)  # a killed helper leaves it


@pytest.mark.parametrize(
    ("number", "loss"),
    [
        (signal.SIGKILL, "its connection or helper has ended"),
        (signal.SIGSTOP, "its helper has not answered for 0.3 s"),
    ],
)
def test_the_loss_of_a_host_ends_all_that_waits_for_it(host: HostConnection, number: signal.Signals, loss: str) -> None:
    lost, program_ended = threading.Event(), threading.Event()

    def hear(event: dict[str, Any]) -> None:
        if "ended" in event:
            program_ended.set()

    host.start("sleeper", ["sleep", "60"], {}, -1, hear)
    host.watch(lost.set)
    waiting = host.request("run", command="sleep 60", timeout=60)
    os.kill(host.facts["pid"], number)
    assert lost.wait(10)
    assert host.loss() == loss
    assert program_ended.wait(10)
    assert isinstance(waiting.exception(10), Unanswered)
    with pytest.raises(Unanswered, match=r"the host h1: .*has ended"):
        host.ask("time")


def test_a_host_that_is_lost_before_it_is_watched_is_reported(host: HostConnection) -> None:
    os.kill(host.facts["pid"], signal.SIGKILL)
    ended = host.request("run", command="sleep 60", timeout=60)
    assert isinstance(ended.exception(10), Unanswered)
    lost = threading.Event()
    host.watch(lost.set)
    assert lost.is_set()


def test_the_end_of_a_connection_that_is_closed_is_no_loss(host: HostConnection) -> None:
    lost = threading.Event()
    host.watch(lost.set)
    host.close()
    assert not lost.is_set()
    assert not Path(host.facts["folder"]).exists()
