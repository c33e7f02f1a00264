"""Guard for connections from the control side to a run's network, which stops them before the network is removed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

PATIENCE: Final = 5.0
"""Seconds that open connections get to end."""
Route = Callable[[str, int], tuple[str, int]]
"""Returns the (host, port) to connect to for an (IP address, port) of a run's network; :data:`NOWHERE` if there is
none."""
NOWHERE: Final = ("127.0.0.1", 0)
"""An address that refuses each connection."""


class NetworkRemoved(ConnectionError):
    """The network is being removed, or gone."""


def direct(ip: str, port: int) -> tuple[str, int]:
    """The :data:`Route` of a control side that reaches the network itself."""
    return ip, port


class NetworkGate:
    """Every connection to an address of a run's network is made within :meth:`open`, which fails once the gate is shut.
    Without the network, packets to its addresses would leave the machine by the default route.

    The address to connect to is that of :meth:`address`. ``route`` may be replaced before the first connection."""

    def __init__(self) -> None:
        self.route: Route = direct
        self._outside = 0
        self._shut = False
        self._changed = threading.Condition()

    def address(self, ip: str, port: int) -> tuple[str, int]:
        """Return the (host, port) at which the control side reaches an (IP address, port) of the network."""
        return self.route(ip, port)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Context of a connection to the network; raises :class:`NetworkRemoved`."""
        with self._changed:
            if self._shut:
                raise NetworkRemoved("the network of the run is gone")
            self._outside += 1
        try:
            yield
        finally:
            with self._changed:
                self._outside -= 1
                self._changed.notify_all()

    def shut(self) -> None:
        """Refuse new connections and wait for the open ones to end."""
        with self._changed:
            self._shut = True
            self._changed.wait_for(lambda: self._outside == 0, PATIENCE)
