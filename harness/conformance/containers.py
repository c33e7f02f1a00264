"""Testbed in containers, for a lock of the catalogue: servers of its kind, and two clients for its program."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final

import msgspec

from harness.clusters.abilities import TRAFFIC
from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.container_needs import Clients
from harness.clusters.docker.containers.channel import Channel
from harness.clusters.docker.containers.engine import Box, engine_errors
from harness.clusters.docker.hosts import ContainerClient
from harness.clusters.docker.images.requirements import requirements_of
from harness.clusters.kinds import ACCOUNT, kinds
from harness.clusters.kinds.redis import SERVICE
from harness.errors import UNKNOWN, HarnessError, UsageError, unknown_name
from harness.lock_impls.base import LockInfo
from harness.lock_impls.program import ProgramLock
from harness.worker.client_program import find_lock

from .testbed import CLIENTS, ConformanceSettings, LostData

SHELL: Final = ("sh", "-c", 'echo $$; exec "$@"', "program")
"""Command that prints the program's process id in its container, which is also its process group."""
START_TIMEOUT_S: Final = 10.0
"""Seconds within which a container starts a program."""
REACH_TIMEOUT_S: Final = 0.3
"""Seconds within which a reachable server answers."""


class FaultNotConfirmed(HarnessError):
    """A check under a fault cannot be judged, since the fault was not confirmed to take effect."""

    exit_status = UNKNOWN


class ContainerProcess:
    """A :class:`.testbed.ProgramHandle` to a program in a container."""

    def __init__(self, box: Box, command: Sequence[str], environment: dict[str, str], on_line: Callable[[bytes], None]):
        api = box.client.api
        self._box = box
        self._on_line = on_line
        self._pid = 0
        self._started, self._ended = threading.Event(), threading.Event()
        self._id: str = api.exec_create(box.id, [*SHELL, *command], stdin=True, environment=environment)["Id"]
        self._raw = api.exec_start(self._id, socket=True)
        self._channel = Channel(self._raw, self._receive, self._ended.set, lambda: self._pid)
        if not self._started.wait(START_TIMEOUT_S):
            raise FaultNotConfirmed(f"the container does not start {command[0]!r}: {' | '.join(self.stderr_lines)}")

    @property
    def stderr_lines(self) -> Sequence[str]:
        return self._channel.errors

    def send(self, line: bytes) -> None:
        self._channel.send(line)

    def end_input(self) -> None:
        self._channel.end_input()

    def kill(self) -> None:
        if self._ended.is_set():
            return
        self._box.output(["sh", "-c", f"kill -9 -{self._pid}"])
        self._ended.wait(START_TIMEOUT_S)
        self._channel.close()

    def status(self) -> int | None:
        if not self._ended.is_set():
            return None
        code: int | None = self._box.client.api.exec_inspect(self._id)["ExitCode"]
        return code

    def _receive(self, line: bytes) -> None:
        if self._started.is_set():
            self._on_line(line)
            return
        self._pid = int(line)
        self._started.set()


class ContainerTestbed:
    """A :class:`.testbed.Testbed` on a running cluster. :func:`in_containers` opens it."""

    def __init__(self, cluster: DockerCluster, boxes: Mapping[str, Box], command: Sequence[str],
                 environment: dict[str, str], open_fields: Mapping[str, Any]) -> None:  # fmt: skip
        self._cluster = cluster
        self._boxes = boxes
        self._command = command
        self._environment = environment
        self._open_fields = open_fields
        self._undo = contextlib.ExitStack()

    def start(self, client: str, on_line: Callable[[bytes], None]) -> ContainerProcess:
        return ContainerProcess(self._boxes[client], self._command, self._environment, on_line)

    def open_fields(self, client: str) -> Mapping[str, Any]:
        del client
        return {**self._open_fields, "addresses": self._cluster.endpoints().addresses}

    def start_losing(self, client: str, lost_data: LostData) -> None:
        servers = [host.name for host in self._cluster.hosts if host.role != "client"]
        if lost_data == "everything":
            for server in servers:
                self._undo.callback(self._cluster.black_hole(client, server).cancel)
        else:
            links = [(server, client) for server in servers]
            self._cluster.cut(links)
            self._undo.callback(self._cluster.heal, links)
        with ThreadPoolExecutor(len(servers)) as pool:
            trips = list(pool.map(lambda server: self._cluster.reaches(client, server, REACH_TIMEOUT_S), servers))
        if any(trip is not None for trip in trips):
            raise FaultNotConfirmed(
                f"{lost_data} between {client} and {', '.join(servers)} should be lost, but still arrives"
            )

    def stop_losing(self) -> None:
        self._undo.close()


def program_of(lock: str) -> type[ProgramLock]:
    """Return the class of a lock that is a program; raise UsageError for another lock or an unknown server kind."""
    found: object = find_lock(lock)
    if not isinstance(found, type) or not issubclass(found, ProgramLock):
        raise UsageError(
            f"{lock} is a Python class, not a program that uses the client protocol: test it with 'harness run {lock}'"
        )
    for kind in found.info.kinds:
        if kind not in kinds():
            raise unknown_name(f"kind in the info of {lock}", kind, kinds())
    return found


def with_lock_times(settings: ConformanceSettings, info: LockInfo) -> ConformanceSettings:
    """Return the settings with the lock's information on how long it outlasts its holder."""
    return replace(settings, overtime=info.overtime, expires=settings.expires and info.on_death != "nothing")


@contextlib.contextmanager
def in_containers(
    lock: str, adapter: type[ProgramLock], kind: str, options: Mapping[str, Any], report: Callable[[str], None]
) -> Iterator[ContainerTestbed]:
    """Context of a testbed with two clients, on a cluster of the given kind or the lock's first kind."""
    info = adapter.info
    kind = kind or info.kinds[0]
    if kind not in info.kinds:
        raise UsageError(f"{lock} runs on {' or '.join(info.kinds)}, not on {kind!r}")
    requirements, source = requirements_of(lock)
    cluster = DockerCluster(
        kind=kind, nodes=0, clients=Clients(len(CLIENTS), requirements, source, info.runtime), seed=0,
        resource=msgspec.json.encode({"fencing": "off", "stock": {}}).decode(), options={}, needs=frozenset({TRAFFIC}),
        report=report,
    )  # fmt: skip
    open_fields = {"lock": info.name, "kind": kind, "service": SERVICE, "account": ACCOUNT, "options": dict(options)}
    with engine_errors():
        try:
            cluster.start_all()
            boxes = {host.name: host.box for host in cluster.hosts if isinstance(host, ContainerClient)}
            environment = {"PYTHONPATH": "/user"} if source else {}
            testbed = ContainerTestbed(cluster, boxes, adapter.command, environment, open_fields)
            try:
                yield testbed
            finally:
                testbed.stop_losing()
        finally:
            cluster.stop_all()
