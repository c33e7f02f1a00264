"""Readings of this machine's clocks, which relate the times of several machines to each other."""

from __future__ import annotations

import ctypes
from pathlib import Path
from time import monotonic_ns, time_ns
from typing import Final

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
TIME_NAMESPACE: Final = Path("/proc/self/timens_offsets")
UNSYNCHRONIZED: Final = 0x40
"""STA_UNSYNC of adjtimex(2): the kernel has no bound for the error of its clock."""


CLOSE_NS: Final = 20_000
READINGS: Final = 5


class _Timex(ctypes.Structure):
    """The first fields of ``struct timex``, see adjtimex(2). ``rest`` is longer than the others together."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 256),
    )


def monotonic_and_wall_ns() -> tuple[int, int]:
    """Read both clocks at one moment: read them again, a few times at most, if another thread ran in between."""
    readings = []
    for _ in range(READINGS):
        before, wall, after = monotonic_ns(), time_ns(), monotonic_ns()
        readings.append((after - before, before, wall))
        if after - before <= CLOSE_NS:
            break
    _, monotonic, wall = min(readings)
    return monotonic, wall


def wall_clock_error_ns() -> int | None:
    """Return the kernel's bound for the error of the wall clock, or None if it states none."""
    timex = _Timex()
    try:
        state = ctypes.CDLL(None).adjtimex(ctypes.byref(timex))
    except (AttributeError, OSError, TypeError):  # not Linux; Windows raises the last one
        return None
    if state < 0 or timex.status & UNSYNCHRONIZED:
        return None
    return int(timex.maxerror) * 1000


def monotonic_clock_name() -> str | None:
    """Return a name of the monotonic clock, or None if it has none. Processes with the same name share the clock: it is
    the machine's boot id, and the offset of the time namespace where there is one."""
    try:
        boot = BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return None
    return boot + _time_namespace_offset()


def _time_namespace_offset() -> str:
    try:
        lines = TIME_NAMESPACE.read_text(encoding="ascii").splitlines()
    except OSError:
        return ""
    offsets = [fields[1:] for line in lines if (fields := line.split()) and fields[0] == "monotonic"]
    return "".join(
        f"+{seconds}.{nanoseconds}s" for seconds, nanoseconds in offsets if (seconds, nanoseconds) != ("0", "0")
    )
