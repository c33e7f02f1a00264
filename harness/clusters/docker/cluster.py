"""The container cluster: runs servers and client programs in Docker containers on real time, and damages them.

:class:`DockerCluster` implements :class:`harness.clusters.base.Cluster` with the parts in this package: containers
(``site``), programs (``hosts``), servers (``kinds``), links (``network``), disks and clocks.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from harness.clusters import kinds
from harness.clusters.abilities import DATA_FILES, PROCESSORS, TAPS, Needs
from harness.clusters.base import ClusterEndpoints, ObservedFacts, RecordEntry
from harness.clusters.client_host import PREPARED, EntryThread, preparing
from harness.clusters.conversation import Refused
from harness.clusters.docker.containers.engine import Box, ContainerError, connect, engine_errors, in_parallel
from harness.clusters.docker.images.images import Images
from harness.clusters.floods import Floods, floods_class
from harness.clusters.host_clocks import HostClocks
from harness.clusters.key_watch import KeyWatch
from harness.clusters.real_cluster import RealCluster, Report, dated
from harness.clusters.wire import WireRecording
from harness.errors import EnvironmentLacking

from .clocks import ClockMethods
from .container_needs import Clients, ContainerNeeds
from .control import ControlRoute, reaching
from .data_files import DataFiles
from .disks import Disks
from .hosts import ContainerClient, ServerHost
from .kinds import servers_class
from .network import LinkFaults, LinkMethods
from .processes import ProcessMethods
from .processors import Processors
from .site import RESOURCE, RESOURCE_PORT, NewSites, Site, SiteRequest, SiteSource
from .taps import CommandTap
from .upgrades import Upgrades
from .user_modules import PLACE
from .wire import WireRecorder


class DockerCluster(RealCluster, LinkMethods, ProcessMethods, ClockMethods):
    """See :class:`harness.clusters.base.Cluster`. It implements itself what can be done to any container; the servers,
    their disks and their floods are parts of their own.

    ``needs`` are the abilities that the plan's faults use: expensive parts, such as a proxy beside each client, exist
    only if needed. ``resource`` is the configuration of :mod:`harness.worker.resource_server`; ``image`` replaces the
    servers' own image; ``sites`` provides the containers. ``releases`` are those that the servers may be started as
    later; they must be among the kind's own.
    """

    backend = "docker"
    # The parts that only some runs need.
    _disks: Disks | None = None
    _floods: Floods | None = None
    _taps: CommandTap | None = None
    _processors: Processors | None = None
    _data_files: DataFiles | None = None
    _upgrades: Upgrades | None = None

    def __init__(
        self,
        *,
        kind: str,
        nodes: int,
        clients: Clients,
        seed: int,
        resource: str,
        options: Mapping[str, Any],
        needs: Needs,
        releases: Sequence[str] = (),
        image: str = "",
        report: Report = lambda line: None,  # noqa: ARG005
        by_hand: bool = False,
        sites: SiteSource | None = None,
    ) -> None:
        super().__init__()
        self.kind = kind
        self._new_servers = partial(servers_class(kind), kind, nodes or kinds.default_nodes(kind), options)
        self.servers = self._new_servers()
        self._engine = connect()
        self._sites = sites or NewSites()
        self._needed = ContainerNeeds(clients, needs, tuple(releases), image, by_hand)
        self._names = self._needed.client_names
        self._seed = seed
        self._resource_config = resource
        self._report = report
        self._about: ObservedFacts = {}
        self._sound = False
        self._hosts: dict[str, ServerHost | ContainerClient] = {}
        self._boxes: dict[str, Box] = {}
        self._wire = WireRecorder()
        self._record_wire = False
        self._log_sockets = False
        self._key_watch: KeyWatch | None = None
        self._route: ControlRoute | None = None

    @classmethod
    def part_types(cls, kind: str) -> tuple[type, ...]:
        """Return the classes of the parts of a cluster of this kind; none if it cannot run in containers."""
        if not kinds.can_run(kind, "docker"):
            return ()
        servers, floods = servers_class(kind), floods_class(kind)
        taps = CommandTap if servers.COMMANDS is not None else None
        files = None if servers.DISKS is None else DataFiles
        releases = Upgrades if servers.PROGRAMS else None
        optional = servers.DISKS, files, releases, floods, taps
        return cls, servers, Processors, *(part for part in optional if part is not None)

    @property
    def parts(self) -> tuple[object, ...]:
        optional = (self._disks, self._data_files, self._processors, self._upgrades, self._floods, self._taps)
        return self, self.servers, *(part for part in optional if part is not None)

    # Start and stop.

    @property
    def hosts(self) -> list[ServerHost | ContainerClient]:
        return list(self._hosts.values())

    def run(self, main: Callable[[], None]) -> None:
        with engine_errors(), reaching(lambda: self._route):
            try:
                self.start_all()
                main()
                self._sound = True
            finally:
                self._ending = True
                self._stop_or_say_so()
        self._raise_failure()

    def _stop_or_say_so(self) -> None:
        """Stop; if the engine fails to remove containers, only note it, so that the completed run is still checked."""
        try:
            with engine_errors():
                self.stop_all()
        except EnvironmentLacking as error:
            self._about["left_behind"] = str(error)

    def start_all(self) -> None:
        """Start containers, servers and clients; return when servers are ready and clients wait for a job."""
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
            self._hosts, self.servers, self._entries, self._problem = {}, self._new_servers(), EntryThread(), ""

    def build_images(self) -> None:
        """Build or pull the images of a run that are missing, and start nothing. Raises EnvironmentLacking."""
        with engine_errors():
            self._wanted(Images(self._engine, self._report))

    def _wanted(self, images: Images) -> SiteRequest:
        """Return the containers that this run needs, and build missing images."""
        wanted = self._needed.request(images, self.kind, self.servers)
        self._about = {"engine": self._engine.version()["Version"], "client_image": wanted.client_image,
                       "image": ", ".join(dict.fromkeys(wanted.images.values()))}  # fmt: skip
        return wanted

    def _start_on(self, site: Site, wanted: SiteRequest) -> None:
        self.deployment = site.deployment
        self._closing.callback(self._leave, site)
        self._closing.callback(self.servers.gate.shut)
        site.start_containers(wanted)
        self._route = site.route
        self.servers.gate.route = site.route.address
        self._about["control"] = site.route.way
        self._boxes = {name: site.boxes[name] for name in (*wanted.roles, *wanted.clients)}
        self.servers.boxes = self._boxes
        self.servers.addresses.update({name: self._boxes[name].ip for name in wanted.roles})
        if self._watched is not None:
            self.servers.keys = tuple(self._watched[0])
        floods = floods_class(self.kind)
        self._floods = None if floods is None else floods(self.servers.reached, self.servers.gate.open)
        if not wanted.clients:
            self._start_servers()
            return
        self._boxes[RESOURCE] = site.boxes[RESOURCE]
        self._helper = self.servers.helper = site.helper
        self._add_fault_parts(wanted)
        self._start_programs(site, wanted)
        self._prepare_clients()
        self._helper.watch_processors(list(self._boxes.values()))
        self._closing.callback(self._end_waits)
        self._report("")

    def _add_fault_parts(self, wanted: SiteRequest) -> None:
        """Add the parts that only some faults need."""
        if wanted.disks and self.servers.DISKS is not None:
            boxes = {name: self._boxes[name] for name in wanted.disks}
            self._disks = self.servers.DISKS(self._helper, boxes, self.kill)
        if DATA_FILES in self._needed.abilities:
            self._data_files = DataFiles(
                self._helper, self._boxes, self.servers.NEWEST, lambda host: self._server(host).starts
            )
        if self._needed.upgradable(self.servers):
            self._upgrades = Upgrades(self.servers, self._server, self.end)
        if PROCESSORS in self._needed.abilities:
            self._processors = Processors(self._helper, self._boxes)

    def _start_programs(self, site: Site, wanted: SiteRequest) -> None:
        """Start the resource, the clients and the servers, and what acts on their clocks and links."""
        self._start_resource()
        self._start_clients()
        if self._record_wire:
            self._begin_wire()
        self._start_servers()
        peers = {name: self._address(name) for name in wanted.roles} | {RESOURCE: self.resource()}
        self._wall_clocks = HostClocks(self, self._program_clock, self.servers.set_clock, self._wire.noting)
        self._closing.callback(self._wall_clocks.forget)
        self._link_faults = LinkFaults(
            self._helper, self._boxes, site.links(wanted, peers, self.servers.gate), self._seed
        )
        if TAPS in self._needed.abilities and self.servers.COMMANDS is not None:
            clients = {name: self._client(name) for name in self._names}
            servers, reader = frozenset(wanted.roles), self.servers.COMMANDS
            self._taps = CommandTap(clients, servers, reader, self.servers.gate, lambda name: self._pauses[name] > 0)
            self._closing.callback(self._taps.tap, None)

    def _prepare_clients(self) -> None:
        """Prepare the clients' locks before the run, so that clients start when the plan says: on a busy machine the
        import of a library takes a second, the start of a Java virtual machine several."""
        clients = [self._client(name) for name in self._names]
        with preparing():
            for client in clients:
                client.conversation.ask("ping", patience=PREPARED)
            answers = [self._prepare(client) for client in clients]
            for answer in filter(None, answers):
                answer.result(PREPARED)

    def _prepare(self, client: ContainerClient) -> Future[Any] | None:
        lock = self._needed.clients.lock
        return None if lock is None else client.prepare(lock, self.endpoints())

    def _end_waits(self) -> None:
        with contextlib.suppress(ContainerError, Refused):
            self._waits = self._helper.processor_waits()

    def _begin_wire(self) -> None:
        names = self.servers.data_hosts
        ports = {name: self.servers.port(name) for name in names}
        self._wire.begin(self._helper, {name: self._boxes[name] for name in names}, ports)
        self._closing.callback(self._wire.end, self.kind)

    def _leave(self, site: Site) -> None:
        if self.frozen:
            site.leave()
        reached = self._route is not None and not self._route.lost
        failed = self._entries.error is not None or self._problem or self._client_failures()
        self._sites.give_back(site, sound=self._sound and reached and not failed)

    def _start_resource(self) -> None:
        ready = threading.Event()
        command = ["python3", "-m", "harness.worker.resource_server", str(RESOURCE_PORT), self._resource_config]
        channel = self._boxes[RESOURCE].start(command, lambda _: ready.set())
        self._closing.callback(channel.close)
        if not ready.wait(PREPARED):
            raise ContainerError(f"the resource does not start: {' | '.join(channel.errors)}")

    def _start_clients(self) -> None:
        # Byte code of a copied module would be a change that the client's container is replaced for.
        environment = {"PYTHONPATH": PLACE, "PYTHONDONTWRITEBYTECODE": "1"} if self._needed.clients.source else {}
        self._entries.start()
        self._closing.callback(self._entries.end)
        for name in self._names:
            client = self._hosts[name] = ContainerClient(name, self._boxes[name], self._entries.entries, environment)
            self._closing.callback(client.close)
            if self._log_sockets:
                client.logged_servers = tuple(self.servers.addresses.values())
            client.start(self._helper.spare)

    def _start_servers(self) -> None:
        clients, self._hosts = self._hosts, {}
        for name, role in self.servers.roles.items():
            on_line = partial(self._hear_server, name)
            program, restore = self.servers.program(name), self.servers.RESTORE
            server = self._hosts[name] = ServerHost(name, role, self._boxes[name], program, restore, on_line)
            if self._needed.upgradable(self.servers) and role == "server":
                server.release = self.servers.options.get("release", "")
            self._closing.callback(server.close)
        self._hosts.update(clients)
        if not self._needed.by_hand:
            in_parallel([partial(self._server(name).stand_by, self._helper.spare) for name in self.servers.roles])
        for stage in self.servers.stages:
            for server in map(self._server, stage):
                if self._needed.by_hand:
                    server.run_detached()
                else:
                    with self._wire.noting(server.name, "start", how="new"):
                        server.start("new", self._helper.spare)
            self._await_stage(stage)
        self._about["server"] = self.servers.version()
        self._watch_keys()

    def _hear_server(self, name: str, line: str) -> None:
        """Pass on a line of a server's log. An error must not end the thread that reads the log."""
        try:
            self.servers.on_log_line(name, line)
        except Exception as error:  # noqa: BLE001 - raised when the run is over
            self._note_problem(f"a line of the log of {name} could not be acted on: {error}")

    def _await_stage(self, stage: Sequence[str]) -> None:
        try:
            self.servers.await_stage(list(stage))
        except EnvironmentLacking as error:
            said = [f"{name}: {self._server(name).lines[-1][1]}" for name in stage if self._server(name).lines]
            raise EnvironmentLacking(f"{error}; they said last: {' | '.join(said) or 'nothing'}") from error

    def _watch_keys(self) -> None:
        if self._watched is None:
            return
        watch = self._key_watch = KeyWatch(*self._watched, self.servers.gate)
        self._closing.callback(watch.stop)
        for name in self.servers.data_hosts:
            if (reader := self.servers.key_reader(name)) is not None:
                watch.start(name, reader)

    def stop_all(self) -> None:
        """Remove everything, however far the start got."""
        self._report("stopping programs")
        self._closing.callback(self._end_run)
        if self._processors is not None:
            self._closing.callback(self._processors.release)  # first: a starved client would answer late
        self._closing.close()
        self._report("")

    def _end_run(self) -> None:
        """End the histories of all clients. Programs are resumed, since a frozen process cannot be killed."""
        if not self.frozen:
            self._end_histories(self._thaw_all)
            return
        for name in self._names:
            self._client(name).hear_until(self._frozen_ns)

    def about(self) -> ObservedFacts:
        return {**self._about, **({"frozen": self.frozen} if self.frozen else {})}

    # The cluster as clients and recorders see it.

    def endpoints(self) -> ClusterEndpoints:
        return self.servers.address()

    def resource(self) -> tuple[str, int]:
        return self._boxes[RESOURCE].ip, RESOURCE_PORT

    def logs(self, origin_ns: int) -> dict[str, str]:
        return {name: dated(server.lines, origin_ns) for name, server in self._hosts.items()
                if isinstance(server, ServerHost)}  # fmt: skip

    def record_wire(self, *, sockets: bool = False) -> None:
        self._record_wire = True
        self._log_sockets = sockets

    def socket_logs(self) -> dict[str, list[list[Any]]]:
        return {client.name: client.socket_logs for client in map(self._client, self._names)}

    def wire(self) -> dict[str, WireRecording]:
        return dict(self._wire.recordings)

    def launch(self, client: str, job: Any, record: RecordEntry) -> Callable[[float], bool]:
        return self._starts.launch(self._client(client), job, record)
