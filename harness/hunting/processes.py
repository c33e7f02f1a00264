"""Processes of this machine that play the jobs of a hunt.

Each is had by a thread of its own, which gives it one job at a time: so when one dies it is known of which job, and
the others go on. (The processes of a ``ProcessPoolExecutor`` all go with the first that dies, and it is not known
which job was to blame.)
"""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any, Final, ParamSpec, TypeVar

from ..errors import EnvironmentLacking, HarnessError
from .workers import WorkerDied, Workers

DEATHS: Final = 3
"""A job of which so many processes have died is given up."""
_SPAWN: Final = multiprocessing.get_context("spawn")
"""Processes are started afresh: a forked one has the locks of this one's threads."""
Params = ParamSpec("Params")
Result = TypeVar("Result")


class Processes(Workers):
    """At most ``width`` of them, started when there is something to do. Shutting down kills them at once: they have
    nothing to lose, and what they were at nobody waits for."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._threads = ThreadPoolExecutor(width, thread_name_prefix="hunting")
        self._mine = threading.local()
        self._starting = threading.Lock()
        self._started: list[_Process] = []
        self._over = False

    @property
    def width(self) -> int:
        return self._width

    def submit(self, fn: Callable[Params, Result], /, *args: Params.args, **kwargs: Params.kwargs) -> Future[Result]:
        """Have a function of a module called in a process; what goes in and what comes out is pickled."""
        return self._threads.submit(self._play, pickle.dumps((fn, args, kwargs)))

    def outcome(self, future: Future[Result]) -> Result:
        return future.result()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002 - always both
        with self._starting:
            self._over = True
            for process in self._started:
                process.kill()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for process in self._started:
            process.gone()

    def _play(self, call: bytes) -> Any:
        """In a thread."""
        deaths: list[_Death] = []
        while len(deaths) < DEATHS:
            try:
                return self._process().play(call)
            except _Death as death:
                self._mine.process = None
                deaths.append(death)
        if not any(death.begun for death in deaths):
            raise EnvironmentLacking(
                f"processes end as soon as they are started ({deaths[-1]}); see above for what they said. A script "
                "that hunts with workers must do so under `if __name__ == '__main__':`"
            )
        raise WorkerDied(f"{len(deaths)} processes that played it died, the last one {deaths[-1]}")

    def _process(self) -> _Process:
        """This thread's own."""
        process: _Process | None = getattr(self._mine, "process", None)
        if process is not None:
            return process
        with self._starting:
            if self._over:
                raise WorkerDied("the hunt is over")
            self._mine.process = process = _Process()
            self._started = [other for other in self._started if other.alive()] + [process]
        return process


class _Death(Exception):
    """Says how a process ended. ``begun``: had it come so far that it could play?"""

    def __init__(self, status: int | None, *, begun: bool) -> None:
        super().__init__(
            "in an unknown way"
            if status is None
            else f"by signal {signal.Signals(-status).name}"
            if status < 0
            else f"with exit status {status}"
        )
        self.begun = begun


class _Process:
    """One, and the line to it. It ends when the other end of the line is gone, however that came about."""

    def __init__(self) -> None:
        _be_deaf()
        self._line, others = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_serve, args=(others,), name="hunting", daemon=True)
        self._process.start()
        others.close()
        self._begun = False

    def play(self, call: bytes) -> Any:
        try:
            if not self._begun:
                self._line.recv_bytes()
                self._begun = True
            self._line.send_bytes(call)
            answer = self._line.recv_bytes()
        except (EOFError, OSError) as error:
            self._line.close()
            self._process.join()
            raise _Death(self._process.exitcode, begun=self._begun) from error
        played, result = pickle.loads(answer)
        if not played:
            raise result
        return result

    def alive(self) -> bool:
        return self._process.is_alive()

    def kill(self) -> None:
        self._process.kill()

    def gone(self) -> None:
        """Wait until it is."""
        self._process.join()


def _be_deaf() -> None:
    """What this thread starts from now on hears no Ctrl-C, from its first moment on: who started the hunt does, and
    ends it. (Multiprocessing has a process of its own, and whoever starts that hears again.)"""
    resource_tracker.ensure_running()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def _serve(line: Connection) -> None:
    """In a process, until the line breaks."""
    sys.stdout = sys.stderr  # what a lock prints must not get between the lines of a result document
    with contextlib.suppress(EOFError, OSError):
        line.send_bytes(b"here")
        while True:
            line.send_bytes(_answer(line.recv_bytes()))


def _answer(call: bytes) -> bytes:
    """Pickled: whether the job was played, and what came of it, or the error that it raised."""
    try:
        work, args, kwargs = pickle.loads(call)
        return pickle.dumps((True, work(*args, **kwargs)))
    except Exception as error:  # noqa: BLE001 - raised on the other side
        if not isinstance(error, HarnessError):
            error.add_note(f"in a process of the hunt:\n{traceback.format_exc()}")
        return _pickled(error)


def _pickled(error: Exception) -> bytes:
    """As it is, if it can be sent and be made again there."""
    try:
        pickle.loads(told := pickle.dumps((False, error)))
    except Exception:  # noqa: BLE001 - any class of error may be of this kind
        return pickle.dumps((False, RuntimeError("\n".join([f"{type(error).__name__}: {error}", *error.__notes__]))))
    return told
