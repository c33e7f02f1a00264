"""Memory-pressure fault for servers that evict keys (Redis, memcached): fill the memory, count evictions, undo it.

:class:`Floods` keeps the state of the floods of a cluster and works on every backend; a module for each family, such as
``redis_flood``, writes and removes the entries.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar

from .base import ObservedFacts
from .kinds import KINDS


class Floods(ABC):
    """Floods of a cluster's servers; implements :class:`harness.clusters.abilities.servers.ServerMemory`.

    ``address`` returns (IP address, port) of a host's server; each connection to it is made within ``gate``. No request
    is sent while the lock is held.
    """

    NO_ANSWER: ClassVar[type[Exception]]
    """Exception of the client library for a server that does not answer."""

    def __init__(
        self,
        address: Callable[[str], tuple[str, int]],
        gate: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._address = address
        self._gate = gate
        self._wanted: Counter[str] = Counter()
        self._filling: set[str] = set()
        self._lock = threading.Lock()

    @abstractmethod
    def _fill(self, host: str) -> ObservedFacts:
        """Write entries while the flood is wanted; see :meth:`flood`."""

    @abstractmethod
    def _applied(self, host: str) -> bool:
        """Return whether there is anything to undo. Called with the lock held."""

    @abstractmethod
    def _undo(self, host: str) -> None:
        """Undo what the flood has done. Another thread may do the same concurrently."""

    @abstractmethod
    def _forget(self, host: str) -> None:
        """Drop the state of a flood that was undone. Called with the lock held."""

    @abstractmethod
    def _left(self, host: str) -> bool:
        """Ask the server whether anything is left of the flood."""

    def flood(self, host: str) -> ObservedFacts:
        """See :meth:`harness.clusters.abilities.servers.ServerMemory.flood`.

        Facts: number of ``entries`` written; number of ``evicted`` keys, and of ``others`` among them that were not the
        flood's own; number of keys ``keys_before`` and ``keys_after`` without the flood's own; ``error`` if the server
        failed.
        """
        with self._lock:
            self._wanted[host] += 1
        while not self._may_start(host):
            time.sleep(0.01)
        try:
            return self._fill(host)
        except self.NO_ANSWER as error:
            return {"evicted": 0, "others": 0, "error": str(error)}
        finally:
            with self._lock:
                self._filling.discard(host)
            self._undo_if_unwanted(host)

    def _may_start(self, host: str) -> bool:
        """Reserve the host: two concurrent floods would count each other's entries as keys of the lock."""
        with self._lock:
            free = host not in self._filling
            self._filling.add(host)
        return free

    def drain(self, host: str) -> None:
        with self._lock:
            self._wanted[host] -= 1  # below 0 if its flood has not started yet, which then writes nothing
        self._undo_if_unwanted(host)

    def flooded(self, host: str) -> bool | None:
        with self._lock:
            filling = host in self._filling
        if filling:
            return True
        self._undo_if_unwanted(host)
        try:
            return self._left(host)
        except self.NO_ANSWER:
            return None

    def _is_wanted(self, host: str) -> bool:
        with self._lock:
            return self._wanted[host] > 0

    def _undo_if_unwanted(self, host: str) -> None:
        """Undo the flood if it is not wanted and no thread is filling. If the server does not answer, the next call
        tries again."""
        with self._lock:
            if not self._applied(host) or self._wanted[host] > 0 or host in self._filling:
                return
        try:
            self._undo(host)
        except self.NO_ANSWER:
            return
        with self._lock:
            if self._wanted[host] <= 0:
                self._forget(host)


def floods_class(kind: str) -> type[Floods] | None:
    """Return the class that fills the memory of a kind's servers, ``None`` if these never evict a key."""
    found = KINDS.find(kind)
    return found.load("floods") if found.floods else None
