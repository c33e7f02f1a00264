"""The replicated state of one simulated etcd member: proposals and linearizable reads through Raft.

Follows server/etcdserver/v3_server.go. A request that finds no leader, or whose leader cannot reach a majority, ends
with "request timed out" after 5 s plus two election time-outs; its outcome is then unknown. Abstracted: etcd confirms
one read index for many waiting reads at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final

from harness.sim.grpc_wire import UNKNOWN, StatusError
from harness.sim.kernel import MILLISECOND, SECOND
from harness.sim.service import ServiceHost, Timer

from . import messages
from .apply import Applier
from .lessor import Lessor
from .peers import PEER_PORT, Peers
from .raft import LEADER, Raft, RaftDisk, RaftEntry
from .store import EtcdStore, KeyValue
from .v2_store import V2Error, V2Request, V2Store

CLUSTER_NAME: Final = "etcd-cluster"
READ_RETRY_NS: Final = 500 * MILLISECOND
V2_SYNC_INTERVAL_NS: Final = 500 * MILLISECOND
"""Interval between the leader's checks for expired keys of the v2 API."""
UNAVAILABLE: Final = 14
Answer = Callable[[Any], None]
"""Called with a response, or with the StatusError in its place."""


def identifier(*words: str) -> int:
    """Return the 64-bit id that etcd derives from texts such as a member's address."""
    return int.from_bytes(hashlib.sha1("".join(words).encode()).digest()[:8], "big")


CLUSTER_ID: Final = identifier(CLUSTER_NAME)


def id_of(name: str) -> int:
    """Return the id of the member on the host ``name``."""
    return identifier(f"http://{name}:{PEER_PORT}", CLUSTER_NAME)


def timed_out(why: str = "") -> StatusError:
    """Return etcd's time-out failure; ``why`` is appended to its text."""
    return StatusError(UNAVAILABLE, f"etcdserver: request timed out{why}")


class PendingRequest:
    """A request that waits until its entry is applied, or until its read index is confirmed and applied."""

    __slots__ = ("answer", "started", "timer")

    def __init__(self, answer: Answer, started: int, timer: Timer) -> None:
        self.answer = answer
        self.started = started
        self.timer = timer


