"""Runs on containers whose servers are asked, at the end, how many commands they counted.

The servers' counters do not tell who sent a command. So the packets of all connections are decoded: those of clients,
which the trace has, and those of the harness, which watches keys and waits for the servers' start.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.hosts import ContainerClient
from harness.clusters.kinds import KINDS
from harness.clusters.wire import WireRecording, unpack
from harness.documents import MessageTrace
from harness.history import History
from harness.plan import Plan
from harness.protocols.messages import Request
from harness.run.opening import open_containers
from harness.run.runs import run
from harness.run.store import WIRE
from harness.trace.decoding import Exchange, decode
from harness.trace.reading import load_trace
from harness.trace.recordings import recorded_messages
from harness.trace.streams import read_streams
from harness.trace.texts import texts_of

Counts = Counter[Any]
Count = Callable[[DockerCluster], Any]
Differences = dict[Any, tuple[int, int]]
"""Numbers that differ: what was sent, and what the servers counted."""


@dataclass(frozen=True)
class CountedRun:
    """A finished run on containers. ``everyone`` are the exchanges of all connections to servers while these counted,
    up to ``ended_ns``, in the order of their arrival. ``clients`` are the clients' names by address."""

    counted: Any
    history: History
    trace: MessageTrace
    recordings: list[WireRecording]
    everyone: list[Exchange]
    clients: Mapping[str, str]
    ended_ns: int

    def named(self) -> Iterator[tuple[Exchange, str]]:
        """Yield all requests with their names."""
        name = texts_of(KINDS.find(self.trace.kind).service).name
        return ((one, name(one.request)) for one in self.everyone if one.request is not None)

    @property
    def requests(self) -> list[Request]:
        return [one.request for one in self.everyone if one.request is not None]

    def names(self) -> Counter[str]:
        """Number of requests of all connections by name."""
        return Counter(name for _, name in self.named())

    def of_clients(self) -> Counter[tuple[str, str, str]]:
        """Requests of the clients' connections: client, server and name."""
        placed = ((one.connection.client, one.connection.server, name) for one, name in self.named())
        return Counter(one for one in placed if one[0] in self.clients.values())

    def traced(self) -> Counter[tuple[str, str, str]]:
        """Requests of the trace: client, server and name."""
        arrived = (one for one in self.trace.messages if one.arrived is not None and one.arrived <= self.ended_ns)
        return Counter((one.client, one.server, one.name) for one in arrived)

    def without_packet(self, lost: str) -> CountedRun:
        """Return the run as if one request of this name, of a client, were in no recording."""
        found = (one for one, name in self.named() if name == lost and one.connection.client in self.clients.values())
        dropped = next(found)
        return replace(self, everyone=[one for one in self.everyone if one is not dropped])

    def without_message(self, lost: str) -> CountedRun:
        """Return the run as if the first message of this name were not in the trace."""
        messages = self.trace.messages
        at = next(at for at, one in enumerate(messages) if one.name == lost and one.arrived is not None)
        kept = msgspec.structs.replace(self.trace, messages=(*messages[:at], *messages[at + 1 :]))
        return replace(self, trace=kept)


def run_counted(plan: Plan, store: Path, count: Count, *, subtracts: bool = False) -> CountedRun:
    """Run a plan on containers; ``count`` asks the servers when the clients have ended.

    With ``subtracts`` it also asks before any key is watched, and these numbers are subtracted: for servers that count
    statements which they execute by themselves when they start.
    """
    counted: list[Any] = []
    clients: dict[str, str] = {}
    times: list[int] = []

    def note(cluster: DockerCluster) -> None:
        counted.append(count(cluster))
        times.append(time.monotonic_ns())

    def opened(plan: Plan, report: Callable[[str], None]) -> Any:
        cluster: Any = open_containers(plan, report)
        simulate, watch_keys = cluster.run, cluster._watch_keys

        def count_and_watch() -> None:
            note(cluster) if subtracts else times.append(0)
            watch_keys()

        def run_and_count(main: Callable[[], None]) -> None:
            def both() -> None:
                main()
                cluster._key_watch.stop()
                clients.update({one.address: one.name for one in cluster.hosts if isinstance(one, ContainerClient)})
                note(cluster)

            simulate(both)

        cluster.run, cluster._watch_keys = run_and_count, count_and_watch
        return cluster

    result = run(plan, store=store, trace="on", record_wire=True, open_cluster=opened)
    assert result.folder is not None
    trace = load_trace(result.folder)
    assert trace is not None
    assert trace.undecoded == ()
    files = sorted((result.folder / WIRE).iterdir())
    recordings = [unpack(file.read_bytes(), file.name) for file in files]
    assert [one.lost for one in recordings] == [0] * len(recordings)
    if subtracts:
        counted[-1].subtract(counted[0])
    assert counted[-1]
    exchanges = _all_exchanges(recordings, KINDS.find(result.plan.kind).service, clients)
    began, ended = times
    everyone = [one for one in exchanges if began < one.since <= ended]
    return CountedRun(counted[-1], result.history, trace, recordings, everyone, clients, ended)


def _all_exchanges(recordings: list[WireRecording], service: str, clients: Mapping[str, str]) -> list[Exchange]:
    peers = {event.peer.rpartition(":")[0] for one in recordings for event in one.events if event.what == "open"}
    hosts = {peer: clients.get(peer, peer) for peer in peers}
    messages = recorded_messages(recordings, hosts, dict.fromkeys(hosts.values(), ()))
    return decode(read_streams(messages.batches, ()).connections, service, simulated=False).exchanges
