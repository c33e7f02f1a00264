"""The way from the control side to addresses of a run's network."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

PATIENCE: Final = 5.0
"""Seconds that those who are on their way get to come back."""


class Shut(ConnectionError):
    """The network is being removed, or gone."""


class Gate:
    """Whoever dials an address of a run's network passes here, and nobody any more once it is shut: without the
    network, packets to its addresses would leave the machine by the default route."""

    def __init__(self) -> None:
        self._outside = 0
        self._shut = False
        self._changed = threading.Condition()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Raises :class:`Shut`."""
        with self._changed:
            if self._shut:
                raise Shut("the network of the run is gone")
            self._outside += 1
        try:
            yield
        finally:
            with self._changed:
                self._outside -= 1
                self._changed.notify_all()

    def shut(self) -> None:
        """Let nobody out any more, and wait for those who are."""
        with self._changed:
            self._shut = True
            self._changed.wait_for(lambda: self._outside == 0, PATIENCE)
