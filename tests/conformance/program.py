"""A correct lock program for the client protocol, on the servers of ``server.py``, with one connection and no
library."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import time
from itertools import count
from typing import Any


class Refused(Exception):
    """The request certainly had no effect."""


class Lost(Exception):
    """The request has an unknown outcome."""


class Server:
    """A connection to a server; ``patience`` is how long it waits for an answer, in seconds."""

    def __init__(self, address: tuple[str, int], patience: float | None) -> None:
        self._address = address
        self._patience = patience
        self._stream: socket.SocketIO | None = None
        self._reached()

    def ask(self, *request: Any) -> Any:
        try:
            stream = self._reached()
            stream.write(json.dumps(request).encode() + b"\n")
            line = stream.readline()
        except OSError as error:
            self.forget()
            raise Lost(str(error)) from error
        if not line:
            self.forget()
            raise Lost("the connection was closed")
        return json.loads(line)

    def forget(self) -> None:
        """Close the connection, so that a late answer is not taken for the next one."""
        if self._stream is not None:
            with contextlib.suppress(OSError):
                self._stream.close()
        self._stream = None

    def _reached(self) -> socket.SocketIO:
        if self._stream is None:
            connection = socket.create_connection(self._address, self._patience)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._stream = connection.makefile("rwb", buffering=0)
        return self._stream


class Program:
    PATIENCE: float | None = 0.5
    POLL = 0.01

    def __init__(self) -> None:
        self.held: dict[str, str] = {}
        self._tokens = count()

    def serve(self) -> None:
        for line in sys.stdin:
            request = json.loads(line)
            self.say(request, self.answer(request))
            if request["op"] == "close":
                return

    def say(self, request: dict[str, Any], answer: dict[str, Any]) -> None:
        print(json.dumps({"id": request["id"], **answer}), flush=True)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        fields = {name: value for name, value in request.items() if name not in ("id", "op")}
        try:
            return {"ok": self.call(request["op"], fields)}
        except Refused as refused:
            return {"fail": str(refused)}
        except Lost as lost:
            return {"info": str(lost)}
        except Exception as error:  # noqa: BLE001 - the program reports any error and continues
            return {"error": f"{type(error).__name__}: {error}"}

    def call(self, op: str, fields: dict[str, Any]) -> Any:
        known = getattr(self, f"do_{op}", None)
        if known is None:
            raise ValueError(f"unknown op {op!r}")
        return known(**fields)

    def do_open(self, addresses: list[Any], ttl: float, **about: Any) -> None:
        self.ttl = ttl
        self.server = Server((addresses[0][0], addresses[0][1]), self.PATIENCE)
        self.me = f"{socket.gethostname()}-{time.monotonic_ns()}"

    def do_acquire(self, key: str, timeout: float) -> dict[str, Any]:
        deadline = time.monotonic() + timeout
        while True:
            asked, token = time.monotonic(), f"{self.me}-{next(self._tokens)}"
            fence = self.server.ask("take", key, token, self.ttl)
            if fence is not None:
                self.held[key] = token
                return {"fence": fence, "valid_for": self.ttl - (time.monotonic() - asked)}
            left = deadline - time.monotonic()
            if left <= 0:
                raise Refused("busy")
            time.sleep(min(self.POLL, left))

    def do_release(self, key: str) -> None:
        token = self.held.pop(key, "")
        if not token or not self.server.ask("drop", key, token):
            raise Refused("not the holder")

    def do_still_valid(self, key: str) -> bool:
        return key in self.held

    def do_extend(self, key: str) -> bool:
        return key in self.held and bool(self.server.ask("keep", key, self.held[key], self.ttl))

    def do_close(self) -> None:
        self.server.forget()


if __name__ == "__main__":
    Program().serve()
