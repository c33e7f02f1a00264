"""Recorded traffic of etcd members: what the simulated server can explain, and what it cannot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hpack import Encoder
from hyperframe.frame import DataFrame, HeadersFrame, SettingsFrame

from harness.clusters.wire import WireRecording
from harness.documents.trace import ServerTrace
from harness.fidelity.trace.check import check_recordings
from harness.protocols.http2 import PREFACE
from harness.sim.servers.etcd import messages as m
from harness.sim.servers.etcd.apply import Applier
from harness.sim.servers.etcd.lessor import Lessor
from harness.sim.servers.etcd.watch import WatchService
from tests.fidelity.traffic import Traffic, runs_of, servers_of

TTL_S = 2
LEASE = 5


def check(*members: Member) -> ServerTrace:
    (found,) = check_recordings([member.recording() for member in members], {})
    return found


def header(revision: int) -> Any:
    return m.ResponseHeader(revision=revision, member_id=7)


def exists(key: str, version: int) -> Any:
    return m.Compare(key=key.encode(), target=m.Compare.VERSION, result=m.Compare.EQUAL, version=version)


def kv(key: str, mod: int, **fields: Any) -> Any:
    return m.KeyValue(key=key.encode(), create_revision=mod, mod_revision=mod, version=1, value=b"v", **fields)


class Member:
    """Builds the recording of a member, with one connection. All times are ms, and replies come after 1 ms."""

    def __init__(self, host: str = "n1") -> None:
        self._host = host
        self.traffic = Traffic("etcd")
        self._encoders = {"in": Encoder(), "out": Encoder()}
        self._stream = -1
        self.traffic.add("open", 0.5, connection=1, peer="10.0.0.1:1")
        self.traffic.add("in", 0.5, connection=1, data=PREFACE + SettingsFrame(0).serialize())

    def _send(self, what: str, at: float, stream: int, headers: dict[str, str], *bodies: bytes) -> None:
        data = b""
        if headers:
            frame = HeadersFrame(stream, self._encoders[what].encode(list(headers.items())), flags=["END_HEADERS"])
            data += frame.serialize()
        for body in bodies:
            data += DataFrame(stream, b"\0" + len(body).to_bytes(4, "big") + body).serialize()
        self.traffic.add(what, at, connection=1, data=data)

    def call(self, at: float, method: str, request: Any, response: Any = None, status: str = "") -> int:
        """Call a method, and return the number of its stream. There is no reply without a response or a status."""
        self._stream += 2
        self._send("in", at, self._stream, {":path": f"/etcdserverpb.X/{method}"}, request.SerializeToString())
        if status:
            code, _, text = status.partition(" ")
            self._send("out", at + 1, self._stream, {"grpc-status": code, "grpc-message": text})
        elif response is not None:
            self._send("out", at + 1, self._stream, {":status": "200"}, response.SerializeToString())
        return self._stream

    def put(self, at: float, key: str, revision: int | None, lease: int = 0) -> Member:
        response = None if revision is None else m.PutResponse(header=header(revision))
        self.call(at, "Put", m.PutRequest(key=key.encode(), value=b"v", lease=lease), response)
        return self

    def create(self, at: float, key: str, revision: int, *, succeeded: bool) -> Member:
        """Put a key if it does not exist."""
        put = m.RequestOp(request_put=m.PutRequest(key=key.encode(), value=b"v"))
        response = m.TxnResponse(header=header(revision), succeeded=succeeded)
        if succeeded:
            response.responses.add(response_put=m.PutResponse(header=m.ResponseHeader(revision=revision)))
        self.call(at, "Txn", m.TxnRequest(compare=[exists(key, 0)], success=[put]), response)
        return self

    def read(self, at: float, key: str, revision: int, *kvs: Any, serializable: bool = False) -> Member:
        request = m.RangeRequest(key=key.encode(), serializable=serializable)
        self.call(at, "Range", request, m.RangeResponse(header=header(revision), kvs=kvs, count=len(kvs)))
        return self

    def grant(self, at: float, revision: int) -> Member:
        response = m.LeaseGrantResponse(header=header(revision), ID=LEASE, TTL=TTL_S)
        self.call(at, "LeaseGrant", m.LeaseGrantRequest(TTL=TTL_S), response)
        return self

    def renew(self, at: float, ttl: int) -> Member:
        response = m.LeaseKeepAliveResponse(header=header(1), ID=LEASE, TTL=ttl)
        self.call(at, "LeaseKeepAlive", m.LeaseKeepAliveRequest(ID=LEASE), response)
        return self

    def watch(self, at: float, key: str, revision: int) -> int:
        request = m.WatchRequest(create_request=m.WatchCreateRequest(key=key.encode()))
        return self.call(at, "Watch", request, m.WatchResponse(header=header(revision), created=True))

    def event(self, at: float, stream: int, *kvs: Any) -> Member:
        response = m.WatchResponse(header=header(99), events=[m.Event(kv=one) for one in kvs])
        self._send("out", at, stream, {}, response.SerializeToString())
        return self

    def recording(self) -> WireRecording:
        return msgspec.structs.replace(self.traffic.recording(), host=self._host)

    @property
    def state(self) -> str:
        return check(self).state


@pytest.mark.few(1)
@pytest.mark.parametrize("name", runs_of("etcd"))
def test_traffic_of_real_members_is_possible(name: str) -> None:
    (found,) = check_recordings(servers_of(name), {})
    assert (found.state, found.why, found.difference) == ("possible", "", None)
    assert found.requests > 300


# Order.


def test_concurrent_transactions_have_one_winner_in_the_order_of_revisions() -> None:
    def both(first: tuple[int, bool], second: tuple[int, bool]) -> str:
        member = Member().create(5, "k", first[0], succeeded=first[1])
        return member.create(5.5, "k", second[0], succeeded=second[1]).state

    assert both((2, True), (2, False)) == both((2, False), (2, True)) == "possible"
    assert both((2, True), (3, True)) == both((1, False), (1, False)) == "impossible"


def test_revisions_are_given_without_gaps_and_once() -> None:
    assert Member().put(5, "k", 2).put(7, "k", 3).state == "possible"
    assert Member().put(5, "k", 3).state == Member().put(5, "k", 2).put(7, "l", 2).state == "impossible"


def test_read_is_linearizable_across_members_unless_it_is_serializable() -> None:
    def stale(serializable: bool) -> str:
        return check(Member().put(5, "k", 2), Member("n2").read(10, "k", 1, serializable=serializable)).state

    assert (stale(serializable=True), stale(serializable=False)) == ("possible", "impossible")


def test_values_are_those_of_the_revision() -> None:
    assert Member().put(5, "k", 2).read(10, "k", 2, kv("k", 2)).state == "possible"
    assert Member().put(5, "k", 2).read(10, "k", 2, kv("k", 3)).state == "impossible"
    assert Member().put(5, "k", 2).read(10, "k", 2).state == "impossible"


def test_request_without_a_certain_answer_was_executed_or_not() -> None:
    for revision, kvs in ((1, []), (2, [kv("k", 2)])):
        member = Member()
        member.call(5, "Put", m.PutRequest(key=b"k", value=b"v"), status="14 etcdserver: request timed out")
        assert member.read(10, "k", revision, *kvs).state == "possible"
    assert Member().read(10, "k", 2, kv("k", 2)).state == "impossible"


# Leases and watches.


@pytest.mark.parametrize(("read_ms", "expected"), [(1_500, "impossible"), (2_100, "possible")])
def test_lease_ends_after_its_ttl_at_the_earliest(read_ms: float, expected: str) -> None:
    assert Member().grant(5, 1).put(7, "k", 2, LEASE).read(read_ms, "k", 3).state == expected


def test_lease_that_is_renewed_does_not_end() -> None:
    member = Member().grant(5, 1).put(7, "k", 2, LEASE).renew(1_500, TTL_S)
    assert member.read(2_100, "k", 3).state == "impossible"


def test_renewal_of_a_lease_that_is_there_succeeds() -> None:
    assert Member().grant(5, 1).renew(10, TTL_S).state == "possible"
    assert Member().renew(10, TTL_S).state == "impossible"


def test_key_of_a_lease_that_does_not_exist_is_refused() -> None:
    def refused(status: str) -> str:
        member = Member()
        member.call(5, "Put", m.PutRequest(key=b"k", lease=LEASE), status=status)
        return member.state

    assert refused("5 etcdserver: requested lease not found") == "possible"
    assert refused("9 etcdserver: lease already exists") == "impossible"


def test_watch_tells_of_each_change_of_its_key_in_their_order() -> None:
    def watched(*revisions: int) -> str:
        member = Member()
        stream = member.watch(3, "k", 1)
        member.put(5, "k", 2).put(7, "l", 3).put(9, "k", 4)
        versions = {2: (2, 1), 3: (3, 1), 4: (2, 2)}
        for at, revision in enumerate(revisions):
            create, version = versions[revision]
            found = m.KeyValue(key=b"k", create_revision=create, mod_revision=revision, version=version, value=b"v")
            member.event(20 + at, stream, found)
        return member.state

    assert watched(2, 4) == watched(2) == "possible"
    assert watched(4) == watched(4, 2) == watched(2, 3) == "impossible"


def test_events_of_several_watches_of_a_call_are_never_impossible() -> None:
    member = Member()
    stream = member.watch(3, "k", 1)
    again = m.WatchRequest(create_request=m.WatchCreateRequest(key=b"l"))
    member._send("in", 4, stream, {}, again.SerializeToString())
    member._send("out", 5, stream, {}, m.WatchResponse(header=header(1), created=True, watch_id=1).SerializeToString())
    member.event(8, stream, kv("k", 2))
    assert (member.state, "several watches" in check(member).why) == ("unknown", True)


# What is not checked.


def test_traffic_is_checked_until_a_method_takes_several_steps() -> None:
    member = Member().put(5, "k", 2)
    member.call(7, "Lock", m.LockRequest(name=b"k"))
    found = check(member)
    assert (found.state, found.requests) == ("possible", 1)
    assert "Lock takes several steps" in found.why


def test_other_clients_and_calls_about_the_process_are_left_out() -> None:
    member = Member()
    member.call(5, "Status", m.StatusRequest(), m.StatusResponse(version="9"))
    member.traffic.bytes(2, 7, 8, b"GET /v2/keys/k HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n")
    assert check(member.put(9, "k", 2)).requests == 1


def test_data_that_is_not_http2_is_unknown() -> None:
    member = Member()
    member.traffic.add("in", 5, connection=1, data=b"\x00\x00\x04\x01\x04\x00\x00\x00\x01\xff\xff\xff\xff")
    assert "not readable" in check(member).why


# Mistakes in the simulated server are found in the traffic of real ones.


def _leases_last_longer(patch: pytest.MonkeyPatch) -> None:
    grant = Lessor.grant
    patch.setattr(Lessor, "grant", lambda self, number, ttl: grant(self, number, ttl + 1))


def _comparisons_succeed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Applier, "_is_true", lambda self, compare: True)


def _watches_are_silent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(WatchService, "_send_events", lambda self, watch, changes: None)


@pytest.mark.parametrize(
    ("mistake", "found"),
    [
        (_leases_last_longer, lambda: Member().grant(5, 1).put(7, "k", 2, LEASE).read(2_100, "k", 3)),
        (_comparisons_succeed, lambda: Member().put(5, "k", 2).create(7, "k", 2, succeeded=False)),
    ],
)
def test_mistake_in_the_simulated_server_is_found(
    monkeypatch: pytest.MonkeyPatch, mistake: Callable[[pytest.MonkeyPatch], None], found: Callable[[], Member]
) -> None:
    assert found().state == "possible"
    mistake(monkeypatch)
    assert found().state == "impossible"


def test_simulated_watches_that_are_silent_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    _watches_are_silent(monkeypatch)
    (found,) = check_recordings(servers_of("etcd-kill"), {})
    assert found.state == "impossible"
