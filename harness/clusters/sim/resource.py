"""The protected resource of a simulated cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from harness.sim.service import Conn, ServiceHost

RESOURCE_PORT: Final = 7000


class LineService:
    """The protected resource as a program on a simulated host: answers each line with a line."""

    port = RESOURCE_PORT

    def __init__(self, answer: Callable[[bytes], bytes]) -> None:
        self._answer = answer

    def start(self, host: ServiceHost, *, wiped: bool) -> None:
        """Do nothing: the resource is never faulted, so it has no state to load."""

    def stop(self) -> None: ...

    def opened(self, conn: Conn) -> None:
        conn.session = b""

    def received(self, conn: Conn, data: bytes) -> None:
        *lines, conn.session = (conn.session + data).split(b"\n")
        for line in lines:
            conn.send(self._answer(line) + b"\n")

    def closed(self, conn: Conn) -> None: ...
