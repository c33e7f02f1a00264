"""Memory pressure on servers that evict, by family: the same on all backends."""

from __future__ import annotations

import importlib
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, Final

from .base import Facts
from .kinds import KINDS

EVICTING: Final = ("redis", "memcached")
"""Families whose servers forget keys when memory runs out."""


class Floods(ABC):
    """A family's module ``<family>_flood`` has a class of this name, derived from this one. ``address`` is asked where
    a host's server is, and ``gate`` each time before it is dialled. Nothing is asked of a server under the lock."""

    LOST: ClassVar[type[Exception]]
    """What is raised where the server does not answer."""

    def __init__(
        self,
        address: Callable[[str], tuple[str, int]],
        gate: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._address = address
        self._gate = gate
        self._wanted: Counter[str] = Counter()
        self._rising: set[str] = set()
        self._lock = threading.Lock()

    @abstractmethod
    def _fill(self, host: str) -> Facts:
        """Let the flood rise while it is wanted; see :meth:`flood`."""

    @abstractmethod
    def _risen(self, host: str) -> bool:
        """Is there anything to undo? Called under the lock."""

    @abstractmethod
    def _undo(self, host: str) -> None:
        """Take away what the flood has done; another thread may do the same, and be done first."""

    @abstractmethod
    def _forget(self, host: str) -> None:
        """It is undone. Called under the lock."""

    @abstractmethod
    def _left(self, host: str) -> bool:
        """Is anything left of it on the server?"""

    def flood(self, host: str) -> Facts:
        """See :meth:`harness.clusters.base.Cluster.flood`. Facts: ``entries`` written, ``evicted`` keys in all,
        ``others``: those that were not the flood's own, and how many keys there were ``keys_before`` and
        ``keys_after``, without the flood's; ``error`` if the server does not do it."""
        with self._lock:
            self._wanted[host] += 1
        while not self._begins(host):
            time.sleep(0.01)
        try:
            return self._fill(host)
        except self.LOST as error:
            return {"evicted": 0, "others": 0, "error": str(error)}
        finally:
            with self._lock:
                self._rising.discard(host)
            self._ebb(host)

    def _begins(self, host: str) -> bool:
        """One after the other on a host, or they would take each other's entries for somebody's keys."""
        with self._lock:
            free = host not in self._rising
            self._rising.add(host)
        return free

    def drain(self, host: str) -> None:
        with self._lock:
            self._wanted[host] -= 1  # below 0 if its flood has not begun yet, which then does not rise
        self._ebb(host)

    def flooded(self, host: str) -> bool | None:
        with self._lock:
            rising = host in self._rising
        if rising:
            return True
        self._ebb(host)
        try:
            return self._left(host)
        except self.LOST:
            return None

    def _is_wanted(self, host: str) -> bool:
        with self._lock:
            return self._wanted[host] > 0

    def _ebb(self, host: str) -> None:
        """Undo, if nobody wants the flood and nobody is about to add to it. What the server does not answer to is left
        for the next time."""
        with self._lock:
            if not self._risen(host) or self._wanted[host] > 0 or host in self._rising:
                return
        try:
            self._undo(host)
        except self.LOST:
            return
        with self._lock:
            if self._wanted[host] <= 0:
                self._forget(host)


def floods_of(
    kind: str,
    address: Callable[[str], tuple[str, int]],
    gate: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Floods | None:
    """Of a kind's servers, None if they do not evict. ``address`` is asked where a host's server is, and ``gate`` each
    time before it is dialled."""
    family = KINDS[kind].family
    if family not in EVICTING:
        return None
    module: Any = importlib.import_module(f".{family}_flood", __package__)
    floods: Floods = module.Floods(address, gate)
    return floods


class Flooding:
    """The part of a cluster that floods its servers; see :class:`harness.clusters.base.Cluster`."""

    _floods: Floods | None

    def flood(self, host: str) -> Facts:
        return self._able().flood(host)

    def drain(self, host: str) -> None:
        self._able().drain(host)

    def flooded(self, host: str) -> bool | None:
        return self._able().flooded(host)

    def _able(self) -> Floods:
        if self._floods is None:
            raise NotImplementedError("these servers evict nothing")
        return self._floods
