"""The cluster of the user's machines: :class:`SshCluster` implements :class:`harness.clusters.base.Cluster`.

It starts and stops servers and clients on the hosts, in folders of the run's own, and reaches the hosts by ssh only.
All times are those of this machine's monotonic clock.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from harness.clusters import kinds
from harness.clusters.abilities import Needs
from harness.clusters.abilities.hosts import MachineClock
from harness.clusters.base import ClusterEndpoints, ObservedFacts, RecordEntry
from harness.clusters.client_host import ANSWER, PREPARED, preparing
from harness.clusters.conversation import Refused, Unanswered
from harness.clusters.gate import NetworkGate
from harness.clusters.host_clocks import HostClocks
from harness.clusters.key_watch import ANSWER_S, KeyWatch
from harness.clusters.real_cluster import RealCluster, Report, dated
from harness.errors import EnvironmentLacking
from harness.record.processor_waits import worst_waits
from harness.wording import in_seconds

from .connection import HostConnection
from .data_files import DataFiles
from .hosts import HostServer, RemoteClient
from .links import Endpoint, LinkMethods
from .losses import LossMethods
from .offsets import HostClock
from .preparation import ClientSetup, HostFailed, HostSettings, PreparationMethods, at_once, plain_errors
from .processes import ProcessMethods
from .services.base import Answer, servers_class

T = TypeVar("T")
RESOURCE: Final = "resource"
START_S: Final = 30.0
"""Seconds within which the servers must be ready."""


class SshCluster(RealCluster, PreparationMethods, LinkMethods, ProcessMethods, LossMethods):
    """See the module. ``needs`` are the abilities that the plan's faults use; ``resource`` is the configuration of
    :mod:`harness.worker.resource_server`.

    Raises EnvironmentLacking if a host is not reached, or cannot do what the run needs.
    """

    backend = "ssh"

    def __init__(
        self,
        *,
        kind: str,
        hosts: HostSettings,
        clients: ClientSetup,
        resource: str,
        options: Mapping[str, Any],
        needs: Needs,
        report: Report = lambda line: None,  # noqa: ARG005
    ) -> None:
        super().__init__()
        self.kind = kind
        self.table = f"lock_harness_{secrets.token_hex(4)}"
        self._settings = hosts
        self._setup = clients
        self._resource_config = resource
        self._report = report
        self._machines: dict[str, HostConnection] = {}
        self._machine_clocks: dict[str, HostClock] = {}
        self._endpoints: dict[str, Endpoint] = {}
        self._hosts: dict[str, HostServer | RemoteClient] = {}
        self._about: ObservedFacts = {}
        self.servers = servers_class(kind)(kind, len(hosts.servers), options, self._converse)
        self._files = DataFiles(self._server, self.servers.NEWEST)
        self._wall_clocks = HostClocks(self, self._program_clock, _no_own_clock, _not_noted)
        self._names = kinds.clients(clients.count)
        try:
            self.connect(needs)
        except BaseException:
            self._closing.close()
            raise

    @classmethod
    def part_types(cls, kind: str) -> tuple[type, ...]:
        """Return the classes of the parts of a cluster of this kind; none if it cannot run on hosts."""
        return (cls, servers_class(kind), DataFiles) if kinds.KINDS.find(kind).ssh else ()

    @property
    def parts(self) -> tuple[object, ...]:
        return self, self.servers, self._files

    # Start and stop.

    @property
    def hosts(self) -> list[HostServer | RemoteClient]:
        return list(self._hosts.values())

    def run(self, main: Callable[[], None]) -> None:
        with self._loss_blamed():
            try:
                with plain_errors():
                    self._start()
                    self._began_ns = time.monotonic_ns()
                    main()
            finally:
                self._ending = True
                self._report("stopping programs")
                self._closing.callback(self._end_histories, self._thaw_all)
                self._closing.close()
                self._report("")
            self._raise_failure()

    def _start(self) -> None:
        self._report("starting servers and clients")
        for name, host in self._machines.items():
            clock = self._machine_clocks[name] = HostClock(lambda host=host: int(host.ask("time", patience=2.0)[0]))  # type: ignore[misc]
            clock.begin()
        self._watch_losses()
        self._closing.callback(self._end_clocks)
        self._entries.start()
        self._closing.callback(self._entries.end)
        self._start_servers()
        self._start_resource()
        self._start_clients()
        self._watch_keys()
        for host in self._machines.values():
            host.ask("watch_processors")
        self._closing.callback(self._end_waits)
        # Later steps copy and forward nothing, and a killed harness could not remove the control sockets.
        shutil.rmtree(self._sockets, ignore_errors=True)
        self._report("")

    def _start_servers(self) -> None:
        for name in self.servers.names:
            endpoint = self._endpoints[name]
            host = self._machines[endpoint.machine]
            host.ask("empty", path=f"{name}/data")
            self._hosts[name] = HostServer(name, host, endpoint, self.servers)
        at_once([partial(self._server(name).start, wiped=False) for name in self.servers.names])
        deadline = time.monotonic() + START_S
        while late := [name for name in self.servers.names if not self.servers.ready(name)]:
            if self._loss:
                raise HostFailed(self._loss)
            if time.monotonic() >= deadline:
                said = [f"{name}: {self._server(name).lines[-1][1]}" for name in late if self._server(name).lines]
                raise EnvironmentLacking(
                    f"not ready within {START_S:g} s: {', '.join(late)}; they said last: "
                    f"{' | '.join(said) or 'nothing'}"
                )
            time.sleep(0.05)
        self._about["server"] = self.servers.version()

    def _start_resource(self) -> None:
        machine, _, port = self._resource
        ready, said = threading.Event(), list[str]()

        def hear(event: dict[str, Any]) -> None:
            said.append(str(event.get("out", event.get("err", ""))))
            if event.get("out") or "ended" in event:
                ready.set()

        host = self._machines[machine]
        command, environment = self._setup.files.program(
            host, "harness.worker.resource_server", str(port), self._resource_config
        )
        program = host.start(RESOURCE, command, environment, -1, hear)
        self._closing.callback(program.close)
        if not ready.wait(PREPARED) or not said[0].startswith("ready"):
            raise EnvironmentLacking(f"the resource does not start on {machine}: {' | '.join(said[-3:])}")

    def _start_clients(self) -> None:
        for name in self._names:
            endpoint = self._endpoints[name]
            host = self._machines[endpoint.machine]
            program = self._setup.files.agent(host)
            client = RemoteClient(
                name, host, self._machine_clocks[endpoint.machine], endpoint, self._entries.entries, program
            )
            self._hosts[name] = client
            self._closing.callback(client.close)
        at_once([self._client(name).start for name in self._names])
        answers = [self._prepare(self._client(name)) for name in self._names]
        with preparing():
            for name, answer in zip(self._names, answers, strict=True):
                answer.result(PREPARED)
                assert self._client(name).group is not None
            first = self._client(self._names[0])
            self._setup.versions.update(first.conversation.ask("versions", packages=list(self._setup.packages)))

    def _prepare(self, client: RemoteClient) -> Future[Any]:
        return client.prepare(self._setup.lock, self.endpoints())

    def _watch_keys(self) -> None:
        if self._watched is None:
            return
        watch = KeyWatch(*self._watched, NetworkGate())
        self._closing.callback(watch.stop)
        for name in self.servers.names:
            endpoint = self._endpoints[name]
            port = self._machines[endpoint.machine].forward(endpoint.ports[0])
            watch.start(name, self.servers.key_reader(port))

    def _end_waits(self) -> None:
        found = []
        for name, host in self._machines.items():
            with contextlib.suppress(Unanswered, Refused):
                clock = self._machine_clocks[name]
                found.append([(clock.here(at), wait) for at, wait in host.ask("processor_waits")])
        self._waits = worst_waits(found)

    def _end_clocks(self) -> None:
        self._ignore_losses()  # everything is recorded
        for clock in self._machine_clocks.values():
            clock.end()
        if clocks := self.machine_clocks():
            worst = in_seconds(max(clock.error_ns for clock in clocks))
            measured = sum(clock.count for clock in self._machine_clocks.values())
            self._about["clock"] = (
                f"{len(self._machines)} hosts; their monotonic clocks were measured {measured} times, and times are "
                f"converted to this machine's clock with an error of {worst} at most"
            )

    # The cluster as clients and recorders see it.

    def about(self) -> ObservedFacts:
        return {**self._about, "addresses": [f"{one.machine} ({one.address})" for one in self._endpoints.values()]}

    def versions(self) -> dict[str, str]:
        """Return the versions of Python and of the libraries of the clients."""
        return dict(self._setup.versions)

    def endpoints(self) -> ClusterEndpoints:
        return ClusterEndpoints(
            self.kind,
            tuple((self._endpoints[name].address, self._endpoints[name].ports[0]) for name in self.servers.names),
        )

    def resource(self) -> tuple[str, int]:
        return self._resource[1:]

    def machine_clocks(self) -> list[MachineClock]:
        """See :class:`harness.clusters.abilities.hosts.ClockErrors`."""
        clients: dict[str, list[str]] = {}
        for name in self._names:
            clients.setdefault(self._endpoints[name].machine, []).append(name)
        return [
            MachineClock(machine, tuple(names), self._machine_clocks[machine].stated().error_ns)
            for machine, names in clients.items()
            if machine in self._machine_clocks
        ]

    def logs(self, origin_ns: int) -> dict[str, str]:
        return {name: dated(program.lines, origin_ns) for name, program in self._hosts.items()
                if isinstance(program, HostServer)}  # fmt: skip

    def launch(self, client: str, job: Any, record: RecordEntry) -> Callable[[float], bool]:
        target = self._client(client)
        own = msgspec.structs.replace(job, began_ns=target.clock.there(job.began_ns))
        return self._starts.launch(target, own, record)

    def key_count(self, host: str) -> int | None:
        return self.servers.key_count(host)

    # Links.

    def _apply(self, scripts: Mapping[str, str]) -> None:
        answers = [self._machines[machine].request("filter", script=script) for machine, script in scripts.items()]
        for answer in answers:
            answer.result(PREPARED)

    def _probe(self, source: str, target: str, timeout: float) -> float | None:
        here, there = self._endpoints[source], self._endpoints[target]
        fields: dict[str, Any] = {
            "gid": here.gid,
            "address": there.address,
            "port": there.probe_port,
            "timeout": timeout,
        }
        trip: float | None = self._machines[here.machine].ask("probe", patience=2 * timeout + 5, **fields)
        return trip

    def _converse(self, host: str, request: bytes, ends: bool) -> Answer | None:
        endpoint = self._endpoints[host]
        fields: dict[str, Any] = {
            "port": endpoint.ports[0],
            "request": request.hex(),
            "ends": ends,
            "timeout": ANSWER_S,
        }
        try:
            found = self._machines[endpoint.machine].ask("converse", **fields)
        except Unanswered:
            return None
        return found and Answer(bytes.fromhex(found["answer"]), found["before_ns"], found["after_ns"])

    # Clocks.

    def set_clock(self, host: str, offset: float, rate: float = 0.0) -> None:
        self._wall_clocks.set(host, offset, rate)

    def read_clock(self, host: str) -> int:
        return self._wall_clocks.read(host)

    def move(self, host: str, offset_ns: int, rate: float, since_ns: int) -> None:
        """See :class:`harness.clusters.host_clocks.ClockMover`."""
        target = self._hosts[host]
        if (group := target.group) is not None:
            since = self._machine_clocks[self._endpoints[host].machine].there(since_ns)
            target.host.ask("clock", group=group, offset_ns=offset_ns, rate=rate, since_ns=since)

    def setting(self, host: str) -> int:
        """See :class:`harness.clusters.host_clocks.ClockMover`."""
        target = self._hosts[host]
        group = target.group
        if group is None:
            raise Refused(f"{host} is dead")
        offset: int = target.host.ask("offset", group=group)
        return offset

    def _program_clock(self, host: str) -> int | None:
        """Return how many ns a program's wall clock is ahead of its host's, by the program."""
        target = self._hosts[host]
        if isinstance(target, HostServer):
            return self.servers.clock(host)
        try:
            mono, wall = target.conversation.ask("clock", patience=ANSWER)
            host_mono, host_wall = target.host.ask("time")
        except (Unanswered, Refused):
            return None
        return int(wall - (host_wall - (host_mono - mono)))


def _no_own_clock(_host: str, _offset_ns: int, _rate: float, _since_ns: int) -> bool:
    return False


def _not_noted(_host: str, _what: str, **_setting: Any) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()
