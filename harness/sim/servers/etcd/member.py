"""One member of a simulated etcd: proposals and linearizable reads over Raft, as server/etcdserver/v3_server.go has it.

A request that finds no leader, or whose leader cannot reach a majority, waits for 5 s and two election time-outs and
ends with "request timed out"; nobody then knows whether it will be applied. Abstracted: etcd reads the index for many
waiting reads at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final

from etcd3 import etcdrpc

from ...grpc_wire import UNKNOWN, Failed
from ...kernel import MILLISECOND, SECOND
from ...service import ServiceHost, Timer
from .apply import Applier
from .lessor import Lessor
from .peers import PEER_PORT, Peers
from .raft import LEADER, Disk, Entry, Raft
from .store import KeyValue, Store
from .v2_store import V2Error, V2Request, V2Store

CLUSTER: Final = "etcd-cluster"
READ_AGAIN: Final = 500 * MILLISECOND
SYNC: Final = 500 * MILLISECOND
"""How often a leader looks for keys of the v2 API that are over."""
UNAVAILABLE: Final = 14
Answer = Callable[[Any], None]
"""Takes a response, or the Failed that took its place."""


def number_of(*words: str) -> int:
    """An identifier as etcd makes them from its members' addresses."""
    return int.from_bytes(hashlib.sha1("".join(words).encode()).digest()[:8], "big")


CLUSTER_ID: Final = number_of(CLUSTER)


def id_of(name: str) -> int:
    """The identifier of the member on a host."""
    return number_of(f"http://{name}:{PEER_PORT}", CLUSTER)


def timed_out(why: str = "") -> Failed:
    return Failed(UNAVAILABLE, f"etcdserver: request timed out{why}")


class Waiting:
    """A request that waits for its entry to be applied, or for its read index."""

    __slots__ = ("answer", "started", "timer")

    def __init__(self, answer: Answer, started: int, timer: Timer) -> None:
        self.answer = answer
        self.started = started
        self.timer = timer


