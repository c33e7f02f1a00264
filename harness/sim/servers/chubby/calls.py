"""A client's request to the master of a simulated Chubby cell, from its arrival to its answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.sim.service import Conn

from .protocol import Message, line

OnCommand = Callable[[str, str], None]


class RejectedOperation(Exception):
    """An operation that the master refuses, with one of the protocol's error codes."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class ClientRequest:
    """A request that waits for its answer. ``received_at`` is in ns of the master's monotonic clock.

    ``on_command`` is called with (client host, operation in upper case) before the answer is sent.
    """

    def __init__(self, conn: Conn, body: Message, now: int, on_command: OnCommand | None) -> None:
        self.conn = conn
        self.body = body
        self.op = str(body.get("op"))
        self.received_at = now
        self._on_command = on_command

    def answer(self, reply: Message) -> None:
        """Send the answer."""
        if self._on_command is not None:
            self._on_command(self.conn.peer, self.op.upper())
        self.conn.send(line({"n": self.body.get("n"), **reply}))

    def refuse(self, code: str, **more: Any) -> None:
        """Answer with an error."""
        self.answer({"error": code, **more})
