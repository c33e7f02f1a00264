"""Shared parts of all ZooKeeper locks: a session, and telling refusals from unknown outcomes.

Each lock object has its own session, a KazooClient, so a lock that waits or loses its session does not affect another.
The session's time-out is the lock's ttl, which the servers limit to 2 to 20 of their ticks (1 to 10 s with a tick of
half a second): they silently lengthen a shorter one and shorten a longer one. kazoo keeps the session alive for as long
as the process lives. When the servers have ended a session, kazoo opens a new one by itself, and its state is CONNECTED
again. So a hold is identified by the session that made its node and by the czxid, not by kazoo's state.

Source: ZooKeeper Programmer's Guide ("ZooKeeper Sessions", "ZooKeeper Watches"); kazoo's documentation, "Kazoo States".
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self
from urllib.parse import quote

from kazoo.client import KazooClient
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KeeperState

from .base import Endpoints, Failure, Grant, Indeterminate, LockError, LockInfo

KINDS: Final = ("zookeeper",)
REQUIRES: Final = ("kazoo>=2.8",)
UNANSWERED: Final = (ConnectionLoss, ConnectionClosedError, OperationTimeoutError, KazooTimeoutError)
"""The request was sent, or may still be sent, and its outcome is unknown."""
RECONNECT: Final = {"max_tries": -1, "delay": 0.1, "max_delay": 1.0}
"""By default kazoo's pause between two tries grows up to an hour."""
TRIES: Final = 3
"""Number of attempts of a request that is safe to repeat."""
PAUSE_S: Final = 0.05
"""Pause before a repetition."""
DEATH: Final = "expiry: its session ends the ttl (2 to 20 ticks) after its last heartbeat"
OUTAGE: Final = "none while a majority is up: clients continue their sessions on another server"
_LOG: Final = logging.getLogger("harness.lock_impls.zookeeper")
_LOG.addHandler(logging.NullHandler())
_LOG.propagate = False  # kazoo logs each lost connection; what that means is decided here


class ZooKeeperSession:
    """One session at a time. Requests raise kazoo's errors; after those in ``UNANSWERED`` the outcome is unknown."""

    def __init__(self, endpoints: Endpoints, ttl: float) -> None:
        hosts = ",".join(f"{host}:{port}" for host, port in endpoints.addresses)
        self.client = KazooClient(hosts=hosts, timeout=ttl, connection_retry=RECONNECT, logger=_LOG)
        self._patience = ttl
        self._live: Any = None

    def connect(self) -> None:
        """Wait for a connection for at most a ttl; raises LockError, since nothing was requested yet."""
        if not self.connected(self._patience):
            raise LockError("no ZooKeeper server answers")

    def connected(self, timeout: float) -> bool:
        """Return whether there is a connection within ``timeout`` seconds.

        kazoo's thread ends for good when answers do not fit its requests; then it is started again, with another
        session.
        """
        if self._live is None or self.client.client_state == KeeperState.CLOSED:
            self._live = self.client.start_async()
        return bool(self._live.wait(timeout))

    @property
    def id(self) -> int | None:
        """The session id; None while there is no connection."""
        return self.client.client_id[0] if self.client.client_id else None

    def made(self, stat: Any) -> bool:
        """Return whether the current session made a node. Raises ConnectionLoss if that is unknown."""
        mine = self.id
        if mine is None:
            raise ConnectionLoss
        return bool(stat.ephemeralOwner == mine)

    def ask(self, request: str, *args: Any, **options: Any) -> Any:
        """Return the answer to one of kazoo's requests, within a ttl: after that the session may have ended."""
        return self.patiently(getattr(self.client, f"{request}_async")(*args, **options))

    def patiently(self, result: Any) -> Any:
        """Return the value of one of kazoo's asynchronous results, within a ttl."""
        return result.get(timeout=self._patience)

    def make(self, path: str, value: bytes = b"", **options: Any) -> tuple[str, Any]:
        """Create an ephemeral node, and its parents if they are missing: (path, stat)."""
        request = {"ephemeral": True, "include_data": True, **options}
        try:
            made: tuple[str, Any] = self.ask("create", path, value, **request)
        except NoNodeError:
            self.ask("ensure_path", path.rpartition("/")[0])
            made = self.ask("create", path, value, **request)
        return made

    def look(self, request: str, *args: Any) -> Any:
        """Read after a ``sync``, so that the answer includes everything this session has done: a server may lag behind.

        Afterwards the outcome of an earlier unanswered request is settled: the session uses its new connection, and
        what is left of the old one is refused.
        """
        return self.again(self._caught_up, request, *args)

    def _caught_up(self, request: str, *args: Any) -> Any:
        self.ask("sync", args[0])
        return self.ask(request, *args)

    def again(self, ask: Callable[..., Any], *args: Any) -> Any:
        """Repeat a request until it is answered, for a ttl, and then once more; raises one of ``UNANSWERED`` if it
        never is."""
        deadline = time.monotonic() + self._patience
        while time.monotonic() < deadline:
            try:
                return ask(*args)
            except UNANSWERED:
                time.sleep(PAUSE_S)
                self.connected(max(0.0, deadline - time.monotonic()))
        return ask(*args)

    def remove(self, path: str) -> bool:
        """Delete a node that belongs to us alone, through lost answers; False if it did not exist."""
        attempts = 0

        def delete() -> bool:
            nonlocal attempts
            attempts += 1
            try:
                self.ask("delete", path)
            except NoNodeError:
                return attempts > 1  # then our own earlier delete removed it, and only its answer was lost
            return True

        return bool(self.again(delete))


