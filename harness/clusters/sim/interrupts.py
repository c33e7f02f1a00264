"""Interrupt simulated clients in calls of their locks and in critical sections, and describe where that took effect."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from greenlet import getcurrent

from harness.clusters.abilities.hosts import SECTION, Interrupt, InterruptedCall
from harness.clusters.base import RecordEntry
from harness.errors import AlarmRaised, Interruption, ThreadInterrupted
from harness.sim.hosts import CancelNext, SimHost
from harness.sim.kernel import DEAD, Task

from .kinds import SimServers

CALLS: Final = ("acquire", "release", "extend", "add")
"""Entries of a history that are calls of a lock. In other calls, such as those of the resource, no client is
interrupted."""


class SectionCancelled(Interruption, asyncio.CancelledError):
    """The task of a client was cancelled in its critical section, by a fault."""


@dataclass(slots=True)
class _Strike:
    """A requested interruption: in a call of the lock, or in a critical section. ``struck`` is called when it takes
    effect."""

    in_section: bool
    error: Callable[[str], BaseException]
    struck: Callable[[InterruptedCall], object]


@dataclass(slots=True)
class _ClientThread:
    """Where the thread of a client is, by its entries of the history."""

    host: SimHost
    task: Task | None = None
    call: str = ""
    began_ns: int = 0
    held: int = 0
    at_checkpoint: bool = False
    strikes: deque[_Strike] = field(default_factory=deque)

    def heard(self, type_: str, f: str, time_ns: int) -> None:
        if type_ == "invoke":
            self.call, self.began_ns = f, time_ns
            self.held -= f == "release" and self.held > 0
            return
        self.call = ""
        self.held += f == "acquire" and type_ == "ok"

    def place(self, *, in_section: bool) -> str:
        """Return the call of the lock or :data:`SECTION`, empty if the thread is elsewhere."""
        if in_section:
            return SECTION if self.held and not self.call else ""
        return self.call if self.call in CALLS else ""


class ClientThreads:
    """The threads of clients that call their locks."""

    def __init__(self, hosts: Sequence[SimHost], servers: SimServers) -> None:
        self.hosts = {host.name: host for host in hosts}
        self._threads = {host.name: _ClientThread(host) for host in hosts}
        self._servers = servers

    def launched(self, client: str, task: Task) -> None:
        """Begin with a new program of the client."""
        self._threads[client] = _ClientThread(self.hosts[client], task)

    def listening(self, client: str, record: RecordEntry) -> RecordEntry:
        """Return a function that records an entry of the client and notes where the client is."""

        def heard(**entry: Any) -> None:
            thread = self._threads[client]
            if thread.task is None or getcurrent() is thread.task:  # other threads of the client are not interrupted
                thread.heard(entry["type_"], entry["f"], entry["time"])
            record(**entry)
            if thread.strikes:
                self._try_later(thread)

        return heard

    @contextlib.contextmanager
    def at_checkpoint(self, client: str) -> Iterator[None]:
        """Interrupt the client only when this ends: until then it is in code of the harness."""
        thread = self._threads[client]
        thread.at_checkpoint = True
        yield
        thread.at_checkpoint = False
        self._try_later(thread)

    def strike(self, client: str, strike: _Strike) -> None:
        """Interrupt the client at the next place that the strike is for where it waits."""
        thread = self._threads[client]
        thread.strikes.append(strike)
        self._try_later(thread)

    def call_until_now(self, client: str, method: str, began_ns: int) -> InterruptedCall:
        """Describe the call that began at ``began_ns`` and is interrupted now."""
        host = self.hosts[client]
        commands: Sequence[str] = ()
        if host.last_sent is not None:
            sent_ns, target, data = host.last_sent
            if sent_ns >= began_ns and target in [server.name for server in self._servers.hosts]:
                commands = self._servers.commands(data)
        return InterruptedCall(method, host.kernel.now, commands[-1] if commands else "")

    def _try_later(self, thread: _ClientThread) -> None:
        """Try when the task that runs now waits."""
        kernel = thread.host.kernel
        kernel.ready.append((thread.host.life, self._try, (thread,)))

    def _try(self, thread: _ClientThread) -> None:
        task = thread.task
        if task is None or task.dead or task.life.state == DEAD or not thread.strikes:
            return
        strike = thread.strikes[0]
        place = thread.place(in_section=strike.in_section)
        if not place:
            return  # the thread's next entry leads here again
        if thread.at_checkpoint:
            return  # its end leads here again
        if not task.parked:
            self._try_later(thread)
        else:
            thread.strikes.popleft()
            began_ns = task.kernel.now if place == SECTION else thread.began_ns
            strike.struck(self.call_until_now(thread.host.name, place, began_ns))
            thread.host.last_sent = None  # the next call may begin at the same time, and has not sent that
            task.interrupt(strike.error(place))


class TaskCancels:
    """Cancels the tasks that await calls of locks; see :class:`harness.clusters.abilities.hosts.CallCancels`."""

    def __init__(self, threads: ClientThreads) -> None:
        self._threads = threads
        self._calls = _Calls(threads.hosts)
        self._due = dict.fromkeys(threads.hosts, 0)
        """Number of cancellations for the first calls of a lock that the client has not opened yet."""

    def cancel_call(self, host: str) -> None:
        client = self._threads.hosts[host]
        loops = [task.running_loop.loop for task in client.kernel.tasks_of(client.life) if task.running_loop]
        for loop in loops:
            cancel = getattr(loop, "harness_cancel", None)
            if cancel is not None:
                # Another thread of the client's process cancels it.
                client.spawn(partial(loop.call_soon_threadsafe, cancel, partial(self._cancelled, host)))
                return
        self._due[host] += 1
        client.on_cancellable = partial(self._cancel_due, host)  # the client has not opened its lock

    def _cancel_due(self, host: str, cancel: CancelNext) -> None:
        for _ in range(self._due[host]):
            cancel(partial(self._cancelled, host))
        self._due[host] = 0

    def _cancelled(self, host: str, method: str, began_ns: int) -> Callable[[], None]:
        call = self._threads.call_until_now(host, method, began_ns)

        def received() -> None:
            self._calls.add(host, call)
            self._threads.hosts[host].last_sent = None  # the next call may begin at the same time

        return received

    def cancel_section(self, host: str) -> None:
        self._threads.strike(host, _Strike(True, _section_cancelled, partial(self._calls.add, host)))

    def cancelled_calls(self, host: str) -> Sequence[InterruptedCall]:
        return self._calls.of(host)


class ThreadInterrupts:
    """Raises exceptions in the threads of clients; see :class:`harness.clusters.abilities.hosts.ThreadInterrupts`."""

    def __init__(self, threads: ClientThreads) -> None:
        self._threads = threads
        self._calls = _Calls(threads.hosts)

    def interrupt_call(self, host: str, by: Interrupt) -> None:
        self._threads.strike(host, _Strike(False, _ERRORS[by], partial(self._calls.add, host)))

    def interrupt_section(self, host: str, by: Interrupt) -> None:
        self._threads.strike(host, _Strike(True, _ERRORS[by], partial(self._calls.add, host)))

    def interrupted_calls(self, host: str) -> Sequence[InterruptedCall]:
        return self._calls.of(host)


class _Calls:
    """The interrupted calls of each client in its current life."""

    def __init__(self, hosts: dict[str, SimHost]) -> None:
        self._hosts = hosts
        self._calls: dict[tuple[str, int], list[InterruptedCall]] = {}

    def add(self, host: str, call: InterruptedCall) -> None:
        self._calls.setdefault((host, self._hosts[host].lives), []).append(call)

    def of(self, host: str) -> Sequence[InterruptedCall]:
        return self._calls.get((host, self._hosts[host].lives), ())


def _section_cancelled(place: str) -> BaseException:
    return SectionCancelled(f"the task was cancelled in its {place}")


_ERRORS: Final[dict[Interrupt, Callable[[str], BaseException]]] = {
    "ctrl-c": lambda place: ThreadInterrupted(f"the thread was interrupted in its {place}"),
    "alarm": lambda place: AlarmRaised(f"an alarm went off in its {place}"),
}
