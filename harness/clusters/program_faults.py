"""Overlapping faults of the programs on the hosts of a real cluster."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import Counter

from .client_host import ClientHost


class ProgramFaults(ABC):
    """Base class of the mixins that implement :class:`harness.clusters.abilities.hosts.Processes`. It implements
    ``ClientHangs``, and counts pauses and kills: a host runs again when all faults that stopped it are healed."""

    def __init__(self) -> None:
        super().__init__()
        # A fault on an event strikes in one thread while another fault is healed in the next.
        self._damaging = threading.RLock()
        self._pauses: Counter[str] = Counter()
        self._kills: Counter[str] = Counter()

    @abstractmethod
    def _freeze(self, host: str) -> None:
        """Stop a host's program, with the processes that it has started."""

    @abstractmethod
    def _thaw(self, host: str) -> None:
        """Continue what :meth:`_freeze` has stopped."""

    @abstractmethod
    def _client(self, name: str) -> ClientHost: ...

    def pause(self, host: str) -> None:
        with self._damaging:
            self._pauses[host] += 1
            if self._pauses[host] == 1:
                self._freeze(host)

    def resume(self, host: str) -> None:
        with self._damaging:
            if self._pauses[host] == 1:
                self._thaw(host)
            self._pauses[host] = max(0, self._pauses[host] - 1)

    def hang(self, host: str) -> None:
        self._client(host).conversation.tell("hang")

    def hung(self, host: str) -> bool:
        return self._client(host).hung
