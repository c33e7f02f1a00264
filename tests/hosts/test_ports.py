"""Ports on a host: each run takes its own, and gives them back however it ends."""

from __future__ import annotations

import socket
import subprocess
import sys

from harness.clusters.ssh.helper.ports import PortReservations

FIRST = 27_300
"""Below the kernel's range of ports for connections."""
CODE = """
import sys
from harness.clusters.ssh.helper.ports import PortReservations
held = PortReservations()
print(*held.take(int(sys.argv[1]), 2), flush=True)
input()
"""


def test_a_run_takes_other_ports_than_another_one_that_goes_on() -> None:
    command = [sys.executable, "-c", CODE, str(FIRST)]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    theirs = list(map(int, other.stdout.readline().split()))
    reservations = PortReservations()
    ours = [port for _ in range(2) for port in reservations.take(FIRST, 2)]
    assert sorted({*ours, *theirs}) == sorted([*ours, *theirs])
    other.kill()
    other.communicate()
    assert PortReservations().take(theirs[0], 2) == theirs
    reservations.close()
    assert PortReservations().take(ours[0], 1) == ours[:1]


def test_a_port_on_which_somebody_listens_is_left_out() -> None:
    reservations = PortReservations()
    [port] = reservations.take(FIRST + 200, 1)
    reservations.close()
    with socket.create_server(("0.0.0.0", port)):
        assert port not in reservations.take(port, 1)
