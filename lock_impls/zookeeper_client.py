"""What all ZooKeeper locks share: a session, and telling "no" from "nobody knows".

Each lock object has a session of its own, a KazooClient: what one lock does to its session (waits, loses it) does not
touch another's. The session's time-out is the lock's ttl, which the servers bound to 2 to 20 of their ticks (1 to 10 s
with a tick of half a second): a shorter one is silently made longer, a longer one shorter. kazoo keeps the session
alive for as long as the process lives, and opens a new one, unasked, when the servers have given up the old one; a hold
is therefore known by the session that made its node and by the czxid, not by kazoo's state, which is CONNECTED again.

Source: ZooKeeper Programmer's Guide ("ZooKeeper Sessions", "ZooKeeper Watches"); kazoo's documentation, "Kazoo
States".
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

from lock_impls.base import Endpoints, Failure, Grant, Indeterminate, LockError, LockInfo

KINDS: Final = ("zookeeper",)
UNANSWERED: Final = (ConnectionLoss, ConnectionClosedError, OperationTimeoutError, KazooTimeoutError)
"""The request left, or may still leave, and nobody knows what became of it."""
RECONNECT: Final = {"max_tries": -1, "delay": 0.1, "max_delay": 1.0}
"""kazoo would wait longer and longer between two tries, up to an hour."""
TRIES: Final = 3
"""How often what is safe to repeat is asked for."""
PAUSE_S: Final = 0.05
"""Before asking again."""
DEATH: Final = "its session's end, the ttl (2 to 20 ticks) after its last heartbeat"
OUTAGE: Final = "none while a majority is left: clients take their sessions to another server"
_LOG: Final = logging.getLogger("lock_impls.zookeeper")
_LOG.addHandler(logging.NullHandler())
_LOG.propagate = False  # kazoo tells each loss of a connection, and what it means is the lock's to say


class Session:
    """One session at a time. Requests raise kazoo's errors; ``UNANSWERED`` are those that leave it open what
    happened."""

    def __init__(self, endpoints: Endpoints, ttl: float) -> None:
        hosts = ",".join(f"{host}:{port}" for host, port in endpoints.addresses)
        self.client = KazooClient(hosts=hosts, timeout=ttl, connection_retry=RECONNECT, logger=_LOG)
        self._patience = ttl
        self._live: Any = None

    def connect(self) -> None:
        """Wait for a connection for at most a ttl; raises LockError: nothing was asked for yet."""
        if not self.connected(self._patience):
            raise LockError("no ZooKeeper server answers")

    def connected(self, timeout: float) -> bool:
        """Is there a connection, within ``timeout`` seconds? kazoo's thread ends for good when answers do not fit its
        requests; then it is started again, with another session."""
        if self._live is None or self.client.client_state == KeeperState.CLOSED:
            self._live = self.client.start_async()
        return bool(self._live.wait(timeout))

    @property
    def id(self) -> int | None:
        """None while there is no connection."""
        return self.client.client_id[0] if self.client.client_id else None

    def made(self, stat: Any) -> bool:
        """Is the session that is open now the one that made a node? Raises ConnectionLoss when nobody knows."""
        mine = self.id
        if mine is None:
            raise ConnectionLoss
        return bool(stat.ephemeralOwner == mine)

    def ask(self, request: str, *args: Any, **options: Any) -> Any:
        """The answer to one of kazoo's requests, within a ttl: after that the session is not sure any more."""
        return self.patiently(getattr(self.client, f"{request}_async")(*args, **options))

    def patiently(self, result: Any) -> Any:
        """What one of kazoo's asynchronous results brings within a ttl."""
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
        """A read that sees all that this session has done: a server may lag behind, unless it is told to catch up.

        After it a request that was lost before is known to be done or never to be: the session is on its new
        connection, and what is left of the old one is refused.
        """
        return self.again(self._caught_up, request, *args)

    def _caught_up(self, request: str, *args: Any) -> Any:
        self.ask("sync", args[0])
        return self.ask(request, *args)

    def again(self, ask: Callable[..., Any], *args: Any) -> Any:
        """What may be asked more than once: until it is answered, or for a ttl, and then once more; raises one of
        ``UNANSWERED`` if it never is."""
        deadline = time.monotonic() + self._patience
        while time.monotonic() < deadline:
            try:
                return ask(*args)
            except UNANSWERED:
                time.sleep(PAUSE_S)
                self.connected(max(0.0, deadline - time.monotonic()))
        return ask(*args)

    def remove(self, path: str) -> bool:
        """Delete a node that is nobody else's, whatever happens meanwhile; False if it was not there."""
        asked = 0

        def delete() -> bool:
            nonlocal asked
            asked += 1
            try:
                self.ask("delete", path)
            except NoNodeError:
                return asked > 1  # then it was our own, whose answer was lost
            return True

        return bool(self.again(delete))


@contextmanager
def known_outcome() -> Iterator[None]:
    """Turns kazoo's errors into the seam's: a session that has ended has taken its nodes along → LockError."""
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
    """A watch to wait for: set by the event of a node, or by the loss of the connection that it was left on."""

    def __init__(self) -> None:
        self._set = threading.Event()
        self.fired = False
        """Was it the node?"""

    def __call__(self, event: Any) -> None:
        self.fired = self.fired or event.path is not None
        self._set.set()

    def wait(self, deadline: float) -> bool:
        """False if nothing has happened until ``deadline`` (monotonic seconds)."""
        while not self._set.is_set() and (remaining := deadline - time.monotonic()) > 0:
            self._set.wait(remaining)
        return self._set.is_set()


@dataclass(frozen=True, slots=True)
class Held:
    """The node that makes a client the holder, and the session that made it."""

    path: str
    czxid: int
    session: int

    @classmethod
    def of(cls, path: str, stat: Any) -> Held:
        return cls(path, stat.czxid, stat.ephemeralOwner)


class ZooKeeperLock(ABC):
    """A lock that is held by a node. ``take`` and ``give_back`` are the lock; the rest is the seam."""

    info: ClassVar[LockInfo]

    def __init__(self, session: Session, key: str, ttl: float) -> None:
        self.session = session
        self.path = f"/locks/{quote(key, safe=':')}"
        self.ttl = ttl
        self.held: Held | None = None
        self.woken = 0
        """How often a watch of a node has woken it while it waited."""

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        return cls(Session(endpoints, ttl), key, ttl, **options)

    @abstractmethod
    def take(self, deadline: float) -> Grant | None:
        """Wait for the lock until ``deadline`` (monotonic seconds); None: surely not held."""

    @abstractmethod
    def give_back(self, held: Held) -> bool:
        """Delete the node; False if it was not there any more."""

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
        """Asks the server that the session is connected to, which may lag behind for as long as it takes to notice that
        it is cut off from the others; no answer is a no. (A pause right after it goes unnoticed all the same.)"""
        try:
            return self.held is not None and self.stands(self.held)
        except (KazooException, KazooTimeoutError):
            return False

    def stands(self, held: Held) -> bool:
        """Is the very node still there, as far as this server knows?"""
        stat = self.session.ask("exists", held.path)
        return stat is not None and stat.czxid == held.czxid

    def await_signal(self, signal: Signal, deadline: float) -> bool:
        """False if the deadline came first."""
        if not signal.wait(deadline):
            return False
        self.woken += signal.fired
        return True


def pausing(name: str, more: str = "") -> Failure:
    """The failure of every lock that a session holds; ``more`` are words for the command."""
    return Failure(
        "zk-pause",
        "its holder is paused for longer than its session lasts, and goes on with what is another's by then",
        f"harness run {name} --nemesis client-pause{more}",
    )
