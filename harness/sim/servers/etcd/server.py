"""A simulated etcd server: the gRPC services of etcd 3.4.23 and its v2 HTTP API on one member of a cluster.

The services are KV, Watch, Lease, Lock, and the calls of Maintenance and Cluster that clients make when they connect.
Abstractions are described in the module concerned: the wire (:mod:`harness.sim.grpc_wire`), consensus (:mod:`.raft`),
the streams between members (:mod:`.peers`), HTTP (:mod:`.v2`). There is no authentication, and disks are never slow or
full.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from harness.sim import grpc_wire
from harness.sim.grpc_wire import UNIMPLEMENTED, MethodHandler, ServerCall, StatusError
from harness.sim.kernel import MILLISECOND
from harness.sim.service import Conn, ServiceHost

from . import checks, messages
from .apply import is_readonly, is_serializable, range_response
from .leases import KeepAlive, LeaseForwarder
from .lock import LockService
from .member import Answer, Member, id_of
from .peers import PEER_PORT, Peers
from .store import KeyValue
from .v2 import V2Service, is_http
from .v2 import commands as v2_commands
from .watch import WatchService

CLIENT_PORT: Final = 2379
VERSION: Final = "3.4.23"
HEARTBEAT_MS: Final = 100
ELECTION_MS: Final = 1000
_BYTES_PER_CHANGE: Final = 256
_SERVICES: Final = ("/etcdserverpb.", "/v3lockpb.", "/v3electionpb.", "/grpc.health.")
"""Beginnings of the paths of etcd's gRPC methods."""
HandleRequest = Callable[[ServerCall, Any], None]
OnCommand = Callable[[str, str], None]


class _Unary:
    """A method whose calls have one request each (:class:`~harness.sim.grpc_wire.MethodHandler`)."""

    def __init__(self, parse: Any, handle: HandleRequest, dropped: Callable[[ServerCall], None] | None = None) -> None:
        self._parse = parse
        self._handle = handle
        self._dropped = dropped

    def message(self, call: ServerCall, data: bytes) -> None:
        try:
            self._handle(call, self._parse.FromString(data))
        except StatusError as failure:
            call.end(failure.code, failure.details)

    def ended(self, call: ServerCall) -> None: ...

    def dropped(self, call: ServerCall) -> None:
        if self._dropped is not None:
            self._dropped(call)


class _Missing:
    """A method that etcd has and this server lacks (:class:`~harness.sim.grpc_wire.MethodHandler`)."""

    def __init__(self, member: Member) -> None:
        self._member = member

    def message(self, call: ServerCall, data: bytes) -> None:  # noqa: ARG002
        self._member.host.lacks(call.peer, f"the method {call.path} of etcd")
        call.end(UNIMPLEMENTED, f"unknown method {call.path}")

    def ended(self, call: ServerCall) -> None: ...

    def dropped(self, call: ServerCall) -> None: ...


def event_name(path: str) -> str:
    """Return the name of a method in events and triggers: ``/etcdserverpb.KV/Put`` is PUT."""
    return path.rpartition("/")[2].upper()


def commands(data: bytes) -> list[str]:
    """Return the event names of the requests in one piece of data from a client."""
    if is_http(data):
        return v2_commands(data)
    return [event_name(path) for path in grpc_wire.requests(data)]


