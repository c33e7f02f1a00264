"""Abilities on hosts, servers and clients alike: their programs, clocks and processor time, and calls of clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, runtime_checkable

State = Literal["running", "paused", "dead"]


@runtime_checkable
class Processes(Protocol):
    """Pause, kill, start and probe the programs of all hosts."""

    def pause(self, host: str) -> None: ...
    def resume(self, host: str) -> None: ...
    def kill(self, host: str, *, for_good: bool = False) -> None:
        """Kill the host's program. Kills are counted, and each needs its own :meth:`start`, except one ``for_good``,
        which has none."""

    def start(self, host: str, *, wiped: bool) -> None: ...
    def state(self, host: str) -> State:
        """Probe the host's state by giving it something to do; whether it was paused before is not consulted."""

    def incarnation(self, host: str) -> int | None:
        """Number of the current execution of the host's program, different after each kill and start; ``None`` if it is
        dead."""


@runtime_checkable
class ClientHangs(Protocol):
    """Block the thread of a client that does the work."""

    def hang(self, host: str) -> None:
        """Stop the client's own thread at its next checkpoint; its other threads continue."""

    def hung(self, host: str) -> bool:
        """Return whether the client's thread has stopped at a checkpoint since :meth:`hang`."""


@dataclass(frozen=True, slots=True)
class InterruptedCall:
    """A call of a lock in which a client was interrupted: the method, the time (ns, monotonic), and the last command
    that the client had sent since the call began, empty if there is none."""

    method: str
    at_ns: int
    sent: str = ""


SECTION: Final = "critical section"
"""Method of an :class:`InterruptedCall` that was no call of the lock."""


@runtime_checkable
class CallCancels(Protocol):
    """Cancel the asyncio task that awaits a client's calls of its lock."""

    def cancel_call(self, host: str) -> None:
        """Cancel the client's call at the await where it is, or its next call at its first await if there is none
        now."""

    def cancel_section(self, host: str) -> None:
        """Cancel the client's task in its critical section, or in its next one."""

    def cancelled_calls(self, host: str) -> Sequence[InterruptedCall]:
        """Return the calls that have received a cancellation since the client's program started. A critical section
        counts as a call named :data:`SECTION`."""


Interrupt = Literal["ctrl-c", "alarm"]
"""What interrupts a thread: ``KeyboardInterrupt``, or an exception that the handler of an alarm raises."""


@runtime_checkable
class ThreadInterrupts(Protocol):
    """Raise an exception in the thread of a client that calls its lock."""

    def interrupt_call(self, host: str, by: Interrupt) -> None:
        """Interrupt the client's call of its lock where it waits, or its next call if there is none now."""

    def interrupt_section(self, host: str, by: Interrupt) -> None:
        """Interrupt the client in its critical section, or in its next one."""

    def interrupted_calls(self, host: str) -> Sequence[InterruptedCall]:
        """Return the calls that were interrupted since the client's program started. A critical section counts as a
        call named :data:`SECTION`."""


@runtime_checkable
class WallClocks(Protocol):
    """Set and read the wall clocks of hosts."""

    def set_clock(self, host: str, offset: float, rate: float = 0.0) -> None:
        """Set the wall clock ``offset`` seconds ahead of true time, gaining ``rate`` seconds a second."""

    def read_clock(self, host: str) -> int:
        """Read the host's wall clock: ns ahead of true time."""


@runtime_checkable
class ProcessorQuotas(Protocol):
    """Limit the processor time of hosts."""

    def limit_processor(self, host: str, share: float, period_s: float) -> Callable[[], None]:
        """Let a host compute for ``share`` of each period (seconds) at most; then it stands still until the next one.

        If several limits hold, the smallest share counts. Return a function that undoes it and may be called again.
        """

    def throttled_s(self, host: str) -> float:
        """Return for how many seconds the host has stood still so far because its quota was used up."""


@runtime_checkable
class ClusterFreeze(Protocol):
    """Freeze a whole cluster for inspection."""

    def freeze_all(self) -> None:
        """Freeze the programs of all hosts at once, and leave them as they are when the cluster stops. Faults do
        nothing from then on."""


@dataclass(frozen=True, slots=True)
class MachineClock:
    """The monotonic clock of a machine: the ``clients`` whose times it gave, and the largest error (ns) of their times
    in the history, after the conversion to the clock of the control side."""

    machine: str
    clients: tuple[str, ...]
    error_ns: int


@runtime_checkable
class ProcessorWaits(Protocol):
    """Programs that share the processors of a real machine with others."""

    def processor_waits(self) -> list[tuple[int, int]]:
        """Return samples of about one second each, after the run: (monotonic time, longest time for which a thread of
        the run's programs waited for a processor since the sample before), both in ns. Short waits are left out."""


@runtime_checkable
class ClockErrors(Protocol):
    """Clients on several machines, whose monotonic clocks were converted to the one of the control side."""

    def machine_clocks(self) -> Sequence[MachineClock]:
        """Return the clocks of the clients' machines, with their errors up to now."""


@runtime_checkable
class LastEntries(Protocol):
    """Clients whose entries take time to arrive."""

    def unheard(self) -> list[str]:
        """Return the clients that did not answer at the end of the run, so that their last entries may be missing."""


@runtime_checkable
class MachineLosses(Protocol):
    """Machines that can be lost in the middle of a run, by no fault of the plan."""

    def lost(self) -> str:
        """Return which machine was lost first, when and how; "" if none was."""