class Member:
    """The replicated part of an etcd server. Survives restarts as the disk does."""

    def __init__(
        self,
        name: str,
        others: list[str],
        *,
        heartbeat_ms: int,
        election_ms: int,
        first: bool,
    ) -> None:
        self.name = name
        self.election_ns = election_ms * MILLISECOND
        self.timeout_ns = 5 * SECOND + 2 * self.election_ns
        self.id = id_of(name)
        self.host: ServiceHost
        self.raft = Raft(name, others, self, heartbeat_ms, election_ms)
        self.peers = Peers(name, others, self._received)
        self._first = first
        self.on_changes: Callable[[list[KeyValue]], None] = lambda _: None
        self._min_ttl = -(-3 * (election_ms // heartbeat_ms) // 2 * heartbeat_ms // 1000)
        self._format()
        self.on_peer: dict[str, Callable[[str, dict[str, Any]], None]] = {}
        """What to do with messages of members that are not Raft's, by kind."""
        self._proposed: dict[int, Waiting] = {}
        self._unproposed: dict[int, Entry] = {}
        self._reads: dict[int, Waiting] = {}
        self._unread: list[tuple[int, int]] = []
        """Reads that wait for an index to be applied: (index, number)."""
        self._number = 0
        self._leader: str | None = None
        self._elected: int | None = None
        self._lives = 0

    def _format(self) -> None:
        """An empty disk."""
        self.store = Store()
        self.lessor = Lessor(self._min_ttl)
        self.applier = Applier(self.store, self.lessor, self._changed)
        self.v2 = V2Store()
        self._syncs = False
        self.raft.disk = Disk()

    def start(self, host: ServiceHost, *, wiped: bool) -> None:
        self.host = host
        self._lives += 1
        if wiped and self._lives > 1:
            self._format()
            self.raft.disk.votes = not self.raft.peers
        new = self._lives == 1
        self.raft.start(host, first_after=1 if new and self._first else None)
        self.lessor.start(host, self._revoke)
        self._syncs = False
        self._sync_later()

    def stop(self) -> None:
        self.raft.stop()
        self.lessor.stop()
        self._proposed.clear()
        self._unproposed.clear()
        self._reads.clear()
        self._unread.clear()
        self._leader = self._elected = None

    def _changed(self, changes: list[KeyValue]) -> None:
        self.on_changes(changes)

    @property
    def leader(self) -> str | None:
        return self.raft.leader

    @property
    def leads(self) -> bool:
        return self.raft.role == LEADER

    # What Raft asks of its node.

    def send(self, peer: str, message: dict[str, Any]) -> None:
        self.peers.send(peer, message)

    def _received(self, peer: str, message: dict[str, Any]) -> None:
        handler = self.on_peer.get(message["kind"])
        if handler is None:
            self.raft.received(peer, message)
        else:
            handler(peer, message)

    def role_changed(self) -> None:
        leader = self.raft.leader
        if not self.leads:
            self.lessor.demote()
        if leader is None or leader == self._leader:
            self._leader = leader or self._leader
            return
        self._leader = leader
        self.host.log(f"raft: {leader} leads at term {self.raft.disk.term}")
        if self.leads:
            self._elected = self.host.monotonic_ns()
        for number in list(self._reads):
            self._finish(self._reads, number, Failed(UNAVAILABLE, "etcdserver: leader changed"))
        self._unread.clear()
        unproposed, self._unproposed = self._unproposed, {}
        for number, entry in unproposed.items():
            if number in self._proposed:
                self.host.call_later(0, self._propose, entry)

    def apply(self, entry: Entry) -> None:
        if not entry.method:
            if self.leads:
                self.lessor.promote(self.election_ns)
        else:
            result: Any
            try:
                result = self._applied(entry)
            except (Failed, V2Error) as failure:
                result = failure
            if entry.origin == self.name:
                self._finish(self._proposed, entry.number, result)
        if self._unread:
            self._read_on()

    def _applied(self, entry: Entry) -> Any:
        if entry.method != "v2":
            return self.applier.apply(entry.method, entry.data, asked=entry.origin == self.name)
        try:
            return self.v2.apply(entry.data, self.host.wall_ns())
        finally:
            self._sync_later()

    # The v2 API's keys.

    def _sync_later(self) -> None:
        if not self._syncs and self.v2.ends():
            self._syncs = True
            self.host.call_later(SYNC, self._sync)

    def _sync(self) -> None:
        """Have all members delete what is over by the leader's wall clock."""
        self._syncs = False
        if self.leads:
            self.propose("v2", V2Request("SYNC", now=self.host.wall_ns()), lambda _: None)
        self._sync_later()

    # Proposals.

    def propose(self, method: str, request: Any, answer: Answer) -> None:
        """Have a request applied by all members, and answer with what came of it here."""
        self._number += 1
        self._wait(self._proposed, self._number, answer)
        self._propose(Entry(0, method, request.SerializeToString(), self.name, self._number))

    def _propose(self, entry: Entry) -> None:
        if not self.raft.propose(entry):
            self._unproposed[entry.number] = entry

    def _wait(self, waiting: dict[int, Waiting], number: int, answer: Answer) -> None:
        timer = self.host.call_later(self.timeout_ns, self._time_out, waiting, number)
        waiting[number] = Waiting(answer, self.host.monotonic_ns(), timer)

    def _time_out(self, waiting: dict[int, Waiting], number: int) -> None:
        if self._unproposed.pop(number, None) is not None:
            self._finish(waiting, number, Failed(UNKNOWN, "context deadline exceeded"))
        elif number in waiting:
            why = self._why(waiting[number].started) if waiting is self._proposed else ""
            self._finish(waiting, number, timed_out(why))

    def _why(self, started: int) -> str:
        """What etcd makes of a proposal that was not applied in time."""
        if self._elected is not None and self._elected - 2 * self.election_ns < started < self._elected:
            return ", possibly due to previous leader failure"
        if self.leads:
            connected = [peer for peer in self.raft.peers if self._connected(peer, started)]
            lost = 2 * (len(connected) + 1) <= len(self.raft.peers) + 1
        else:
            lost = self.leader is not None and not self._connected(self.leader, started)
        return ", possibly due to connection lost" if lost else ""

    def _connected(self, peer: str, started: int) -> bool:
        since = self.peers.connected_since(peer)
        return since is not None and since < started

    def _finish(self, waiting: dict[int, Waiting], number: int, result: Any) -> None:
        """Answer, in a turn of its own: a fault that waits for the answer may kill the host."""
        found = waiting.pop(number, None)
        if found is not None:
            found.timer.cancel()
            self.host.call_later(0, found.answer, result)

    # Reads.

    def read(self, answer: Answer) -> None:
        """Answer with None once a read of the store is linearizable."""
        self._number += 1
        self._wait(self._reads, self._number, answer)
        self._ask(self._number)

    def _ask(self, number: int) -> None:
        if number in self._reads:
            self.raft.read_index(lambda index: self._may_read(number, index))
            if number in self._reads:
                self.host.call_later(READ_AGAIN, self._ask, number)

    def _may_read(self, number: int, index: int) -> None:
        if self.raft.disk.applied >= index:
            self._finish(self._reads, number, None)
        elif number in self._reads:
            self._unread.append((index, number))

    def _read_on(self) -> None:
        applied = self.raft.disk.applied
        for index, number in self._unread:
            if index <= applied:
                self._finish(self._reads, number, None)
        self._unread = [(index, number) for index, number in self._unread if index > applied]

    # Leases.

    def _revoke(self, number: int) -> None:
        """A lease has expired."""
        self.propose("revoke", etcdrpc.LeaseRevokeRequest(ID=number), lambda _: None)

    def header(self, header: Any, revision: int = 0) -> None:
        """Fill a response's header."""
        header.cluster_id = CLUSTER_ID
        header.member_id = self.id
        header.raft_term = self.raft.disk.term
        if revision or not header.revision:
            header.revision = revision or self.store.revision
