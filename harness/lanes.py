"""Processes that each play one job after the other, and are given the next one when they are done with one.

What a job is, and what comes of it, is for those to say who have them: a night's cases, the cells of a comparison.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from multiprocessing import connection
from typing import Any, Final, Generic, Protocol, TypeVar

ENDS_WITHIN: Final = 120.0
"""Seconds that a process may take to remove what it has started."""


class OnCluster(Protocol):
    """A job that is played on a cluster: ``sim`` or ``docker``."""

    @property
    def cluster(self) -> str: ...


Job = TypeVar("Job", bound=OnCluster)
Outcome = TypeVar("Outcome")
Play = Callable[[Job, Any], Outcome]
"""Called with a job and how to open its cluster (``open_cluster`` of :func:`harness.runs.run`; None: as usual). It goes
to other processes, so it must be a function of a module, or a ``functools.partial`` of one."""


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM ends the work as Ctrl-C does, and that does so too where a shell has put it in the background."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    wanted = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, signal.default_int_handler) for number in wanted}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def shared_out(
    todo: Sequence[Job],
    play: Play[Job, Outcome],
    count: int,
    begun: Callable[[Job], None] = lambda job: None,  # noqa: ARG005
) -> Generator[tuple[Job, Outcome | None], None, None]:
    """Each job as soon as it is done, with its outcome (None: the process that played it has died). With a ``count`` of
    one, or one job, no process is started. ``begun`` is told which job is played next."""
    if count == 1 or len(todo) <= 1:
        with _Player(play) as player:
            for job in todo:
                begun(job)
                yield job, player.play(job)
        return
    waiting = deque(todo)
    lanes: list[_Lane[Job, Outcome]] = []
    try:
        while waiting or lanes:
            while waiting and len(lanes) < count:
                begun(waiting[0])
                lanes.append(_Lane(play, waiting.popleft()))
            for lane in _ready(lanes):
                job, outcome = lane.job, lane.outcome()
                if outcome is None or not waiting:
                    lanes.remove(lane)
                    lane.end()
                else:
                    begun(waiting[0])
                    lane.give(waiting.popleft())
                yield job, outcome
    finally:
        for lane in lanes:  # there are some only if nobody wants to know any more
            lane.interrupt()
        for lane in lanes:
            lane.end()


def _ready(lanes: Sequence[_Lane[Job, Outcome]]) -> list[_Lane[Job, Outcome]]:
    """Those that have an outcome, or have died."""
    heard = connection.wait([lane.line for lane in lanes])
    return [lane for lane in lanes if lane.line in heard]


class _Lane(Generic[Job, Outcome]):
    """A process that plays one job after the other, and which one it is at."""

    def __init__(self, play: Play[Job, Outcome], job: Job) -> None:
        context = multiprocessing.get_context("spawn")
        self.line, other_end = context.Pipe()
        self._process = context.Process(target=_work, args=(other_end, play))
        self._process.start()
        other_end.close()
        self.give(job)

    def give(self, job: Job) -> None:
        self.job = job
        with contextlib.suppress(OSError):  # it has died, which is heard when it is asked
            self.line.send(job)

    def outcome(self) -> Outcome | None:
        """None if it has died."""
        try:
            found: Outcome = self.line.recv()
        except (EOFError, OSError):
            return None
        return found

    def interrupt(self) -> None:
        """As Ctrl-C does, which it may have had already: a run ends early, and removes what it has started."""
        if self._process.pid is not None and self._process.is_alive():
            os.kill(self._process.pid, signal.SIGINT)

    def end(self) -> None:
        self.line.close()
        self._process.join(ENDS_WITHIN)
        self._process.kill()
        self._process.join()


def _work(line: Any, play: Play[Job, Outcome]) -> None:
    """In the process: ends when the other end is closed, or its process gone."""
    sys.stdout = sys.stderr  # what a lock prints must not get between the lines of a document
    ending = _Ending()
    signal.signal(signal.SIGINT, ending.asked)
    with contextlib.suppress(KeyboardInterrupt, EOFError, OSError), _Player(play) as player:
        while True:
            with ending.now():
                job = line.recv()
            line.send(player.play(job))


class _Ending:
    """An interrupt of a lane's process: raised where it waits for a job, else kept until it does. Raised anywhere, it
    might be in a callback of the interpreter, which says so and goes on. A run has a handler of its own."""

    def __init__(self) -> None:
        self._wanted = self._waiting = False

    def asked(self, *_: Any) -> None:
        self._wanted = True
        if self._waiting:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def now(self) -> Iterator[None]:
        self._waiting = True
        try:
            if self._wanted:
                raise KeyboardInterrupt
            yield
        finally:
            self._waiting = False


class _Player(contextlib.ExitStack, Generic[Job, Outcome]):
    """Plays jobs one after the other, on clusters that it keeps for as long as the next job can use them."""

    def __init__(self, play: Play[Job, Outcome]) -> None:
        super().__init__()
        self._play = play
        self._kept: Any = None

    def play(self, job: Job) -> Outcome:
        if job.cluster == "sim":
            return self._play(job, None)
        if self._kept is None:
            from .kept import Kept

            self._kept = self.enter_context(Kept())
        return self._play(job, self._kept.open)
