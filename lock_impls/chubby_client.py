"""A client library for Chubby cells: sessions, KeepAlives, jeopardy, and calls that survive a change of masters.

Chubby has no public client, so this is our own, after Burrows, "The Chubby lock service for loosely-coupled distributed
systems", OSDI 2006, sections 2.8 and 2.9. It speaks the JSON lines of harness/sim/servers/chubby/protocol.py. A
:class:`ChubbySession` has two connections: one for its calls, and one for its KeepAlives, which a thread sends.

The session's local lease is counted from when the answered KeepAlive was sent. It is a little shorter than the lease
that the master granted, because clocks may run at different rates. When it ends without an answer the session is in
*jeopardy*: its calls wait. If a master answers within the grace period the session is *safe* again and the calls go on;
otherwise it has *expired*, together with all that was open or held in it. There is no cache: every read fields the
master.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

DRIFT: Final = 0.01
"""Assumed largest factor by which the master's clock is slower than the client's."""
RPC_S: Final = 0.5
"""Time-out of a request to one replica, before the next replica is tried."""
PAUSE_S: Final = 0.05
"""Pause between two tries when there is no master."""
State = Literal["safe", "jeopardy", "expired"]
Address = tuple[str, int]
Handle = Mapping[str, Any]
Reply = dict[str, Any]


class ChubbyError(Exception):
    """The cell refused: ``code`` is one of the protocol's errors. Nothing has happened."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class SessionExpired(ChubbyError):
    """The session has ended, and with it all handles and locks. ``unanswered``: a request had been sent before."""

    def __init__(self, unanswered: bool = False) -> None:
        super().__init__("no-session")
        self.unanswered = unanswered


class ChubbyUnanswered(Exception):
    """No answer in time. ``sent``: a request was sent, and it is unknown whether it was executed."""

    def __init__(self, what: str, *, sent: bool) -> None:
        super().__init__(f"{what} was not answered" if sent else f"{what}: no master could be asked")
        self.sent = sent


