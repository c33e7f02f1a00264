"""The Docker engine: containers and networks of one run, labelled with it, so that everything can be found and removed
even after the harness itself was killed."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import docker
from docker.errors import APIError, DockerException, NotFound
from requests.exceptions import RequestException

from ..errors import EnvironmentLacking
from .base_image import explanation
from .channel import Channel

RUN: Final = "io.lock-harness.run"
"""Label of everything that a run made; its value is the run's id."""
OWNER: Final = "io.lock-harness.owner"
"""Label: the process that made it (see :func:`_myself`), or ``user`` for a cluster left running by hand."""
HOST: Final = "io.lock-harness.host"
ROLE: Final = "io.lock-harness.role"
KIND: Final = "io.lock-harness.kind"
BY_HAND: Final = "user"
AT_ONCE: Final = 4
"""Containers started at the same time: a start is mostly CPU, and more than this makes two cores no faster."""
INSTALL: Final = "apt-get install docker.io (or your system's), start it, or point DOCKER_HOST to an engine"


def connect() -> docker.DockerClient:
    """The engine that DOCKER_HOST (or the usual socket) names; raises EnvironmentLacking if none answers."""
    try:
        client = docker.from_env(timeout=60, max_pool_size=64)
        client.ping()
    except DockerException as error:
        where = os.environ.get("DOCKER_HOST", "its default socket")
        raise EnvironmentLacking(f"no Docker engine answers at {where} ({explanation(error)}): {INSTALL}") from error
    return client


@contextlib.contextmanager
def engine_errors() -> Iterator[None]:
    """What the engine itself fails at is the environment's fault, and told in a line."""
    try:
        yield
    except (DockerException, RequestException) as error:
        raise EnvironmentLacking(
            f"the Docker engine failed: {type(error).__name__}: {_brief(error)}; "
            "'harness cluster clean' removes what it has left"
        ) from error


def answers() -> bool:
    """Is there an engine?"""
    try:
        connect().close()
    except EnvironmentLacking:
        return False
    return True


def _brief(error: BaseException) -> str:
    text = str(error)
    return text if len(text) <= 160 else f"{text[:160]}..."


def _myself(pid: int | None = None) -> str:
    """A process, named so that a later one with the same number is told apart: its number, its start time, and the
    table of processes that both are read from."""
    pid = os.getpid() if pid is None else pid
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    return f"{pid}:{stat.rpartition(')')[2].split()[19]}:{_table()}"


def _table() -> str:
    """Which process numbers are meant: those in a container are others."""
    return str(Path("/proc/self/ns/pid").readlink())


@dataclass(frozen=True, slots=True)
class Box:
    """A running container. ``pid`` is that of its idle first process, as the engine's machine numbers it; what a host
    of the cluster really runs is started with :meth:`start`, so that it can die and come back while the container's
    network stays."""

    client: docker.DockerClient
    id: str
    pid: int
    ip: str

    def start(
        self,
        command: list[str],
        on_line: Callable[[bytes], None],
        *,
        on_end: Callable[[], None] = lambda: None,
        environment: dict[str, str] | None = None,
    ) -> Channel:
        """Run a program in it; ``on_line`` gets each line that it writes."""
        api = self.client.api
        made = api.exec_create(self.id, command, stdin=True, environment=environment or {})
        raw = api.exec_start(made["Id"], socket=True)
        return Channel(raw, on_line, on_end, lambda: self._pid_of(made["Id"]))

    def _pid_of(self, program: str) -> int:
        """The engine does not tell before it has started; raises RuntimeError if it has ended already."""
        while True:
            about = self.client.api.exec_inspect(program)
            if about["Pid"]:
                return int(about["Pid"])
            if about["ExitCode"] is not None:
                raise RuntimeError(f"a program ended with {about['ExitCode']} before it was used")
            time.sleep(0.002)

    def leave(self, command: list[str], environment: dict[str, str]) -> None:
        """Run a program that goes on when this process is gone; nobody hears it."""
        api = self.client.api
        api.exec_start(api.exec_create(self.id, command, environment=environment)["Id"], detach=True)

    def output(self, command: list[str]) -> bytes:
        """Run a program to its end; what it has written."""
        api = self.client.api
        told: bytes = api.exec_start(api.exec_create(self.id, command)["Id"])
        return told

    def pause(self) -> None:
        self.client.api.pause(self.id)

    def unpause(self) -> None:
        """Harmless if it is not paused."""
        with contextlib.suppress(APIError):
            self.client.api.unpause(self.id)


