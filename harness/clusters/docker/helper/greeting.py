"""A greeting on the helper's own address, by which a control side finds out whether it reaches the containers.

An address alone says nothing: the network of another engine, or the one of an office, may have the same addresses.
"""

from __future__ import annotations

import secrets
import socket
import threading
from contextlib import suppress
from typing import Final

GREETS_S: Final = 30.0
"""Seconds after the last connection at which the greeting ends."""


def greet() -> dict[str, str | int]:
    """Send a new ``token`` to each connection to ``port`` from now on, and return both."""
    token = secrets.token_hex(16)
    listener = socket.create_server(("0.0.0.0", 0))
    listener.settimeout(GREETS_S)
    threading.Thread(target=_serve, args=(listener, token.encode()), daemon=True).start()
    return {"token": token, "port": listener.getsockname()[1]}


def _serve(listener: socket.socket, token: bytes) -> None:
    with listener, suppress(TimeoutError):
        while True:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.sendall(token)
