"""The watchdog of a worker: it ends a worker in which neither virtual time passes nor anything is recorded.

A thread of the worker copies its virtual time and its number of frames to memory that the server shares. Code that
holds the interpreter's lock for ever stops that thread, which the server sees as well.
"""

from __future__ import annotations

import _thread
import contextlib
import faulthandler
import itertools
import mmap
import os
import signal
import struct
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import IO, Final

import msgspec
from greenlet import getcurrent

from harness.sim import kernel

from .channel import Channel

TASK_STACK_SIGNAL: Final[int] = getattr(signal, "SIGUSR1", 0)
"""Makes a forked worker write the stack of the simulated task that runs, or is about to."""
STACK_SIGNAL: Final[int] = getattr(signal, "SIGUSR2", 0)
"""Makes a forked worker write its Python stack, also while C code runs and the first signal is not handled."""
SIGNS_FILE: Final = "signs"
STACK_FILE: Final = "stack"
"""Files that a spawned worker (:mod:`harness.worker.spawned`) shares with the harness."""
STACK_WAIT_S: Final = 2.0
MAX_STACK_LINES: Final = 40
_STATE: Final = struct.Struct("q")
_sleep = time.sleep  # the simulator replaces time.sleep


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """A worker without a sign of life is ended after ``cpu_s`` seconds of CPU time or ``wall_s`` seconds of wall time.

    CPU time counts because a worker on a loaded machine may get none of it for long."""

    cpu_s: float = 20.0
    wall_s: float = 300.0


class SignsOfLife:
    """A counter in shared memory that moves while the worker makes progress. ``at_progress`` is called then."""

    def __init__(self, memory: mmap.mmap | None = None, at_progress: Callable[[], None] = lambda: None) -> None:
        self._memory = mmap.mmap(-1, _STATE.size) if memory is None else memory  # a fork shares it
        self._at_progress = at_progress

    @classmethod
    def in_file(cls, path: Path, at_progress: Callable[[], None] = lambda: None) -> SignsOfLife:
        """Return the counter in a file that two processes share. The first one that opens it makes the file."""
        if not path.exists():
            path.write_bytes(bytes(_STATE.size))
        with path.open("r+b") as file:
            return cls(mmap.mmap(file.fileno(), _STATE.size), at_progress)

    def begin(self, channel: Channel) -> None:
        """Start the thread that counts, in the worker."""
        with _signals_for_main_thread():
            _thread.start_new_thread(self._count, (channel,))

    def _count(self, channel: Channel) -> None:
        before: object = None
        for number in itertools.count(1):
            running = kernel.running
            # Without a simulation the harness itself works, which needs no watchdog.
            state = number if running is None else (id(running), running.now, channel.sent)
            if state != before:
                before = state
                _STATE.pack_into(self._memory, 0, number)
                self._at_progress()
            _sleep(0.1)

    def read(self) -> int:
        (number,) = _STATE.unpack_from(self._memory, 0)
        return int(number)

    def close(self) -> None:
        self._memory.close()


@contextlib.contextmanager
def _signals_for_main_thread() -> Iterator[None]:
    """Have threads that are started meanwhile leave the signals of a worker to the main thread."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows handles signals in the main thread alone
        yield
        return
    numbers = {number for number in (STACK_SIGNAL, TASK_STACK_SIGNAL, signal.SIGINT) if number}
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    yield
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)


class Watchdog:
    """Looks at a worker's signs of life; used by the server."""

    def __init__(self, pid: int, signs: SignsOfLife, limits: Limits) -> None:
        self._pid = pid
        self._signs = signs
        self._limits = limits
        self._seen = -1
        self._cpu_s = 0.0
        self._since = time.monotonic()
        self.interval_s = max(0.05, min(0.5, limits.cpu_s / 4))

    def look(self) -> str:
        """Return what is wrong with the worker, "" if it lives."""
        seen, cpu_s = self._signs.read(), cpu_seconds(self._pid)
        if seen != self._seen:
            self._seen, self._cpu_s, self._since = seen, cpu_s, time.monotonic()
            return ""
        if cpu_s - self._cpu_s >= self._limits.cpu_s:
            return f"{self._limits.cpu_s:g} s of CPU time"
        if time.monotonic() - self._since >= self._limits.wall_s:
            return f"{self._limits.wall_s:g} s"
        return ""


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used, s; 0 if it has ended, or if the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError):  # no Linux
        return _cpu_seconds_elsewhere(pid)


def _cpu_seconds_elsewhere(pid: int) -> float:
    try:
        import psutil  # type: ignore[import-untyped] # required on macOS and Windows alone

        times = psutil.Process(pid).cpu_times()
        return float(times.user + times.system)
    except Exception:  # noqa: BLE001 - the limit of wall time remains
        return 0.0


class StackFile:
    """A file into which a worker writes its stack when it crashes or hangs.

    A forked worker inherits a file without a name. A spawned worker opens ``path``, as the harness does.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.file: IO[bytes] = tempfile.TemporaryFile() if path is None else path.open("a+b")  # noqa: SIM115

    def clear(self) -> None:
        """Remove what was written."""
        if os.fstat(self.file.fileno()).st_size:
            self.file.truncate(0)

    def register(self) -> None:
        """Let this process write its stack on signals, and when it crashes."""
        faulthandler.enable(self.file, all_threads=False)
        faulthandler.register(STACK_SIGNAL, self.file, all_threads=False)
        signal.signal(TASK_STACK_SIGNAL, self._write_task)

    def _write_task(self, _: int, frame: FrameType | None) -> None:
        running = kernel.running
        if running is not None and type(getcurrent()) is not kernel.Task:
            due = [fn for _, fn, _ in running.ready] + [fn for _, _, _, fn, _ in running.heap[:1]]
            tasks = (getattr(fn, "__self__", None) for fn in due)
            frame = next((task.gr_frame for task in tasks if isinstance(task, kernel.Task)), frame)
        calls = reversed(traceback.extract_stack(frame))
        lines = [f'File "{call.filename}", line {call.lineno} in {call.name}\n' for call in calls]
        os.write(self.file.fileno(), "".join(lines).encode(errors="replace"))

    def request(self, pid: int) -> None:
        """Make a worker write its stack, and wait until it has, but not for ever."""
        for number in (TASK_STACK_SIGNAL, STACK_SIGNAL):
            os.kill(pid, number)
            deadline = time.monotonic() + STACK_WAIT_S
            before = 0
            while time.monotonic() < deadline:
                _sleep(0.05)
                size = os.fstat(self.file.fileno()).st_size
                if size and size == before:
                    return
                before = size

    def read(self) -> tuple[str, ...]:
        with contextlib.suppress(OSError, ValueError):
            self.file.seek(0)
            text = self.file.read(1 << 16).decode(errors="replace")
            return tuple(line.strip() for line in text.splitlines() if line.strip().startswith("File "))[
                :MAX_STACK_LINES
            ]
        return ()

    def close(self) -> None:
        self.file.close()
