"""Ports of this host for the programs of a run."""

from __future__ import annotations

import socket
import threading
from typing import Final

_NAME: Final = "\0lock-harness/port/{port}"
"""Name of the abstract Unix socket that stands for a port which a run has taken. It is gone when the socket is closed,
as it is at the end of its process; no file is left."""


class PortReservations:
    """The ports that this process has taken. Helpers of other runs on this host take others, also while the servers of
    these ports do not listen yet, or are dead."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: list[socket.socket] = []

    def take(self, first: int, count: int) -> list[int]:
        """Return ``count`` ports from ``first`` on, on which nothing listens and which nobody has taken. They lie below
        the range from which the kernel takes ports of connections, so that a port stays free while its server is dead.
        """
        found: list[int] = []
        port = first
        with self._lock:
            while len(found) < count:
                if self._take(port):
                    found.append(port)
                port += 1
        return found

    def close(self) -> None:
        """Give all ports back."""
        with self._lock:
            while self._held:
                self._held.pop().close()

    def _take(self, port: int) -> bool:
        mark = socket.socket(socket.AF_UNIX)
        try:
            mark.bind(_NAME.format(port=port))
            with socket.socket() as trial:
                trial.bind(("0.0.0.0", port))
        except OSError:
            mark.close()
            return False
        self._held.append(mark)
        return True
