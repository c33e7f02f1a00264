"""A simulation in which somebody else decides what happens next: which message arrives, who wakes up, when time passes.

While it is steered, time stands still whatever happens, until it is told to pass. Messages stay on their wires (one for
each direction of each stream, and two for each pair of hosts that connect) in the order in which they were sent, for as
long as nobody delivers them. Of the timers only those on the ``watched`` hosts are decided about: time never passes
beyond one, and who waited for it wakes up when told to. Those of all other hosts fire on the way, in the order of their
times; if one of them puts something on a wire, no more time passes for now.

What a thing was scheduled for is looked up when it is needed: the time-out of a wait that is over is nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

from greenlet import getcurrent

from .kernel import DEAD, FROZEN, Kernel, Life, Task, Timer
from .network import Attempt, Channel

Entry = tuple[int, int, Life | None, Callable[..., None], tuple[Any, ...]]
"""As in the kernel's queue: time, number, owner, what to call, with what."""
WAKES: Final = "wakes"


class Gate:
    """One task waits until another, or whoever steers, opens it. Gates open once."""

    def __init__(self) -> None:
        self._open = False
        self._waiting: Task | None = None

    def wait(self) -> None:
        task = getcurrent()
        assert isinstance(task, Task), "only tasks wait at gates"
        self._waiting = task
        while not self._open:
            task.park()

    def open(self) -> None:
        self._open = True
        if self._waiting is not None:
            self._waiting.wake()


class _Alarm:
    """An entry of the kernel's queue that is no message."""

    __slots__ = ("_at", "_task", "_timer", "entry", "host", "owner")

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.owner = entry[2]
        self.host = "" if self.owner is None else self.owner.name
        self._at = entry[0]
        called = getattr(entry[3], "__self__", None)
        self._task = called if isinstance(called, Task) else None
        self._timer = called if isinstance(called, Timer) else None

    @property
    def identity(self) -> object:
        """A task may have set two alarms for the same time; one wakes it."""
        return self if self._task is None else (self._task, self._at)

    @property
    def void(self) -> bool:
        """It was taken back, or belongs to the dead."""
        taken_back = self._timer is not None and self._timer.fn is None
        return taken_back or (self.owner is not None and self.owner.state == DEAD)

    def due(self) -> int | None:
        """When its time comes; None for the time-out of a wait that is over."""
        if self._task is not None:
            return self._task.due(self._at)
        return None if self.void else self._at

    @property
    def frozen(self) -> bool:
        return self.owner is not None and self.owner.state == FROZEN


