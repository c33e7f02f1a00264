"""The simulator's scheduler: virtual time, a queue of events, and tasks (greenlets) that wait for events.

The kernel runs in one operating-system thread. Virtual time does not advance while code runs; when every task waits, it
jumps to the next event. A run therefore takes only as long as its code needs, and the same seed gives the same run.
Times are integer nanoseconds.

Every event has an owner: a :class:`Life` (one incarnation of a host), or None for the network and the kernel itself.
Events of a frozen life are postponed until it thaws; events of a dead life are discarded.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any, Final

from greenlet import GreenletExit, getcurrent, greenlet

from harness.errors import HostEnded

SECOND: Final = 1_000_000_000
MILLISECOND: Final = 1_000_000
BOOT: Final = 1_000 * SECOND
"""Monotonic time at which a simulation starts. It is not 0 because no running machine reads 0, and code that treats 0
as "never" would misbehave."""
SPIN_LIMIT: Final = 1_000
"""Clock readings that a task may do without waiting before the kernel makes it wait."""
FIRST_IDENT: Final = 1 << 40
"""Identifiers of simulated threads start here. Identifiers of real threads are addresses far above this value."""
RUNNING, FROZEN, DEAD = 0, 1, 2


class SimulationDeadlock(Exception):
    """Every task waits, and no event is left that could wake one."""


class TooManyEvents(Exception):
    """The simulation handled more events than :attr:`Kernel.event_limit` allows, so it probably loops."""


class SimulationClosed(HostEnded):
    """Thrown into the tasks that still exist when the simulation ends."""


class Unsupported(OSError):
    """A simulated process called something that the simulator lacks. :attr:`Kernel.unsupported` has its name."""


running: Kernel | None = None
"""The kernel whose events are being handled in this process; see :mod:`harness.worker.watchdog`."""
ended = False
"""True if a simulation has ended in this process, and none is running."""


def _raise_deadlock() -> None:
    raise SimulationDeadlock("the simulation is stuck: every task waits, and no event is scheduled that could wake one")


class Life:
    """One incarnation of a host, from start to kill. ``state`` is RUNNING, FROZEN or DEAD."""

    __slots__ = ("backlog", "environment", "exit_functions", "inbox", "main", "name", "pools", "rng", "state")

    def __init__(self, name: str, rng: Random) -> None:
        self.name = name
        self.rng = rng
        self.state = RUNNING
        self.inbox: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        """Calls that became ready while frozen, such as data that the network stack received; run first on thaw."""
        self.backlog: list[tuple[Callable[..., None], tuple[Any, ...]]] = []
        """Timers that expired while frozen; run after the inbox."""
        self.main: Task | None = None
        """The main thread of a client's program; None until it starts, and on hosts without one."""
        self.pools: dict[threading.Thread, Callable[[], Any]] = {}
        """Threads of the pools of ``concurrent.futures``, each with a weak reference to its pool."""
        self.environment: dict[Any, Any] | None = None
        """Variables of the environment, encoded; None until they are first used."""
        self.exit_functions: list[tuple[Callable[..., object], tuple[Any, ...], dict[str, Any]]] = []
        """Functions registered with ``atexit``, with their arguments."""


class ScheduledCall:
    """A call that is scheduled for later and can be cancelled."""

    __slots__ = ("args", "fn")

    def __init__(self, fn: Callable[..., None], args: tuple[Any, ...]) -> None:
        self.fn: Callable[..., None] | None = fn
        self.args = args

    def cancel(self) -> None:
        """Prevent the call. Does nothing if it has run."""
        self.fn = None
        self.args = ()

    def fire(self) -> None:
        fn, args = self.fn, self.args
        self.cancel()
        if fn is not None:
            fn(*args)


