"""The bench of a catalogue's lock: servers of its kind and two clients in containers, where the program is started."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

import msgspec

from lock_impls.base import LockInfo
from lock_impls.program import ProgramLock

from ..client_program import find_lock
from ..clusters.docker import Clients, DockerCluster
from ..clusters.docker_hosts import Client
from ..clusters.kinds import ACCOUNT, SERVICE, kinds
from ..containers.channel import Channel
from ..containers.engine import Box, engine_errors
from ..containers.requirements import requirements_of
from ..errors import UNKNOWN, HarnessError, UsageError, unknown_name
from .bench import SEATS, Lost, Settings

SHELL: Final = ("sh", "-c", 'echo $$; exec "$@"', "program")
"""Tells the number that the program then has in its container, which is that of its process group too."""
STARTS: Final = 10.0
"""Seconds within which a container starts a program."""
SEEN: Final = 0.3
"""Seconds in which a server answers that can be reached."""


class Unobserved(HarnessError):
    """What was to be tried under a fault cannot be judged: the fault was not seen to take effect."""

    exit_status = UNKNOWN


class Inside:
    """A :class:`.bench.Wire` to a program in a container."""

    def __init__(self, box: Box, command: Sequence[str], environment: dict[str, str], on_line: Callable[[bytes], None]):
        api = box.client.api
        self._box = box
        self._on_line = on_line
        self._pid = 0
        self._started, self._ended = threading.Event(), threading.Event()
        self._id: str = api.exec_create(box.id, [*SHELL, *command], stdin=True, environment=environment)["Id"]
        self._raw = api.exec_start(self._id, socket=True)
        self._channel = Channel(self._raw, self._hear, self._ended.set, lambda: self._pid)
        if not self._started.wait(STARTS):
            raise Unobserved(f"the container does not start {command[0]!r}: {' | '.join(self.said)}")

    @property
    def said(self) -> Sequence[str]:
        return self._channel.errors

    def send(self, line: bytes) -> None:
        self._channel.send(line)

    def end_input(self) -> None:
        self._channel.end_input()

    def kill(self) -> None:
        if self._ended.is_set():
            return
        self._box.output(["sh", "-c", f"kill -9 -{self._pid}"])
        self._ended.wait(STARTS)
        self._channel.close()

    def status(self) -> int | None:
        if not self._ended.is_set():
            return None
        code: int | None = self._box.client.api.exec_inspect(self._id)["ExitCode"]
        return code

    def _hear(self, line: bytes) -> None:
        if self._started.is_set():
            self._on_line(line)
            return
        self._pid = int(line)
        self._started.set()


class ContainerBench:
    """A :class:`.bench.Bench` on a cluster that runs. Opened by :func:`in_containers`."""

    def __init__(self, cluster: DockerCluster, boxes: Mapping[str, Box], command: Sequence[str],
                 environment: dict[str, str], opened: Mapping[str, Any]) -> None:  # fmt: skip
        self._cluster = cluster
        self._boxes = boxes
        self._command = command
        self._environment = environment
        self._opened = opened
        self._undo = contextlib.ExitStack()

    def start(self, seat: str, on_line: Callable[[bytes], None]) -> Inside:
        return Inside(self._boxes[seat], self._command, self._environment, on_line)

    def opening(self, seat: str) -> Mapping[str, Any]:
        del seat
        return {**self._opened, "addresses": self._cluster.endpoints().addresses}

    def lose(self, seat: str, lost: Lost) -> None:
        servers = [host.name for host in self._cluster.hosts if host.role != "client"]
        if lost == "everything":
            for server in servers:
                self._undo.callback(self._cluster.black_hole(seat, server).cancel)
        else:
            links = [(server, seat) for server in servers]
            self._cluster.cut(links)
            self._undo.callback(self._cluster.mend, links)
        with ThreadPoolExecutor(len(servers)) as pool:
            trips = list(pool.map(lambda server: self._cluster.reaches(seat, server, SEEN), servers))
        if any(trip is not None for trip in trips):
            raise Unobserved(f"{lost} between {seat} and {', '.join(servers)} should be lost, and is not")

    def restore(self) -> None:
        self._undo.close()


def program_of(lock: str) -> type[ProgramLock]:
    """The class of a lock that is a program, on kinds of servers that there are; raises UsageError for any other."""
    found: object = find_lock(lock)
    if not isinstance(found, type) or not issubclass(found, ProgramLock):
        raise UsageError(
            f"{lock} is no program that speaks the client protocol, but a class in Python: 'harness run {lock}' runs it"
        )
    for kind in found.info.kinds:
        if kind not in kinds():
            raise unknown_name(f"kind in the info of {lock}", kind, kinds())
    return found


def lasting(settings: Settings, info: LockInfo) -> Settings:
    """With what a lock says of how long it outlasts its holder."""
    return replace(settings, overtime=info.overtime, expires=settings.expires and info.on_death != "nothing")


@contextlib.contextmanager
def in_containers(
    lock: str, adapter: type[ProgramLock], kind: str, options: Mapping[str, Any], report: Callable[[str], None]
) -> Iterator[ContainerBench]:
    """A cluster of the kind (or the lock's own) with two clients, for as long as it is used."""
    info = adapter.info
    kind = kind or info.kinds[0]
    if kind not in info.kinds:
        raise UsageError(f"{lock} runs on {' or '.join(info.kinds)}, not on {kind!r}")
    requirements, source = requirements_of(lock)
    cluster = DockerCluster(
        kind=kind, nodes=0, clients=Clients(len(SEATS), requirements, source, info.runtime), seed=0,
        resource=msgspec.json.encode({"fencing": "off", "stock": {}}).decode(), options={}, needs=frozenset({"hole"}),
        report=report,
    )  # fmt: skip
    opened = {"lock": info.name, "kind": kind, "service": SERVICE, "account": ACCOUNT, "options": dict(options)}
    with engine_errors():
        try:
            cluster.start_all()
            boxes = {host.name: host.box for host in cluster.hosts if isinstance(host, Client)}
            environment = {"PYTHONPATH": "/user"} if source else {}
            bench = ContainerBench(cluster, boxes, adapter.command, environment, opened)
            try:
                yield bench
            finally:
                bench.restore()
        finally:
            cluster.stop_all()