class EtcdServer:
    """One member (a :class:`~harness.sim.service.Service`); its ``peers`` is the second service of the host.

    ``names`` are the hosts of all members. ``first``: this member starts the first election of a new cluster, at once.
    ``on_command`` is called with (client host, event name) for each executed request, before its answer is sent.
    """

    def __init__(
        self,
        name: str,
        names: list[str],
        *,
        port: int = CLIENT_PORT,
        heartbeat_ms: int = HEARTBEAT_MS,
        election_ms: int = ELECTION_MS,
        first: bool = False,
    ) -> None:
        self.port = port
        self.on_command: OnCommand | None = None
        self.granted: dict[int, str] = {}
        """Host of the client that requested each lease from this member, by lease id; for observers."""
        self._names = names
        self._ids = 0
        self.member = member = Member(
            name,
            [other for other in names if other != name],
            heartbeat_ms=heartbeat_ms,
            election_ms=election_ms,
            first=first,
        )
        self.peers: Peers = member.peers
        self._watches = WatchService(lambda: member.store, member.header, self._report, lambda: member.host)
        member.on_changes = self._changed
        self._locks = LockService(member, self._new_lease, self._answer)
        self._leases = LeaseForwarder(member)
        self._keep_alive = KeepAlive(member, self._leases, self._send_response)
        self._methods = self._method_handlers()
        self._missing = _Missing(member)
        self._server = grpc_wire.GrpcServer(self._method)
        self._v2 = V2Service(member, [f"http://{other}:{port}" for other in names], self._report_done)

    def _method(self, path: str) -> MethodHandler | None:
        """Return the handler of a gRPC method, None if etcd has no such method."""
        return self._methods.get(path) or (self._missing if path.startswith(_SERVICES) else None)

    def _method_handlers(self) -> dict[str, MethodHandler]:
        """Return the handler of each gRPC method, by path."""
        locks = self._locks
        return {
            "/etcdserverpb.KV/Range": _Unary(messages.RangeRequest, self._range),
            "/etcdserverpb.KV/Put": _Unary(messages.PutRequest, self._put),
            "/etcdserverpb.KV/DeleteRange": _Unary(messages.DeleteRangeRequest, self._delete),
            "/etcdserverpb.KV/Txn": _Unary(messages.TxnRequest, self._txn),
            "/etcdserverpb.KV/Compact": _Unary(messages.CompactionRequest, self._compact),
            "/etcdserverpb.Watch/Watch": self._watches,
            "/etcdserverpb.Lease/LeaseGrant": _Unary(messages.LeaseGrantRequest, self._grant),
            "/etcdserverpb.Lease/LeaseRevoke": _Unary(messages.LeaseRevokeRequest, self._revoke),
            "/etcdserverpb.Lease/LeaseKeepAlive": self._keep_alive,
            "/etcdserverpb.Lease/LeaseTimeToLive": _Unary(messages.LeaseTimeToLiveRequest, self._time_to_live),
            "/etcdserverpb.Lease/LeaseLeases": _Unary(messages.LeaseLeasesRequest, self._list_leases),
            "/v3lockpb.Lock/Lock": _Unary(messages.LockRequest, locks.lock, locks.dropped),
            "/v3lockpb.Lock/Unlock": _Unary(messages.UnlockRequest, locks.unlock),
            "/etcdserverpb.Maintenance/Status": _Unary(messages.StatusRequest, self._status),
            "/etcdserverpb.Cluster/MemberList": _Unary(messages.MemberListRequest, self._members),
        }

    # The service.

    def start(self, host: ServiceHost, *, wiped: bool) -> None:
        self._ids = (self.member.id & 0xFFFF) << 48 | (host.wall_ns() // MILLISECOND & (1 << 40) - 1) << 8
        self.member.start(host, wiped=wiped)

    def stop(self) -> None:
        self.member.stop()
        self._watches.stop()
        self._leases.stop()
        self._keep_alive.stop()
        self._locks.stop()

    def opened(self, conn: Conn) -> None:
        self._server.opened(conn)

    def received(self, conn: Conn, data: bytes) -> None:
        if self._v2.owns(conn) or is_http(data):
            self._v2.received(conn, data)
        else:
            self._server.received(conn, data)

    def closed(self, conn: Conn) -> None:
        if not self._v2.owns(conn):
            self._server.closed(conn)

    @property
    def leads(self) -> bool:
        """True if this member believes that it is the leader."""
        return self.member.leads

    @property
    def term(self) -> int:
        return self.member.raft.disk.term

    def size(self) -> int:
        """Return the number of keys on this member, including those of the v2 API."""
        return self.member.store.size() + len(self.member.v2.nodes)

    def _changed(self, changes: list[KeyValue]) -> None:
        self._watches.changed(changes)
        self._locks.changed(changes)

    # Answers.

    def _report(self, call: ServerCall) -> None:
        self._report_done(call.peer, event_name(call.path))

    def _report_done(self, peer: str, what: str) -> None:
        if self.on_command is not None:
            self.on_command(peer, what)

    def _send_response(self, call: ServerCall, response: Any) -> None:
        """Send one of several responses to a call."""
        self._report(call)
        call.send(response.SerializeToString())

    def _answer(self, call: ServerCall, result: Any) -> None:
        self._report(call)
        if isinstance(result, StatusError):
            call.end(result.code, result.details)
        else:
            self.member.header(result.header)
            call.answer(result.SerializeToString())

    def _answer_later(self, call: ServerCall, result: Any) -> None:
        """Answer in an event of its own: a fault that is triggered by the answer may kill the host."""
        self.member.host.call_later(0, self._answer, call, result)

    def _propose(self, method: str, call: ServerCall, request: Any) -> None:
        self.member.propose(method, request, lambda result: self._answer(call, result))

    def _answer_read(self, call: ServerCall, read: Callable[[], Any], *, stale: bool) -> None:
        """Answer with the result of ``read``, once it is linearizable, or at once if it may be stale."""

        def answer(failure: StatusError | None) -> None:
            result: Any = failure
            if failure is None:
                try:
                    result = read()
                except StatusError as refused:
                    result = refused
            self._answer(call, result)

        if stale:
            self.member.host.call_later(0, answer, None)
        else:
            self.member.read(answer)

    # KV.

    def _range(self, call: ServerCall, request: Any) -> None:
        checks.check_key(request)
        self._answer_read(call, lambda: range_response(self.member.store, request), stale=request.serializable)

    def _put(self, call: ServerCall, request: Any) -> None:
        checks.check_put(request)
        self._propose("put", call, request)

    def _delete(self, call: ServerCall, request: Any) -> None:
        checks.check_key(request)
        self._propose("delete", call, request)

    def _txn(self, call: ServerCall, request: Any) -> None:
        checks.check_txn(request)
        if is_readonly(request):
            self._answer_read(call, lambda: self.member.applier.read(request), stale=is_serializable(request))
        else:
            self._propose("txn", call, request)

    def _compact(self, call: ServerCall, request: Any) -> None:
        self._propose("compact", call, request)

    # Leases.

    def _grant(self, call: ServerCall, request: Any) -> None:
        self._new_lease(request, lambda result: self._answer(call, result))
        self.granted[request.ID] = call.peer

    def _new_lease(self, request: Any, answer: Answer) -> None:
        while not request.ID:
            self._ids += 1
            request.ID = self._ids & (1 << 63) - 1
        self.member.propose("grant", request, answer)

    def _revoke(self, call: ServerCall, request: Any) -> None:
        self._propose("revoke", call, request)

    def _time_to_live(self, call: ServerCall, request: Any) -> None:
        def answered(answer: Any) -> None:
            if isinstance(answer, StatusError):
                self._answer_later(call, answer)
                return
            response = messages.LeaseTimeToLiveResponse(ID=request.ID, TTL=-1)
            if answer is not None:
                response.TTL, response.grantedTTL, keys = answer
                if request.keys:
                    response.keys.extend(keys)
            self._answer_later(call, response)

        self._leases.ask("ttl", request.ID, answered)

    def _list_leases(self, call: ServerCall, _request: Any) -> None:
        leases = sorted(self.member.lessor.leases.values(), key=lambda lease: (lease.expiry or 0, lease.id))
        response = messages.LeaseLeasesResponse(leases=[messages.LeaseStatus(ID=lease.id) for lease in leases])
        self._answer_later(call, response)

    # Maintenance and Cluster.

    def _status(self, call: ServerCall, _request: Any) -> None:
        member = self.member
        response = messages.StatusResponse(
            version=VERSION,
            dbSize=_BYTES_PER_CHANGE * len(member.store.history),
            leader=self._id_of(member.leader),
            raftIndex=member.raft.disk.applied,
            raftTerm=member.raft.disk.term,
        )
        self._answer_later(call, response)

    def _id_of(self, name: str | None) -> int:
        return 0 if name is None else id_of(name)

    def _members(self, call: ServerCall, _request: Any) -> None:
        response = messages.MemberListResponse()
        for name in self._names:
            response.members.add(
                ID=self._id_of(name),
                name=name,
                peerURLs=[f"http://{name}:{PEER_PORT}"],
                clientURLs=[f"http://{name}:{self.port}"],
            )
        self._answer_later(call, response)
