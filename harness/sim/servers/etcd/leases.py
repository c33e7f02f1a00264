"""The Lease service of one member: api/v3rpc/lease.go, and its questions to the leader (lease/leasehttp).

Only the leader knows when a lease ends, so others pass renewals and questions on to it, not through Raft: a leader that
has been cut off answers them until it steps down. Abstracted: leasehttp's requests go over the members' streams, and
are repeated twice a second until they are answered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from etcd3 import etcdrpc

from ...grpc_wire import Call, Failed
from ...kernel import MILLISECOND, SECOND
from .lessor import NO_LONGER, Lease, NotPrimary
from .member import UNAVAILABLE, Member, timed_out

AGAIN: Final = 500 * MILLISECOND
GONE: Final = 0
"""The ttl that a renewal of a lease finds that is no more."""
Told = Callable[[Any], None]
"""Takes what the leader said (None: no such lease), or Failed."""


class Leases:
    """Asks the leader, wherever it is."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._asked: dict[int, Told] = {}
        self._number = 0
        member.on_peer["lease?"] = self._on_question
        member.on_peer["lease"] = self._on_answer

    def stop(self) -> None:
        self._asked.clear()

    def ask(self, what: str, lease: int, told: Told) -> None:
        """``what`` is "renew" (told the ttl) or "ttl" (told seconds left, the ttl, and the keys)."""
        self._number += 1
        self._asked[self._number] = told
        self._try(self._number, what, lease, None)

    def _try(self, number: int, what: str, lease: int, deadline: int | None) -> None:
        """Answer here, however long that takes, or have the leader answer before a ``deadline``."""
        member = self._member
        if number not in self._asked:
            return
        try:
            self._here(what, lease, lambda found: self._heard(number, found, what, lease))
        except NotPrimary:
            now = member.host.monotonic_ns()
            deadline = now + member.timeout_ns if deadline is None else deadline
            if now >= deadline:
                self._tell(number, timed_out() if member.leader else Failed(UNAVAILABLE, "etcdserver: no leader"))
                return
            if member.leader is not None and not member.leads:
                member.send(member.leader, {"kind": "lease?", "what": what, "lease": lease, "number": number})
            member.host.call_later(AGAIN, self._try, number, what, lease, deadline)

    def _here(self, what: str, lease: int, done: Told) -> None:
        """Answer at the leader; raises NotPrimary elsewhere."""
        member = self._member
        if what == "renew":
            member.lessor.renew(lease, done)
        elif not member.leads:
            raise NotPrimary
        else:
            found = member.lessor.leases.get(lease)
            done(None if found is None else self._describe(found))

    def _describe(self, lease: Lease) -> list[Any]:
        left = self._member.lessor.remaining(lease)
        seconds = left // SECOND if left >= 0 else -(-left // SECOND)  # towards zero, as Go converts
        return [seconds, lease.ttl, sorted(self._member.store.leases.get(lease.id, ()))]

    def _heard(self, number: int, found: Any, what: str, lease: int) -> None:
        if found == NO_LONGER:
            self._try(number, what, lease, None)
        else:
            self._tell(number, found)

    def _tell(self, number: int, found: Any) -> None:
        told = self._asked.pop(number, None)
        if told is not None:
            told(found)

    def _on_question(self, peer: str, message: dict[str, Any]) -> None:
        def done(found: Any) -> None:
            self._member.send(peer, {"kind": "lease", "number": message["number"], "found": found})

        try:
            self._here(message["what"], message["lease"], done)
        except NotPrimary:
            done(NO_LONGER)

    def _on_answer(self, _peer: str, message: dict[str, Any]) -> None:
        if message["found"] != NO_LONGER:
            self._tell(message["number"], message["found"])


class KeepAlive:
    """LeaseKeepAlive calls (:class:`~harness.sim.grpc_wire.Methods`): the requests of one are answered in turn."""

    def __init__(self, member: Member, leases: Leases, reply: Callable[[Call, Any], None]) -> None:
        self._member = member
        self._leases = leases
        self._reply = reply
        self._queues: dict[Call, deque[int | None]] = {}

    def stop(self) -> None:
        self._queues.clear()

    def message(self, call: Call, data: bytes) -> None:
        self._put(call, etcdrpc.LeaseKeepAliveRequest.FromString(data).ID)

    def ended(self, call: Call) -> None:
        self._put(call, None)

    def dropped(self, call: Call) -> None:
        self._queues.pop(call, None)

    def _put(self, call: Call, lease: int | None) -> None:
        queue = self._queues.setdefault(call, deque())
        queue.append(lease)
        if len(queue) == 1:
            self._next(call)

    def _next(self, call: Call) -> None:
        queue = self._queues.get(call)
        if not queue:
            return
        lease = queue[0]
        if lease is None:
            del self._queues[call]
            call.end()
            return
        response = etcdrpc.LeaseKeepAliveResponse(ID=lease)
        self._member.header(response.header)

        def told(found: Any) -> None:
            self._member.host.call_later(0, self._done, call, response, found)

        self._leases.ask("renew", lease, told)

    def _done(self, call: Call, response: Any, found: Any) -> None:
        queue = self._queues.get(call)
        if not queue:
            return
        if isinstance(found, Failed):
            del self._queues[call]
            call.end(found.code, found.details)
            return
        response.TTL = GONE if found is None else found
        self._reply(call, response)
        queue.popleft()
        self._next(call)
