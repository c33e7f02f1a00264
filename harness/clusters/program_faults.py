"""Overlapping faults of the programs on the hosts of a real cluster."""

from __future__ import annotations

import contextlib
import threading
from abc import ABC, abstractmethod
from collections import Counter

from .client_host import ClientHost
from .conversation import Refused, Unanswered


class ProgramFaults(ABC):
    """Base class of the mixins that implement :class:`harness.clusters.abilities.hosts.Processes`. It implements
    ``ClientHangs``, and counts pauses and kills: a host runs again when all faults that stopped it are healed."""

    def __init__(self) -> None:
        super().__init__()
        # A fault on an event strikes in one thread while another fault is healed in the next.
        self._damaging = threading.RLock()
        self._pauses: Counter[str] = Counter()
        self._kills: Counter[str] = Counter()
        self._wiped: set[str] = set()
        """Hosts that a fault has emptied and whose programs have not been started since."""

    @abstractmethod
    def _freeze(self, host: str) -> None:
        """Stop a host's program, with the processes that it has started."""

    @abstractmethod
    def _thaw(self, host: str) -> None:
        """Continue what :meth:`_freeze` has stopped."""

    @abstractmethod
    def _kill_program(self, host: str) -> None:
        """Kill a host's program, with the processes that it has started."""

    @abstractmethod
    def _revive(self, host: str, *, wiped: bool) -> None:
        """Start a host's program, whose data is lost if ``wiped``."""

    @abstractmethod
    def incarnation(self, host: str) -> int | None:
        """See :class:`harness.clusters.abilities.hosts.Processes`."""

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

    def kill(self, host: str, *, for_good: bool = False) -> None:
        with self._damaging:
            self._kills[host] += not for_good
            self._kill_program(host)

    def start(self, host: str, *, wiped: bool) -> None:
        with self._damaging:
            self._kills[host] = max(0, self._kills[host] - 1)
            if wiped:
                self._wiped.add(host)
            if self._kills[host] or self.incarnation(host) is not None:
                return
            self._revive(host, wiped=host in self._wiped)
            self._wiped.discard(host)
            if self._pauses[host]:
                self._freeze(host)

    def _thaw_all(self) -> None:
        """Continue all programs that are paused: a program that is stopped answers nothing."""
        for name in sorted(+self._pauses):
            with contextlib.suppress(Unanswered, Refused):
                self._thaw(name)

    def hang(self, host: str) -> None:
        self._client(host).conversation.tell("hang")

    def hung(self, host: str) -> bool:
        return self._client(host).hung
