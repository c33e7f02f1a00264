"""Execution of steps on a real or simulated etcd cluster, with answers that can be compared."""

from __future__ import annotations

import http.client
from collections.abc import Generator, Iterable
from typing import Any, Final

import etcd3
import grpc
from etcd3 import etcdrpc

from harness.fidelity.comparison import Step
from harness.fidelity.members import Address, Members, no_answer, wait_until

from .requests import shift_revisions
from .steps import from_text
from .v2 import V2Client
from .watches import SENTINEL, WatchStream

TIMEOUT_S: Final = 60.0
EXPIRING_LEASE: Final = 99
SHORT_S: Final = 1
"""Requested ttl of a lease that shall expire. etcd grants at least one and a half election time-outs."""
LONG_S: Final = 100
"""Granularity of compared ttls, which tolerates the seconds that a slow machine takes."""
MARGIN_S: Final = 10


def rounded_ttl(left_s: int) -> int:
    """Return the remaining seconds of a lease, rounded up to a multiple of ``LONG_S``; 0 and -1 (no lease) unchanged.

    Granted times are multiples. ``MARGIN_S`` is subtracted first, since a new leader adds an election time-out.
    """
    return left_s if left_s <= 0 else -(-(left_s - MARGIN_S) // LONG_S) * LONG_S


class Player:
    """Executes steps on one member.

    Listed leases are sorted if their order is not defined: only a leader lists them by the time of their expiry, and
    after a restart it counts all times from the same moment, in the random order of a Go map.
    """

    def __init__(self, members: Members) -> None:
        self._members = members
        self._home = 0
        self._client: Any = None
        self._v2: V2Client | None = None
        self._watches: WatchStream | None = None
        self._base = 0
        self._leases_in_order = True

    def run(self, steps: Iterable[Step]) -> Generator[str, None, None]:
        """Empty the server, and yield the answers to each step. The last answer says why there are no more."""
        try:
            self._begin()
            for step in steps:
                try:
                    answer = self._answer(*step)
                except (OSError, http.client.HTTPException, grpc.RpcError, AssertionError) as error:
                    yield no_answer(error)
                    return
                yield answer
        finally:
            self._disconnect()

    def _begin(self) -> None:
        self._connect(self._address)
        for lease in self._client.leasestub.LeaseLeases(etcdrpc.LeaseLeasesRequest()).leases:
            self._client.revoke_lease(lease.ID)
        self._client.put(SENTINEL, b"")
        every = etcdrpc.DeleteRangeRequest(key=b"\0", range_end=b"\0")
        self._base = self._client.kvstub.DeleteRange(every).header.revision
        self._client.compact(self._base)
        self._v2 = V2Client(self._address)
        self._leases_in_order = len(self._members.addresses) == 1
        self._watch()

    # Connections.

    @property
    def _address(self) -> Address:
        return self._members.addresses[self._home]

    def _connect(self, address: Address) -> None:
        """Connect as soon as the member answers with the consent of a majority."""

        def serves() -> bool:
            client = etcd3.client(*address, timeout=TIMEOUT_S)
            try:
                client.get(SENTINEL)
            except Exception:  # noqa: BLE001 - etcd3 raises errors of its own, of grpc, and of Python
                client.close()
                return False
            if self._client is not None:
                self._client.close()
            self._client = client
            return True

        wait_until(serves, "an answer from etcd")

    def _watch(self) -> None:
        self._watches = WatchStream(self._client, self._text)

    def _disconnect(self) -> None:
        for part in (self._watches, self._v2, self._client):
            if part is not None:
                part.close()
        self._watches = self._client = None

    # Steps.

    def _answer(self, what: str, *arguments: Any) -> str:
        match what:
            case "call":
                return self._call(*arguments)
            case "v2":
                return repr(self._keys.send(*arguments))
            case "events":
                return self._stream.events()
            case "expire":
                return self._expire(arguments)
            case "v2 expire":
                return self._expire_v2(*arguments)
            case "pause":
                return self._pause(*arguments)
        return self._restart(*arguments)

    @property
    def _stream(self) -> WatchStream:
        assert self._watches is not None
        return self._watches

    @property
    def _keys(self) -> V2Client:
        assert self._v2 is not None
        return self._v2

    def _request(self, method: str, text: str) -> Any:
        return shift_revisions(from_text(method, text), self._base)

    def _stub(self, method: str) -> Any:
        stub = self._client.leasestub if method.startswith("Lease") else self._client.kvstub
        return getattr(stub, method)

    def _call(self, method: str, text: str) -> str:
        request = self._request(method, text)
        if method == "Watch":
            return self._stream.request(request)
        try:
            if method == "LeaseKeepAlive":
                return "; ".join(map(self._text, self._stub(method)(iter([request]), timeout=TIMEOUT_S)))
            return self._text(self._stub(method)(request, timeout=TIMEOUT_S))
        except grpc.RpcError as error:
            return f"{error.code().name} {error.details()}"

    def _pause(self, method: str, text: str) -> str:
        self._members.pause(self._home)
        future = self._stub(method).future(self._request(method, text), timeout=TIMEOUT_S)
        self._members.resume(self._home)
        try:
            return self._text(future.result())
        except grpc.RpcError as error:
            return f"{error.code().name} {error.details()}"

    def _expire(self, keys: tuple[bytes, ...]) -> str:
        lease = self._client.leasestub.LeaseGrant(etcdrpc.LeaseGrantRequest(TTL=SHORT_S, ID=EXPIRING_LEASE))
        for key in keys:
            self._client.kvstub.Put(etcdrpc.PutRequest(key=key, value=b"expires", lease=EXPIRING_LEASE))
        wait_until(lambda: all(self._client.get(key)[0] is None for key in keys), "the end of a lease")
        left = self._call("LeaseTimeToLive", f"ID: {EXPIRING_LEASE} keys: true")
        return f"{self._text(lease)}; {left}"

    def _expire_v2(self, key: str) -> str:
        created = self._keys.send("PUT", key, (("value", "expires"), ("ttl", str(SHORT_S))))
        wait_until(lambda: not self._keys.exists(key), "the end of a key's ttl")
        return repr((created, self._keys.send("GET", key, ())))

    def _restart(self, data: str) -> str:
        """Restart the member that is used. Another one is used afterwards, if there is one."""
        events, index = self._stream.events(), self._keys.index()
        member = self._home
        self._disconnect()
        self._members.kill(member)
        if data == "without data":
            self._members.start(member, with_data=False)
            self._begin()
            return events
        self._leases_in_order = False
        self._home = (member + 1) % len(self._members.addresses)
        if self._home == member:
            self._members.start(member, with_data=True)
        self._connect(self._address)
        if self._home != member:
            self._members.start(member, with_data=True)
            self._connect(self._members.addresses[member])  # returns when it has joined the others
            self._connect(self._address)
        self._keys.move(self._address)
        self._keys.set_index(index)
        self._watch()
        return events

    def _text(self, response: Any) -> str:
        """Return a response as text, without what depends on the speed of the machine."""
        copy = shift_revisions(response, -self._base)
        if isinstance(copy, etcdrpc.LeaseTimeToLiveResponse):
            copy.TTL = rounded_ttl(copy.TTL)
            keys = sorted(copy.keys)
            del copy.keys[:]
            copy.keys.extend(keys)
        if isinstance(copy, etcdrpc.LeaseLeasesResponse) and not self._leases_in_order:
            leases = sorted(lease.ID for lease in copy.leases)
            copy = etcdrpc.LeaseLeasesResponse(leases=[etcdrpc.LeaseStatus(ID=lease) for lease in leases])
        return " ".join(str(copy).split())