class Deployment:
    """The containers and the internal network of one run."""

    def __init__(self, client: docker.DockerClient, kind: str, *, by_hand: bool = False) -> None:
        self.client = client
        self.id = secrets.token_hex(4)
        self._labels = {RUN: self.id, KIND: kind, OWNER: BY_HAND if by_hand else _myself()}
        self._network = f"lock-harness-{self.id}"

    def open(self) -> None:
        """Make the network: internal, so that nothing on it reaches anything but itself and this machine."""
        self.client.networks.create(self._network, driver="bridge", internal=True, labels=self._labels)

    def box(
        self, host: str, image: str, role: str, *, within: Box | None = None, command: list[str] | None = None,
        **options: Any,
    ) -> Box:  # fmt: skip
        """Start a container that idles (or runs ``command``), on the network or ``within`` another one's network.

        ``options`` are those of the SDK's ``containers.run``.
        """
        joined = {"network_mode": f"container:{within.id}"} if within else {"network": self._network, "hostname": host}
        settings: dict[str, Any] = {
            "entrypoint": [],
            "name": self._name(host),
            "labels": {**self._labels, HOST: host, ROLE: role},
            "log_config": {"type": "none"},
            **joined,
            **options,
        }
        container = self.client.containers.create(image, command or ["sleep", "infinity"], **settings)
        container.start()
        container.reload()
        networks = container.attrs["NetworkSettings"]["Networks"]
        ip = within.ip if within is not None else next(iter(networks.values()))["IPAddress"]
        return Box(self.client, container.attrs["Id"], container.attrs["State"]["Pid"], ip)

    def drop(self, host: str) -> None:
        """Remove one container."""
        self.client.api.remove_container(self._name(host), force=True, v=True)

    def _name(self, host: str) -> str:
        return f"{self._network}-{host}"

    def close(self) -> None:
        """Remove everything that this run made."""
        remove(self.client, [self.id])


def in_parallel(calls: Iterable[Callable[[], Any]]) -> list[Any]:
    """Call all of them, a few at a time; the results in order. The first error is raised when all have ended, an
    interrupt when those have that had begun: a container made later would outlive the removal of the others."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            futures = [pool.submit(call) for call in calls]
            wait(futures)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [future.result() for future in futures]


@dataclass(frozen=True, slots=True)
class Found:
    """A cluster that the engine holds: ``hosts`` are (name, role, state, address), ``alive`` whether its owner is."""

    id: str
    kind: str
    by_hand: bool
    alive: bool
    hosts: tuple[tuple[str, str, str, str], ...]


def found(client: docker.DockerClient) -> list[Found]:
    """All clusters of ours, by id; also what is left of one."""
    runs: dict[str, dict[str, Any]] = {}
    for thing in (*_containers(client), *_networks(client), *_volumes(client)):
        labels = thing["Labels"]
        about = runs.setdefault(labels[RUN], {"labels": labels, "hosts": []})
        if HOST in labels:
            networks = thing["NetworkSettings"]["Networks"]
            address = next((network["IPAddress"] for network in networks.values()), "")
            about["hosts"].append((labels[HOST], labels[ROLE], thing["State"], address))
    return [
        Found(
            run,
            about["labels"].get(KIND, ""),
            about["labels"].get(OWNER) == BY_HAND,
            _alive(about["labels"].get(OWNER, "")),
            tuple(sorted(about["hosts"])),
        )
        for run, about in sorted(runs.items())
    ]


def _alive(owner: str) -> bool:
    if owner == BY_HAND:
        return True
    pid = owner.partition(":")[0]
    if not owner.endswith(_table()):
        return True  # nobody here can tell; 'clean --all' removes it
    return pid.isdigit() and _myself(int(pid)) == owner


def remove(client: docker.DockerClient, runs: Iterable[str]) -> list[str]:
    """Remove all containers, networks and volumes of these runs; returns their names. What the engine does not let go
    (a network of which it still counts an endpoint, though its container is gone) is told when all else is done, with
    EnvironmentLacking."""
    api = client.api
    gone: list[str] = []
    stuck: list[str] = []

    def kill(container: dict[str, Any]) -> None:
        if container["State"] == "paused":  # what is frozen cannot be ended
            with contextlib.suppress(APIError):
                api.unpause(container["Id"])
        with contextlib.suppress(NotFound):
            api.remove_container(container["Id"], force=True, v=True)
            gone.append(container["Names"][0].removeprefix("/"))

    for run in runs:
        in_parallel([partial(kill, container) for container in _containers(client, run)])
        for network in _networks(client, run):
            try:
                api.remove_network(network["Id"])
            except NotFound:
                continue
            except APIError as error:
                stuck.append(f"{network['Name']}: {error.explanation}")
            else:
                gone.append(network["Name"])
        for volume in _volumes(client, run):
            with contextlib.suppress(NotFound):
                api.remove_volume(volume["Name"], force=True)
                gone.append(volume["Name"])
    if stuck:
        raise EnvironmentLacking(f"the engine does not remove {'; '.join(stuck)}: restart it, and try again")
    return gone


# Lists only: to look at each thing closely waits for whatever the engine does to it just then, in another run too.


def _containers(client: docker.DockerClient, run: str = "") -> list[dict[str, Any]]:
    return list(client.api.containers(all=True, filters=_labelled(run)))


def _networks(client: docker.DockerClient, run: str = "") -> list[dict[str, Any]]:
    return list(client.api.networks(filters=_labelled(run)))


def _volumes(client: docker.DockerClient, run: str = "") -> list[dict[str, Any]]:
    return list(client.api.volumes(filters=_labelled(run))["Volumes"] or [])


def _labelled(run: str) -> dict[str, Any]:
    return {"label": f"{RUN}={run}" if run else RUN}
