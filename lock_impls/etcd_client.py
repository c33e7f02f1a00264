"""Shared parts of all etcd locks: a client that switches members, leases with keep-alives, and clear outcomes of
requests.

etcd3 talks to one member. :class:`EtcdMembers` does what users of etcd3 do: it opens a client for one of the cluster's
addresses, chosen at random, and a client for the next address when that member does not answer. Requests that are safe
to repeat (reads, keep-alives, transactions that compare first) are repeated there until their time is up.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar

import etcd3
import grpc
from etcd3 import etcdrpc, exceptions

from .base import Endpoints, Indeterminate, LockError

KINDS: Final = ("etcd",)
REQUIRES: Final = ("etcd3>=0.12", "protobuf<3.21")
"""etcd3's messages were generated for protobuf 3, and no release has others."""
ANSWER_S: Final = 1.0
"""Time-out of a request to one member."""
PATIENCE_S: Final = 2.0
"""Time-out of a request to all members together; an election takes about a second."""
PAUSE_S: Final = 0.05
"""Pause before the next member is asked, or the same one again."""
WATCH_S: Final = 1.0
"""Time after which a silent watch is no longer trusted: the key is then read again, perhaps from another member."""
OPTIONS: Final = (("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 1000))
"""gRPC's own values are a second and two minutes."""
NOT_SENT: Final = "failed to connect to all addresses"
LOST: Final = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.INTERNAL,
)
"""Statuses after which the request may have been executed; etcd's own "request timed out" is one of them."""
FAILED: Final = (exceptions.Etcd3Exception, grpc.RpcError)
"""The exceptions that etcd3 raises."""
OVERTIME_S: Final = 1.0
"""By how much a lease may outlast its ttl: it is a whole number of seconds, and the leader checks every half second."""
T = TypeVar("T")


def classify_error(error: Exception) -> tuple[bool, bool, str]:
    """Classify an error of etcd3: (a member refused, the request may have been sent, description)."""
    status = error if isinstance(error, grpc.RpcError) else error.__context__
    if not isinstance(status, grpc.Call):
        return False, True, f"{type(error).__name__}: {error}"
    code, details = status.code(), status.details() or ""
    return code not in LOST, NOT_SENT not in details, f"{code.name}: {details}"


def open_member(endpoints: Endpoints, address: tuple[str, int], answer: float) -> Any:
    """Return an etcd3.Etcd3Client of one member, logged in if the servers have a login.

    A login is a request. etcd3 sends its token twice with each later one: as metadata, which etcd reads, and as
    credentials of gRPC, which gRPC refuses to send on a connection without TLS.
    """
    (host, port), login = address, endpoints.login
    given = {"user": login.user, "password": login.password} if login.user else {}
    client = etcd3.client(host=host, port=port, timeout=answer, grpc_options=OPTIONS, **given)
    if given:
        client.call_credentials = client.watcher._credentials = None
    return client


class MemberUnanswered(Exception):
    """One member did not answer; ``sent`` is False if the request was certainly never sent."""

    def __init__(self, text: str, *, sent: bool) -> None:
        super().__init__(text)
        self.sent = sent


class EtcdMembers:
    """A client of one member at a time, which changes members on errors. For use by one thread."""

    unanswered = 0
    """Number of requests that were sent and not answered."""

    def __init__(self, endpoints: Endpoints, answer: float = ANSWER_S) -> None:
        self._endpoints = endpoints
        self._addresses = random.sample(endpoints.addresses, len(endpoints.addresses))
        self._answer = answer
        self._client: Any = None

    @property
    def client(self) -> Any:
        """An etcd3.Etcd3Client of the current member."""
        if self._client is None:
            self._client = open_member(self._endpoints, self._addresses[0], self._answer)
        return self._client

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def ask(self, request: Callable[[Any], T]) -> T:
        """Return the current member's answer.

        Raises:
            LockError: the member refused.
            MemberUnanswered: it did not answer; the next request goes to another member.
        """
        opened = False
        try:
            client = self.client
            opened = True
            return request(client)
        except FAILED as error:
            refused, sent, text = classify_error(error)
            sent = sent and opened  # a lost login changes nothing
            if refused:
                if text.startswith(grpc.StatusCode.UNAUTHENTICATED.name):
                    self.close()  # the token is no longer valid; the next request logs in again
                raise LockError(text) from error
            self.close()
            self._addresses.append(self._addresses.pop(0))
            self.unanswered += sent
            raise MemberUnanswered(text, sent=sent) from error

    def insist(self, request: Callable[[Any], T], until: float) -> T:
        """Return the first answer of any member, for a request that is safe to repeat; ``until`` is a time.monotonic().

        Raises:
            LockError: refused, or certainly never sent.
            Indeterminate: sent, and not answered.
        """
        sent = False
        while True:
            try:
                return self.ask(request)
            except MemberUnanswered as error:
                sent = sent or error.sent
                if time.monotonic() >= until:
                    raise (Indeterminate if sent else LockError)(str(error)) from error
            time.sleep(PAUSE_S)


def await_deletion(client: Any, key: bytes, revision: int, seconds: float) -> bool:
    """Return whether ``key`` is deleted after ``revision`` and within ``seconds``; call it through
    :meth:`EtcdMembers.ask`.

    The watch begins at that revision, so it also sees a deletion that happens before the watch is established.
    """
    create = etcdrpc.WatchCreateRequest(key=key, start_revision=revision + 1)
    stream = etcdrpc.WatchStub(client.channel).Watch(
        iter([etcdrpc.WatchRequest(create_request=create)]), timeout=max(0.001, seconds), metadata=client.metadata
    )
    try:
        for response in stream:
            if any(event.type == event.DELETE for event in response.events):
                return True
            if response.canceled:  # compacted: the waiter has to read the key again
                return False
    except grpc.RpcError as error:
        if isinstance(error, grpc.Call) and error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            return False
        raise
    finally:
        stream.cancel()
    time.sleep(PAUSE_S)  # the stream ended without an event: wait before the next watch
    return False


def whole_seconds(ttl: float) -> int:
    """Round a ttl up: leases are whole seconds, and must not be shorter than wanted."""
    return max(1, math.ceil(ttl))


class ClientLease:
    """A lease and its remaining time by this client's monotonic clock.

    The time is counted from before the last answered request was sent, so it is never too long. etcd grants no lease
    shorter than 1.5 times its election time-out, in whole seconds (2 s by default); ``ttl`` is what was granted.
    """

    def __init__(self, members: EtcdMembers, ttl: float, until: float) -> None:
        self._members = members
        wanted, began = whole_seconds(ttl), 0.0

        def grant(client: Any) -> Any:
            nonlocal began
            began = time.monotonic()
            return client.lease(wanted)

        # A repeated request may leave a second lease behind, which holds nothing and ends by itself.
        granted = members.insist(grant, until)
        self.id: int = granted.id
        self.ttl: float = granted.ttl
        self.deadline: float = began + self.ttl

    def stop(self) -> None:
        """Stop the keep-alives; keys bound to the lease go within a ttl."""

    def remaining(self) -> float:
        return self.deadline - time.monotonic()

    def lost(self) -> bool:
        """Return whether the lease may have ended."""
        return self.remaining() <= 0


class EtcdSession(ClientLease):
    """A lease that a thread keeps alive every ttl/3, until :meth:`stop` or until it is lost. Go's concurrency.Session,
    with a grace period.

    It is lost when the server says so, or when no answer has arrived for a ttl plus ``grace``. A process that was
    frozen finds its lease lost when it wakes, because the thread looks at the clock before it sends a request.
    """

    def __init__(self, endpoints: Endpoints, ttl: float, until: float, grace: float = 0.0) -> None:
        super().__init__(EtcdMembers(endpoints, min(ANSWER_S, ttl / 4)), ttl, until)
        self._grace = grace
        self._ended = threading.Event()
        threading.Thread(target=self._keep_alive, name=f"keep-alive of {self.id:x}", daemon=True).start()

    def stop(self) -> None:
        self._ended.set()

    def lost(self) -> bool:
        return self._ended.is_set() or self.remaining() + self._grace <= 0

    def jeopardy(self) -> bool:
        """Return whether the lease has run out without an answer and the grace period has not."""
        return self.remaining() <= 0 and not self.lost()

    def _keep_alive(self) -> None:
        pause = self.ttl / 3
        while not self._ended.wait(pause) and not self.lost():
            pause = self.ttl / 3
            began = time.monotonic()
            try:
                (answer,) = self._members.ask(lambda client: list(client.refresh_lease(self.id)))
            except MemberUnanswered:
                pause = PAUSE_S
            # refused, or the stream ended without an answer: this member does not know the lease
            except (LockError, ValueError):
                pause = PAUSE_S
            else:
                if answer.TTL <= 0:
                    break
                self.deadline = began + answer.TTL
        self._ended.set()
        self._members.close()
