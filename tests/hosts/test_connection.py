"""The connection to a host, and its loss. A program called ``ssh`` runs the helper on this machine."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from harness.clusters.conversation import Unanswered
from harness.clusters.ssh.connection import HostConnection


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
