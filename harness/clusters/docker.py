"""The real cluster: servers and clients in containers, on real time."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from ..containers.channel import Refused, Unanswered
from ..containers.engine import Box, connect, engine_errors, in_parallel
from ..containers.images import Images
from ..errors import UNKNOWN, EnvironmentLacking, HarnessError
from ..history.lock_keys import Tell as TellKey
from . import kinds
from .base import Address, Facts, Record, State, Tap
from .docker_clocks import HostClocks
from .docker_disks import Disks, WithDisks
from .docker_hosts import ANSWER, REVIVAL, Client, Entries, Server, hear_out
from .docker_keys import KeyWatch
from .docker_kinds import abilities, family
from .docker_network import Wires, WithWires
from .docker_site import RESOURCE, RESOURCE_PORT, Single, Site, Sites, Wanted
from .floods import Flooding, floods_of

PROXIED: Final = frozenset({"shape", "swallow", "hole", "reset"})
"""Abilities that need a proxy before each client."""
PREPARED: Final = 40.0
"""Seconds in which a lock is ready."""
Report = Callable[[str], None]


class ClientError(HarnessError):
    """The client program itself failed: a workload that raises, a lock that cannot be opened there."""

    exit_status = UNKNOWN


@dataclass(frozen=True, slots=True)
class Clients:
    """What clients need beside their job: ``requirements`` are distributions of a user's lock, ``source`` is a folder
    with a user's modules, ``runtime`` the language that their image has beside Python, and ``lock`` what is made ready
    before the run begins: ``name``, ``ttl`` and ``options``."""

    count: int
    requirements: tuple[str, ...] = ()
    source: Path | None = None
    runtime: str = ""
    lock: Mapping[str, Any] | None = None


class DockerCluster(WithWires, WithDisks, Flooding):
    """See :class:`harness.clusters.base.Cluster`. ``needs`` are the abilities that the plan's faults ask for: what is
    expensive (a proxy before each client) is only there if it is needed. ``resource`` is the configuration of
    :mod:`harness.workloads.resource_server`, ``image`` a reference that stands in for the servers' own image. The
    containers come from ``sites``."""

    backend = "docker"

    def __init__(
        self,
        *,
        kind: str,
        nodes: int,
        clients: Clients,
        seed: int,
        resource: str,
        options: Mapping[str, Any],
        needs: frozenset[str],
        image: str = "",
        report: Report = lambda line: None,  # noqa: ARG005
        by_hand: bool = False,
        sites: Sites | None = None,
    ) -> None:
        self.kind = kind
        self.abilities = abilities(kind)
        self._new_servers = partial(family(kind), kind, nodes or kinds.default_nodes(kind), options)
        self.servers = self._new_servers()
        self._engine = connect()
        self._sites = sites or Single()
        self._clients = clients
        self._names = kinds.clients(clients.count)
        self._seed = seed
        self._by_hand = by_hand
        self._resource_config = resource
        self._proxied = bool(needs & PROXIED)
        self._disked = "disk" in needs
        self._image = image
        self._report = report
        self._about: Facts = {}
        self._sound = False
        self._entries: Entries = Entries()
        self._hosts: dict[str, Server | Client] = {}
        self._boxes: dict[str, Box] = {}
        # A fault on an event strikes in one thread while another fault is healed in the next.
        self._damaging = threading.RLock()
        self._pauses: Counter[str] = Counter()
        self._kills: Counter[str] = Counter()
        self._wiped: set[str] = set()
        self._closing = contextlib.ExitStack()
        self._error: Exception | None = None
        self._watched: tuple[Sequence[str], TellKey] | None = None

    # Life.

    @property
    def hosts(self) -> list[Server | Client]:
        return list(self._hosts.values())

    def run(self, main: Callable[[], None]) -> None:
        with engine_errors():
            try:
                self.start_all()
                main()
                self._sound = True
            finally:
                self._stop_or_say_so()
        if self._error is not None:
            raise self._error
        for failure in self._client_failures():
            raise ClientError(failure)

    def _client_failures(self) -> list[str]:
        return [host.failure for host in self._hosts.values() if isinstance(host, Client) and host.failure]

    def _stop_or_say_so(self) -> None:
        """A run that is over is judged, also if the engine then fails to remove what it ran on."""
        try:
            with engine_errors():
                self.stop_all()
        except EnvironmentLacking as error:
            self._about["left_behind"] = str(error)

    def start_all(self) -> None:
        """Everything up to servers that know each other and clients that wait for a job."""
        images = Images(self._engine, self._report)
        wanted = self._wanted(images)
        self._report("starting containers")
        while True:
            site = self._sites.take(self._engine, wanted)
            try:
                self._start_on(site, wanted)
            except Exception as error:
                if not site.used:
                    raise
                self._about["started_again"] = f"containers that had been used would not do: {error}"
            else:
                return
            self._closing.close()
            self._hosts, self.servers = {}, self._new_servers()

    def _wanted(self, images: Images) -> Wanted:
        """Images are built if need be; one that the user names stands in for the servers' own."""
        own = images.ensure(self._image) if self._image else ""
        roles, servers = self.servers.roles, self.servers
        there = {name: own if own and role == "server" else servers.image(images, name) for name, role in roles.items()}
        client_image = images.client(self._clients.requirements, self._clients.runtime) if self._names else ""
        self._about = {"engine": self._engine.version()["Version"], "image": ", ".join(dict.fromkeys(there.values())),
                       "client_image": client_image}  # fmt: skip
        return Wanted(
            self.kind, roles, there, tuple(servers.data_hosts) if self._disked else (), tuple(self._names),
            client_image, self._clients.source, images.toxiproxy() if self._proxied else "", self._by_hand,
        )  # fmt: skip

    def _start_on(self, site: Site, wanted: Wanted) -> None:
        self.deployment = site.deployment
        self._closing.callback(self._leave, site)
        self._closing.callback(self.servers.gate.shut)
        site.furnish(wanted)
        self._boxes = {name: site.boxes[name] for name in (*wanted.roles, *wanted.clients)}
        self.servers.boxes = self._boxes
        self.servers.addresses.update({name: self._boxes[name].ip for name in wanted.roles})
        self._floods = floods_of(self.kind, self._address, self.servers.gate.open)
        if not wanted.clients:
            self._start_servers()
            return
        self._boxes[RESOURCE] = site.boxes[RESOURCE]
        self._helper = self.servers.helper = site.helper
        if wanted.disks:
            self._disks = Disks(self._helper, {name: self._boxes[name] for name in wanted.disks})
        self._start_resource()
        self._start_clients()
        self._start_servers()
        peers = {name: self._address(name) for name in wanted.roles} | {RESOURCE: self.resource()}
        self._clocks = HostClocks(self._helper, self._boxes, self._told_clock, self.servers.set_clock)
        self._closing.callback(self._clocks.forget)
        self._wires = Wires(self._helper, self._boxes, site.links(wanted, peers, self.servers.gate), self._seed)
        for name in self._names:
            self._client(name).conversation.ask("ping", patience=REVIVAL)
        self._prepare_clients()
        self._report("")

    def _prepare_clients(self) -> None:
        """A virtual machine, say, takes a second to start, and more where several do: not on the run's time."""
        asked = [self._prepare(self._client(name)) for name in self._names]
        try:
            for answer in filter(None, asked):
                answer.result(PREPARED)
        except (Refused, Unanswered, FutureTimeout) as error:
            raise ClientError(f"the lock could not be made ready: {error}") from error

    def _prepare(self, client: Client) -> Future[Any] | None:
        if self._clients.lock is None:
            return None
        kind, addresses = self.endpoints().kind, self.endpoints().addresses
        return client.conversation.request("prepare", lock={**self._clients.lock, "kind": kind, "addresses": addresses})

    def _leave(self, site: Site) -> None:
        sound = self._sound and self._error is None and not self._client_failures()
        self._sites.give_back(site, sound=sound)

    def _start_resource(self) -> None:
        ready = threading.Event()
        command = ["python3", "-m", "harness.workloads.resource_server", str(RESOURCE_PORT), self._resource_config]
        channel = self._boxes[RESOURCE].start(command, lambda _: ready.set())
        self._closing.callback(channel.close)
        if not ready.wait(REVIVAL * 2):
            raise RuntimeError(f"the resource does not start: {' | '.join(channel.errors)}")

    def _start_clients(self) -> None:
        environment = {"PYTHONPATH": "/user"} if self._clients.source else {}
        self._dispatcher = threading.Thread(target=self._dispatch, name="entries", daemon=True)
        self._dispatcher.start()
        self._closing.callback(self._end_dispatch)
        for name in self._names:
            client = self._hosts[name] = Client(name, self._boxes[name], self._entries, environment)
            self._closing.callback(client.close)
            client.start(self._helper.spare)

    def _start_servers(self) -> None:
        clients, self._hosts = self._hosts, {}
        for name, role in self.servers.roles.items():
            heard = partial(self.servers.heard, name)
            program, restore = self.servers.program(name), self.servers.RESTORE
            server = self._hosts[name] = Server(name, role, self._boxes[name], program, restore, heard)
            self._closing.callback(server.close)
        self._hosts.update(clients)
        if not self._by_hand:
            in_parallel([partial(self._server(name).stand_by, self._helper.spare) for name in self.servers.roles])
        for stage in self.servers.stages:
            for server in map(self._server, stage):
                if self._by_hand:
                    server.leave()
                else:
                    server.start("new", self._helper.spare)
            self.servers.await_stage(stage)
        self._about["server"] = self.servers.version()
        self._watch_keys()

    def _watch_keys(self) -> None:
        if self._watched is None:
            return
        watch = KeyWatch(*self._watched, self.servers.gate)
        self._closing.callback(watch.stop)
        for name in self.servers.data_hosts:
            if (eye := self.servers.eye(name)) is not None:
                watch.start(name, eye)

    def stop_all(self) -> None:
        """Remove everything, however far the start got."""
        self._report("ending what runs")
        self._closing.callback(self._hear_out)
        self._closing.close()
        self._report("")

    def _hear_out(self) -> None:
        def thaw() -> None:  # what is frozen cannot be ended
            for name in sorted(+self._pauses):
                self._boxes[name].unpause()

        hear_out([host for host in self._hosts.values() if isinstance(host, Client) and host.started], thaw, ANSWER)

    def _dispatch(self) -> None:
        """Record what clients tell, one after the other; a fault on an event strikes in this thread."""
        while (take := self._entries.get()) is not None:
            try:
                take()
            except Exception as error:  # noqa: BLE001 - raised again when the run is over
                self._error = self._error or error

    def _end_dispatch(self) -> None:
        self._entries.put(None)
        self._dispatcher.join()

    def about(self) -> Facts:
        return dict(self._about)

    def interrupt(self) -> None:
        raise KeyboardInterrupt

    # The cluster as clients and recorders see it.

    def endpoints(self) -> Address:
        return self.servers.address()

    def resource(self) -> tuple[str, int]:
        return self._boxes[RESOURCE].ip, RESOURCE_PORT

    def clock(self) -> tuple[int, int]:
        return time.monotonic_ns(), time.time_ns()

    def logs(self, origin_ns: int) -> dict[str, str]:
        return {name: "".join(self._dated(server, origin_ns)) for name, server in self._hosts.items()
                if isinstance(server, Server)}  # fmt: skip

    @staticmethod
    def _dated(server: Server, origin_ns: int) -> Iterator[str]:
        """The server's own clock stands in each line already."""
        for at, line in list(server.lines):
            yield f"{(at - origin_ns) / 1e9:10.3f} s  {line}\n"

    def launch(self, client: str, job: Any, record: Record) -> Callable[[float], bool]:
        return self._client(client).launch(job, record)

    def watch_keys(self, keys: Sequence[str], tell: TellKey) -> None:
        self._watched = keys, tell

    def tap(self, tap: Tap | None) -> None:
        """Not among the abilities: nobody reads along between clients and servers."""
        if tap is not None:
            raise NotImplementedError("a real cluster does not report single commands")

    # Processes.

    def pause(self, host: str) -> None:
        with self._damaging:
            self._pauses[host] += 1
            if self._pauses[host] == 1:
                self._freeze(host)

    def _freeze(self, host: str) -> None:
        """Not while a program is being started in it: the engine would wait for that, and keep everybody waiting who
        asks for the container, until it thaws, which it could not be told any more."""
        self._hosts[host].await_start()
        self._boxes[host].pause()

    def resume(self, host: str) -> None:
        with self._damaging:
            if self._pauses[host] == 1:
                self._boxes[host].unpause()
            self._pauses[host] = max(0, self._pauses[host] - 1)

    def kill(self, host: str, *, for_good: bool = False) -> None:
        with self._damaging:
            self._kills[host] += not for_good
            target = self._hosts[host]
            target.await_start()
            if isinstance(target, Client):
                target.doom()
            thaw = self._boxes[host].unpause if self._pauses[host] else lambda: None
            self._helper.kill(self._boxes[host], thaw)
            if isinstance(target, Server):
                self._wires.refuse(host, self.servers.port(host))

    def start(self, host: str, *, wiped: bool) -> None:
        with self._damaging:
            self._kills[host] = max(0, self._kills[host] - 1)
            if wiped:
                self._wiped.add(host)
            if self._kills[host] or self.life(host) is not None:
                return
            if self._pauses[host]:
                self._boxes[host].unpause()  # nothing can be started in what is frozen
            self._revive(host, wiped=host in self._wiped)
            self._wiped.discard(host)
            if self._pauses[host]:
                self._freeze(host)

    def _revive(self, host: str, *, wiped: bool) -> None:
        """Start a host's program, and give it its wall clock again: a new process begins with true time. Between its
        start and that pass some milliseconds, in which a server may read its data."""
        target = self._hosts[host]
        if isinstance(target, Server):
            self._restore_power(host)
            target.start("wiped" if wiped else "kept", self._helper.spare)
            self._wires.refuse(host, None)
            if self._clocks.was_set(host):
                threading.Thread(target=self._set_clock_again, args=(host,), daemon=True).start()
            return
        target.start(self._helper.spare)
        prepared = self._prepare(target)
        if self._clocks.was_set(host):
            with contextlib.suppress(Unanswered):
                target.conversation.ask("ping", patience=REVIVAL)
            if prepared is not None:  # its program has a clock of its own
                wait([prepared], PREPARED)
            self._clocks.set_again(host)

    def _set_clock_again(self, host: str) -> None:
        deadline = time.monotonic() + REVIVAL
        while not self.servers.answers(host) and time.monotonic() < deadline:
            time.sleep(0.002)
        self._clocks.set_again(host)

    def hang(self, host: str) -> None:
        self._client(host).conversation.tell("hang")

    def hung(self, host: str) -> bool:
        return self._client(host).hung

    def state(self, host: str) -> State:
        if self._works(host):
            return "running"
        return "paused" if self.life(host) is not None else "dead"

    def _works(self, host: str) -> bool:
        if isinstance(self._hosts[host], Server):
            return self.servers.answers(host)
        try:
            self._client(host).conversation.ask("ping", patience=ANSWER)
        except (Unanswered, Refused):
            return False
        return True

    def life(self, host: str) -> int | None:
        return min(self._helper.members(self._boxes[host]), default=None)

    def size(self, host: str) -> int | None:
        return self.servers.size(host)

    # Clocks.

    def set_clock(self, host: str, offset: float, rate: float = 0.0) -> None:
        self._clocks.set(host, offset, rate)

    def read_clock(self, host: str) -> int:
        return self._clocks.read(host)

    def _told_clock(self, host: str) -> int | None:
        return self.servers.clock(host) if isinstance(self._hosts[host], Server) else self._client_clock(host)

    def _client_clock(self, host: str) -> int | None:
        try:
            mono, wall = self._client(host).conversation.ask("clock", patience=ANSWER)
        except (Unanswered, Refused):
            return None
        now, true = self.clock()
        return int(wall - (true - (now - mono)))

    # Replicated servers.

    def primary(self) -> str | None:
        return self.servers.primary()

    def _client(self, name: str) -> Client:
        host = self._hosts[name]
        assert isinstance(host, Client), name
        return host

    def _server(self, name: str) -> Server:
        host = self._hosts[name]
        assert isinstance(host, Server), name
        return host
