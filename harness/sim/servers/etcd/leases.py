"""Lease renewals and queries on one etcd member, forwarded to the leader (api/v3rpc/lease.go, lease/leasehttp).

Only the leader knows when a lease expires, so other members forward renewals and queries to it, without Raft: an
isolated leader answers them until it steps down. Abstracted: leasehttp's requests travel on the members' streams and
are repeated twice a second until they are answered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

from harness.sim.grpc_wire import ServerCall, StatusError
from harness.sim.kernel import MILLISECOND, SECOND

from . import messages
from .lessor import NO_LONGER_PRIMARY, LessorLease, NotPrimary
from .member import UNAVAILABLE, Member, timed_out

ASK_AGAIN_NS: Final = 500 * MILLISECOND
TTL_OF_GONE_LEASE: Final = 0
"""The ttl in the response to the renewal of a lease that does not exist."""
OnLeaseAnswer = Callable[[Any], None]
"""Called with the leader's answer (None if the lease does not exist), or with StatusError."""


class LeaseForwarder:
    """Forwards renewals and queries of leases to the leader."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._pending: dict[int, OnLeaseAnswer] = {}
        self._number = 0
        member.peer_handlers["lease?"] = self._on_question
        member.peer_handlers["lease"] = self._on_answer

    def stop(self) -> None:
        self._pending.clear()

    def ask(self, what: str, lease: int, done: OnLeaseAnswer) -> None:
        """Send a request about a lease to the leader and call ``done`` with the answer.

        ``what`` is "renew", answered with the ttl in seconds, or "ttl", answered with [seconds left, ttl, keys].
        """
        self._number += 1
        self._pending[self._number] = done
        self._attempt(self._number, what, lease, None)

    def _attempt(self, number: int, what: str, lease: int, deadline: int | None) -> None:
        """Answer at once if this member leads; otherwise ask the leader until it answers or ``deadline`` passes."""
        member = self._member
        if number not in self._pending:
            return
        try:
            self._answer_locally(what, lease, lambda answer: self._on_local_answer(number, answer, what, lease))
        except NotPrimary:
            now = member.host.monotonic_ns()
            deadline = now + member.timeout_ns if deadline is None else deadline
            if now >= deadline:
                self._finish(
                    number, timed_out() if member.leader else StatusError(UNAVAILABLE, "etcdserver: no leader")
                )
                return
            if member.leader is not None and not member.leads:
                member.send(member.leader, {"kind": "lease?", "what": what, "lease": lease, "number": number})
            member.host.call_later(ASK_AGAIN_NS, self._attempt, number, what, lease, deadline)

    def _answer_locally(self, what: str, lease: int, done: OnLeaseAnswer) -> None:
        """Call ``done`` with the answer if this member leads; raises NotPrimary otherwise."""
        member = self._member
        if what == "renew":
            member.lessor.renew(lease, done)
        elif not member.leads:
            raise NotPrimary
        else:
            found = member.lessor.leases.get(lease)
            done(None if found is None else self._describe(found))

    def _describe(self, lease: LessorLease) -> list[Any]:
        left = self._member.lessor.remaining(lease)
        seconds = left // SECOND if left >= 0 else -(-left // SECOND)  # towards zero, as Go converts
        return [seconds, lease.ttl, sorted(self._member.store.leases.get(lease.id, ()))]

    def _on_local_answer(self, number: int, answer: Any, what: str, lease: int) -> None:
        if answer == NO_LONGER_PRIMARY:
            self._attempt(number, what, lease, None)
        else:
            self._finish(number, answer)

    def _finish(self, number: int, answer: Any) -> None:
        done = self._pending.pop(number, None)
        if done is not None:
            done(answer)

    def _on_question(self, peer: str, message: dict[str, Any]) -> None:
        def done(answer: Any) -> None:
            self._member.send(peer, {"kind": "lease", "number": message["number"], "found": answer})

        try:
            self._answer_locally(message["what"], message["lease"], done)
        except NotPrimary:
            done(NO_LONGER_PRIMARY)

    def _on_answer(self, _peer: str, message: dict[str, Any]) -> None:
        if message["found"] != NO_LONGER_PRIMARY:
            self._finish(message["number"], message["found"])


class KeepAlive:
    """LeaseKeepAlive calls (:class:`~harness.sim.grpc_wire.MethodHandler`): answers each call's requests in order."""

    def __init__(self, member: Member, leases: LeaseForwarder, reply: Callable[[ServerCall, Any], None]) -> None:
        self._member = member
        self._leases = leases
        self._reply = reply
        self._queues: dict[ServerCall, deque[int | None]] = {}

    def stop(self) -> None:
        self._queues.clear()

    def message(self, call: ServerCall, data: bytes) -> None:
        self._put(call, messages.LeaseKeepAliveRequest.FromString(data).ID)

    def ended(self, call: ServerCall) -> None:
        self._put(call, None)

    def dropped(self, call: ServerCall) -> None:
        self._queues.pop(call, None)

    def _put(self, call: ServerCall, lease: int | None) -> None:
        queue = self._queues.setdefault(call, deque())
        queue.append(lease)
        if len(queue) == 1:
            self._next(call)

    def _next(self, call: ServerCall) -> None:
        queue = self._queues.get(call)
        if not queue:
            return
        lease = queue[0]
        if lease is None:
            del self._queues[call]
            call.end()
            return
        response = messages.LeaseKeepAliveResponse(ID=lease)
        self._member.header(response.header)

        def renewed(ttl: Any) -> None:
            self._member.host.call_later(0, self._respond, call, response, ttl)

        self._leases.ask("renew", lease, renewed)

    def _respond(self, call: ServerCall, response: Any, ttl: Any) -> None:
        queue = self._queues.get(call)
        if not queue:
            return
        if isinstance(ttl, StatusError):
            del self._queues[call]
            call.end(ttl.code, ttl.details)
            return
        response.TTL = TTL_OF_GONE_LEASE if ttl is None else ttl
        self._reply(call, response)
        queue.popleft()
        self._next(call)
