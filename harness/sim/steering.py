"""Run a simulation step by step under external control, as exhaustive search does.

A callback decides each step: which message arrives, which task wakes up, and when time passes. Time stands still until
the callback lets it pass. A sent message waits in a queue (a *wire*) until the callback delivers it. There is one wire
for each direction of each stream, and two for each pair of hosts that connect.

The callback controls the timers of the ``watched`` hosts only. Time never passes beyond such a timer, and the task that
waits for it wakes up when the callback says so. Timers of all other hosts fire while time passes, in the order of their
times. If one of them sends a message, time stops passing and the callback is asked again.

Queue entries are examined when they are needed, not when they were scheduled, because the wait that a time-out belongs
to may have ended meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

from greenlet import getcurrent

from .kernel import DEAD, FROZEN, Kernel, Life, ScheduledCall, Task
from .network import ConnectionAttempt, HalfStream

Entry = tuple[int, int, Life | None, Callable[..., None], tuple[Any, ...]]
"""An entry of the kernel's queue: (time, sequence number, owner, function, arguments)."""
WAKES: Final = "wakes"
"""Suffix in the names of :meth:`Steering.sleepers`."""


class TaskGate:
    """A barrier at which one task waits until other code opens it. It stays open."""

    def __init__(self) -> None:
        self._open = False
        self._waiting: Task | None = None

    def wait(self) -> None:
        """Wait until the gate is open. Only a simulated task may call this."""
        task = getcurrent()
        assert isinstance(task, Task), "only a simulated task can wait at a gate"
        self._waiting = task
        while not self._open:
            task.park()

    def open(self) -> None:
        """Open the gate and wake the waiting task."""
        self._open = True
        if self._waiting is not None:
            self._waiting.wake()


class _PendingTimer:
    """An entry of the kernel's queue that is not a message."""

    __slots__ = ("_at", "_task", "_timer", "entry", "host", "owner")

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.owner = entry[2]
        self.host = "" if self.owner is None else self.owner.name
        self._at = entry[0]
        called = getattr(entry[3], "__self__", None)
        self._task = called if isinstance(called, Task) else None
        self._timer = called if isinstance(called, ScheduledCall) else None

    @property
    def identity(self) -> object:
        """A key equal for entries that would wake the same task at the same time: only one of them is needed."""
        return self if self._task is None else (self._task, self._at)

    @property
    def void(self) -> bool:
        """True if the call was cancelled or its owner is dead."""
        cancelled = self._timer is not None and self._timer.fn is None
        return cancelled or (self.owner is not None and self.owner.state == DEAD)

    def due(self) -> int | None:
        """Return the time (ns) at which it fires, or None if the wait that it limits is over."""
        if self._task is not None:
            return self._task.due(self._at)
        return None if self.void else self._at

    @property
    def frozen(self) -> bool:
        return self.owner is not None and self.owner.state == FROZEN


