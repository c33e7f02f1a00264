"""A simulated etcd server: the gRPC services of etcd 3.4.23 on one member of a cluster.

KV, Watch, Lease, Lock, and as much of Maintenance and Cluster as clients ask for before they do anything; beside them
the v2 API (:mod:`.v2`). What is
abstracted is said where it is: the wire (:mod:`harness.sim.grpc_wire`), consensus (:mod:`.etcd_raft`), the streams
between members (:mod:`.etcd_peers`). There is no authentication, no disk that could be slow or full.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from etcd3 import etcdrpc

from harness.sim.servers.etcd import checks

from ... import grpc_wire
from ...grpc_wire import Call, Failed, Methods
from ...kernel import MILLISECOND
from ...service import Conn, ServiceHost
from .apply import is_readonly, is_serializable, range_response
from .leases import KeepAlive, Leases
from .lock import MESSAGES, LockService
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
_BYTES_A_KEY: Final = 256
Handle = Callable[[Call, Any], None]
OnCommand = Callable[[str, str], None]


class _Unary:
    """Calls with one request (:class:`~harness.sim.grpc_wire.Methods`)."""

    def __init__(self, parse: Any, handle: Handle, dropped: Callable[[Call], None] | None = None) -> None:
        self._parse = parse
        self._handle = handle
        self._dropped = dropped

    def message(self, call: Call, data: bytes) -> None:
        try:
            self._handle(call, self._parse.FromString(data))
        except Failed as failure:
            call.end(failure.code, failure.details)

    def ended(self, call: Call) -> None: ...

    def dropped(self, call: Call) -> None:
        if self._dropped is not None:
            self._dropped(call)


def command(path: str) -> str:
    """The name by which events know a method: ``/etcdserverpb.KV/Put`` is PUT."""
    return path.rpartition("/")[2].upper()


def commands(data: bytes) -> list[str]:
    """The names of the methods that a client calls in one piece of data."""
    if is_http(data):
        return v2_commands(data)
    return [command(path) for path in grpc_wire.requests(data)]


class EtcdServer:
    """One member (a :class:`~harness.sim.service.Service`); ``peers`` is the second service of its host.

    ``names`` are the hosts of all members. ``first``: this one stands for the first election of a new cluster, at once.
    ``on_command`` is told of each request that has been done, and whose, before its answer leaves.
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
        """Lease to the host of the client that asked for it here: for observers."""
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
        self._watches = WatchService(lambda: member.store, member.header, self._told, lambda: member.host)
        member.on_changes = self._changed
        self._locks = locks = LockService(member, self._new_lease, self._answer)
        self._leases = Leases(member)
        self._keep_alive = KeepAlive(member, self._leases, self._tell)
        self._methods: dict[str, Methods] = {
            "/etcdserverpb.KV/Range": _Unary(etcdrpc.RangeRequest, self._range),
            "/etcdserverpb.KV/Put": _Unary(etcdrpc.PutRequest, self._put),
            "/etcdserverpb.KV/DeleteRange": _Unary(etcdrpc.DeleteRangeRequest, self._delete),
            "/etcdserverpb.KV/Txn": _Unary(etcdrpc.TxnRequest, self._txn),
            "/etcdserverpb.KV/Compact": _Unary(etcdrpc.CompactionRequest, self._compact),
            "/etcdserverpb.Watch/Watch": self._watches,
            "/etcdserverpb.Lease/LeaseGrant": _Unary(etcdrpc.LeaseGrantRequest, self._grant),
            "/etcdserverpb.Lease/LeaseRevoke": _Unary(etcdrpc.LeaseRevokeRequest, self._revoke),
            "/etcdserverpb.Lease/LeaseKeepAlive": self._keep_alive,
            "/etcdserverpb.Lease/LeaseTimeToLive": _Unary(etcdrpc.LeaseTimeToLiveRequest, self._time_to_live),
            "/etcdserverpb.Lease/LeaseLeases": _Unary(etcdrpc.LeaseLeasesRequest, self._list_leases),
            "/v3lockpb.Lock/Lock": _Unary(MESSAGES["LockRequest"], locks.lock, locks.dropped),
            "/v3lockpb.Lock/Unlock": _Unary(MESSAGES["UnlockRequest"], locks.unlock),
            "/etcdserverpb.Maintenance/Status": _Unary(etcdrpc.StatusRequest, self._status),
            "/etcdserverpb.Cluster/MemberList": _Unary(etcdrpc.MemberListRequest, self._members),
        }
        self._server = grpc_wire.Server(self._methods.get)
        self._v2 = V2Service(member, [f"http://{other}:{port}" for other in names], self._done)

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
        if self._v2.mine(conn) or is_http(data):
            self._v2.received(conn, data)
        else:
            self._server.received(conn, data)

    def closed(self, conn: Conn) -> None:
        if not self._v2.mine(conn):
            self._server.closed(conn)

    @property
    def leads(self) -> bool:
        """Does this member hold itself to be the leader?"""
        return self.member.leads

    @property
    def term(self) -> int:
        return self.member.raft.disk.term

    def size(self) -> int:
        """How many keys this member holds, those of the v2 API too."""
        return self.member.store.size() + len(self.member.v2.nodes)

    def _changed(self, changes: list[KeyValue]) -> None:
        self._watches.changed(changes)
        self._locks.changed(changes)

    # Answers.

    def _told(self, call: Call) -> None:
        self._done(call.peer, command(call.path))

    def _done(self, peer: str, what: str) -> None:
        if self.on_command is not None:
            self.on_command(peer, what)

    def _tell(self, call: Call, response: Any) -> None:
        """One of several responses of a call."""
        self._told(call)
        call.send(response.SerializeToString())

    def _answer(self, call: Call, result: Any) -> None:
        self._told(call)
        if isinstance(result, Failed):
            call.end(result.code, result.details)
        else:
            self.member.header(result.header)
            call.answer(result.SerializeToString())

    def _answer_later(self, call: Call, result: Any) -> None:
        """In a turn of its own, as all answers: a fault that waits for one may kill the host."""
        self.member.host.call_later(0, self._answer, call, result)

    def _propose(self, method: str, call: Call, request: Any) -> None:
        self.member.propose(method, request, lambda result: self._answer(call, result))

    def _look(self, call: Call, read: Callable[[], Any], *, stale: bool) -> None:
        """Answer with what ``read`` finds, once it is linearizable or, if it may be stale, at once."""

        def answer(failure: Failed | None) -> None:
            result: Any = failure
            if failure is None:
                try:
                    result = read()
                except Failed as refused:
                    result = refused
            self._answer(call, result)

        if stale:
            self.member.host.call_later(0, answer, None)
        else:
            self.member.read(answer)

    # KV.

    def _range(self, call: Call, request: Any) -> None:
        checks.check_key(request)
        self._look(call, lambda: range_response(self.member.store, request), stale=request.serializable)

    def _put(self, call: Call, request: Any) -> None:
        checks.check_put(request)
        self._propose("put", call, request)

    def _delete(self, call: Call, request: Any) -> None:
        checks.check_key(request)
        self._propose("delete", call, request)

    def _txn(self, call: Call, request: Any) -> None:
        checks.check_txn(request)
        if is_readonly(request):
            self._look(call, lambda: self.member.applier.read(request), stale=is_serializable(request))
        else:
            self._propose("txn", call, request)

    def _compact(self, call: Call, request: Any) -> None:
        self._propose("compact", call, request)

    # Leases.

    def _grant(self, call: Call, request: Any) -> None:
        self._new_lease(request, lambda result: self._answer(call, result))
        self.granted[request.ID] = call.peer

    def _new_lease(self, request: Any, answer: Answer) -> None:
        while not request.ID:
            self._ids += 1
            request.ID = self._ids & (1 << 63) - 1
        self.member.propose("grant", request, answer)

    def _revoke(self, call: Call, request: Any) -> None:
        self._propose("revoke", call, request)

    def _time_to_live(self, call: Call, request: Any) -> None:
        def told(found: Any) -> None:
            if isinstance(found, Failed):
                self._answer_later(call, found)
                return
            response = etcdrpc.LeaseTimeToLiveResponse(ID=request.ID, TTL=-1)
            if found is not None:
                response.TTL, response.grantedTTL, keys = found
                if request.keys:
                    response.keys.extend(keys)
            self._answer_later(call, response)

        self._leases.ask("ttl", request.ID, told)

    def _list_leases(self, call: Call, _request: Any) -> None:
        leases = sorted(self.member.lessor.leases.values(), key=lambda lease: (lease.expiry or 0, lease.id))
        response = etcdrpc.LeaseLeasesResponse(leases=[etcdrpc.LeaseStatus(ID=lease.id) for lease in leases])
        self._answer_later(call, response)

    # What clients ask for by the way.

    def _status(self, call: Call, _request: Any) -> None:
        member = self.member
        response = etcdrpc.StatusResponse(
            version=VERSION,
            dbSize=_BYTES_A_KEY * len(member.store.history),
            leader=self._id_of(member.leader),
            raftIndex=member.raft.disk.applied,
            raftTerm=member.raft.disk.term,
        )
        self._answer_later(call, response)

    def _id_of(self, name: str | None) -> int:
        return 0 if name is None else id_of(name)

    def _members(self, call: Call, _request: Any) -> None:
        response = etcdrpc.MemberListResponse()
        for name in self._names:
            response.members.add(
                ID=self._id_of(name),
                name=name,
                peerURLs=[f"http://{name}:{PEER_PORT}"],
                clientURLs=[f"http://{name}:{self.port}"],
            )
        self._answer_later(call, response)
