"""The cluster of a user's own servers: client programs are processes of this machine, with a proxy before the servers.

:class:`ServersCluster` implements :class:`harness.clusters.base.Cluster`. It starts, stops and changes no server. All
processes have this machine's clocks, so times of different clients compare exactly.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import msgspec

from harness.clusters import kinds
from harness.clusters.base import ClusterEndpoints, ObservedFacts, RecordEntry, Role
from harness.clusters.client_host import PREPARED, preparing
from harness.clusters.gate import NetworkGate
from harness.clusters.key_watch import KeyWatch
from harness.clusters.real_cluster import RealCluster, Report
from harness.history.lock_keys import KeyState
from harness.record.processor_waits import ProcessorWaits, descendants, is_counted

from .adapter import PREFIX, NoAnswerError, server_class
from .addresses import parse_server
from .clients import LocalClient, ProcessMethods
from .companions import Cleaner, ResourceProgram
from .examination import examined
from .hooks import HookCommands, HookRunner
from .links import LinkMethods, ProxyClient

RESOURCE: Final = "resource"


@dataclass(frozen=True, slots=True)
class LocalClients:
    """Setup of the client programs: the command with which each starts, and its environment. ``lock`` (``name``,
    ``ttl``, ``options``) is prepared before the run begins; the versions of ``packages`` are noted."""

    count: int
    command: Sequence[str]
    environment: Mapping[str, str]
    lock: Mapping[str, Any]
    packages: tuple[str, ...] = ()
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServerOfUser:
    """A host of the cluster that this project does not run."""

    name: str
    address: str
    role: Role = "server"


class DirectCluster(RealCluster, ProcessMethods):
    """The cluster of servers to which clients connect directly, since sentinels tell them other addresses than those of
    a proxy. See :class:`harness.clusters.base.Cluster`. ``resource`` is the configuration of
    :mod:`harness.worker.resource_server`.

    Raises EnvironmentLacking if a server does not answer, UsageError if one cannot be used.
    """

    backend = "servers"

    def __init__(
        self,
        *,
        kind: str,
        servers: Sequence[str],
        clients: LocalClients,
        seed: int,
        resource: str,
        hooks: Mapping[str, HookCommands] | None = None,
        report: Report = lambda line: None,  # noqa: ARG005
    ) -> None:
        super().__init__()
        self.kind = kind
        self.run_name = f"{PREFIX}{secrets.token_hex(4)}"
        self._texts = servers
        self._addresses = [parse_server(text) for text in servers]
        adapter = server_class(kind)
        self._servers = {
            name: adapter(address) for name, address in zip(kinds.servers(len(servers)), self._addresses, strict=True)
        }
        self._setup = clients
        self._seed = seed
        self._resource_config = resource
        self._report = report
        self._about = examined(self._servers, self._addresses)
        self._hooks = HookRunner(hooks or {}, list(self._servers), self._place_of, self._redact)
        self._clients: dict[str, LocalClient] = {}
        self._peers: dict[str, tuple[str, int]] = {}

    @property
    def parts(self) -> tuple[object, ...]:
        return (self, self._hooks)

    @property
    def key_prefix(self) -> str:
        """Prefix of a key in the name of its lock on the servers."""
        return f"{self.run_name}:"

    # Start and stop.

    @property
    def hosts(self) -> list[ServerOfUser | LocalClient]:
        servers = [ServerOfUser(name, server.host) for name, server in self._servers.items()]
        sentinels = [ServerOfUser(name, host, "sentinel") for name, (host, _) in self._sentinels().items()]
        return [*servers, *sentinels, *self._clients.values()]

    def _redact(self, text: str) -> str:
        """Return a text without the passwords of the servers and sentinels."""
        for secret in self._secrets():
            text = text.replace(secret, "***")
        return text

    def _secrets(self) -> list[str]:
        return [secret for address in self._addresses for secret in address.secrets]

    def _sentinels(self) -> dict[str, tuple[str, int]]:
        places = [place for address in self._addresses for place in address.sentinels]
        return {f"s{at + 1}": place for at, place in enumerate(places)}

    def _place_of(self, name: str) -> str:
        """Return the present ``host:port`` of a server or sentinel, "" if that is not known."""
        try:
            host, port = self._servers[name].target if name in self._servers else self._sentinels()[name]
        except NoAnswerError:
            return ""
        return f"{host}:{port}"

    def run(self, main: Callable[[], None]) -> None:
        try:
            self._start()
            main()
        finally:
            self._ending = True
            self._report("stopping programs")
            self._closing.callback(self._end_histories, self._thaw_all)
            self._closing.close()
            self._report("")
        self._raise_failure()

    def _start(self) -> None:
        """Start the programs; return when the clients wait for a job."""
        self._hooks.prepare()
        self._report("starting clients")
        cleaner = Cleaner(self.kind, self.run_name, self._texts)
        self._closing.callback(self._clean, cleaner)
        self._closing.callback(self._finish_hooks)  # before the cleaner, which needs servers that answer
        names = kinds.clients(self._setup.count)
        self._start_clients(names)
        self._peers.update({name: (server.host, server.port) for name, server in self._servers.items()})
        resource = ResourceProgram(self._resource_config)
        self._closing.callback(resource.end)
        self._peers[RESOURCE] = "127.0.0.1", resource.port()
        self._open_links(names)
        self._watch_keys()
        self._prepare_clients()
        cleaner.await_start()
        self._watch_processors()
        self._report("")

    def _watch_processors(self) -> None:
        """Note from now on how long the programs of the run wait for a processor, where the kernel counts it."""
        if not is_counted():
            return
        waits = ProcessorWaits(partial(descendants, os.getpid()))

        def end() -> None:
            self._waits = waits.stop()

        self._closing.callback(end)

    def _finish_hooks(self) -> None:
        """Heal the faults that hooks have done and that are not healed, for instance because the run was cut short."""
        for problem in self._hooks.finish():
            self._leave_behind(f"a fault that a hook has done: {problem}")

    def _leave_behind(self, what: str) -> None:
        earlier = self._about.get("left_behind")
        self._about["left_behind"] = f"{earlier}; {what}" if earlier else what

    def _clean(self, cleaner: Cleaner) -> None:
        self._about["keys_removed"], failures = cleaner.clean()
        if failures:
            self._leave_behind(f"keys named *{self.run_name}*: {'; '.join(failures)}")

    def _start_clients(self, names: Sequence[str]) -> None:
        self._entries.start()
        self._closing.callback(self._entries.end)
        for name in names:
            client = LocalClient(name, self._entries.entries, self._setup.command, self._setup.environment)
            self._clients[name] = client
            self._closing.callback(client.end)
            client.start()

    def _prepare_clients(self) -> None:
        """Import the clients' locks before the run begins, and note the versions of their libraries."""
        answers = [self._prepare(client) for client in self._clients.values()]
        with preparing():
            for client, answer in zip(self._clients.values(), answers, strict=True):
                answer.result(PREPARED)
                client.find_group()
            first = next(iter(self._clients.values()))
            self._setup.versions.update(first.conversation.ask("versions", packages=list(self._setup.packages)))

    def _prepare(self, client: LocalClient) -> Future[Any]:
        endpoints = ClusterEndpoints(self.kind, self._seen_by(client.name))
        return client.prepare(self._setup.lock, endpoints, access=self._access())

    def _access(self) -> dict[str, Any]:
        """Return the fields of :class:`harness.worker.client_program.Access`."""
        first = self._addresses[0]
        names = ("user", "password_from", "database", "sentinel_user", "sentinel_password_from")
        fields = {name: getattr(first, name) for name in names}
        return {**fields, **({"service": first.primary} if first.primary else {})}

    def about(self) -> ObservedFacts:
        return dict(self._about)

    def versions(self) -> dict[str, str]:
        """Return the versions of Python and of the libraries in the clients' processes."""
        return dict(self._setup.versions)

    # The cluster as clients and recorders see it.

    def _open_links(self, clients: Sequence[str]) -> None:
        """Make the ways from the clients to the servers and the resource."""

    def _seen_by(self, client: str) -> tuple[tuple[str, int], ...]:
        """Return the addresses at which a client finds the servers."""
        del client
        return self.endpoints().addresses

    def _resource_seen_by(self, client: str) -> tuple[str, int]:
        del client
        return self.resource()

    def endpoints(self) -> ClusterEndpoints:
        return ClusterEndpoints(self.kind, tuple(place for address in self._addresses for place in address.places))

    def resource(self) -> tuple[str, int]:
        return self._peers[RESOURCE]

    def logs(self, origin_ns: int) -> dict[str, str]:
        del origin_ns  # the logs of the servers are their owner's
        return {}

    def launch(self, client: str, job: Any, record: RecordEntry) -> Callable[[float], bool]:
        """Launch the client with the addresses of its proxy, and with the run's name before each key."""
        own = msgspec.structs.replace(
            job,
            addresses=self._seen_by(client),
            resource=self._resource_seen_by(client),
            key_prefix=self.key_prefix,
            access=msgspec.convert(self._access(), type(job.access)),
        )
        recorded = partial(self._record_redacted, record) if self._secrets() else record
        return self._starts.launch(self._clients[client], own, recorded)

    def _record_redacted(self, record: RecordEntry, **fields: Any) -> None:
        """Record an entry without a password, which the error of a lock may contain."""
        if isinstance(error := fields.get("error"), str):
            fields["error"] = self._redact(error)
        record(**fields)

    def key_count(self, host: str) -> int | None:
        """Return None: most of a user's keys are not the run's."""
        del host
        return None

    def _watch_keys(self) -> None:
        if self._watched is None:
            return
        keys, on_change = self._watched

        def on_own_change(state: KeyState) -> None:
            on_change(msgspec.structs.replace(state, key=state.key.removeprefix(self.key_prefix)))

        watch = KeyWatch([f"{self.key_prefix}{key}" for key in keys], on_own_change, NetworkGate())
        self._closing.callback(watch.stop)
        for name, server in self._servers.items():
            if (reader := server.key_reader()) is not None:
                watch.start(name, reader)


