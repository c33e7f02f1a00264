"""Times in which a fault excuses a slow lock, or the loss of a client's place in a queue.

A fault excuses the clients that it touches, for as long as its effects may last.
"""

from __future__ import annotations

import numpy as np

from harness.history import History

from .faults import FOR_EVER, HANG, RunFault, faults
from .view import NONE, Ints, View, view


class Excuses:
    """The active times of the faults that count for each client.

    A fault counts for a client if it strikes the client's host, strikes a host that is no client's, or disturbs all
    hosts.

    It lasts until its heal, then again as long as it lasted, plus :meth:`.view.View.wake`: TCP's doubling time-outs may
    deliver late what was sent during the fault, and sessions that ended meanwhile are created again.
    """

    def __init__(self, history: History) -> None:
        self.columns: View = view(history)
        settings = self.columns.settings
        clients = frozenset(settings.get("clients") or ())
        wake = self.columns.wake()
        self._common = [_lasting(fault, wake) for fault in faults(history) if fault.disturbs or fault.hosts - clients]
        self._servers = [_lasting(fault, wake) for fault in faults(history) if fault.hosts - clients]
        self._own: dict[str, list[tuple[int, int]]] = {}
        for fault in faults(history):
            for host in fault.hosts & clients:
                self._own.setdefault(host, []).append(_lasting(fault, wake))
        for index in self.columns.deaths().tolist():
            host = str((self.columns.value[index] or {}).get("host"))
            self._own.setdefault(host, []).append((int(self.columns.time[index]),) * 2)

    def first(self, client: int, begin: int, end: int) -> int | None:
        """Return when, in [begin, end] (ns), the first fault that counts for the client (its number) was active."""
        struck = [*self._common, *self._own.get(self.columns.names[client], ())]
        return min((max(begin, since) for since, until in struck if since <= end and begin <= until), default=None)

    def clip(self, client: Ints, begin: Ints, end: Ints) -> Ints:
        """Return the ``end`` of each stretch (ns), cut at the first active fault that counts for its client."""
        for number, name in enumerate(self.columns.names):
            for since, until in (*self._common, *self._own.get(name, ())):
                hit = (client == number) & (begin <= until) & (end >= since)
                end = np.where(hit, np.maximum(begin, since), end)
        return end

    def without(self, client: int, begin: int, end: int) -> list[tuple[int, int]]:
        """Return the parts of [begin, end] (ns) in which no active fault counts for the client, in order."""
        parts, since = [], begin
        for struck, healed in sorted((*self._common, *self._own.get(self.columns.names[client], ()))):
            if healed <= since or struck >= end:
                continue
            if struck > since:
                parts.append((since, struck))
            since = healed
        return [*parts, (since, end)] if since < end else parts

    def any_of_servers(self, begin: int, end: int) -> bool:
        """Return whether a fault that strikes hosts other than clients was active in [begin, end] (ns)."""
        return any(since <= end and begin <= until for since, until in self._servers)

    def any(self, client: int, begin: int, end: int) -> bool:
        return self.first(client, begin, end) is not None


def _lasting(fault: RunFault, wake: int) -> tuple[int, int]:
    if fault.until_ns == FOR_EVER or fault.name == HANG:
        return fault.from_ns, FOR_EVER
    return fault.from_ns, fault.until_ns + (fault.until_ns - fault.from_ns) + wake


def returned(columns: View, invoke: int) -> int:
    """Return when a call returned (ns), or else when the history ended."""
    done = int(columns.done[invoke])
    return columns.end if done == NONE else int(columns.time[done])


def ends(columns: View, rows: Ints) -> Ints:
    """Return the end (ns) of the calls invoked at ``rows``: their answer, the crash of their client, or else the end of
    the history."""
    done = columns.done[rows]
    end: Ints = np.where(done == NONE, columns.end, columns.time[done])
    died = _deaths(columns)
    for at in np.flatnonzero(done == NONE).tolist():
        begin = int(columns.time[rows[at]])
        after = [time for time in died.get(columns.name(columns.client[rows[at]]), ()) if time >= begin]
        end[at] = min([int(end[at]), *after])
    return end


def _deaths(columns: View) -> dict[str, list[int]]:
    """Return the times (ns) at which each host crashed."""
    died: dict[str, list[int]] = {}
    for crash in columns.deaths().tolist():
        died.setdefault(str((columns.value[crash] or {}).get("host")), []).append(int(columns.time[crash]))
    return died