class Steering:
    """``decide`` is called whenever nothing is ready, and does one thing: :meth:`deliver`, :meth:`wake`,
    :meth:`pass_to`, whatever else makes something happen (a fault, a gate), or :meth:`end`. When it is called again,
    that has happened. It is not on a simulated host, so that it cannot wait. To be begun while the simulation runs."""

    def __init__(self, kernel: Kernel, watched: Collection[str], decide: Callable[[], None]) -> None:
        self._kernel = kernel
        self._watched = frozenset(watched)
        self._decide = decide
        self._wires: dict[str, deque[tuple[int, Entry]]] = {}
        """What is under way by wire, each with the time at which it was sent."""
        self._targets: dict[str, str] = {}
        self.sent: set[str] = set()
        """The wires on which something was sent since the last decision."""
        self._alarms: list[_Alarm] = []
        self._passing_to: int | None = None
        # The kernel's loop holds on to the queue it began with: it finds that empty, and asks what to do.
        self._queue, self._idle = kernel.heap, kernel.on_idle
        kernel.heap = [*self._queue]
        self._queue.clear()
        kernel.on_idle = self._on_idle

    def end(self) -> None:
        """Let the simulation go its own way again: what is under way arrives at once."""
        kernel = self._kernel
        under_way = [(kernel.now, *entry[1:]) for wire in self._wires.values() for _, entry in wire]
        entries = [*under_way, *[alarm.entry for alarm in self._alarms], *kernel.heap]
        self._queue.extend(sorted(entries, key=lambda entry: entry[:2]))  # which is a heap
        kernel.heap, kernel.on_idle = self._queue, self._idle

    # What there is to decide.

    def messages(self) -> dict[str, str]:
        """Wires with something under way, and the host that its next message goes to."""
        return {name: self._targets[name] for name, wire in self._wires.items() if wire}

    def sleepers(self) -> dict[str, str]:
        """Tasks of watched hosts whose time to wake up has come (``c0 wakes``, ``c0 wakes #2``), and their hosts."""
        return {name: alarm.host for name, alarm in self._due().items()}

    def next_timer(self) -> int | None:
        """The time, ns, at which the first task of a watched host that is not frozen wakes up by itself."""
        now = self._kernel.now
        times = [due for due, alarm in self._live() if due > now and alarm.host in self._watched and not alarm.frozen]
        return min(times, default=None)

    def oldest(self) -> int | None:
        """When the message was sent, ns, that has been under way for longest; None if there is none."""
        return min((wire[0][0] for wire in self._wires.values() if wire), default=None)

    # What can be done.

    def deliver(self, wire: str) -> None:
        """Let the next message on this wire arrive."""
        _, (_, _, owner, fn, args) = self._wires[wire].popleft()
        self._kernel.ready.append((owner, fn, args))

    def wake(self, sleeper: str) -> None:
        self._fire(self._due()[sleeper])

    def pass_to(self, time: int) -> None:
        """Let time pass until then (ns), or until something is sent meanwhile."""
        self._passing_to = time

    # The engine.

    def _on_idle(self) -> None:
        self._sort_in()
        if self._passing_to is not None:
            if not self.sent and self._pass_on(self._passing_to):
                return
            self._passing_to = None
        self._decide()
        self.sent.clear()

    def _sort_in(self) -> None:
        """Put what was scheduled since the last time where it belongs."""
        kernel = self._kernel
        for entry in sorted(kernel.heap, key=lambda entry: entry[:2]):
            wire = _wire(entry)
            if wire is None:
                self._alarms.append(_Alarm(entry))
            else:
                name, self._targets[name] = wire
                self.sent.add(name)
                self._wires.setdefault(name, deque()).append((kernel.now, entry))
        kernel.heap.clear()
        self._alarms = list({alarm.identity: alarm for alarm in self._alarms if not alarm.void}.values())
        self._set_back()

    def _set_back(self) -> None:
        """Alarms that go off while their host is frozen wait for its thaw."""
        now = self._kernel.now
        for due, alarm in list(self._live()):
            if due <= now and alarm.frozen and alarm.owner is not None:
                self._alarms.remove(alarm)
                alarm.owner.backlog.append(alarm.entry[3:])

    def _pass_on(self, until: int) -> bool:
        """Go on to the next alarm that nobody decides about; False if time has passed as far as it was to."""
        kernel = self._kernel
        others = [
            (due, alarm.host, alarm.entry[1], alarm)
            for due, alarm in self._live()
            if due <= until and alarm.host not in self._watched and not alarm.frozen
        ]
        if not others:
            kernel.now = max(kernel.now, until)
            self._set_back()
            return False
        due, _, _, alarm = min(others)
        kernel.now = max(kernel.now, due)
        self._fire(alarm)
        return True

    def _fire(self, alarm: _Alarm) -> None:
        self._alarms.remove(alarm)
        self._kernel.ready.append(alarm.entry[2:])

    def _live(self) -> Iterator[tuple[int, _Alarm]]:
        for alarm in self._alarms:
            due = alarm.due()
            if due is not None:
                yield due, alarm

    def _due(self) -> dict[str, _Alarm]:
        """Alarms of sleepers, by name."""
        now = self._kernel.now
        over = [(due, alarm.entry[1], alarm) for due, alarm in self._live() if due <= now and not alarm.frozen]
        found: dict[str, _Alarm] = {}
        count: dict[str, int] = {}
        for _, _, alarm in sorted(over):
            if alarm.host in self._watched:
                number = count[alarm.host] = count.get(alarm.host, 0) + 1
                found[f"{alarm.host} {WAKES}" if number == 1 else f"{alarm.host} {WAKES} #{number}"] = alarm
        return found


def _wire(entry: Entry) -> tuple[str, str] | None:
    """The wire that an entry is under way on and the host at its end; None if it is no message."""
    fn: Any = entry[3]
    if isinstance(getattr(fn, "__self__", None), Timer):
        fn = fn.__self__.fn
    obj, method = getattr(fn, "__self__", None), getattr(fn, "__func__", None)
    if isinstance(obj, Channel) and method is Channel.arrive:
        return obj.name, obj.target
    if isinstance(obj, Attempt):
        source, target = obj.ends
        if method is Attempt.heard:
            return f"{source}>{target} connect", target
        if method is Attempt.answered:
            return f"{target}>{source} accept", source
    return None
