"""A Chubby cell in containers: the simulator's server as a program, its probes, and the keys of locks."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import msgspec

from harness.clusters.docker.images.images import Images
from harness.clusters.docker.kinds import ANSWER_S, RealPeers
from harness.clusters.key_watch import KeyReader, NoAnswer
from harness.history.lock_keys import KeyObservation

from .chubby_program import OBSERVER_PORT, Config, Status

PROGRAM: Final = "harness.clusters.docker.services.chubby_program"
MARK: Final = "/tmp/started"


class ChubbyServers(RealPeers):
    """See :class:`harness.clusters.docker.kinds.RealServers`. Replicas know each other, and name the master, by their
    addresses. The program is part of this project, as the clients' is, and runs in their image."""

    KNOCK = b"{}".ljust(63) + b"\n"

    def image(self, images: Images, host: str) -> str:  # noqa: ARG002
        return images.client()

    def program(self, host: str) -> tuple[list[str], dict[str, str]]:
        own = self.addresses[host]
        peers = [self.addresses[name] for name in self.data_hosts if name != host]
        config = Config(address=own, peers=peers, data="/data", mark=MARK, options=dict(self.options))
        return ["python3", "-u", "-m", PROGRAM, msgspec.json.encode(config).decode()], {}

    # Probes.

    def status(self, host: str) -> Status | None:
        """Return the status of a replica, ``None`` if it does not answer."""
        try:
            with self.gate.open(), socket.create_connection(self.reached(host, OBSERVER_PORT), ANSWER_S) as link:
                return _answer(link, None)
        except (NoAnswer, OSError):
            return None

    def answers(self, host: str) -> bool:
        return self.status(host) is not None

    def ready(self, host: str) -> bool:
        status = self.status(host)
        return status is not None and status.master is not None

    def leader(self) -> str | None:
        """The master named by the replica with the newest epoch."""
        known = [status for host in self.data_hosts if (status := self.status(host)) and status.master]
        newest = max(known, key=lambda status: status.epoch, default=None)
        return None if newest is None else self._names().get(newest.master or "")

    def _names(self) -> Mapping[str, str]:
        """Hosts by their addresses, clients included."""
        return {box.ip: name for name, box in self.boxes.items()}

    def key_count(self, host: str) -> int | None:
        status = self.status(host)
        return None if status is None else status.files

    def version(self) -> str:
        status = self.status(self.data_hosts[0])
        return f"chubby cell of lock-harness {status.version}" if status else ""

    def key_reader(self, host: str) -> Callable[[], KeyReader]:
        return partial(ChubbyKeyReader, self.reached(host, OBSERVER_PORT), self._names())


class ChubbyKeyReader:
    """Reads who holds the lock of a file in a replica's own database. ``names`` are those of clients by address."""

    def __init__(self, address: tuple[str, int], names: Mapping[str, str]) -> None:
        self._link = socket.create_connection(address, ANSWER_S)
        self._names = names

    def look(self, key: str) -> KeyObservation | None:
        holder = _answer(self._link, key).holder
        if holder is None:
            return None
        handle, left, client = holder
        return KeyObservation(handle, left, self._names.get(client))

    def close(self) -> None:
        self._link.close()


def _answer(link: socket.socket, file: str | None) -> Status:
    """Ask a replica for its status and the holder of a file's lock. Raises NoAnswer."""
    try:
        link.sendall(msgspec.json.encode({"file": file}) + b"\n")
        answer = b""
        while not answer.endswith(b"\n"):
            data = link.recv(65536)
            if not data:
                raise NoAnswer
            answer += data
        return msgspec.json.decode(answer, type=Status)
    except (OSError, msgspec.DecodeError) as error:
        raise NoAnswer from error