class ServersCluster(LinkMethods, DirectCluster):
    """The cluster of servers with a proxy before them."""

    def _open_links(self, clients: Sequence[str]) -> None:
        self._hellos = {name: (server.HELLO, server.GREETS) for name, server in self._servers.items()}
        tls = {name: one.address.tls for name, one in self._servers.items() if one.address.tls is not None}
        begin = server_class(self.kind).TLS_BEGIN
        self._proxy = ProxyClient(clients, self._peers, self._seed, tls=tls, begin=begin)
        self._closing.callback(self._proxy.close)

    def _seen_by(self, client: str) -> tuple[tuple[str, int], ...]:
        return tuple(self._proxy.addresses[client, name] for name in self._servers)

    def _resource_seen_by(self, client: str) -> tuple[str, int]:
        return self._proxy.addresses[client, RESOURCE]


def cluster_class(kind: str) -> type[DirectCluster]:
    """Return the class of clusters of this kind."""
    return DirectCluster if kinds.KINDS.find(kind).redirects else ServersCluster


def part_types(kind: str) -> tuple[type, ...]:
    """Return the classes of the parts of a cluster of this kind; none if a user's servers cannot be of it."""
    return (cluster_class(kind), HookRunner) if kinds.KINDS.find(kind).servers else ()
