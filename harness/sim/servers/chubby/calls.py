"""Requests to the master of a simulated Chubby cell that wait for their answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...service import Conn
from .protocol import Message, line

OnCommand = Callable[[str, str], None]


class Refused(Exception):
    """Why an operation is not done: one of the protocol's errors."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Call:
    """A request that waits for its answer."""

    def __init__(self, conn: Conn, body: Message, now: int, on_command: OnCommand | None) -> None:
        self.conn = conn
        self.body = body
        self.op = str(body.get("op"))
        self.began = now
        self._on_command = on_command

    def answer(self, reply: Message) -> None:
        if self._on_command is not None:
            self._on_command(self.conn.peer, self.op.upper())
        self.conn.send(line({"n": self.body.get("n"), **reply}))

    def refuse(self, code: str, **more: Any) -> None:
        self.answer({"error": code, **more})
