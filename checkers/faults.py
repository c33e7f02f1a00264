"""The faults of a run as intervals, read from the entries of the nemesis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from harness.history import History, Op

FOR_EVER: Final = 2**62
STILL: Final = frozenset({"client-pause"})
"""Faults that stop the whole client, lease renewals included."""
HANG: Final = "client-hang"
"""The fault that stops a client's own thread for good: its heal changes nothing."""
DEADLY: Final = frozenset({"client-crash", HANG})
"""Faults that end the calls of a client for good."""
IN_CALLS: Final = frozenset({"task-cancel", "thread-interrupt"})
"""Faults that interrupt a client in its calls, and strike nothing else."""
MOMENTARY: Final = frozenset({"clock-jump"})
"""Faults that end leases at one moment. What they leave behind harms no later lease."""
RECOVERY: Final = 10_000_000_000
"""The longest time (ns) until clients and servers have noticed that a minority of the servers is lost, by time-outs of
connections and sessions, and have elected a leader. In the simulator it took our locks at most 7.9 s."""
SILENT: Final = STILL | DEADLY
"""Faults during which a client makes no request. Faults on single links do not count, since the client may tolerate
them."""


@dataclass(frozen=True, slots=True)
class RunFault:
    """One fault of a run.

    ``until_ns`` is :data:`FOR_EVER` if it was never healed. ``cut`` has the links that it cut, as ``c0>n1``.
    ``superseded``: it was not healed at ``until_ns``; its next turn replaced it.
    """

    name: str
    hosts: frozenset[str]
    disturbs: bool
    from_ns: int
    until_ns: int
    cut: frozenset[str] = frozenset()
    superseded: bool = False

    def during(self, from_ns: int, until_ns: int) -> bool:
        return self.from_ns <= until_ns and from_ns <= self.until_ns


def faults(history: History) -> list[RunFault]:
    """Return every fault, by the time of its injection. A fault that was not observed counts: it may have taken effect.

    A fault whose heal failed lasts for ever, and from then on it disturbs everything: a lock need not be available
    during an unplanned fault.
    """
    return faults_among(history.nemesis("inject", "heal"))


def faults_among(entries: Iterable[Op]) -> list[RunFault]:
    """Return the faults from the entries of the nemesis."""
    begun: dict[Any, tuple[int, dict[str, Any]]] = {}
    ended: dict[Any, tuple[int, bool]] = {}
    cuts: dict[Any, frozenset[str]] = {}
    taken_over: set[Any] = set()
    for op in entries:
        if op.f not in ("inject", "heal"):
            continue
        value = op.value or {}
        number = value.get("id")
        if op.f == "inject" and op.type != "invoke":
            cuts[number] = frozenset((value.get("observed") or {}).get("cut") or ())
        if op.f == "heal":
            ended[number] = (op.time, op.type != "fail")
            taken_over |= {number} if (value.get("observed") or {}).get("superseded") else set()
        elif number not in begun or op.type == "invoke":
            begun[number] = (op.time, value)
    return [
        fault
        for number, one in begun.items()
        for fault in _lasting(
            *one, *ended.get(number, (FOR_EVER, True)), cuts.get(number, frozenset()), number in taken_over
        )
    ]


def _lasting(
    time: int, value: dict[str, Any], ended: int, undone: bool, cut: frozenset[str], superseded: bool
) -> Iterator[RunFault]:
    name, hosts = str(value.get("fault")), frozenset(value.get("hosts") or ())
    disturbs = bool(value.get("disturbs", True))
    yield RunFault(name, hosts, disturbs, time, ended if undone else FOR_EVER, cut, superseded)
    if not undone and not disturbs:
        yield RunFault(name, hosts, True, ended, FOR_EVER, cut)


def without_tolerated(all_faults: list[RunFault], servers: Iterable[str]) -> list[RunFault]:
    """Return the disturbing faults of a lock that survives the loss of a minority of its ``servers``.

    A fault that strikes only servers, and only a minority of them together with the faults at the same time, disturbs
    the lock for :data:`RECOVERY` and at the moment of its heal. Other disturbing faults are returned as they are."""
    known = frozenset(servers)
    found = []
    for fault in (one for one in all_faults if one.disturbs):
        lost = fault.hosts.union(
            *(one.hosts & known for one in all_faults if one.during(fault.from_ns, fault.until_ns))
        )
        few = bool(fault.hosts) and lost <= known and 2 * len(lost) < len(known)
        over = fault.from_ns + RECOVERY
        if few and over < fault.until_ns:
            found.append(replace(fault, until_ns=over))
            if fault.until_ns != FOR_EVER:
                found.append(replace(fault, from_ns=fault.until_ns))
        else:
            found.append(fault)
    return found


def unhealed(history: History) -> str | None:
    """Return a doubt about availability that names the heal that failed; None if all heals worked."""
    last = {(op.value or {}).get("id"): op for op in history.nemesis("heal")}
    return next((not_undone(op) for op in last.values() if op.type == "fail"), None)


def not_undone(heal: Op) -> str:
    return f"{titled(heal.value or {})} was not healed: {heal.error or 'it was still observed afterwards'}"


def titled(value: dict[str, Any]) -> str:
    return f"{value.get('fault')} on {', '.join(value.get('hosts') or ['no host'])}"
