"""Failover manager of replicated database servers, like MHA, orchestrator, repmgr or a Pacemaker agent.

It polls the primary ten times a second. If the primary has not answered for a second, the manager promotes the replica
that has received most of the log and moves the name that clients dial. It cannot distinguish a dead primary from an
unreachable one. A server that is not the primary and does not follow it, such as a former primary that has returned, is
rebuilt: its connections are closed and it copies everything from the primary. Abstracted: the manager polls on the
servers' replication port, and the name moves instantly for all clients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from harness.sim.service import Conn, ServiceHost, Timer

from .log_replication import NS_PER_S, PORT, LineDecoder, encode

POLL_INTERVAL_NS: Final = NS_PER_S // 10
FAILOVER_AFTER_NS: Final = NS_PER_S
ANSWER_TIMEOUT_NS: Final = 3 * NS_PER_S // 10
Status = dict[str, Any]
OnStatus = Callable[[Status | None], None]


class FailoverManager:
    """The manager's :class:`~harness.sim.service.Service`. ``servers`` are host names, the first is the primary.

    ``move`` is called with the host name of each new primary.
    """

    port = 3308
    host: ServiceHost

    def __init__(self, servers: list[str], move: Callable[[str], None]) -> None:
        self._servers = servers
        self._move = move
        self.primary = servers[0]
        self._answered_ns = 0
        self._promoting = False

    def start(self, host: ServiceHost, *, wiped: bool) -> None:  # noqa: ARG002 - the manager has no disk
        self.host = host
        self._promoting = False
        self._answered_ns = host.monotonic_ns()
        self._poll()

    def stop(self) -> None: ...

    def opened(self, conn: Conn) -> None:
        conn.close()

    def received(self, conn: Conn, data: bytes) -> None: ...

    def closed(self, conn: Conn) -> None: ...

    def _poll(self) -> None:
        self._send(self.primary, {"status": 1}, self._on_primary_status(self.primary))
        for name in self._servers:
            if name != self.primary:
                self._send(name, {"status": 1}, self._on_replica_status(name))
        self.host.call_later(POLL_INTERVAL_NS, self._poll)

    def _send(self, name: str, message: dict[str, Any], done: OnStatus) -> None:
        _Request(self.host, name, message, done)

    def _on_primary_status(self, name: str) -> OnStatus:
        def on_status(status: Status | None) -> None:
            if name != self.primary:
                return
            now = self.host.monotonic_ns()
            if status is not None and not status["broken"]:
                self._answered_ns = now
                if status["read_only"] and status["follows"] is None:
                    self._send(name, {"open": 1}, lambda _: None)
            elif now - self._answered_ns >= FAILOVER_AFTER_NS and not self._promoting:
                self._start_failover()

        return on_status

    def _on_replica_status(self, name: str) -> OnStatus:
        def on_status(status: Status | None) -> None:
            if status is None or name == self.primary or self._promoting:
                return
            if status["follows"] != self.primary or status["broken"]:
                self.host.log(f"{name} does not follow {self.primary}: rebuilt")
                self._send(name, {"rebuild": self.primary}, lambda _: None)

        return on_status

    # Promotion.

    def _start_failover(self) -> None:
        """Ask all replicas for their position in the log, and promote the most advanced one."""
        self._promoting = True
        found: dict[str, Status | None] = {}
        others = [name for name in self._servers if name != self.primary]

        def on_answer(name: str, status: Status | None) -> None:
            found[name] = status
            if len(found) == len(others):
                self._promote({name: status for name, status in found.items() if status is not None})

        for name in others:
            self._send(name, {"status": 1}, lambda status, name=name: on_answer(name, status))  # type: ignore[misc]

    def _promote(self, replicas: dict[str, Status]) -> None:
        candidates = [name for name in self._servers if name in replicas and replicas[name]["follows"] == self.primary]
        if not candidates:
            self._promoting = False
            return
        best = max(candidates, key=lambda name: (replicas[name]["position"], -self._servers.index(name)))

        def done(status: Status | None) -> None:
            self._promoting = False
            if status is not None and not status["read_only"]:
                self.host.log(f"{self.primary} has not answered for a second: {best} is promoted")
                self.primary = best
                self._answered_ns = self.host.monotonic_ns()
                self._move(best)

        self._send(best, {"promote": 1}, done)


class _Request:
    """A connection for one request; ``done`` is called once, with None if no answer came in time."""

    def __init__(self, host: ServiceHost, name: str, message: dict[str, Any], done: OnStatus) -> None:
        self._message = message
        self._done: OnStatus | None = done
        self._timer: Timer = host.call_later(ANSWER_TIMEOUT_NS, self._end, None)
        self._conn = host.dial(name, PORT, self)

    def _end(self, status: Status | None) -> None:
        done, self._done = self._done, None
        self._timer.cancel()
        self._conn.close()
        if done is not None:
            done(status)

    def opened(self, conn: Conn) -> None:
        conn.session = LineDecoder()
        conn.send(encode(self._message))

    def received(self, conn: Conn, data: bytes) -> None:
        for message in conn.session.feed(data):
            self._end(message)

    def closed(self, conn: Conn) -> None:  # noqa: ARG002
        self._end(None)
