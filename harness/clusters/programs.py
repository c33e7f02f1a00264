"""Programs of the harness as processes of this machine: started, listened to, and ended with the harness.

The kernel kills a program when the thread that started it ends (prctl(2), PR_SET_PDEATHSIG), also a paused one. So one
thread that lasts as long as the harness starts all of them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Final

from harness.record.processor_waits import stat_fields

CLOSE_S: Final = 2.0
"""Seconds that a program has to end after its input was closed."""
STOP_S: Final = 1.0
"""Seconds within which the threads of a paused program have stopped."""
_STARTER: Final = ThreadPoolExecutor(1, "starter")


def _no_end() -> None:
    """No-op callback."""


class LocalProgram:
    """One process; implements :class:`harness.clusters.conversation.LineChannel`.

    ``on_line`` is called with each line of its output, and ``on_end`` when it has closed that. It finds modules where
    this process does, unless its ``environment`` says otherwise.
    """

    def __init__(
        self,
        command: Sequence[str],
        on_line: Callable[[bytes], None],
        on_end: Callable[[], None] = _no_end,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.errors: list[str] = []
        """Last 20 lines of its stderr."""
        self._on_line, self._on_end = on_line, on_end
        self._sending = threading.Lock()
        self._process = _STARTER.submit(
            subprocess.Popen[bytes],
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **(environment or {})},
            start_new_session=True,  # Ctrl-C in the terminal is for the harness alone
        ).result()
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._threads = [
            threading.Thread(target=self._read, args=(self._process.stdout,), name="output", daemon=True),
            threading.Thread(target=self._read_errors, args=(self._process.stderr,), name="errors", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, line: bytes) -> None:
        """Write a line to the program's stdin; raise OSError if it has ended."""
        assert self._process.stdin is not None
        with self._sending:
            try:
                self._process.stdin.write(line + b"\n")
                self._process.stdin.flush()
            except ValueError as error:  # closed by this side
                raise BrokenPipeError(str(error)) from error

    def close(self, patience: float = CLOSE_S) -> None:
        """Close the program's stdin, wait ``patience`` seconds until it has ended, and kill it if it has not."""
        assert self._process.stdin is not None
        with self._sending, contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self.kill()
        for thread in self._threads:
            thread.join(CLOSE_S)

    def kill(self) -> None:
        """End the process at once."""
        self._process.kill()
        self._process.wait()

    def _read(self, stream: IO[bytes]) -> None:
        try:
            for line in stream:
                self._on_line(line.rstrip(b"\n"))
        finally:
            self._on_end()

    def _read_errors(self, stream: IO[bytes]) -> None:
        for line in stream:
            self.errors = [*self.errors[-19:], line.decode(errors="replace").rstrip()]


def own_program(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of the harness with this Python. Its first argument is the id of this
    process."""
    return [sys.executable, "-P", "-m", module, str(os.getpid()), *arguments]


def await_stop(process: int) -> None:
    """Wait until all threads of a process that got SIGSTOP have stopped, at most :data:`STOP_S` seconds.

    The kernel stops the other threads only when the first of them handles the signal; on a busy machine they run on for
    milliseconds. Linux only: elsewhere nothing happens."""
    deadline = time.monotonic() + STOP_S
    while not all(map(_is_stopped, Path(f"/proc/{process}/task").glob("*/stat"))) and time.monotonic() < deadline:
        time.sleep(0.001)


def _is_stopped(stat: Path) -> bool:
    """Return whether a thread is stopped, or gone, by its file ``stat``; see proc(5)."""
    try:
        return stat_fields(stat)[0] in "TtZX"
    except OSError:
        return True


def send_signal(group: int, number: signal.Signals) -> None:
    """Send a signal to a process group, which may have ended."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)
