"""Docker engine access: create, find and remove the containers, networks and volumes of a run.

All of them are labelled with the run, so that they can be found and removed even after the harness was killed.
"""

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

from harness.clusters.docker.images.base_image import explanation
from harness.errors import UNKNOWN, EnvironmentLacking, HarnessError
from harness.record.clocks import BOOT_ID

from .channel import Channel
from .ssh_engine import SCHEME, local_socket

RUN: Final = "io.lock-harness.run"
"""Label of everything that a run created; its value is the run's id."""
OWNER: Final = "io.lock-harness.owner"
"""Label: the process that created it (see :func:`_process_name`), or ``user`` for a cluster started by hand."""
HOST: Final = "io.lock-harness.host"
ROLE: Final = "io.lock-harness.role"
KIND: Final = "io.lock-harness.kind"
BY_HAND: Final = "user"
POOL_SIZE: Final = 64
"""Connections to the engine that are kept for later requests."""
AT_ONCE: Final = 4
"""Containers started at the same time: a start is mostly CPU, and more than this makes two cores no faster."""
FREEZES: Final = 5
"""The most attempts to freeze a container."""
GAVE_UP: Final = "unable to freeze"
"""Part of runc's message if processes did not freeze in time."""
BEING_REMOVED: Final = "is already in progress"
"""Part of the engine's message if another process is removing the container."""
REMOVAL_S: Final = 60
"""Seconds for which a removal by another process is awaited."""
NO_TLS: Final = "use DOCKER_HOST=ssh://[user@]host, or a socket that is forwarded to it"
INSTALL: Final = "apt-get install docker.io (or your system's), start it, or point DOCKER_HOST to an engine"


class ContainerError(HarnessError):
    """A program of this project in a container does not start or does not answer, perhaps on an overloaded machine."""

    exit_status = UNKNOWN


def client_of_engine(timeout_s: int) -> docker.DockerClient:
    """Return a client of the engine at DOCKER_HOST or the default socket, which need not answer.

    Raises DockerException, and EnvironmentLacking or UsageError for an engine behind ssh or TLS.
    """
    address = os.environ.get("DOCKER_HOST", "")
    if address.startswith(SCHEME):
        return docker.DockerClient(local_socket(address), timeout=timeout_s, max_pool_size=POOL_SIZE)
    if address.startswith("tcp://") and (os.environ.get("DOCKER_TLS_VERIFY") or os.environ.get("DOCKER_CERT_PATH")):
        raise EnvironmentLacking(f"the engine at {address} demands TLS, which is not supported: {NO_TLS}")
    return docker.from_env(timeout=timeout_s, max_pool_size=POOL_SIZE)


def connect() -> docker.DockerClient:
    """Connect to the engine at DOCKER_HOST or the default socket; raise EnvironmentLacking if none answers."""
    try:
        client = client_of_engine(60)
        client.ping()
    except DockerException as error:
        where = os.environ.get("DOCKER_HOST", "its default socket")
        raise EnvironmentLacking(f"no Docker engine answers at {where} ({explanation(error)}): {INSTALL}") from error
    return client


@contextlib.contextmanager
def engine_errors() -> Iterator[None]:
    """Raise errors of the engine as EnvironmentLacking with a message of one line."""
    try:
        yield
    except (DockerException, RequestException) as error:
        raise EnvironmentLacking(
            f"the Docker engine failed: {explanation(error)}; remove the run's remains with 'harness cluster clean'"
        ) from error


def answers() -> bool:
    """Return whether an engine answers."""
    try:
        connect().close()
    except EnvironmentLacking:
        return False
    return True


def _process_name(pid: int | None = None) -> str:
    """Unique name of a process (default: this one): process id, start time, and PID namespace. Empty if there is no
    such process. A later process with the same id has another name."""
    pid = os.getpid() if pid is None else pid
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
    return f"{pid}:{stat.rpartition(')')[2].split()[19]}:{_pid_namespace()}"


def _pid_namespace() -> str:
    """This process's PID namespace, in which process ids are unique, and the machine, among whose namespaces it is
    unique: engines have users on other machines too."""
    return f"{Path('/proc/self/ns/pid').readlink()}:{BOOT_ID.read_text(encoding='ascii').strip()}"