class Steering:
    """Takes control of a running simulation.

    ``decide`` is called whenever no task is ready, and takes one step: :meth:`deliver`, :meth:`wake`,
    :meth:`advance_to`, :meth:`end`, or anything else that makes a task ready, such as a fault or a gate. The step is
    complete when ``decide`` is called again. It does not run on a simulated host, so it cannot wait.
    """

    def __init__(self, kernel: Kernel, watched: Collection[str], decide: Callable[[], None]) -> None:
        self._kernel = kernel
        self._watched = frozenset(watched)
        self._decide = decide
        self._wires: dict[str, deque[tuple[int, Entry]]] = {}
        """Undelivered messages by wire, each with the time (ns) at which it was sent."""
        self._targets: dict[str, str] = {}
        self.sent: set[str] = set()
        """The wires on which a message was sent since the last call of ``decide``."""
        self._timers: list[_PendingTimer] = []
        self._passing_to: int | None = None
        # The kernel's loop keeps a reference to its original queue. Emptying that one makes it call on_idle.
        self._queue, self._idle = kernel.heap, kernel.on_idle
        kernel.heap = [*self._queue]
        self._queue.clear()
        kernel.on_idle = self._on_idle

    def end(self) -> None:
        """Give up control. Undelivered messages arrive at once."""
        kernel = self._kernel
        under_way = [(kernel.now, *entry[1:]) for wire in self._wires.values() for _, entry in wire]
        entries = [*under_way, *[timer.entry for timer in self._timers], *kernel.heap]
        self._queue.extend(sorted(entries, key=lambda entry: entry[:2]))  # a sorted list is a heap
        kernel.heap, kernel.on_idle = self._queue, self._idle

    # Possible steps.

    def messages(self) -> dict[str, str]:
        """Return the wires with undelivered messages, and the host that each leads to."""
        return {name: self._targets[name] for name, wire in self._wires.items() if wire}

    def sleepers(self) -> dict[str, str]:
        """Return the due tasks of watched hosts by name (``c0 wakes``, ``c0 wakes #2``), and their hosts."""
        return {name: timer.host for name, timer in self._due_by_name().items()}

    def next_timer(self) -> int | None:
        """Return the earliest future timer (ns) of a watched host that is not frozen, or None."""
        now = self._kernel.now
        times = [
            due for due, timer in self._live_timers() if due > now and timer.host in self._watched and not timer.frozen
        ]
        return min(times, default=None)

    def oldest_sent_ns(self) -> int | None:
        """Return when the oldest undelivered message was sent (ns), or None if there is no such message."""
        return min((wire[0][0] for wire in self._wires.values() if wire), default=None)

    # Steps.

    def deliver(self, wire: str) -> None:
        """Deliver the next message of this wire."""
        _, (_, _, owner, fn, args) = self._wires[wire].popleft()
        self._kernel.ready.append((owner, fn, args))

    def wake(self, sleeper: str) -> None:
        """Wake a task named by :meth:`sleepers`."""
        self._fire(self._due_by_name()[sleeper])

    def advance_to(self, time_ns: int) -> None:
        """Let time pass until ``time_ns``, or until a message is sent."""
        self._passing_to = time_ns

    # Implementation.

    def _on_idle(self) -> None:
        self._take_new_entries()
        if self._passing_to is not None:
            if not self.sent and self._fire_next_unwatched(self._passing_to):
                return
            self._passing_to = None
        self._decide()
        self.sent.clear()

    def _take_new_entries(self) -> None:
        """Move the kernel's new queue entries to the wires and to the pending timers."""
        kernel = self._kernel
        for entry in sorted(kernel.heap, key=lambda entry: entry[:2]):
            wire = _wire(entry)
            if wire is None:
                self._timers.append(_PendingTimer(entry))
            else:
                name, self._targets[name] = wire
                self.sent.add(name)
                self._wires.setdefault(name, deque()).append((kernel.now, entry))
        kernel.heap.clear()
        self._timers = list({timer.identity: timer for timer in self._timers if not timer.void}.values())
        self._postpone_frozen()

    def _postpone_frozen(self) -> None:
        """Postpone timers that expire while their host is frozen until it thaws."""
        now = self._kernel.now
        for due, timer in list(self._live_timers()):
            if due <= now and timer.frozen and timer.owner is not None:
                self._timers.remove(timer)
                timer.owner.backlog.append(timer.entry[3:])

    def _fire_next_unwatched(self, until: int) -> bool:
        """Fire the next timer of an unwatched host. Return False if there is none before ``until``."""
        kernel = self._kernel
        others = [
            (due, timer.host, timer.entry[1], timer)
            for due, timer in self._live_timers()
            if due <= until and timer.host not in self._watched and not timer.frozen
        ]
        if not others:
            kernel.now = max(kernel.now, until)
            self._postpone_frozen()
            return False
        due, _, _, timer = min(others)
        kernel.now = max(kernel.now, due)
        self._fire(timer)
        return True

    def _fire(self, timer: _PendingTimer) -> None:
        self._timers.remove(timer)
        self._kernel.ready.append(timer.entry[2:])

    def _live_timers(self) -> Iterator[tuple[int, _PendingTimer]]:
        for timer in self._timers:
            due = timer.due()
            if due is not None:
                yield due, timer

    def _due_by_name(self) -> dict[str, _PendingTimer]:
        """Return the expired timers of watched hosts by name, see :meth:`sleepers`."""
        now = self._kernel.now
        over = [(due, timer.entry[1], timer) for due, timer in self._live_timers() if due <= now and not timer.frozen]
        found: dict[str, _PendingTimer] = {}
        count: dict[str, int] = {}
        for _, _, timer in sorted(over):
            if timer.host in self._watched:
                number = count[timer.host] = count.get(timer.host, 0) + 1
                found[f"{timer.host} {WAKES}" if number == 1 else f"{timer.host} {WAKES} #{number}"] = timer
        return found


def _wire(entry: Entry) -> tuple[str, str] | None:
    """Return the wire and the target host of a message, or None for any other queue entry."""
    fn: Any = entry[3]
    if isinstance(getattr(fn, "__self__", None), ScheduledCall):
        fn = fn.__self__.fn
    obj, method = getattr(fn, "__self__", None), getattr(fn, "__func__", None)
    if isinstance(obj, HalfStream) and method is HalfStream.arrive:
        return obj.name, obj.target
    if isinstance(obj, ConnectionAttempt):
        source, target = obj.ends
        if method is ConnectionAttempt.reach_target:
            return f"{source}>{target} connect", target
        if method is ConnectionAttempt.receive_answer:
            return f"{target}>{source} accept", source
    return None
