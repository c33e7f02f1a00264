"""One replica of a Chubby cell as a program: ``python3 -m harness.clusters.docker.services.chubby_program CONFIG``.

Google never published Chubby, so this is the server that the simulator runs, :mod:`harness.sim.servers.chubby`, on
real connections, clocks and files. CONFIG is :class:`Config` in JSON. Observers ask on a port of their own: for each
line of JSON, ``{"file": NAME or null}``, they get one with a :class:`Status`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import zlib
from collections import Counter
from importlib import metadata
from pathlib import Path
from typing import Any, Final

import msgspec

from harness.clusters.docker.services.process_host import ProcessHost
from harness.sim.servers.chubby.protocol import lines
from harness.sim.servers.chubby.replica import ReplicaDisk
from harness.sim.servers.chubby.server import ChubbyServer
from harness.sim.service import Conn, ServiceHost

OBSERVER_PORT: Final = 2401
DISTRIBUTION: Final = "lock-harness"


class Config(msgspec.Struct, kw_only=True):
    """Where a replica runs. ``address`` is its own, and ``peers`` are those of the others. ``data`` is the folder of
    its database, and ``mark`` a file elsewhere, which tells a replica that has lost its database from a new one.
    ``options`` are those of :class:`harness.sim.servers.chubby.server.ChubbyServer`."""

    address: str
    peers: list[str]
    data: str
    mark: str
    options: dict[str, Any] = {}


class Status(msgspec.Struct, kw_only=True):
    """A replica's answer to an observer.

    ``epoch`` is that of its database, ``master`` the address of the master, null if it knows none, and ``files`` the
    number of files. ``holder`` has the lock of the file that was asked for, null if nobody has: its handle, the ns
    until its session expires (null on a replica that is not the master), and the address of its client. ``answered``
    counts the answers to clients by operation.
    """

    version: str
    epoch: int
    master: str | None
    files: int
    holder: tuple[str, int | None, str] | None
    answered: dict[str, int]


class SavedDisk(msgspec.Struct):
    """The fields of a :class:`harness.sim.servers.chubby.replica.ReplicaDisk`, as they are saved."""

    promised: int
    epoch: int
    seq: int
    rows: dict[str, Any]
    voter: bool
    restored_at: int

    @property
    def version(self) -> tuple[int, int, int, bool, int]:
        """All that tells one state of a disk from another: rows change only with their number."""
        return self.promised, self.epoch, self.seq, self.voter, self.restored_at


class DiskFile:
    """The file of a replica's database: a line with a checksum, and the state in JSON. It is written as a whole: a cell
    for locks has few rows."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "database.json"
        self._saved: tuple[int, int, int, bool, int] | None = None

    def load(self) -> ReplicaDisk | None:
        """Return the saved state, None if there is none or the file is damaged."""
        try:
            checksum, _, content = self._path.read_bytes().partition(b"\n")
        except FileNotFoundError:
            return None
        if checksum != _checksum(content):
            print(f"{self._path} is damaged: its checksum differs", flush=True)
            return None
        saved = msgspec.json.decode(content, type=SavedDisk)
        disk = ReplicaDisk(voter=saved.voter)
        for name in SavedDisk.__struct_fields__:
            setattr(disk, name, getattr(saved, name))
        self._saved = saved.version
        return disk

    def save(self, disk: ReplicaDisk) -> None:
        """Write and sync the state, if it has changed."""
        saved = SavedDisk(*(getattr(disk, name) for name in SavedDisk.__struct_fields__))
        if saved.version == self._saved:
            return
        fresh, content = self._path.with_suffix(".new"), msgspec.json.encode(saved)
        with fresh.open("wb") as file:
            file.write(_checksum(content) + b"\n" + content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        self._saved = saved.version


def _checksum(content: bytes) -> bytes:
    return b"%08x" % zlib.crc32(content)


class Observers:
    """A :class:`harness.sim.service.Service` that answers observers, without any effect on the replica."""

    port = OBSERVER_PORT

    def __init__(self, server: ChubbyServer) -> None:
        self._server = server
        self._version = metadata.version(DISTRIBUTION)
        self._answered: Counter[str] = Counter()
        server.on_command = lambda client, operation: self._answered.update([operation])  # noqa: ARG005

    def start(self, host: ServiceHost, *, wiped: bool) -> None: ...
    def stop(self) -> None: ...

    def opened(self, conn: Conn) -> None:
        conn.session = b""

    def received(self, conn: Conn, data: bytes) -> None:
        questions, conn.session = lines(conn.session, data)
        for question in questions:
            conn.send(msgspec.json.encode(self._status(question.get("file"))) + b"\n")

    def closed(self, conn: Conn) -> None: ...

    def _status(self, file: str | None) -> Status:
        epoch, master = self._server.known_master
        holder = None if file is None else self._server.peek(file)
        return Status(
            version=self._version, epoch=epoch, master=master, files=self._server.size(), holder=holder,
            answered=self._answered,
        )  # fmt: skip


async def run(config: Config) -> None:
    """Run a replica until the process is killed."""
    file, mark = DiskFile(Path(config.data)), Path(config.mark)
    disk = file.load()
    if disk is None and mark.exists():
        disk = ReplicaDisk(voter=False)
    mark.touch()
    server = ChubbyServer(config.peers, **config.options, disk=disk)

    def save() -> None:
        if server.disk is not None:
            file.save(server.disk)

    host = ProcessHost(config.address, save)
    server.start(host, wiped=False)
    await host.serve(server)
    await host.serve(Observers(server))
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(run(msgspec.json.decode(sys.argv[1], type=Config)))