@dataclass(frozen=True, slots=True)
class Box:
    """A running container.

    ``pid`` is the process id of its idle first process on the engine's machine. The program of a host is started by
    :meth:`start`, so that it can be killed and restarted while the container's network stays.
    """

    client: docker.DockerClient
    id: str
    pid: int
    ip: str
    name: str = ""

    def start(
        self,
        command: list[str],
        on_line: Callable[[bytes], None],
        *,
        on_end: Callable[[], None] = lambda: None,
        on_error: Callable[[bytes], object] = lambda line: None,  # noqa: ARG005
        environment: dict[str, str] | None = None,
    ) -> Channel:
        """Run a program in the container; ``on_line`` is called with each line of its stdout, ``on_error`` of its
        stderr."""
        api = self.client.api
        made = api.exec_create(self.id, command, stdin=True, environment=environment or {})
        raw = api.exec_start(made["Id"], socket=True)
        return Channel(raw, on_line, on_end, lambda: self._pid_of(made["Id"]), on_error)

    def _pid_of(self, program: str) -> int:
        """Wait until the engine knows the program's process id; raise ContainerError if the program has ended."""
        while True:
            about = self.client.api.exec_inspect(program)
            if about["Pid"]:
                return int(about["Pid"])
            if about["ExitCode"] is not None:
                raise ContainerError(f"a program ended with {about['ExitCode']} before it was used")
            time.sleep(0.002)

    def run_detached(self, command: list[str], environment: dict[str, str]) -> None:
        """Run a program that outlives this process; its output is discarded."""
        api = self.client.api
        api.exec_start(api.exec_create(self.id, command, environment=environment)["Id"], detach=True)

    def output(self, command: list[str]) -> bytes:
        """Run a program to its end and return its output."""
        api = self.client.api
        output: bytes = api.exec_start(api.exec_create(self.id, command)["Id"])
        return output

    def pause(self) -> None:
        """Freeze the container. Raises APIError.

        On a loaded machine the runtime may give up before all processes are frozen. It has thawed them then, so that it
        can be asked again."""
        for _ in range(FREEZES - 1):
            try:
                self.client.api.pause(self.id)
            except APIError as error:
                if GAVE_UP not in str(error):
                    raise
            else:
                return
        self.client.api.pause(self.id)

    def unpause(self) -> None:
        """Resume the container; no effect if it is not paused."""
        with contextlib.suppress(APIError):
            self.client.api.unpause(self.id)

    def limit_processor(self, quota_us: int, period_us: int = 100_000) -> None:
        """Let all processes of the container together compute for ``quota_us`` of each period (microseconds) at most;
        a quota of -1 ends that."""
        self.client.api.update_container(self.id, cpu_quota=quota_us, cpu_period=period_us)

    def throttled_ns(self) -> int:
        """Return for how long the container's processes have waited for a new quota so far, by the kernel's count."""
        stats = self.client.api.stats(self.id, stream=False, one_shot=True)
        return int(stats["cpu_stats"]["throttling_data"]["throttled_time"])


class Deployment:
    """The containers and the internal network of one run."""

    def __init__(self, client: docker.DockerClient, kind: str, *, by_hand: bool = False) -> None:
        self.client = client
        self.id = secrets.token_hex(4)
        self._labels = {RUN: self.id, KIND: kind, OWNER: BY_HAND if by_hand else _process_name()}
        self._network = f"lock-harness-{self.id}"

    def open(self) -> None:
        """Create the network. It is internal: its containers reach only each other and this machine."""
        self.client.networks.create(self._network, driver="bridge", internal=True, labels=self._labels)

    def box(
        self, host: str, image: str, role: str, *, within: Box | None = None, command: list[str] | None = None,
        **options: Any,
    ) -> Box:  # fmt: skip
        """Start a container that idles (or runs ``command``), on the network or ``within`` another container's network.

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
        return Box(self.client, container.attrs["Id"], container.attrs["State"]["Pid"], ip, self._name(host))

    def provide(self, host: str, image: str) -> str:
        """Create a container that never runs, whose volumes others mount, and return its name. It is none of the
        cluster's hosts, and is removed with them."""
        name = self._name(host)
        self.client.containers.create(image, ["-"], name=name, labels=self._labels, network_mode="none")
        return name

    def drop(self, host: str) -> None:
        """Remove one container."""
        self.client.api.remove_container(self._name(host), force=True, v=True)

    def _name(self, host: str) -> str:
        return f"{self._network}-{host}"

    def close(self) -> None:
        """Remove everything that this run created."""
        remove(self.client, [self.id])


