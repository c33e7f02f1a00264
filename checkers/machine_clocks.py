"""Violations that hold for every admissible clock, in a history whose clients ran on several machines.

Times of a client were converted from its machine's monotonic clock, with an error of at most ``error_ns``, which the
``start`` and ``stop`` entries state. So each machine's entries may all have happened up to that much earlier or later.
Two entries of one machine keep their distance, since one clock gave both.

A violation is a conjunction of relations between the times of entries. Such a relation holds for all shifts of the
machines within their errors if it holds for the extreme ones. So a violation with the same entries that is found for
each combination of extreme shifts holds for every admissible clock. Where a verdict depends on entries that do not
exist, it might hold for the extremes only, so some shifts in between are tried too. With more than :data:`MOST_CORNERS`
combinations, as many random ones are tried, and each machine against all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from random import Random
from typing import Any, Final

import msgspec

from harness.history import History
from harness.history.lock_keys import changed_history
from harness.history.recordings import DRIFT
from harness.wording import counted, in_seconds

from .base import Verdict, Violation

MOST_CORNERS: Final = 64
BETWEEN: Final = 8
"""Number of random shifts that are not extreme."""
Check = Callable[[History], Verdict]
Identity = tuple[str, str | None, tuple[int, ...]]
"""Kind, key and entries of a violation."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Clients of one machine, and the error of their times, ns."""

    clients: frozenset[str]
    error_ns: int


def machines_of(history: History) -> list[Machine]:
    """Return the machines of a history with the errors of their clocks; empty if all clients have one clock.

    Without a ``stop`` entry (a killed run) the errors at the start count, and what clocks may drift since then.
    """
    stated = [op for op in history.nemesis("start", "stop") if op.value.get("machine_clocks")]
    errors: dict[frozenset[str], int] = {}
    for op in stated:
        for clock in op.value["machine_clocks"]:
            clients = frozenset(clock["clients"])
            errors[clients] = max(errors.get(clients, 0), int(clock["error_ns"]))
    drift = 0
    if stated and stated[-1].f == "start":
        drift = int(DRIFT * (history.time[-1] - stated[-1].time))
    return [Machine(clients, error + drift) for clients, error in errors.items()]


def certain(history: History, machines: Sequence[Machine], verdict: Verdict, check: Check) -> Verdict:
    """Return the verdict with the violations that hold for every admissible clock; unknown if there are none."""
    evidence = {_identity(one, None): one for one in verdict.evidence}
    for shifts in _shifts(machines):
        shifted, order = _shifted(history, machines, shifts)
        found = check(shifted)
        held = {_identity(one, order) for one in found.evidence}
        evidence = {identity: one for identity, one in evidence.items() if identity in held}
        if found.valid is not False or (verdict.evidence and not evidence):
            return doubted(verdict, machines)
    if len(evidence) == len(verdict.evidence):
        return verdict
    kept = tuple(evidence.values())
    violations = counted(len(verdict.evidence), "violation")
    explanation = (
        f"{kept[0].sentence} (of {violations} as the clocks read, {len(kept)} hold for every clock within its error)"
    )
    return replace(verdict, explanation=explanation, evidence=kept)


def doubted(verdict: Verdict, machines: Sequence[Machine]) -> Verdict:
    """Return the unknown verdict in place of one whose violation the errors of the clocks may explain."""
    error = in_seconds(max(machine.error_ns for machine in machines))
    return Verdict(
        None,
        f"as the clocks read: {verdict.explanation}; the clocks of the machines are known to within {error}, and "
        "within that there need not be a violation",
        (),
        verdict.stats,
    )


def _shifts(machines: Sequence[Machine]) -> Iterator[tuple[int, ...]]:
    """Yield combinations of shifts (ns) of the machines: extreme ones, then some in between."""
    rng = Random(len(machines))
    errors = [machine.error_ns for machine in machines]
    if 2 ** len(machines) <= MOST_CORNERS:
        signs = list(product((-1, 1), repeat=len(machines)))
    else:
        signs = [
            tuple(sign if i == one else -sign for i in range(len(machines)))
            for one in range(len(machines))
            for sign in (-1, 1)
        ]
        signs += [tuple(rng.choice((-1, 1)) for _ in machines) for _ in range(MOST_CORNERS)]
    for corner in signs:
        yield tuple(sign * error for sign, error in zip(corner, errors, strict=True))
    for _ in range(BETWEEN):
        yield tuple(rng.randint(-error, error) for error in errors)


def _shifted(history: History, machines: Sequence[Machine], shifts: Sequence[int]) -> tuple[History, list[int]]:
    """Return the history with the entries of each machine shifted, in the order of time, and each entry's position in
    the given one. Times of servers' keys, as those of the nemesis, are of no client's machine and stay."""
    by_client = {client: shift for machine, shift in zip(machines, shifts, strict=True) for client in machine.clients}
    ops = list(history)
    times = [op.time + by_client.get(op.node or "", 0) if op.process >= 0 else op.time for op in ops]
    order = sorted(range(len(ops)), key=times.__getitem__)
    shifted = (msgspec.structs.replace(ops[i], index=n, time=times[i]) for n, i in enumerate(order))
    return changed_history(history, shifted), order


def _identity(violation: Violation, order: Sequence[int] | None) -> Identity:
    indices = sorted({index for one in violation.involved for index in _indices(one) if index is not None})
    own = tuple(indices) if order is None else tuple(sorted(order[index] for index in indices))
    return violation.kind, violation.key, own


def _indices(involved: Mapping[str, Any]) -> Sequence[int | None]:
    found: Sequence[int | None] = involved.get("indices") or ()
    return found