class Connection:
    """A connection to one replica at a time: the master, as far as known. Used by one thread."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        self._addresses = list(addresses)
        self._at = 0
        self._socket: socket.socket | None = None
        self._rest = b""
        self.sent = False

    def ask(self, message: Reply, timeout: float) -> Reply:
        """Return the answer; raises OSError if there is none, and then ``sent`` says whether the request may have
        arrived."""
        deadline = time.monotonic() + timeout
        self.sent = False
        try:
            link = self._connected(min(timeout, RPC_S))
            link.settimeout(max(0.001, deadline - time.monotonic()))
            self.sent = True
            link.sendall(json.dumps(message).encode() + b"\n")
            while True:
                reply = self._line(link, deadline)
                if reply.get("n") == message["n"]:
                    return reply
        except OSError:
            self.close()
            raise

    def _connected(self, timeout: float) -> socket.socket:
        if self._socket is None:
            self._socket = socket.create_connection(self._addresses[self._at], timeout)
        return self._socket

    def _line(self, link: socket.socket, deadline: float) -> Reply:
        while b"\n" not in self._rest:
            link.settimeout(max(0.001, deadline - time.monotonic()))
            data = link.recv(65536)
            if not data:
                raise ConnectionResetError("the replica closed the connection")
            self._rest += data
        text, _, self._rest = self._rest.partition(b"\n")
        reply: Reply = json.loads(text)
        return reply

    def switch_to(self, master: str | None) -> None:
        """Use the replica that was named as the master, or the next one if none was named."""
        self.close()
        named = [at for at, (host, _) in enumerate(self._addresses) if host == master]
        self._at = named[0] if named else (self._at + 1) % len(self._addresses)

    def follow(self, other: Connection) -> None:
        """Use the replica that another connection has found to be the master."""
        self._at = other._at

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self._rest = None, b""


@dataclass(frozen=True, slots=True)
class Terms:
    """Times that the cell grants to a session, in seconds."""

    lease: float
    grace: float
    lock_delay: float


class ChubbySession:
    """A session with a cell, open from its construction on; raises :class:`ChubbyUnanswered` if no master is found.

    ``lease`` and ``lock_delay`` are requests, and the cell decides. ``grace`` is the client's own choice; None means
    the cell's advice. ``on_event`` is called from the KeepAlive thread with "jeopardy", "safe", "expired" or
    "failover".
    """

    def __init__(
        self,
        addresses: Sequence[Address],
        *,
        lease: float | None = None,
        lock_delay: float | None = None,
        grace: float | None = None,
        timeout: float = 5.0,
        on_event: Callable[[str], None] | None = None,
    ) -> None:
        self._calls = Connection(addresses)
        self._alive = Connection(addresses)
        self._changed = threading.Condition()
        self._on_event = on_event
        self._number = 0
        self._ended = False
        self._told: State = "safe"
        self._open(lease, lock_delay, grace, time.monotonic() + timeout)
        threading.Thread(target=self._keep_alive, name=f"session {self.id}", daemon=True).start()

    def _open(self, lease: float | None, lock_delay: float | None, grace: float | None, deadline: float) -> None:
        while True:
            self._number += 1
            began = time.monotonic()
            message = {"n": self._number, "op": "CreateSession", "lease": lease, "lock_delay": lock_delay}
            reply = self._try(self._calls, message, min(2 * RPC_S, max(0.001, deadline - began)))
            if reply is not None and "ok" in reply:
                break
            if reply is not None and "master" not in reply:
                raise ChubbyError(reply["error"])
            if time.monotonic() >= deadline:
                # a session that may be left behind holds nothing, and expires
                raise ChubbyUnanswered("CreateSession", sent=False)
        granted = reply["ok"]
        self._alive.follow(self._calls)
        self.id: str = granted["session"]
        self.epoch: int = granted["epoch"]
        self.terms = Terms(granted["lease"], granted["grace"] if grace is None else grace, granted["lock_delay"])
        self._local_end = began + self.terms.lease * (1 - DRIFT)

    def _try(self, connection: Connection, message: Reply, timeout: float) -> Reply | None:
        """Ask one replica once; returns its answer, or None. If it is not the master, the next try goes to another."""
        try:
            reply = connection.ask(message, timeout)
        except OSError:
            connection.switch_to(None)
            time.sleep(PAUSE_S)
            return None
        if reply.get("error") == "not-master":
            connection.switch_to(reply["master"])
            if reply["master"] is None:
                time.sleep(PAUSE_S)
        return reply

    # The state.

    def left(self) -> float:
        """Seconds left of the local lease, by this client's monotonic clock; 0 if the session is not safe."""
        return 0.0 if self._ended else max(0.0, self._local_end - time.monotonic())

    @property
    def state(self) -> State:
        if self._ended or time.monotonic() >= self._local_end + self.terms.grace:
            return "expired"
        return "safe" if self.left() else "jeopardy"

    def _tell(self, event: str) -> None:
        if self._on_event is not None:
            self._on_event(event)

    def _wait_until_safe(self, deadline: float) -> bool:
        """Wait while the session is in jeopardy; False if ``deadline`` comes first."""
        with self._changed:
            while (state := self.state) == "jeopardy":
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self._changed.wait(min(left, self._local_end + self.terms.grace - time.monotonic()))
        if state == "expired":
            raise SessionExpired
        return True

    # KeepAlives.

    def _keep_alive(self) -> None:
        while not self._ended:
            if self.state == "expired":
                self._expire()
                break
            left = self.left()
            if not left and self._told == "safe":
                self._told = "jeopardy"
                self._tell("jeopardy")
            began = time.monotonic()
            message = {"n": 0, "op": "KeepAlive", "session": self.id, "epoch": self.epoch, "left": left}
            reply = self._try(self._alive, message, left or RPC_S)
            if reply is not None:
                self._heard(reply, began)
        self._alive.close()

    def _heard(self, reply: Reply, began: float) -> None:
        error = reply.get("error")
        with self._changed:
            if "ok" in reply:
                lease = reply["ok"]["held"] + reply["ok"]["lease"]
                self._local_end = max(self._local_end, began + lease * (1 - DRIFT))
            elif error == "stale-epoch":
                self.epoch = reply["epoch"]
            self._changed.notify_all()
        if error == "no-session":
            self._expire()
        elif error == "stale-epoch":
            self._tell("failover")
        elif "ok" in reply and self.left() and self._told == "jeopardy":
            self._told = "safe"
            self._tell("safe")

    def _expire(self) -> None:
        if not self._ended:
            self._end()
            self._tell("expired")

    def _end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    # Calls.

    def call(self, op: str, deadline: float, wait: float = 0.0, **fields: Any) -> Reply:
        """Return the master's answer to an operation, across changes of masters.

        The request keeps its number, so it is executed once. ``deadline`` is monotonic; ``wait`` is how long the master
        may let the request wait.

        Raises :class:`ChubbyError` for a refusal, :class:`SessionExpired`, or :class:`ChubbyUnanswered` at the
        deadline.
        """
        self._number += 1
        sent, wait_until = False, time.monotonic() + wait
        while True:
            self._safe_or_raise(op, deadline, sent)
            epoch = self.epoch
            message = {"n": self._number, "op": op, "session": self.id, "epoch": epoch, "wait": wait, **fields}
            reply = self._try(self._calls, message, min(wait + RPC_S, max(0.001, deadline - time.monotonic())))
            sent |= self._calls.sent and (reply is None or "ok" in reply)
            if reply is not None and "ok" in reply:
                result: Reply = reply["ok"]
                return result
            error = None if reply is None else reply["error"]
            if error == "no-session":
                self._expire()
            elif error == "stale-epoch":
                self._await_epoch(epoch, deadline)
            elif error not in (None, "not-master"):
                raise ChubbyError(str(error))
            wait = max(0.0, wait_until - time.monotonic())

    def _safe_or_raise(self, op: str, deadline: float, sent: bool) -> None:
        try:
            safe = self._wait_until_safe(deadline)
        except SessionExpired:
            raise SessionExpired(unanswered=sent) from None
        if not safe or time.monotonic() >= deadline:
            raise ChubbyUnanswered(op, sent=sent)

    def _await_epoch(self, stale: int, deadline: float) -> None:
        """Wait for another epoch than ``stale``: the KeepAlive thread learns a new master's epoch."""
        with self._changed:
            while self.epoch == stale and not self._ended and (left := deadline - time.monotonic()) > 0:
                self._changed.wait(min(left, RPC_S))

    def open(
        self, name: str, deadline: float, *, create: bool = True, ephemeral: bool = False, contents: str = ""
    ) -> Handle:
        """Return a handle of a file; the file is created if it does not exist."""
        fields: Reply = {"name": name, "create": create, "ephemeral": ephemeral, "contents": contents}
        handle: Handle = self.call("Open", deadline, **fields)["handle"]
        return handle

    def close(self) -> None:
        """End the session: its locks are free at once. Tries once; if the cell does not hear it, the session expires
        later."""
        self._end()
        self._number += 1
        message = {"n": self._number, "op": "EndSession", "session": self.id, "epoch": self.epoch}
        with contextlib.suppress(OSError):
            self._calls.ask(message, RPC_S / 2)
        self._calls.close()