def in_parallel(calls: Iterable[Callable[[], Any]]) -> list[Any]:
    """Call all functions, a few at a time, and return their results in order.

    The first error is raised when all calls have ended. After an interrupt no further call starts, and those under way
    are awaited: a container created later would outlive the removal of the others.
    """
    with ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            futures = [pool.submit(call) for call in calls]
            wait(futures)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [future.result() for future in futures]


@dataclass(frozen=True, slots=True)
class FoundCluster:
    """A cluster on the engine: ``hosts`` are (name, role, state, address); ``alive`` says whether its owner still
    runs."""

    id: str
    kind: str
    by_hand: bool
    alive: bool
    hosts: tuple[tuple[str, str, str, str], ...]


def find_clusters(client: docker.DockerClient) -> list[FoundCluster]:
    """Return all clusters of this project on the engine, also partly removed ones, sorted by id."""
    runs: dict[str, dict[str, Any]] = {}
    for thing in (*_containers(client), *_networks(client), *_volumes(client)):
        labels = thing["Labels"]
        about = runs.setdefault(labels[RUN], {"labels": labels, "hosts": []})
        if HOST in labels:
            networks = thing["NetworkSettings"]["Networks"]
            address = next((network["IPAddress"] for network in networks.values()), "")
            about["hosts"].append((labels[HOST], labels[ROLE], thing["State"], address))
    return [
        FoundCluster(
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
    if not owner.endswith(_pid_namespace()):
        return True  # unknown: its owner is in another PID namespace or machine; 'clean --all' removes it
    return pid.isdigit() and _process_name(int(pid)) == owner


def remove(client: docker.DockerClient, runs: Iterable[str]) -> list[str]:
    """Remove all containers, networks and volumes of these runs and return their names.

    Raises EnvironmentLacking, after everything else was removed, for what the engine refuses to remove: it may for
    instance still count a network's endpoint whose container is gone.
    """
    api = client.api
    gone: list[str] = []
    stuck: list[str] = []

    def attempt(name: str, removal: Callable[[], object]) -> None:
        try:
            removal()
        except NotFound:
            pass
        except (APIError, RequestException) as error:
            stuck.append(f"{name}: {explanation(error)}")
        else:
            gone.append(name)

    for run in runs:
        in_parallel([
            partial(attempt, _name_of(container), partial(_remove_container, api, container))
            for container in _containers(client, run)
        ])  # fmt: skip
        for network in _networks(client, run):
            attempt(network["Name"], partial(api.remove_network, network["Id"]))
        for volume in _volumes(client, run):
            attempt(volume["Name"], partial(api.remove_volume, volume["Name"], force=True))
    if stuck:
        raise EnvironmentLacking(f"the engine refuses to remove {'; '.join(stuck)}: restart it, and try again")
    return gone


def _name_of(container: dict[str, Any]) -> str:
    """Return a container's name, or its id: one that is being removed may have lost its name."""
    name: str = next(iter(container["Names"]), container["Id"])
    return name.removeprefix("/")


def _remove_container(api: Any, container: dict[str, Any]) -> None:
    """Remove a container and its anonymous volumes, or wait until another process has removed it."""
    if container["State"] == "paused":  # a paused process cannot be killed
        with contextlib.suppress(APIError):
            api.unpause(container["Id"])
    try:
        api.remove_container(container["Id"], force=True, v=True)
    except APIError as error:
        if BEING_REMOVED not in str(error):
            raise
        api.wait(container["Id"], timeout=REMOVAL_S, condition="removed")


# Lists only: inspecting an object blocks while the engine works on it, also for another run.


def _containers(client: docker.DockerClient, run: str = "") -> list[dict[str, Any]]:
    return list(client.api.containers(all=True, filters=_label_filter(run)))


def _networks(client: docker.DockerClient, run: str = "") -> list[dict[str, Any]]:
    return list(client.api.networks(filters=_label_filter(run)))


def _volumes(client: docker.DockerClient, run: str = "") -> list[dict[str, Any]]:
    return list(client.api.volumes(filters=_label_filter(run))["Volumes"] or [])


def _label_filter(run: str) -> dict[str, Any]:
    return {"label": f"{RUN}={run}" if run else RUN}
