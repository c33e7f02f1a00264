"""The base class of the clusters in real time: in containers, on the user's machines, or of the user's servers.

Their client programs are :class:`harness.clusters.client_host.ClientHost`. All times are of this machine's clocks.
"""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence

from harness.clusters.base import Host
from harness.errors import UNKNOWN, HarnessError
from harness.history.lock_keys import OnKeyChange

from .client_host import REVIVAL, ClientError, ClientHost, EntryThread, end_histories
from .client_starts import ClientStarts

Report = Callable[[str], None]
"""Called with each step of a start or an end; with "" when the step is over."""


class ClusterError(HarnessError):
    """The cluster did not do what the run needs, for instance set a clock again after a restart."""

    exit_status = UNKNOWN


class RealCluster(ABC):
    """Base class that implements a part of :class:`harness.clusters.base.Cluster`."""

    def __init__(self) -> None:
        super().__init__()
        self._entries = EntryThread()
        self._starts = ClientStarts()
        self._closing = contextlib.ExitStack()
        """The calls that undo the start, however far it came."""
        self._watched: tuple[Sequence[str], OnKeyChange] | None = None
        self._waits: list[tuple[int, int]] = []
        self._problem = ""
        """The first failure in a thread that nobody waits for."""
        self._unheard: list[str] = []
        self._ending = False
        """True when the run is over and only the removal is left, which no interrupt may cut short."""

    @property
    @abstractmethod
    def hosts(self) -> Sequence[Host]: ...

    def _client_failures(self) -> list[str]:
        """Return why client programs ended unexpectedly."""
        return [host.failure for host in self.hosts if isinstance(host, ClientHost) and host.failure]

    def _raise_failure(self) -> None:
        """Raise what the recording of an entry has raised, ClusterError for a failure in a thread that nobody waits
        for, or ClientError for a client program that failed."""
        if self._entries.error is not None:
            raise self._entries.error
        if self._problem:
            raise ClusterError(self._problem)
        for failure in self._client_failures():
            raise ClientError(failure)

    def _note_problem(self, problem: str) -> None:
        """Keep a failure in a thread that nobody waits for, until the run is over; "" is none."""
        self._problem = self._problem or problem

    def _end_histories(self, thaw: Callable[[], object]) -> None:
        """End the histories of all clients at the same moment. ``thaw`` resumes paused programs."""
        self._starts.end()
        clients = [host for host in self.hosts if isinstance(host, ClientHost) and host.alive]
        self._unheard = end_histories(clients, thaw, REVIVAL)

    def interrupt(self) -> None:
        if not self._ending:
            raise KeyboardInterrupt

    def clock(self) -> tuple[int, int]:
        return time.monotonic_ns(), time.time_ns()

    def watch_keys(self, keys: Sequence[str], on_change: OnKeyChange) -> None:
        """See :class:`harness.clusters.abilities.servers.LockKeys`."""
        self._watched = keys, on_change

    def processor_waits(self) -> list[tuple[int, int]]:
        """See :class:`harness.clusters.abilities.hosts.ProcessorWaits`."""
        return self._waits

    def unheard(self) -> list[str]:
        """See :class:`harness.clusters.abilities.hosts.LastEntries`."""
        return self._unheard


def dated(lines: Iterable[tuple[int, str]], origin_ns: int) -> str:
    """Return a log, each line with the seconds since ``origin_ns`` before it. ``lines`` are (monotonic ns, text); the
    server's own time is in the text already."""
    return "".join(f"{(at - origin_ns) / 1e9:10.3f} s  {line}\n" for at, line in list(lines))
