"""The manager of replicated MariaDB servers, as MHA, orchestrator or a Pacemaker agent: asks the primary ten times a
second whether it is there, promotes the replica that has received most when it has not answered for a second, and then
moves the name that clients dial.

It cannot tell a dead primary from one that it does not reach. A server that is not the primary and does not follow it,
such as a former primary that is back, is rebuilt: its connections are ended, and it gets everything anew. Abstracted:
it asks over the servers' replication port, and the name moves in no time for all clients at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from harness.sim.servers.mysql.named_locks import NS_PER_S
from harness.sim.servers.mysql.replication import PORT, Lines, encode
from harness.sim.service import Conn, ServiceHost, Timer

EVERY_NS: Final = NS_PER_S // 10
PATIENCE_NS: Final = NS_PER_S
ASK_NS: Final = 3 * NS_PER_S // 10
Status = dict[str, Any]
Then = Callable[[Status | None], None]


class Manager:
    """``move`` is called with the name of the server that clients are to dial from now on."""

    port = 3308
    host: ServiceHost

    def __init__(self, servers: list[str], move: Callable[[str], None]) -> None:
        self._servers = servers
        self._move = move
        self.primary = servers[0]
        self._answered_ns = 0
        self._promoting = False

    def start(self, host: ServiceHost, *, wiped: bool) -> None:  # noqa: ARG002 - the servers know who is what
        self.host = host
        self._promoting = False
        self._answered_ns = host.monotonic_ns()
        self._round()

    def stop(self) -> None: ...

    def opened(self, conn: Conn) -> None:
        conn.close()

    def received(self, conn: Conn, data: bytes) -> None: ...

    def closed(self, conn: Conn) -> None: ...

    def _round(self) -> None:
        self._ask(self.primary, {"status": 1}, self._heard(self.primary))
        for name in self._servers:
            if name != self.primary:
                self._ask(name, {"status": 1}, self._follower(name))
        self.host.call_later(EVERY_NS, self._round)

    def _ask(self, name: str, message: dict[str, Any], then: Then) -> None:
        _Question(self.host, name, message, then)

    def _heard(self, name: str) -> Then:
        def heard(status: Status | None) -> None:
            if name != self.primary:
                return
            now = self.host.monotonic_ns()
            if status is not None:
                self._answered_ns = now
                if status["read_only"] and status["follows"] is None:
                    self._ask(name, {"open": 1}, lambda _: None)
            elif now - self._answered_ns >= PATIENCE_NS and not self._promoting:
                self._choose()

        return heard

    def _follower(self, name: str) -> Then:
        def heard(status: Status | None) -> None:
            if status is None or name == self.primary or self._promoting:
                return
            if status["follows"] != self.primary or status["broken"]:
                self.host.log(f"{name} does not follow {self.primary}: rebuilt")
                self._ask(name, {"rebuild": self.primary}, lambda _: None)

        return heard

    # Promotion.

    def _choose(self) -> None:
        """Ask all replicas how much they have, and promote the one with most."""
        self._promoting = True
        found: dict[str, Status | None] = {}
        others = [name for name in self._servers if name != self.primary]

        def told(name: str, status: Status | None) -> None:
            found[name] = status
            if len(found) == len(others):
                self._promote({name: status for name, status in found.items() if status is not None})

        for name in others:
            self._ask(name, {"status": 1}, lambda status, name=name: told(name, status))  # type: ignore[misc]

    def _promote(self, replicas: dict[str, Status]) -> None:
        able = [name for name in self._servers if name in replicas and replicas[name]["follows"] == self.primary]
        if not able:
            self._promoting = False
            return
        best = max(able, key=lambda name: (replicas[name]["position"], -self._servers.index(name)))

        def done(status: Status | None) -> None:
            self._promoting = False
            if status is not None and not status["read_only"]:
                self.host.log(f"{self.primary} has not answered for a second: {best} is promoted")
                self.primary = best
                self._answered_ns = self.host.monotonic_ns()
                self._move(best)

        self._ask(best, {"promote": 1}, done)


class _Question:
    """A connection for one question; ``then`` is called once, with None if no answer came in time."""

    def __init__(self, host: ServiceHost, name: str, message: dict[str, Any], then: Then) -> None:
        self._message = message
        self._then: Then | None = then
        self._timer: Timer = host.call_later(ASK_NS, self._end, None)
        self._conn = host.dial(name, PORT, self)

    def _end(self, status: Status | None) -> None:
        then, self._then = self._then, None
        self._timer.cancel()
        self._conn.close()
        if then is not None:
            then(status)

    def opened(self, conn: Conn) -> None:
        conn.session = Lines()
        conn.send(encode(self._message))

    def received(self, conn: Conn, data: bytes) -> None:
        for message in conn.session.take(data):
            self._end(message)

    def closed(self, conn: Conn) -> None:  # noqa: ARG002
        self._end(None)