@contextmanager
def known_outcome() -> Iterator[None]:
    """Turn kazoo's errors into LockError (refused, or the session has ended together with its nodes) or
    Indeterminate."""
    try:
        yield
    except UNANSWERED as error:
        raise Indeterminate(f"no answer: {_text(error)}") from error
    except SessionExpiredError as error:
        raise LockError("the session has ended, and its nodes with it") from error
    except KazooException as error:
        raise LockError(_text(error)) from error


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")


class Signal:
    """A watch to wait for: set by an event of the node, or by the loss of the connection on which it was registered."""

    def __init__(self) -> None:
        self._set = threading.Event()
        self.fired = False
        """True if it was an event of the node."""

    def __call__(self, event: Any) -> None:
        self.fired = self.fired or event.path is not None
        self._set.set()

    def wait(self, deadline: float) -> bool:
        """Wait until ``deadline`` (monotonic seconds); False if nothing has happened by then."""
        while not self._set.is_set() and (remaining := deadline - time.monotonic()) > 0:
            self._set.wait(remaining)
        return self._set.is_set()


@dataclass(frozen=True, slots=True)
class HeldNode:
    """The node that makes a client the holder, and the session that made it."""

    path: str
    czxid: int
    session: int

    @classmethod
    def of(cls, path: str, stat: Any) -> HeldNode:
        return cls(path, stat.czxid, stat.ephemeralOwner)


class ZooKeeperLock(ABC):
    """A lock that is held by a node. Subclasses implement ``take`` and ``give_back``."""

    info: ClassVar[LockInfo]

    def __init__(self, session: ZooKeeperSession, key: str, ttl: float) -> None:
        self.session = session
        self.path = f"/locks/{quote(key, safe=':')}"
        self.ttl = ttl
        self.held: HeldNode | None = None
        self.woken = 0
        """Number of times that a watch of a node has woken it while it waited."""

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        return cls(ZooKeeperSession(endpoints, ttl), key, ttl, **options)

    @abstractmethod
    def take(self, deadline: float) -> Grant | None:
        """Wait for the lock until ``deadline`` (monotonic seconds); None: certainly not held."""

    @abstractmethod
    def give_back(self, held: HeldNode) -> bool:
        """Delete the node; False if it did not exist any more."""

    def acquire(self, timeout: float) -> Grant | None:
        deadline = time.monotonic() + timeout
        self.session.connect()
        with known_outcome():
            return self.take(deadline)

    def release(self) -> None:
        held, self.held = self.held, None
        if held is None:
            raise LockError(f"{self.path} is not held by this client")
        with known_outcome():
            if not self.give_back(held):
                raise LockError(f"{held.path} is gone: its session has ended")

    def still_valid(self) -> bool:
        """Ask the server to which the session is connected; no answer counts as no.

        The server may be outdated until it notices that it is partitioned from the others. A pause right after the
        answer goes unnoticed.
        """
        try:
            return self.held is not None and self.still_exists(self.held)
        except (KazooException, KazooTimeoutError):
            return False

    def still_exists(self, held: HeldNode) -> bool:
        """Return whether this very node still exists, as far as this server knows."""
        stat = self.session.ask("exists", held.path)
        return stat is not None and stat.czxid == held.czxid

    def await_signal(self, signal: Signal, deadline: float) -> bool:
        """Wait for the signal; False if the deadline came first."""
        if not signal.wait(deadline):
            return False
        self.woken += signal.fired
        return True


def paused_holder(name: str, more: str = "") -> Failure:
    """The failure of every lock that a session holds; ``more`` is appended to the command."""
    return Failure(
        "zk-pause",
        "the holder is paused for longer than its session lasts, and then goes on although another holds the lock",
        f"harness run {name} --nemesis client-pause{more}",
    )
