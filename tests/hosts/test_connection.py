"""The connection to a host, and its loss. A program called ``ssh`` runs the helper on this machine."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from harness.clusters.conversation import Unanswered
from harness.clusters.ssh import connection
from harness.clusters.ssh.connection import HostConnection
from harness.clusters.ssh.losses import LossMethods
from harness.clusters.ssh.preparation import HostFailed
from harness.errors import UNKNOWN, EnvironmentLacking, MachineLost


@pytest.mark.parametrize(
    ("number", "loss"),
    [
        (signal.SIGKILL, "its connection or helper has ended"),
        (signal.SIGSTOP, "its helper has not answered for 0.3 s"),
    ],
)
def test_the_loss_of_a_host_ends_all_that_waits_for_it(
    local_host: HostConnection, number: signal.Signals, loss: str
) -> None:
    lost, program_ended = threading.Event(), threading.Event()

    def hear(event: dict[str, Any]) -> None:
        if "ended" in event:
            program_ended.set()

    local_host.start("sleeper", ["sleep", "60"], {}, -1, hear)
    local_host.watch(lost.set)
    waiting = local_host.request("run", command="sleep 60", timeout=60)
    os.kill(local_host.facts["pid"], number)
    assert lost.wait(10)
    assert local_host.loss() == loss
    assert program_ended.wait(10)
    assert isinstance(waiting.exception(10), Unanswered)
    with pytest.raises(Unanswered, match=r"the host h1: .*has ended"):
        local_host.ask("time")


def test_a_host_that_is_lost_before_it_is_watched_is_reported(local_host: HostConnection) -> None:
    os.kill(local_host.facts["pid"], signal.SIGKILL)
    ended = local_host.request("run", command="sleep 60", timeout=60)
    assert isinstance(ended.exception(10), Unanswered)
    lost = threading.Event()
    local_host.watch(lost.set)
    assert lost.is_set()


def test_the_end_of_a_connection_that_is_closed_is_no_loss(local_host: HostConnection) -> None:
    lost = threading.Event()
    local_host.watch(lost.set)
    local_host.close()
    assert not lost.is_set()
    assert not Path(local_host.facts["folder"]).exists()


def test_signs_of_life_do_not_wait_for_answers(local_host: HostConnection, monkeypatch: pytest.MonkeyPatch) -> None:
    """The helper ends after a silence, and its answers may be slow."""
    told: list[str] = []
    monkeypatch.setattr(connection, "SILENCE_S", 60.0)
    monkeypatch.setattr(local_host, "tell", told.append)
    monkeypatch.setattr(local_host._conversation, "request", lambda op: Future())
    local_host.watch(lambda: None)
    deadline = time.monotonic() + 10
    while len(told) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert told[:3] == ["beat"] * 3


class _Losing(LossMethods):
    def __init__(self, host: HostConnection, began_ns: int | None) -> None:
        super().__init__()
        self._machines = {host.destination: host}
        self._began_ns = began_ns
        self._watch_losses()


@pytest.mark.parametrize(
    ("began", "error", "when"),
    [(False, HostFailed, "before the run began"), (True, MachineLost, r"\d+\.\d s after the start of the run")],
)
def test_errors_that_follow_from_a_loss_name_the_loss(
    local_host: HostConnection, began: bool, error: type[Exception], when: str
) -> None:
    cluster = _Losing(local_host, time.monotonic_ns() if began else None)
    with pytest.raises(EnvironmentLacking, match="not ready"), cluster._loss_blamed():
        raise EnvironmentLacking("not ready within 30 s")
    os.kill(local_host.facts["pid"], signal.SIGKILL)
    deadline = time.monotonic() + 10
    while not cluster.lost() and time.monotonic() < deadline:
        time.sleep(0.01)
    loss = f"the host h1 was lost {when}: its connection or helper has ended"
    with pytest.raises(error, match=f"^{loss}$"), cluster._loss_blamed():
        raise EnvironmentLacking("not ready within 30 s")
    assert HostFailed.exit_status == UNKNOWN
