"""A Chubby cell of processes on loopback, each the program that containers run."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import TypeVar

import msgspec

from harness.clusters.docker.services.chubby import PROGRAM
from harness.clusters.docker.services.chubby_program import OBSERVER_PORT, Config, Status
from harness.lock_impls.chubby_client import ChubbySession
from harness.sim.servers.chubby.protocol import PORT

LEASE_S = 60.0
"""So long that no session expires while a loaded machine starts processes."""
PATIENCE_S = 60.0
OPTIONS = {"lease": LEASE_S, "lock_delay": 0.0}
T = TypeVar("T")


class ProcessCell:
    """A cell of replicas, each of which has an address of loopback and a folder."""

    def __init__(self, folder: Path, replicas: int = 3, options: Mapping[str, float] = OPTIONS) -> None:
        network = f"127.{Random().randrange(1, 255)}.{Random().randrange(1, 255)}"
        self.addresses = [f"{network}.{number}" for number in range(1, replicas + 1)]
        self._folder = folder
        self._options = dict(options)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def data(self, address: str) -> Path:
        return self._folder / address / "data"

    def start(self, address: str) -> None:
        self.data(address).mkdir(parents=True, exist_ok=True)
        config = Config(
            address=address,
            peers=[other for other in self.addresses if other != address],
            data=str(self.data(address)),
            mark=str(self._folder / address / "mark"),
            options=self._options,
        )
        command = [sys.executable, "-m", PROGRAM, msgspec.json.encode(config).decode()]
        self._processes[address] = subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def kill(self, address: str) -> None:
        process = self._processes.pop(address)
        process.kill()
        process.wait()

    @contextlib.contextmanager
    def paused(self, address: str) -> Iterator[None]:
        process = self._processes.pop(address)
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)
            self._processes[address] = process

    def ask(self, address: str, file: str | None = None) -> Status | None:
        """Return what a replica knows, None if it does not answer."""
        try:
            with socket.create_connection((address, OBSERVER_PORT), 5) as link, link.makefile("rb") as answer:
                link.sendall(msgspec.json.encode({"file": file}) + b"\n")
                return msgspec.json.decode(answer.readline(), type=Status)
        except OSError:
            return None

    def master(self) -> str:
        """Wait until a running replica says that it is the master, and return it."""
        return wait_for(lambda: next((one for one in self._processes if self._names_itself(one)), None))

    def _names_itself(self, address: str) -> bool:
        status = self.ask(address)
        return status is not None and status.master == address

    def session(self) -> ChubbySession:
        return ChubbySession([(address, PORT) for address in self.addresses], timeout=PATIENCE_S)

    def close(self) -> None:
        for address in list(self._processes):
            self.kill(address)


def wait_for(look: Callable[[], T | None]) -> T:
    deadline = time.monotonic() + PATIENCE_S
    while (found := look()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found
