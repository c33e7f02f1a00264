"""Set the wall clocks of all processes of a container."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from . import processes, vdso
from .vdso import ClockError, MemoryGone

PATIENCE: Final = 2.0
"""Seconds that a process without memory gets to end."""


def move_members(pid: int, offset_ns: int, rate: float, since_ns: int) -> list[int]:
    """Set the clocks of the processes in the container of ``pid`` except ``pid``, and return those that were set.

    Clocks read true time + ``offset_ns`` + ``rate`` * (time since ``since_ns``, monotonic). A process that has ended is
    left out. Raises ClockError, when the others are set, if some could not be.
    """
    moved, failed = [], []
    for member in _members(pid):
        try:
            if _move(member, offset_ns, rate, since_ns):
                moved.append(member)
        except ClockError as error:
            if processes.runs(member):
                failed.append(f"process {member}: {error}")
    if failed:
        raise ClockError("; ".join(failed))
    return moved


def _members(pid: int) -> Iterator[int]:
    """Yield the processes of a container, then those that have begun meanwhile: a server may have forked one before its
    own clock was moved."""
    first = processes.members(pid)
    yield from first
    yield from sorted({*processes.members(pid)}.difference(first))


def _move(member: int, offset_ns: int, rate: float, since_ns: int) -> bool:
    """Return whether the clock was set. A process that ends has no memory some time before it counts as ended, and one
    whose program is being replaced gets another memory."""
    deadline = time.monotonic() + PATIENCE
    while processes.runs(member):
        try:
            vdso.move(member, offset_ns + round(rate * (time.monotonic_ns() - since_ns)), rate)
        except MemoryGone:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.001)
        else:
            return True
    return False
