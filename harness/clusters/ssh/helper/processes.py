"""Programs of a run on this host: started in sessions of their own, found, stopped and killed by process group.

The kernel kills a program when the helper ends (prctl(2), PR_SET_PDEATHSIG), also a stopped one. It does so when the
thread ends that started the program, so one thread that lasts as long as the helper starts all of them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Final

from harness.clusters.docker.helper.processes import DEAD, state
from harness.record.processor_waits import stat_fields

PATIENCE_S: Final = 2.0
"""Seconds that killed processes get to disappear, and stopped ones to stop."""
STOPPED: Final = "TtZX"
"""States of threads that do not run (proc(5))."""
_GROUP, _SESSION = 2, 3
"""Positions of two ids in /proc/PID/stat after the process name (proc(5))."""
LAUNCH: Final = (
    "import ctypes,os,sys;"
    "ctypes.CDLL(None).prctl(1,9,0,0,0);"
    "os.getppid()==int(sys.argv[1]) or os._exit(1);"
    "os.execvp(sys.argv[2],sys.argv[2:])"
)
"""A Python program that becomes the program of its arguments, after it has requested its own death with the parent."""


class ProgramError(Exception):
    """A program does not exist, cannot be started, or does not end."""


class Program:
    """One program; ``on_line`` is called with (``out`` or ``err``, text) for each line of its output, and ``on_end``
    when it has closed both."""

    def __init__(
        self, process: subprocess.Popen[bytes], on_line: Callable[[str, str], None], on_end: Callable[[], None]
    ) -> None:
        self.process = process
        self._sending = threading.Lock()
        self._on_line, self._on_end = on_line, on_end
        self._open = 2
        self._closing = threading.Lock()
        for name, stream in (("out", process.stdout), ("err", process.stderr)):
            assert stream is not None
            threading.Thread(target=self._read, args=(name, stream), daemon=True).start()

    def send(self, text: str) -> None:
        """Write a line to its stdin; a program that has ended takes none."""
        assert self.process.stdin is not None
        with self._sending, contextlib.suppress(OSError, ValueError):
            self.process.stdin.write(text.encode() + b"\n")
            self.process.stdin.flush()

    def end_input(self) -> None:
        assert self.process.stdin is not None
        with self._sending, contextlib.suppress(OSError):
            self.process.stdin.close()

    def _read(self, name: str, stream: IO[bytes]) -> None:
        for line in stream:
            self._on_line(name, line.rstrip(b"\r\n").decode(errors="replace"))
        with self._closing:
            self._open -= 1
            last = not self._open
        if last:
            self.process.wait()
            self._on_end()


class Programs:
    """All programs of the run, by name. ``emit`` sends an event to the control side."""

    def __init__(self, emit: Callable[[Mapping[str, object]], None]) -> None:
        self._emit = emit
        self._programs: dict[str, Program] = {}
        self._starter = ThreadPoolExecutor(1, "starter")

    def start(self, name: str, command: Sequence[str], environment: Mapping[str, str], gid: int | None) -> int:
        """Start a program in a session of its own, with the group id ``gid`` if there is one; return its process id.
        Its output is sent as events.

        :raises ProgramError: it cannot be started.
        """
        words = [sys.executable, "-S", "-E", "-c", LAUNCH, str(os.getpid()), *command]

        def begin() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **environment},
                start_new_session=True,
                group=gid,
            )

        process = self._starter.submit(begin).result()

        def on_line(stream: str, text: str) -> None:
            self._emit({"program": name, "pid": process.pid, stream: text})

        def on_end() -> None:
            self._emit({"program": name, "pid": process.pid, "ended": process.returncode})

        self._programs[name] = Program(process, on_line, on_end)
        return int(process.pid)

    def send(self, name: str, text: str) -> None:
        """Write a line to a program's stdin."""
        if (program := self._programs.get(name)) is not None:
            program.send(text)

    def end_input(self, name: str) -> None:
        """Close a program's stdin."""
        if (program := self._programs.get(name)) is not None:
            program.end_input()

    def kill_session(self, name: str) -> None:
        """Kill a program with all processes of its session."""
        if (program := self._programs.pop(name, None)) is not None:
            _kill(lambda: _with(_SESSION, program.process.pid))

    def close(self) -> list[str]:
        """Kill all programs; return error messages."""
        failures = []
        for name in list(self._programs):
            try:
                self.kill_session(name)
            except ProgramError as error:
                failures.append(f"{name}: {error}")
        return failures


def _with(field: int, number: int) -> list[int]:
    """Return the running processes with this number in a field of /proc/PID/stat, in ascending order."""
    return sorted(pid for pid, fields in _stats() if fields[field] == str(number) and fields[0] not in DEAD)


def _stats() -> Iterator[tuple[int, list[str]]]:
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                yield int(entry.name), stat_fields(Path(entry.path, "stat"))


def members(group: int) -> list[int]:
    """Return the running processes of a process group, in ascending order."""
    return _with(_GROUP, group)


def states(group: int) -> dict[int, str]:
    """Return the kernel's state letter (proc(5)) of each running process of a group."""
    found = ((pid, state(pid)) for pid in members(group))
    return {pid: letter for pid, letter in found if letter is not None}


def stop(group: int) -> None:
    """Stop all processes of a group (SIGSTOP), and wait until none of their threads runs: the kernel stops the other
    threads only when the first of them handles the signal.

    :raises ProgramError: some still run after PATIENCE_S.
    """
    _signal(group, signal.SIGSTOP)
    deadline = time.monotonic() + PATIENCE_S
    while not all(_is_stopped(pid) for pid in members(group)):
        if time.monotonic() > deadline:
            raise ProgramError(f"process group {group}: got SIGSTOP, but still runs after {PATIENCE_S:g} s")
        time.sleep(0.001)


def _is_stopped(pid: int) -> bool:
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):
            if stat_fields(stat)[0] not in STOPPED:
                return False
    return True


def resume(group: int) -> None:
    """Let the processes of a group run again."""
    _signal(group, signal.SIGCONT)


def kill(group: int) -> None:
    """Kill all processes of a group, also stopped ones, and wait until they have ended.

    :raises ProgramError: some still run after PATIENCE_S.
    """
    _kill(lambda: members(group))


def _kill(find: Callable[[], list[int]]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while running := find():
        if time.monotonic() > deadline:
            raise ProgramError(f"killed, but still running after {PATIENCE_S:g} s: {running}")
        for pid in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.001)


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)
