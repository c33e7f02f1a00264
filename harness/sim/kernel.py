"""Virtual time: an event queue, and greenlets that wait in it.

The kernel runs in one operating-system thread. Time stands still while code runs and jumps to the next event when every
task waits, so a run is as quick as its code and as repeatable as its seed. Times are integer nanoseconds.

Every event belongs to a :class:`Life`, one incarnation of a host, or to nobody (the network, the kernel itself). Events
of a frozen life wait until it thaws; those of a dead life never happen.
"""

from __future__ import annotations

import contextlib
import gc
import sys
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any, Final

from greenlet import GreenletExit, getcurrent, greenlet

SECOND: Final = 1_000_000_000
MILLISECOND: Final = 1_000_000
BOOT: Final = 1_000 * SECOND
"""Monotonic time at which a simulation starts: no real machine is ever at zero, and code that tests it would notice."""
SPIN_LIMIT: Final = 1_000
FIRST_IDENT: Final = 1 << 40
"""Identifiers of simulated threads start here; those of real ones are addresses, far above twice this."""
RUNNING, FROZEN, DEAD = 0, 1, 2


class Deadlock(Exception):
    """Every task waits and nothing will ever happen again."""


class Endless(Exception):
    """More has happened than may: something goes round in circles."""


class Closed(BaseException):
    """Thrown into tasks that are left when the simulation ends."""


def _nothing_left() -> None:
    raise Deadlock("every task waits, and nothing is scheduled that could wake one")


class Life:
    """One incarnation of a host, from start to kill. ``state`` is RUNNING, FROZEN or DEAD."""

    __slots__ = ("backlog", "inbox", "name", "rng", "state")

    def __init__(self, name: str, rng: Random) -> None:
        self.name = name
        self.rng = rng
        self.state = RUNNING
        self.inbox: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        """What the machine's network stack received while its processes were frozen: handled first on thaw."""
        self.backlog: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        """Timers that ran out while frozen."""


class Timer:
    """A call in the future that can be taken back."""

    __slots__ = ("args", "fn")

    def __init__(self, fn: Callable[..., None], args: tuple[Any, ...]) -> None:
        self.fn: Callable[..., None] | None = fn
        self.args = args

    def cancel(self) -> None:
        self.fn = None
        self.args = ()

    def fire(self) -> None:
        fn, args = self.fn, self.args
        self.cancel()
        if fn is not None:
            fn(*args)


