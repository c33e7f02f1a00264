"""What all etcd locks share: a client that goes on to the next member, leases that are kept alive, and telling "no"
from "nobody knows".

etcd3 talks to one member. As its users do, :class:`Members` opens a client for one of the cluster's addresses, chosen
by chance, and one for the next address when that member does not answer. What may be asked twice (a read, a keep-alive,
a transaction that compares first) is asked again there until its time is up.
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

from lock_impls.base import Endpoints, Indeterminate, LockError

KINDS: Final = ("etcd",)
ANSWER_S: Final = 1.0
"""How long one member gets for an answer."""
PATIENCE_S: Final = 2.0
"""How long the members together get for something that must be known: an election takes about a second."""
PAUSE_S: Final = 0.05
"""Between two members that did not answer, or the same one again."""
WATCH_S: Final = 1.0
"""How long a watch is believed to be alive without saying anything: then the key is read again, perhaps elsewhere."""
OPTIONS: Final = (("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 1000))
"""gRPC's own are a second and two minutes."""
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
"""What etcd3 raises."""
OVERTIME_S: Final = 1.0
"""By how much a lease may outlast its ttl: it is a whole number of seconds, and the leader looks every half second."""
T = TypeVar("T")


def told(error: Exception) -> tuple[bool, bool, str]:
    """What an error of etcd3 says: whether a member refused, whether the request may have left, and in words."""
    status = error if isinstance(error, grpc.RpcError) else error.__context__
    if not isinstance(status, grpc.Call):
        return False, True, f"{type(error).__name__}: {error}"
    code, details = status.code(), status.details() or ""
    return code not in LOST, NOT_SENT not in details, f"{code.name}: {details}"


class Unanswered(Exception):
    """One member did not answer; ``sent`` is False where the request surely never left."""

    def __init__(self, text: str, *, sent: bool) -> None:
        super().__init__(text)
        self.sent = sent


class Members:
    """A client of one member after the other. For use by one thread."""

    unanswered = 0
    """How many requests left and were not answered."""

    def __init__(self, endpoints: Endpoints, answer: float = ANSWER_S) -> None:
        self._addresses = random.sample(endpoints.addresses, len(endpoints.addresses))
        self._answer = answer
        self._client: Any = None

    @property
    def client(self) -> Any:
        """An etcd3.Etcd3Client of the present member."""
        if self._client is None:
            host, port = self._addresses[0]
            self._client = etcd3.client(host=host, port=port, timeout=self._answer, grpc_options=OPTIONS)
        return self._client

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def ask(self, question: Callable[[Any], T]) -> T:
        """The present member's answer. LockError: it refused; Unanswered: the next question goes to another."""
        try:
            return question(self.client)
        except FAILED as error:
            refused, sent, text = told(error)
            if refused:
                raise LockError(text) from error
            self.close()
            self._addresses.append(self._addresses.pop(0))
            self.unanswered += sent
            raise Unanswered(text, sent=sent) from error

    def insist(self, question: Callable[[Any], T], until: float) -> T:
        """The first answer of any member, for what may be asked again; ``until`` is a time.monotonic().

        LockError: refused, or surely never sent; Indeterminate: sent, and not answered.
        """
        sent = False
        while True:
            try:
                return self.ask(question)
            except Unanswered as error:
                sent = sent or error.sent
                if time.monotonic() >= until:
                    raise (Indeterminate if sent else LockError)(str(error)) from error
            time.sleep(PAUSE_S)


def await_deletion(client: Any, key: bytes, revision: int, seconds: float) -> bool:
    """Whether ``key`` is deleted after ``revision``, and within ``seconds``: the watch begins at that revision, so that
    no deletion is missed that happens before it is there. To be asked through :meth:`Members.ask`."""
    create = etcdrpc.WatchCreateRequest(key=key, start_revision=revision + 1)
    stream = etcdrpc.WatchStub(client.channel).Watch(
        iter([etcdrpc.WatchRequest(create_request=create)]), timeout=max(0.001, seconds)
    )
    try:
        for response in stream:
            if any(event.type == event.DELETE for event in response.events):
                return True
            if response.canceled:  # compacted: who waits reads the key again
                return False
    except grpc.RpcError as error:
        if isinstance(error, grpc.Call) and error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            return False
        raise
    finally:
        stream.cancel()
    time.sleep(PAUSE_S)  # ended without a word: not to be begun again at once
    return False


def whole_seconds(ttl: float) -> int:
    """What to ask for: leases are whole seconds, and should not be shorter than wanted."""
    return max(1, math.ceil(ttl))


class Lease:
    """A lease, and how long it lasts by this client's monotonic clock: counted from before the last request that was
    answered was sent, so never too long.

    etcd grants no lease shorter than 1.5 times its election time-out, in whole seconds (2 s by default); ``ttl`` is
    what was granted.
    """

    def __init__(self, members: Members, ttl: float, until: float) -> None:
        self._members = members
        wanted, began = whole_seconds(ttl), 0.0

        def grant(client: Any) -> Any:
            nonlocal began
            began = time.monotonic()
            return client.lease(wanted)

        # Asked again it leaves a lease behind that holds nothing and ends by itself.
        granted = members.insist(grant, until)
        self.id: int = granted.id
        self.ttl: float = granted.ttl
        self.deadline: float = began + self.ttl

    def stop(self) -> None:
        """Keep it alive no more: what hangs on it goes within a ttl."""

    def remaining(self) -> float:
        return self.deadline - time.monotonic()

    def lost(self) -> bool:
        """Must it be reckoned with that it has ended?"""
        return self.remaining() <= 0


class Session(Lease):
    """A lease that a thread keeps alive every ttl/3, from when it is granted until :meth:`stop` or until it is lost:
    the server says so, or no answer comes for a ttl and ``grace`` more. (Go's concurrency.Session, without a grace.)

    A process that was frozen finds its lease lost when it wakes: the thread looks at the clock before it asks.
    """

    def __init__(self, endpoints: Endpoints, ttl: float, until: float, grace: float = 0.0) -> None:
        super().__init__(Members(endpoints, min(ANSWER_S, ttl / 4)), ttl, until)
        self._grace = grace
        self._ended = threading.Event()
        threading.Thread(target=self._keep_alive, name=f"keep-alive of {self.id:x}", daemon=True).start()

    def stop(self) -> None:
        self._ended.set()

    def lost(self) -> bool:
        return self._ended.is_set() or self.remaining() + self._grace <= 0

    def jeopardy(self) -> bool:
        """Has its time run out with no answer, and is it not lost yet?"""
        return self.remaining() <= 0 and not self.lost()

    def _keep_alive(self) -> None:
        pause = self.ttl / 3
        while not self._ended.wait(pause) and not self.lost():
            pause = self.ttl / 3
            began = time.monotonic()
            try:
                (answer,) = self._members.ask(lambda client: list(client.refresh_lease(self.id)))
            except Unanswered:
                pause = PAUSE_S
            except (LockError, ValueError):  # refused, or ended without an answer: no such lease here
                pause = PAUSE_S
            else:
                if answer.TTL <= 0:
                    break
                self.deadline = began + answer.TTL
        self._ended.set()
        self._members.close()
