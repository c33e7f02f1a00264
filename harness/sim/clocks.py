"""``time`` and ``datetime`` for simulated tasks: the monotonic clock is the kernel's, the wall clock the host's."""

from __future__ import annotations

import datetime as datetime_module
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

from greenlet import getcurrent

from .dispatch import Replacement, StandsForClasses, Virtual, dispatch
from .kernel import BOOT, SECOND, Task

_REAL_STRFTIME = time.strftime
_REAL_LOCALTIME = time.localtime


def _monotonic_ns(task: Task) -> int:
    task.count_clock_read()
    return task.kernel.now


def wall_ns(task: Task) -> int:
    """Read the wall clock of the task's host, ns since 1970."""
    task.count_clock_read()
    return int(task.host.wall_ns())


def _monotonic(real: Callable[[], float]) -> Callable[[], float]:
    """Do what ``dispatch`` does, but faster: client libraries call ``time.monotonic`` several times per command."""

    def either() -> float:
        task = getcurrent()
        if type(task) is not Task:
            return real()
        task.count_clock_read()
        return task.kernel.now / SECOND

    return either


def _cpu_ns(task: Task) -> int:
    return task.kernel.now - BOOT


def _seconds(read: Callable[[Task], int]) -> Virtual:
    return lambda task: read(task) / SECOND


def _clock_gettime_ns(task: Task, clock: int) -> int:
    if clock == time.CLOCK_REALTIME:
        return wall_ns(task)
    return _monotonic_ns(task)


def _clock_gettime(task: Task, clock: int) -> float:
    return _clock_gettime_ns(task, clock) / SECOND


def _sleep(task: Task, seconds: float) -> None:
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    deadline = task.kernel.now + math.ceil(seconds * SECOND)
    while task.park(deadline - task.kernel.now):
        """Something else woke the task: sleep on."""


def _defaulting_to_now(real: Callable[..., Any]) -> Virtual:
    """Replace ``localtime``, ``gmtime`` or ``ctime``, which read the clock if called without a time."""
    return lambda task, secs=None: real(wall_ns(task) / SECOND if secs is None else secs)


def _strftime(task: Task, fmt: str, *when: Any) -> str:
    return _REAL_STRFTIME(fmt, *(when or (_REAL_LOCALTIME(wall_ns(task) / SECOND),)))


_Datetime = datetime_module.datetime
_Date = datetime_module.date


class _VirtualDatetime(_Datetime, metaclass=StandsForClasses):
    """``datetime.datetime`` whose ``now`` reads the host's wall clock."""

    stands_for = (_Datetime,)

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return _Datetime(*args, **kwargs)

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        task = getcurrent()
        return _Datetime.fromtimestamp(wall_ns(task) / SECOND, tz) if type(task) is Task else _Datetime.now(tz)

    @classmethod
    def today(cls) -> Any:
        return cls.now()

    @classmethod
    def utcnow(cls) -> Any:
        return cls.now(datetime_module.UTC).replace(tzinfo=None)


class _VirtualDate(_Date, metaclass=StandsForClasses):
    """``datetime.date`` whose ``today`` reads the host's wall clock."""

    stands_for = (_Date,)

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        return _Date(*args, **kwargs)

    @classmethod
    def today(cls) -> Any:
        task = getcurrent()
        return _Date.fromtimestamp(wall_ns(task) / SECOND) if type(task) is Task else _Date.today()


def replacements() -> Iterator[Replacement]:
    """Yield the replacements by which clocks are simulated."""
    for name in ("monotonic", "perf_counter"):
        yield time, name, _monotonic(getattr(time, name))
        yield time, f"{name}_ns", dispatch(getattr(time, f"{name}_ns"), _monotonic_ns)
    yield time, "time", dispatch(time.time, _seconds(wall_ns))
    yield time, "time_ns", dispatch(time.time_ns, wall_ns)
    for name in ("process_time", "thread_time"):
        yield time, name, dispatch(getattr(time, name), _seconds(_cpu_ns))
        yield time, f"{name}_ns", dispatch(getattr(time, f"{name}_ns"), _cpu_ns)
    if hasattr(time, "clock_gettime"):  # Windows lacks it
        yield time, "clock_gettime_ns", dispatch(time.clock_gettime_ns, _clock_gettime_ns)
        yield time, "clock_gettime", dispatch(time.clock_gettime, _clock_gettime)
    yield time, "sleep", dispatch(time.sleep, _sleep)
    for name in ("localtime", "gmtime", "ctime"):
        yield time, name, dispatch(getattr(time, name), _defaulting_to_now(getattr(time, name)))
    yield time, "strftime", dispatch(time.strftime, _strftime)
    yield datetime_module, "datetime", _VirtualDatetime
    yield datetime_module, "date", _VirtualDate
