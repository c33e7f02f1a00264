"""Preparation of a run on hosts: connect to them, find out what each can do, and give each program its place."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from harness.clusters import kinds
from harness.clusters.abilities import CLOCKS, NETWORK, Needs
from harness.clusters.conversation import Refused, Unanswered
from harness.errors import UNKNOWN, EnvironmentLacking, HarnessError

from .client_files import ClientFiles
from .connection import HostConnection
from .links import Endpoint, table_script
from .services.base import HostServers

T = TypeVar("T")
FIRST_GID: Final = 61_000
"""Group id of the first program; each program has its own. No group needs to have such a number."""
PORT_DISTANCE: Final = 10_000
"""Added to the usual port of a service, so that a server of the user's on the host keeps that."""
SETUP_S: Final = 600.0
"""Time limit of the setup command, seconds."""


class HostFailed(HarnessError):
    """A host was lost during the run, or its helper refused a request."""

    exit_status = UNKNOWN


@dataclass(frozen=True, slots=True)
class HostSettings:
    """Hosts of a run: names for ssh of the servers' and the clients' hosts, an ssh_config(5) file ("": the user's own),
    and a shell command that is run on each host first ("": none)."""

    servers: Sequence[str]
    clients: Sequence[str]
    config: str = ""
    setup: str = ""


@dataclass(frozen=True, slots=True)
class ClientSetup:
    """Setup of the client programs: how many, what they need, and the ``lock`` (``name``, ``ttl``, ``options``) that is
    prepared before the run begins."""

    count: int
    files: ClientFiles
    lock: Mapping[str, Any]
    packages: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)


class PreparationMethods:
    """Mixin that prepares the hosts of a cluster; what it starts is ended by ``_closing``."""

    kind: str
    table: str
    servers: HostServers
    _settings: HostSettings
    _setup: ClientSetup
    _names: list[str]
    _report: Callable[[str], None]
    _closing: contextlib.ExitStack
    _machines: dict[str, HostConnection]
    _endpoints: dict[str, Endpoint]
    _resource: tuple[str, str, int]
    """Machine, address and port of the protected resource."""
    _sockets: Path
    """Folder of the control sockets."""
    _probe: Callable[[str, str, float], float | None]

    def connect(self, needs: Needs) -> None:
        """Connect to all hosts, find out what each can do, and refuse the run if that is not enough."""
        self._report("connecting to hosts")
        folder = self._sockets = Path(tempfile.mkdtemp(prefix="lh-"))
        self._closing.callback(shutil.rmtree, folder, ignore_errors=True)
        names = list(dict.fromkeys([*self._settings.servers, *self._machines_of_clients]))
        connect = [
            partial(self._open, name, folder, number, self._settings.config) for number, name in enumerate(names)
        ]
        with plain_errors():
            at_once(connect)
            at_once([partial(self._set_up, host) for host in self._machines.values()])
            self._place()
            self._refuse_lacking(needs)
            at_once([partial(self._copy_client, name) for name in self._machines_of_clients])
        self._report("")

    @property
    def _machines_of_clients(self) -> list[str]:
        """The machines that get a client; the first one has the resource too."""
        return list(self._settings.clients[: max(1, len(self._names))])

    def _open(self, name: str, folder: Path, number: int, config: str) -> None:
        host = HostConnection(name, folder, number, config)
        self._machines[name] = host
        self._closing.callback(host.close)

    def _set_up(self, host: HostConnection) -> None:
        if self._settings.setup:
            status, lines = host.ask("run", command=self._settings.setup, timeout=SETUP_S, patience=SETUP_S + 5)
            if status:
                raise EnvironmentLacking(
                    f"the host {host.destination}: the setup command ended with status {status}: "
                    f"{' | '.join(lines[-3:])}"
                )

    def _place(self) -> None:
        """Give each program its host, group id and ports."""
        first = kinds.KINDS.find(self.kind).port + PORT_DISTANCE
        clients = [self._settings.clients[i % len(self._settings.clients)] for i in range(len(self._names))]
        places = dict(zip([*self.servers.names, *self._names], [*self._settings.servers, *clients], strict=True))
        root = all(host.facts["root"] for host in self._machines.values())
        for number, (name, machine) in enumerate(places.items()):
            host = self._machines[machine]
            gid = FIRST_GID + number if root else -1
            endpoint = self._endpoints[name] = Endpoint(machine, address_of(host), gid)
            if name in self.servers.names:
                endpoint.ports = host.ask("take_ports", first=first, count=self.servers.PORTS)
            endpoint.probe_port = host.ask("answer_probes", address=endpoint.address, gid=gid)
        self.servers.addresses.update({name: self._endpoints[name].address for name in self.servers.names})
        self.servers.ports.update({name: self._endpoints[name].ports for name in self.servers.names})
        machine = self._settings.clients[0]
        (port,) = self._machines[machine].ask("take_ports", first=first + 1000, count=1)
        self._resource = machine, address_of(self._machines[machine]), port

    def _refuse_lacking(self, needs: Needs) -> None:
        """Raise EnvironmentLacking if a host lacks a program, cannot be faulted as needed, or is not reached by the
        others."""
        program = self.servers.PROGRAM
        for name in self._settings.servers:
            status, _ = self._machines[name].ask("run", command=f"command -v {program}", timeout=10)
            if status:
                raise EnvironmentLacking(
                    f"the host {name} has no {program} in its PATH: install it, or let --host-setup do that"
                )
        self._refuse_impossible_faults(needs)
        for source in self._endpoints:
            for target in self.servers.names:
                if self._endpoints[source].machine != self._endpoints[target].machine and source != target:
                    self._refuse_unreachable(source, target)

    def _refuse_impossible_faults(self, needs: Needs) -> None:
        wanted = {word: need for word, need in (("cut", NETWORK), ("clock", CLOCKS)) if need in needs}
        if not wanted:
            return
        script = table_script(self.table, [], [])
        for name, host in self._machines.items():
            gid = FIRST_GID if host.facts["root"] else -1
            lacking: dict[str, str] = host.ask("lacking", script=script, gid=gid)
            if found := [f"{word}: {lacking[word]}" for word in wanted if word in lacking]:
                raise EnvironmentLacking(
                    f"the host {name} cannot do what a fault of the plan needs: {'; '.join(found)}"
                )

    def _refuse_unreachable(self, source: str, target: str) -> None:
        if self._probe(source, target, 2.0) is None:
            here, there = self._endpoints[source], self._endpoints[target]
            raise EnvironmentLacking(
                f"the host {here.machine} does not reach {there.machine} at {there.address}, port {there.probe_port}: "
                "the hosts must reach each other by TCP on all ports from 10000 on"
            )

    def _copy_client(self, name: str) -> None:
        self._setup.files.copy_to(self._machines[name], str(self._setup.lock["name"]))


def address_of(host: HostConnection) -> str:
    """Return the IPv4 address at which the host was reached. Raises EnvironmentLacking if it has none."""
    found = next(iter(host.facts["address"]), "")
    if not found or ":" in found:
        raise EnvironmentLacking(
            f"the host {host.destination} was reached at {found or 'no address'}; programs need an IPv4 address: "
            "set 'AddressFamily inet' for it in ssh_config"
        )
    return str(found)


def at_once(calls: Iterable[Callable[[], T]]) -> list[T]:
    """Make calls in threads of their own; return the results, or raise the first error."""
    calls = list(calls)
    with ThreadPoolExecutor(max(1, len(calls))) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Turn what helpers refuse, or do not answer, into an error that says so."""
    try:
        yield
    except (Unanswered, Refused) as error:
        raise HostFailed(str(error)) from error
