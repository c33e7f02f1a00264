"""The simulated etcd as the specification of a recorded member or cluster.

All members apply the same requests in the same order, so one state stands for them. It is that of the simulated member:
its store, its leases, its watches and its checks, without consensus. A search lets a lease expire, once it may not have
been renewed for its ttl.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Final

from harness.clusters.wire import WireRecording
from harness.fidelity.simulated import SteppedHost
from harness.protocols.etcd import (
    CALLS,
    MESSAGE,
    STATUS,
    WATCH,
    EtcdParser,
    answers,
    method_of,
    parsed,
    parts,
    response_of,
)
from harness.protocols.messages import Reply, Request
from harness.sim.grpc_wire import StatusError
from harness.sim.servers.etcd import checks, messages
from harness.sim.servers.etcd.apply import Applier, is_readonly, range_response
from harness.sim.servers.etcd.lessor import Lessor
from harness.sim.servers.etcd.store import EtcdStore, KeyValue
from harness.sim.servers.etcd.watch import SYNC_INTERVAL_NS, WatchService
from harness.sim.service import Conn, ServiceHost

from .clock import ServerClock
from .conversation import Conversation, Life, Limit, in_order
from .etcd_order import UNORDERED, Revisions, pairs, put_in_order
from .service import Service
from .specification import Moment, Specification

HEARTBEAT_MS: Final = 100
ELECTION_MS: Final = 1000
_CHECKS: Final[dict[str, Callable[[Any], None]]] = {
    "Range": checks.check_key, "Put": checks.check_put, "DeleteRange": checks.check_key, "Txn": checks.check_txn,
}  # fmt: skip
_APPLIED: Final = {
    "Put": "put", "DeleteRange": "delete", "Txn": "txn", "Compact": "compact", "LeaseGrant": "grant",
    "LeaseRevoke": "revoke",
}  # fmt: skip
"""Names of entries of the log."""
_OF_A_LEASE: Final = UNORDERED | {"LeaseRevoke"}
"""Methods whose request names a lease."""
_UNKNOWN_LEASE: Final = 0x7F << 56
"""From here on are the ids of leases whose client got no answer."""


class _NoService:
    """The service of a host that has none."""

    port = 0

    def start(self, host: ServiceHost, *, wiped: bool) -> None: ...

    def stop(self) -> None: ...

    def opened(self, conn: Conn) -> None: ...

    def received(self, conn: Conn, data: bytes) -> None: ...

    def closed(self, conn: Conn) -> None: ...


class _Call:
    """The server's end of a call. What it sends is put into ``sent`` with the call's number, as a recording has it."""

    def __init__(self, number: int, method: str, sent: list[tuple[int, bytes]]) -> None:
        self._number = number
        self._method = method
        self._sent = sent

    def send(self, message: bytes) -> None:
        """Send a response, as one reply for each event if it is one to a watch."""
        self._sent += [(self._number, MESSAGE + part) for part in parts(self._method, message)]

    def refuse(self, refused: StatusError) -> None:
        self._sent.append((self._number, STATUS + f"{refused.code} {refused.details}".encode()))


class _State:
    """The replicated state of a member, its watches and its checks."""

    def __init__(self, min_ttl: int, now_ns: int = 0) -> None:
        self.host = SteppedHost(_NoService(), 0)
        self.host.now = now_ns
        self.store = EtcdStore()
        self.lessor = Lessor(min_ttl)
        self.lessor.start(self.host, self._ignore)
        self.lessor.promote(0)
        self.applier = Applier(self.store, self.lessor, self._changed)
        self.calls: dict[int, _Call] = {}
        self.sent: list[tuple[int, bytes]] = []
        """Replies that were not taken yet, with the numbers of their calls."""
        self.forget_calls()

    def forget_calls(self) -> None:
        """Drop all watches."""
        self.calls.clear()
        self.sent.clear()
        self.watches = WatchService(self._get_store, self._header, self._ignore, self._get_host)

    def _get_store(self) -> EtcdStore:
        return self.store

    def _get_host(self) -> SteppedHost:
        return self.host

    def _ignore(self, _: Any) -> None: ...

    def _header(self, header: Any, revision: int) -> None:
        header.revision = revision or self.store.revision

    def _changed(self, changes: list[KeyValue]) -> None:
        self.watches.changed(changes)

    def execute(self, number: int, method: str, data: bytes) -> None:
        """Execute a request of a call."""
        call = self.calls.setdefault(number, _Call(number, method, self.sent))
        if method == WATCH:
            self.watches.message(call, data)  # type: ignore[arg-type]
            self.host.run_timers(SYNC_INTERVAL_NS)
            return
        request = CALLS[method][0].FromString(data)
        try:
            _CHECKS.get(method, self._ignore)(request)
            response = self._response(method, request)
        except StatusError as refused:
            call.refuse(refused)
            return
        if not response.header.revision:
            response.header.revision = self.store.revision
        call.send(response.SerializeToString())

    def _response(self, method: str, request: Any) -> Any:
        if method == "Range":
            return range_response(self.store, request)
        if method == "Txn" and is_readonly(request):
            return self.applier.read(request)
        if method == "LeaseKeepAlive":
            ttl: list[int | None] = []
            if request.ID in self.lessor.leases:
                self.lessor.leases[request.ID].expiry = None  # a leader may have prolonged it
            self.lessor.renew(request.ID, ttl.append)
            return messages.LeaseKeepAliveResponse(ID=request.ID, TTL=(ttl and ttl[0]) or 0)
        if method == "LeaseTimeToLive":
            lease = self.lessor.leases.get(request.ID)
            return messages.LeaseTimeToLiveResponse(ID=request.ID, TTL=-1 if lease is None else lease.ttl)
        return self.applier.apply(_APPLIED[method], request.SerializeToString(), wants_response=True)


class EtcdSpecification(Specification):
    """How a search drives the simulated state, for lives that it puts into the order of revisions. ``min_ttl`` is the
    shortest ttl of a lease, seconds."""

    def __init__(self, found: Sequence[Life], min_ttl: int) -> None:
        self._min_ttl = min_ttl
        self._revisions = {life.began_ns: put_in_order(life) for life in found}
        self._responses = {
            id(request): response_of(method_of(request), reply.data)
            for life in found for talk in life.conversations for request, reply in pairs(talk)
        }  # fmt: skip
        self._lease_ids = {id(one): parsed(one).ID for one in in_order(found) if method_of(one) in _OF_A_LEASE}
        self._several = any(_most_watches(talk) > 1 for life in found for talk in life.conversations)
        self._now: Revisions | None = None
        self._state = _State(min_ttl)
        self._heard_ns: dict[int, int] = {}
        """Time at which a lease was granted or renewed last, at the earliest."""

    @property
    def undecided(self) -> str:
        return "the events of several watches of a call may come in any order" if self._several else ""

    # Driving the server.

    def start(self, life: Life, chosen: int) -> None:  # noqa: ARG002
        self._now = self._revisions[life.began_ns]
        if life.how != "kept":
            self._state = _State(self._min_ttl, life.began_ns)
            self._heard_ns.clear()
        self._state.forget_calls()

    def execute(self, talk: Conversation, request: Request, chosen: int, moment: Moment) -> None:  # noqa: ARG002
        method, data, host = method_of(request), request.data, self._state.host
        host.now = request.arrived_ns
        if method == "LeaseGrant":
            granted = parsed(request)
            response = self._responses.get(id(request))
            granted.ID = granted.ID or (_UNKNOWN_LEASE + talk.number if response is None else response.ID)
            data = granted.SerializeToString()
        elif method == "LeaseKeepAlive":
            lease = parsed(request).ID
            host.now = self._heard_ns[lease] = max(self._heard_ns.get(lease, 0), request.arrived_ns)
        self._state.execute(talk.number, method, data)

    def passing(self, before_ns: int) -> Sequence[int]:  # noqa: ARG002
        """Return the leases that may expire."""
        if self._now is None:
            return ()
        state = self._state
        following = state.store.revision + 1
        state.host.now = self._now.said.latest_ns(following)
        leases = [lease for lease in state.lessor.leases if state.lessor.left(lease) == 0]
        return [one for one in leases if not state.store.leases.get(one) or following not in self._now.claimed]

    def let_pass(self, chosen: int) -> None:
        request = messages.LeaseRevokeRequest(ID=chosen)
        self._state.applier.apply("revoke", request.SerializeToString(), wants_response=False)

    def close(self, talk: Conversation) -> None:
        call = self._state.calls.pop(talk.number, None)
        if call is not None:
            self._state.watches.dropped(call)  # type: ignore[arg-type]

    def sent(self) -> list[tuple[int, bytes]]:
        found = [one for one in self._state.sent if one[0] in self._state.calls]
        self._state.sent.clear()
        return found

    def prompt(self, request: Request) -> bool:  # noqa: ARG002
        return True

    def choices(self, request: Request, reply: Reply | None, moment: Moment) -> Sequence[int]:  # noqa: ARG002
        """Return 1 if the request may be executed now: the next revision is not another request's, a lease is there as
        the reply says, and the next message of a watch is no event."""
        assert self._now is not None, "the server has not been started"
        method, state = method_of(request), self._state
        response, following = self._responses.get(id(request)), state.store.revision + 1
        if method == WATCH:
            return (1,) if reply is None or answers(method, reply.data[1:]) else ()
        lease = self._lease_ids.get(id(request), 0)
        if method in UNORDERED:
            return (1,) if response and (response.TTL > 0) == (lease in state.lessor.leases) else ()
        changes = method != "LeaseRevoke" or bool(state.store.leases.get(lease))
        if id(request) not in self._responses:
            free = method == "LeaseGrant" or not changes or following not in self._now.claimed
            return (1,) if free else ()
        if method == "LeaseRevoke" and response is not None:
            free = following not in self._now.claimed and response.header.revision == following
            return (1,) if (free if changes else response.header.revision == following - 1) else ()
        return (1,)

    # Comparing.

    def same(self, request: Request, real: bytes, simulated: bytes) -> bool:
        method = method_of(request)
        one, other = response_of(method, real), response_of(method, simulated)
        if one is None or other is None:
            return real[:3] == simulated[:3] and real[:1] == STATUS
        if method == "LeaseTimeToLive":
            return bool((one.TTL < 0) == (other.TTL < 0))
        for response in (one, other):
            revision = response.header.revision
            response.ClearField("header")
            if method not in UNORDERED:
                response.header.revision = revision
        same: bool = one == other
        return same

    def shown_request(self, request: Request) -> str:
        return f"{method_of(request)} {' '.join(str(parsed(request)).split())}"

    def shown_reply(self, data: bytes) -> str:
        return data.decode(errors="backslashreplace")

    def digest(self) -> Hashable:
        store = self._state.store
        return store.revision, store.compact_revision, frozenset(store.range(b"\0", b"\0")), self._leases()

    def _leases(self) -> Hashable:
        return frozenset((lease.id, lease.ttl) for lease in self._state.lessor.leases.values())

    # Copies.

    def checkpoint(self) -> Any:
        return pickle.dumps((self._state, self._heard_ns)), self._now

    def restore(self, state: Any) -> None:
        pickled, self._now = state
        self._state, self._heard_ns = pickle.loads(pickled)


def _most_watches(talk: Conversation) -> int:
    """Return the largest number of watches that a call has had at a time."""
    watches = most = 0
    for request in talk.requests if method_of(talk.requests[0]) == WATCH else ():
        watches += 1 if parsed(request).WhichOneof("request_union") == "create_request" else -1
        most = max(most, watches)
    return most


def limit(recording: WireRecording, found: Sequence[Life], options: Mapping[str, Any]) -> Limit | None:
    """Return why the traffic of a member cannot be checked, and from when on; None if all can."""
    del recording, options
    for request in in_order(found):
        if method_of(request) not in CALLS:
            return Limit(f"{method_of(request)} takes several steps, or is not simulated", request.arrived_ns)
    return None


def _specification(
    found: Sequence[Life], clocks: Sequence[ServerClock], options: Mapping[str, Any]
) -> EtcdSpecification:
    del clocks
    heartbeat, election = int(options.get("heartbeat_ms", HEARTBEAT_MS)), int(options.get("election_ms", ELECTION_MS))
    return EtcdSpecification(found, -(-3 * (election // heartbeat) // 2 * heartbeat // 1000))


SERVICE: Final = Service(EtcdParser, _specification, limit, replicated=True)