class Task(greenlet):
    """A simulated thread on a host. It runs until it calls :meth:`park`; other code resumes it with :meth:`wake`."""

    def __init__(self, kernel: Kernel, host: Any, life: Life, fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
        super().__init__(self._main, kernel.hub)
        self.kernel = kernel
        self.host = host
        self.life = life
        self.ident = FIRST_IDENT + kernel.next_number()
        self.thread: Any = None
        """Result of ``threading.current_thread()``; see :mod:`harness.sim.threads`."""
        self.running_loop: Any = None
        """The :class:`harness.sim.event_loops.RunningLoop` of asyncio that this thread runs, or None."""
        self.loop_policy: Any = None
        """The thread's policy of asyncio, or None if it has not used one."""
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
        except (SimulationClosed, GreenletExit):
            pass
        except BaseException as error:  # noqa: BLE001 - a task's crash ends the whole simulation, which raises it
            self.kernel.crash(error)

    def park(self, timeout_ns: int | None = None) -> bool:
        """Wait until another task or event wakes this one, or until ``timeout_ns`` nanoseconds have passed.

        Returns True if woken, False after a time-out. None waits without limit. Only the task itself may call this.
        Raises :class:`SimulationClosed` if the simulation has ended.
        """
        kernel = self.kernel
        if kernel.closing:
            raise SimulationClosed
        self.clock_reads = 0
        if timeout_ns is None or self.life.state == DEAD:
            self._deadline = None
        else:
            self._deadline = deadline = kernel.now + (timeout_ns if timeout_ns > 0 else 0)
            # One queue entry serves many waits: when an entry for an earlier deadline fires, it is queued again.
            if self._timer_at is None or self._timer_at > deadline:
                self._timer_at = deadline
                heappush(kernel.heap, (deadline, kernel.next_seq(), self.life, self._time_out, (deadline,)))
        self._parked = True
        self._woken = False
        if self.running_loop is None:
            kernel.hub.switch()
        else:
            self.running_loop.suspend()
            try:
                kernel.hub.switch()
            finally:
                self.running_loop.resume()
        if kernel.closing:
            raise SimulationClosed
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
        """Return the time-out of the current wait if the queue entry for time ``at`` belongs to it, else None."""
        return self._deadline if self._parked and self._timer_at == at else None

    def wake(self) -> None:
        """End the task's wait; it runs after all tasks that are already ready. Does nothing if it does not wait."""
        if not self._parked:
            return
        self._parked = False
        self._woken = True
        life = self.life
        if life.state == FROZEN:
            life.inbox.append((self.switch, ()))
        else:
            self.kernel.ready.append((life, self.switch, ()))

    @property
    def parked(self) -> bool:
        """Return whether the task waits, and nothing has woken it."""
        return self._parked

    def interrupt(self, error: BaseException) -> None:
        """Raise ``error`` now in the task, where it waits, as a signal's handler does. It must be parked.

        Only events may call this, never another task. It is not queued: meanwhile the task could be chosen as the one
        to get a lock, and that would be lost."""
        assert self._parked
        self._parked = False
        self.throw(error)

    def wake_immediately(self) -> None:
        """Switch to the task now instead of queueing it. Only events may call this, never another task."""
        if self._parked and self.life.state == RUNNING:
            self._parked = False
            self._woken = True
            self.switch()
        else:
            self.wake()

    def count_clock_read(self) -> None:
        """Count one clock reading, and make the task wait after :data:`SPIN_LIMIT` of them.

        Virtual time advances only while tasks wait, so a task that polls the clock in a loop would never finish.
        """
        self.clock_reads += 1
        if self.clock_reads > SPIN_LIMIT:
            self.park(MILLISECOND)


class Kernel:
    """The virtual clock and the event queue. ``now`` is in nanoseconds and starts at :data:`BOOT`.

    Tasks that are ready at the same time run in the order in which they became ready. A ``shuffle`` other than 0 is the
    seed of a random order instead.
    """

    def __init__(self, seed: int, shuffle: int = 0) -> None:
        self.seed = seed
        self.now = BOOT
        self.hub = getcurrent()
        self.heap: list[tuple[int, int, Life | None, Callable[..., None], tuple[Any, ...]]] = []
        self.ready: deque[tuple[Life | None, Callable[..., None], tuple[Any, ...]]] = deque()
        self.on_idle: Callable[[], None] = _raise_deadlock
        """Called when no task is ready and the queue is empty. It makes something ready or raises; see
        :mod:`harness.sim.steering`."""
        self.closing = False
        self._collecting = False
        """Garbage collection is enabled again by :meth:`close`."""
        self._seq = 0
        self._numbers = 0
        self._threads = 0
        self._tasks: list[Task] = []
        self._error: BaseException | None = None
        self._until = False
        self.event_limit = sys.maxsize
        self.unsupported: dict[str, str] = {}
        """Call, or request to a server, that the simulator lacks → the first host that made it."""
        self._shuffle = Random(f"{seed}/shuffle/{shuffle}") if shuffle else None

    def rng(self, name: str) -> Random:
        """Return a random generator seeded by the kernel's seed and ``name``, independent of all other names."""
        return Random(f"{self.seed}/{name}")

    def next_seq(self) -> int:
        """Return the next sequence number; it orders events of the same time."""
        self._seq += 1
        return self._seq

    def next_number(self) -> int:
        """Return a number unique in this simulation, for thread identifiers and file descriptors."""
        self._numbers += 1
        return self._numbers

    def next_thread_number(self) -> int:
        """Return the number in the name of the next unnamed thread. The first is 1, as in a new process."""
        self._threads += 1
        return self._threads

    def at(self, when: int, owner: Life | None, fn: Callable[..., None], *args: Any) -> None:
        """Call ``fn(*args)`` at virtual time ``when`` (ns), unless ``owner`` has died by then."""
        heappush(self.heap, (when if when > self.now else self.now, self.next_seq(), owner, fn, args))

    def later(self, delay_ns: int, owner: Life | None, fn: Callable[..., None], *args: Any) -> ScheduledCall:
        """Like :meth:`at`, ``delay_ns`` from now; the call can be cancelled."""
        timer = ScheduledCall(fn, args)
        self.at(self.now + delay_ns, owner, timer.fire)
        return timer

    def spawn(self, host: Any, life: Life, fn: Callable[..., Any], *args: Any) -> Task:
        """Start a task on a host. It runs for the first time when the current task waits."""
        task = Task(self, host, life, fn, args)
        self._tasks.append(task)
        self.ready.append((life, task.switch, ()))
        return task

    def tasks_of(self, life: Life) -> list[Task]:
        """Return the tasks of a life that have not ended, in the order in which they were started."""
        return [task for task in self._tasks if task.life is life and not task.dead]

    def freeze(self, life: Life) -> None:
        """Postpone all events of a running life until :meth:`thaw`."""
        if life.state == RUNNING:
            life.state = FROZEN

    def thaw(self, life: Life) -> None:
        """Resume a frozen life: handle its inbox first, then the timers that expired meanwhile."""
        if life.state != FROZEN:
            return
        life.state = RUNNING
        waiting = life.inbox + life.backlog
        life.inbox, life.backlog = [], []
        self.ready.extend((life, fn, args) for fn, args in waiting)

    def end(self, life: Life) -> None:
        """Kill a life as a power cut does: none of its code runs again, not even ``finally`` blocks."""
        life.state = DEAD
        life.inbox, life.backlog = [], []

    def crash(self, error: BaseException) -> None:
        """End the simulation, so that :meth:`run` raises ``error``. Only the first error is kept."""
        if self._error is None and not self.closing:
            self._error = error
            self._until = True

    def finish(self) -> None:
        """Make :meth:`run` return after the current event."""
        self._until = True

    def run(self) -> None:
        """Run events until :meth:`finish`; it may be called again, and :meth:`close` must follow.

        Raises the first exception that a task raised, or :class:`SimulationDeadlock` if no event is left.

        Garbage collection is disabled until :meth:`close`. Destructors close sockets, and the collector would run them
        at times that depend on earlier work of the process, so the same seed would give different histories.
        """
        global running, ended
        self._until = False
        self._collecting |= gc.isenabled()
        gc.disable()
        running, ended = self, False
        try:
            self._loop()
        finally:
            running, ended = None, True
        if self._error is not None:
            raise self._error

    def _loop(self) -> None:
        heap, ready, shuffle = self.heap, self.ready, self._shuffle
        while not self._until:
            if ready:
                if shuffle is not None and len(ready) > 1:
                    self._maybe_swap_first_two(ready, shuffle)
                owner, fn, args = ready.popleft()
                if owner is not None and owner.state == FROZEN:  # it was ready before anything that arrives later
                    owner.inbox.append((fn, args))
                    continue
            elif heap:
                if self._seq > self.event_limit:
                    raise TooManyEvents(
                        f"the simulation handled more than {self.event_limit:,} events; it probably loops"
                    )
                at, _, owner, fn, args = heappop(heap)
                self.now = max(self.now, at)
            else:
                self.on_idle()
                continue
            if owner is None or owner.state == RUNNING:
                fn(*args)
            elif owner.state == FROZEN:
                owner.backlog.append((fn, args))

    def _maybe_swap_first_two(
        self, ready: deque[tuple[Life | None, Callable[..., None], tuple[Any, ...]]], rng: Random
    ) -> None:
        """Swap the first two ready tasks with probability 1/2. Entries that are not tasks (arriving data) keep their
        place."""
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
        """Unwind every remaining task, and destroy what the tasks have left behind. Their clean-up code and destructors
        run, but any wait in them raises :class:`SimulationClosed`."""
        self.closing = True
        self.heap.clear()
        self.ready.clear()
        for task in self._tasks:
            if not task.dead:
                with contextlib.suppress(Exception, SimulationClosed):
                    task.throw(SimulationClosed)
        if self._tasks:
            self._collect_garbage(self._tasks[0])
        self._tasks.clear()
        if self._collecting:
            gc.enable()

    def _collect_garbage(self, any_task: Task) -> None:
        """Run the destructors of unreachable objects in a task. A lock's destructor may release it over the network;
        elsewhere, it would look for the simulated servers in the real one.

        The youngest generation has all objects of this simulation, since nothing was collected while it ran."""
        Task(self, any_task.host, any_task.life, gc.collect, (0,)).switch()