class Task(greenlet):
    """A thread of control on a host. It runs until it parks; whoever has what it waits for wakes it."""

    def __init__(self, kernel: Kernel, host: Any, life: Life, fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
        super().__init__(self._main, kernel.hub)
        self.kernel = kernel
        self.host = host
        self.life = life
        self.ident = FIRST_IDENT + kernel.next_number()
        self.on_exit: list[Callable[[], None]] = []
        self._call = (fn, args)
        self._parked = False
        self._woken = False
        self._deadline: int | None = None
        self._timer_at: int | None = None
        self.clock_reads = 0

    def _main(self) -> None:
        fn, args = self._call
        try:
            fn(*args)
        except (Closed, GreenletExit):
            pass
        except BaseException as error:  # noqa: BLE001 - a task's crash ends the whole simulation, which raises it
            self.kernel.crash(error)
        finally:
            for call in self.on_exit:
                call()

    def park(self, timeout_ns: int | None = None) -> bool:
        """Wait until woken (True) or for at most ``timeout_ns`` (False). Only the task itself may call this."""
        kernel = self.kernel
        if kernel.closing:
            raise Closed
        self.clock_reads = 0
        if timeout_ns is None or self.life.state == DEAD:
            self._deadline = None
        else:
            self._deadline = deadline = kernel.now + (timeout_ns if timeout_ns > 0 else 0)
            # One queue entry serves many waits: a later deadline is found out when the earlier entry fires.
            if self._timer_at is None or self._timer_at > deadline:
                self._timer_at = deadline
                heappush(kernel.heap, (deadline, kernel.next_seq(), self.life, self._time_out, (deadline,)))
        self._parked = True
        self._woken = False
        kernel.hub.switch()
        if kernel.closing:
            raise Closed
        return self._woken

    def _time_out(self, at: int) -> None:
        if self._timer_at != at:
            return
        self._timer_at = None
        deadline = self._deadline
        if not self._parked or deadline is None:
            return
        if deadline > self.kernel.now:
            self._timer_at = deadline
            heappush(self.kernel.heap, (deadline, self.kernel.next_seq(), self.life, self._time_out, (deadline,)))
            return
        self._parked = False
        self.switch()

    def due(self, at: int) -> int | None:
        """When the present wait ends by itself, if the queue's entry for time ``at`` is the one that ends it."""
        return self._deadline if self._parked and self._timer_at == at else None

    def wake(self) -> None:
        """End the task's wait; it runs after the tasks that are ready already. Waking twice is waking once."""
        if not self._parked:
            return
        self._parked = False
        self._woken = True
        life = self.life
        if life.state == FROZEN:
            life.inbox.append((self.switch, ()))
        else:
            self.kernel.ready.append((life, self.switch, ()))

    def wake_at_once(self) -> None:
        """Like :meth:`wake`, without a turn through the queue; only events may call this, never another task."""
        if self._parked and self.life.state == RUNNING:
            self._parked = False
            self._woken = True
            self.switch()
        else:
            self.wake()

    def saw_clock(self) -> None:
        """Called at each clock reading: a task that only reads clocks would otherwise wait for ever for time to
        pass."""
        self.clock_reads += 1
        if self.clock_reads > SPIN_LIMIT:
            self.park(MILLISECOND)


class Kernel:
    """Virtual time and the queue of what happens in it; ``now`` is in nanoseconds and starts at :data:`BOOT`.

    Tasks that are ready at the same moment run in the order in which they became so; with ``shuffle`` (not 0) in one by
    chance, another for each number."""

    def __init__(self, seed: int, shuffle: int = 0) -> None:
        self.seed = seed
        self.now = BOOT
        self.hub = getcurrent()
        self.heap: list[tuple[int, int, Life | None, Callable[..., None], tuple[Any, ...]]] = []
        self.ready: deque[tuple[Life | None, Callable[..., None], tuple[Any, ...]]] = deque()
        self.on_idle: Callable[[], None] = _nothing_left
        """Called when nothing is ready and the queue is empty; makes something ready (:mod:`harness.sim.steering`)."""
        self.closing = False
        self._seq = 0
        self._numbers = 0
        self._tasks: list[Task] = []
        self._error: BaseException | None = None
        self._until = False
        self.most_events = sys.maxsize
        self._shuffle = Random(f"{seed}/shuffle/{shuffle}") if shuffle else None

    def rng(self, name: str) -> Random:
        """A generator of its own for ``name``: what one part draws does not move another's numbers."""
        return Random(f"{self.seed}/{name}")

    def next_seq(self) -> int:
        self._seq += 1
        return self._seq

    def next_number(self) -> int:
        """A number nobody else of this simulation has: for thread identifiers and file descriptors."""
        self._numbers += 1
        return self._numbers

    def at(self, when: int, owner: Life | None, fn: Callable[..., None], *args: Any) -> None:
        """Call ``fn(*args)`` at virtual time ``when``, or never if ``owner`` has died by then."""
        heappush(self.heap, (when if when > self.now else self.now, self.next_seq(), owner, fn, args))

    def later(self, delay_ns: int, owner: Life | None, fn: Callable[..., None], *args: Any) -> Timer:
        timer = Timer(fn, args)
        self.at(self.now + delay_ns, owner, timer.fire)
        return timer

    def spawn(self, host: Any, life: Life, fn: Callable[..., Any], *args: Any) -> Task:
        """Start a task on a host; it first runs when the present one waits."""
        task = Task(self, host, life, fn, args)
        self._tasks.append(task)
        self.ready.append((life, task.switch, ()))
        return task

    def freeze(self, life: Life) -> None:
        if life.state == RUNNING:
            life.state = FROZEN

    def thaw(self, life: Life) -> None:
        """Let a frozen life go on: first what the network brought meanwhile, then the timers that ran out."""
        if life.state != FROZEN:
            return
        life.state = RUNNING
        waiting = life.inbox + life.backlog
        life.inbox, life.backlog = [], []
        self.ready.extend((life, fn, args) for fn, args in waiting)

    def end(self, life: Life) -> None:
        """A power cut: nothing of this life runs again, not even its ``finally`` blocks."""
        life.state = DEAD
        life.inbox, life.backlog = [], []

    def crash(self, error: BaseException) -> None:
        """End the simulation with ``error`` (the first one counts)."""
        if self._error is None and not self.closing:
            self._error = error
            self._until = True

    def finish(self) -> None:
        """Make :meth:`run` return once the present event is over."""
        self._until = True

    def run(self) -> None:
        """Run events until :meth:`finish`; raises what a task raised, and :class:`Deadlock` if nothing is left to do.

        Garbage collection is off meanwhile: it would run destructors, which close sockets, at moments that depend on
        what the process did before.
        """
        collecting = gc.isenabled()
        gc.disable()
        try:
            self._loop()
        finally:
            if collecting:
                gc.enable()
        if self._error is not None:
            raise self._error

    def _loop(self) -> None:
        heap, ready, shuffle = self.heap, self.ready, self._shuffle
        while not self._until:
            if ready:
                if shuffle is not None and len(ready) > 1:
                    self._let_pass(ready, shuffle)
                owner, fn, args = ready.popleft()
                if owner is not None and owner.state == FROZEN:  # due already: before all that comes while frozen
                    owner.inbox.append((fn, args))
                    continue
            elif heap:
                if self._seq > self.most_events:
                    raise Endless(f"more than {self.most_events:,} events, and no end")
                at, _, owner, fn, args = heappop(heap)
                self.now = max(self.now, at)
            else:
                self.on_idle()
                continue
            if owner is None or owner.state == RUNNING:
                fn(*args)
            elif owner.state == FROZEN:
                owner.backlog.append((fn, args))

    def _let_pass(self, ready: deque[tuple[Life | None, Callable[..., None], tuple[Any, ...]]], rng: Random) -> None:
        """Let the next task but one go first, by chance: what is no task (data that arrives) keeps its place."""
        (_, first, _), (_, second, _) = ready[0], ready[1]
        tasks = getattr(first, "__self__", None), getattr(second, "__self__", None)
        if (
            isinstance(tasks[0], Task)
            and isinstance(tasks[1], Task)
            and tasks[0] is not tasks[1]
            and rng.random() < 0.5
        ):
            ready[0], ready[1] = ready[1], ready[0]

    def close(self) -> None:
        """Unwind every task that is left. Their clean-up code runs, but whatever it waits for raises
        :class:`Closed`."""
        self.closing = True
        self.heap.clear()
        self.ready.clear()
        for task in self._tasks:
            if not task.dead:
                with contextlib.suppress(Exception, Closed):
                    task.throw(Closed)
        self._tasks.clear()