class Member:
    """The replicated part of an etcd server. The object survives restarts of its host, as the disk does.

    ``first``: this member starts the first election of a new cluster.
    """

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
        self.peer_handlers: dict[str, Callable[[str, dict[str, Any]], None]] = {}
        """Handlers of messages from other members that are not part of Raft, by kind."""
        self._proposed: dict[int, PendingRequest] = {}
        self._unproposed: dict[int, RaftEntry] = {}
        self._reads: dict[int, PendingRequest] = {}
        self._reads_to_apply: list[tuple[int, int]] = []
        """Reads that wait until an index is applied: (index, number of the read)."""
        self._number = 0
        self._leader: str | None = None
        self._elected: int | None = None
        self._starts = 0

    def _format(self) -> None:
        """Start with an empty disk."""
        self.store = EtcdStore()
        self.lessor = Lessor(self._min_ttl)
        self.applier = Applier(self.store, self.lessor, self._changed)
        self.v2 = V2Store()
        self._sync_scheduled = False
        self.raft.disk = RaftDisk()

    def start(self, host: ServiceHost, *, wiped: bool) -> None:
        self.host = host
        self._starts += 1
        if wiped and self._starts > 1:
            self._format()
            self.raft.disk.can_vote = not self.raft.peers
        new = self._starts == 1
        self.raft.start(host, first_after=1 if new and self._first else None)
        self.lessor.start(host, self._revoke)
        self._sync_scheduled = False
        self._sync_later()

    def stop(self) -> None:
        self.raft.stop()
        self.lessor.stop()
        self._proposed.clear()
        self._unproposed.clear()
        self._reads.clear()
        self._reads_to_apply.clear()
        self._leader = self._elected = None

    def _changed(self, changes: list[KeyValue]) -> None:
        self.on_changes(changes)

    @property
    def leader(self) -> str | None:
        return self.raft.leader

    @property
    def leads(self) -> bool:
        return self.raft.role == LEADER

    # Callbacks of Raft.

    def send(self, peer: str, message: dict[str, Any]) -> None:
        self.peers.send(peer, message)

    def _received(self, peer: str, message: dict[str, Any]) -> None:
        handler = self.peer_handlers.get(message["kind"])
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
            self._finish(self._reads, number, StatusError(UNAVAILABLE, "etcdserver: leader changed"))
        self._reads_to_apply.clear()
        unproposed, self._unproposed = self._unproposed, {}
        for number, entry in unproposed.items():
            if number in self._proposed:
                self.host.call_later(0, self._propose, entry)

    def apply(self, entry: RaftEntry) -> None:
        if not entry.method:
            if self.leads:
                self.lessor.promote(self.election_ns)
        else:
            result: Any
            try:
                result = self._apply_entry(entry)
            except (StatusError, V2Error) as failure:
                result = failure
            if entry.origin == self.name:
                self._finish(self._proposed, entry.number, result)
        if self._reads_to_apply:
            self._finish_applied_reads()

    def _apply_entry(self, entry: RaftEntry) -> Any:
        if entry.method != "v2":
            awaited = entry.origin == self.name and entry.number in self._proposed
            return self.applier.apply(entry.method, entry.data, wants_response=awaited)
        try:
            return self.v2.apply(entry.data, self.host.wall_ns())
        finally:
            self._sync_later()

    # Expiry of the v2 API's keys.

    def _sync_later(self) -> None:
        if not self._sync_scheduled and self.v2.has_expiring_keys():
            self._sync_scheduled = True
            self.host.call_later(V2_SYNC_INTERVAL_NS, self._sync)

    def _sync(self) -> None:
        """Have all members delete the keys that are expired by the leader's wall clock."""
        self._sync_scheduled = False
        if self.leads:
            self.propose("v2", V2Request("SYNC", now=self.host.wall_ns()), lambda _: None)
        self._sync_later()

    # Proposals.

    def propose(self, method: str, request: Any, answer: Answer) -> None:
        """Have all members apply a request, and call ``answer`` with this member's result."""
        self._number += 1
        self._wait(self._proposed, self._number, answer)
        self._propose(RaftEntry(0, method, request.SerializeToString(), self.name, self._number))

    def _propose(self, entry: RaftEntry) -> None:
        if not self.raft.propose(entry):
            self._unproposed[entry.number] = entry

    def _wait(self, waiting: dict[int, PendingRequest], number: int, answer: Answer) -> None:
        timer = self.host.call_later(self.timeout_ns, self._time_out, waiting, number)
        waiting[number] = PendingRequest(answer, self.host.monotonic_ns(), timer)

    def _time_out(self, waiting: dict[int, PendingRequest], number: int) -> None:
        if self._unproposed.pop(number, None) is not None:
            self._finish(waiting, number, StatusError(UNKNOWN, "context deadline exceeded"))
        elif number in waiting:
            why = self._timeout_reason(waiting[number].started) if waiting is self._proposed else ""
            self._finish(waiting, number, timed_out(why))

    def _timeout_reason(self, started: int) -> str:
        """Return the cause that etcd names for a proposal that was not applied in time."""
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

    def _finish(self, waiting: dict[int, PendingRequest], number: int, result: Any) -> None:
        """Answer later, in an event of its own: a fault that is triggered by the answer may kill the host."""
        found = waiting.pop(number, None)
        if found is not None:
            found.timer.cancel()
            self.host.call_later(0, found.answer, result)

    # Reads.

    def read(self, answer: Answer) -> None:
        """Call ``answer`` with None as soon as a read of the store is linearizable, with StatusError on a time-out."""
        self._number += 1
        self._wait(self._reads, self._number, answer)
        self._request_read_index(self._number)

    def _request_read_index(self, number: int) -> None:
        if number in self._reads:
            self.raft.read_index(lambda index: self._on_read_index(number, index))
            if number in self._reads:
                self.host.call_later(READ_RETRY_NS, self._request_read_index, number)

    def _on_read_index(self, number: int, index: int) -> None:
        if self.raft.disk.applied >= index:
            self._finish(self._reads, number, None)
        elif number in self._reads:
            self._reads_to_apply.append((index, number))

    def _finish_applied_reads(self) -> None:
        applied = self.raft.disk.applied
        for index, number in self._reads_to_apply:
            if index <= applied:
                self._finish(self._reads, number, None)
        self._reads_to_apply = [(index, number) for index, number in self._reads_to_apply if index > applied]

    # Leases.

    def _revoke(self, number: int) -> None:
        self.propose("revoke", messages.LeaseRevokeRequest(ID=number), lambda _: None)

    def header(self, header: Any, revision: int = 0) -> None:
        """Fill in a response's header; without ``revision`` an existing one is kept, else the present one is used."""
        header.cluster_id = CLUSTER_ID
        header.member_id = self.id
        header.raft_term = self.raft.disk.term
        if revision or not header.revision:
            header.revision = revision or self.store.revision
