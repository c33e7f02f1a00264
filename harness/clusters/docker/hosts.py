"""Hosts of a container cluster: start, stop and listen to the server or client program inside a running container.

The container itself idles and stays; only the program in it is killed and restarted.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal

from docker.errors import APIError

from harness.clusters.base import RecordEntry, Role
from harness.clusters.docker.containers.channel import Channel, Conversation, Refused, Unanswered
from harness.clusters.docker.containers.engine import Box

STANDBY: Final = """restore=$1; shift
read -r how || exit
case $how in
wiped) rm -rf /data/* ;;
new) rm -rf /data/* /data/.[!.]* /tmp/* /tmp/.[!.]*; eval "$restore" ;;
esac
exec "$@"
"""
How = Literal["kept", "wiped", "new"]
"""State in which a server's program starts: with its data, with ``/data`` emptied, or as before the first start."""
AGENT: Final = ["python3", "-m", "harness.worker.client_agent"]
Spare = Callable[[Box, list[int]], None]
"""Tells the helper which processes of a box are neither listed nor killed; see
:meth:`harness.clusters.docker.containers.helper_client.Helper.spare`."""
REVIVAL: Final = 5.0
"""Seconds within which a started program answers, or a standby is ready."""
ANSWER: Final = 0.5
"""Seconds within which a program that is not paused answers."""
Entries = queue.SimpleQueue[Callable[[], None] | None]
"""History entries of all clients, recorded in order by one thread."""


class ServerHost:
    """Host with a server or a sentinel; ``lines`` are the program's output and errors, each with its time of arrival.

    A restart must be quick, or clients never notice data that it lost. So a shell stands by in the container and
    ``exec``s the program when told to. ``restore`` holds the shell commands of a first start, beside emptying /data.
    """

    def __init__(
        self,
        name: str,
        role: Role,
        box: Box,
        program: tuple[list[str], dict[str, str]],
        restore: str = "",
        on_line: Callable[[str], None] = lambda line: None,  # noqa: ARG005
    ) -> None:
        self.name = name
        self.role = role
        self.box = box
        self.address = box.ip
        self.lines: list[tuple[int, str]] = []
        self._command, self._environment = program
        self._standby = ["sh", "-c", STANDBY, "standby", restore, *self._command]
        self._on_line = on_line
        self._running: Channel | None = None
        self._next: Channel | None = None
        self._closed = False
        self._lock = threading.Lock()
        self.standing_by = threading.Event()
        """Set when the next program stands by and the helper spares it; a kill before that would kill it as well."""

    def await_start(self) -> None:
        """Wait until no program is being started."""
        self.standing_by.wait(REVIVAL)

    def stand_by(self, spare: Spare) -> None:
        """Start a standby for the next program. ``spare`` gets its process, which is not the host's own yet."""
        with self._lock:
            if self._closed:
                return
            self._next = self.box.start(self._standby, self._hear, on_error=self._note, environment=self._environment)
            spare(self.box, [self._next.pid()])
            self.standing_by.set()

    def start(self, how: How, spare: Spare) -> None:
        """Run the program."""
        if not self.standing_by.wait(REVIVAL):
            raise RuntimeError(f"nothing stands by on {self.name}")
        with self._lock:
            assert self._next is not None
            self.standing_by.clear()
            spare(self.box, [])
            self._next.send(how.encode())
            self._running = self._next
        threading.Thread(target=self._stand_by_again, args=(spare,), daemon=True).start()

    def _stand_by_again(self, spare: Spare) -> None:
        """Retry until it works: the engine starts nothing in a container that is paused or being removed."""
        while not self._closed:
            try:
                self.stand_by(spare)
            except (APIError, OSError, RuntimeError, Refused):
                time.sleep(0.05)
            else:
                return

    def run_detached(self) -> None:
        """Run the program so that it outlives this process; its output is discarded."""
        self.box.run_detached(self._command, self._environment)

    def _hear(self, line: bytes) -> None:
        self._on_line(self._note(line))

    def _note(self, line: bytes) -> str:
        text = line.decode(errors="replace").rstrip("\r")
        self.lines.append((time.monotonic_ns(), text))
        return text

    def close(self) -> None:
        self._closed = True
        with self._lock:  # no program is started from here on
            channels = self._running, self._next
        for channel in channels:
            if channel is not None:
                channel.close()


@dataclass(eq=False, slots=True)
class _ClientProcess:
    """One process of the client program. Its output may arrive when the next one is already running."""

    conversation: Conversation | None = None
    first_answer: Future[Any] | None = None
    kill_expected: bool = False
    """A fault kills the process, or it exits as its workload wants, so its end is no failure of the client program."""


class ClientHost:
    """Host with the client program."""

    role: Role = "client"

    def __init__(self, name: str, box: Box, entries: Entries, environment: Mapping[str, str]) -> None:
        self.name = name
        self.box = box
        self.address = box.ip
        self.failure: str | None = None
        """Why the client program ended unexpectedly; ``None`` if it did not."""
        self.kills = 0
        """How often a fault has killed the program."""
        self._entries = entries
        self._environment = dict(environment)
        self._hung = threading.Event()
        self._record: RecordEntry | None = None
        self._process = _ClientProcess()
        self._until_ns: int | None = None

    def start(self, spare: Spare) -> None:
        """Start the client program, which then waits for its job. ``spare`` gets its relay process, which must
        survive a kill of the program."""
        self._hung.clear()
        process = self._process = _ClientProcess()
        relays: list[Channel] = []

        def begin(on_line: Callable[[bytes], None], on_end: Callable[[], None]) -> Channel:
            relays.append(self.box.start(AGENT, on_line, on_end=on_end, environment=self._environment))
            return relays[0]

        process.conversation = Conversation(begin, partial(self._on_event, process))
        process.first_answer = process.conversation.request("ping")
        spare(self.box, [relays[0].pid()])

    @property
    def conversation(self) -> Conversation:
        assert self._process.conversation is not None, f"{self.name} was never started"
        return self._process.conversation

    @property
    def started(self) -> bool:
        return self._process.conversation is not None

    def await_start(self) -> None:
        """Wait until the program has forked from its relay; an earlier fault would hit neither of them."""
        if self._process.first_answer is not None:
            futures.wait([self._process.first_answer], REVIVAL)

    def expect_kill(self) -> None:
        """Note that the program is about to be killed."""
        self._process.kill_expected = True
        self.kills += 1

    @property
    def hung(self) -> bool:
        return self._hung.is_set()

    def launch(self, job: Any, record: RecordEntry) -> Callable[[float], bool]:
        self._record = record
        return self._joined(self.conversation.request("run", job=job))

    def _joined(self, loop: Future[Any]) -> Callable[[float], bool]:
        loop.add_done_callback(partial(self._note_failure, self._process))

        def join(timeout: float) -> bool:
            deadline = time.monotonic() + timeout
            while not (loop.done() or self.hung):
                if time.monotonic() >= deadline:
                    return False
                time.sleep(0.02)
            return True

        return join

    def _note_failure(self, process: _ClientProcess, loop: Future[Any]) -> None:
        """Record a failure if the program raised an error or ended, unless a fault killed it."""
        if loop.cancelled() or (error := loop.exception()) is None:
            return
        if isinstance(error, Refused) or not process.kill_expected:
            self.failure = f"the client program on {self.name} failed: {error}"

    def _on_event(self, process: _ClientProcess, event: dict[str, Any]) -> None:
        if event.get("hung") and process is self._process:
            self._hung.set()
        if "entry" in event and self._record is not None:
            record = self._record
            if event["entry"].get("f") == "exit":
                process.kill_expected = True

            def take() -> None:
                if self._until_ns is None or event["entry"]["time"] <= self._until_ns:
                    record(**event["entry"])
                if event.get("waits") and process.conversation is not None:
                    _go(process.conversation)

            self._entries.put(take)

    def hear_until(self, time_ns: int) -> None:
        """Ignore history entries with a later time (monotonic ns)."""
        self._until_ns = time_ns

    def close(self) -> None:
        self.expect_kill()
        if self._process.conversation is not None:
            self._process.conversation.close()


def end_histories(clients: Sequence[ClientHost], thaw: Callable[[], object], patience: float) -> None:
    """End the histories of all clients at the same moment, now.

    If one client were recorded for longer than the others, it could acquire a lock whose release was no longer
    recorded. Entries sent before now may still be on their way: a ping's answer arrives after them. ``thaw`` resumes
    paused clients; ``patience`` is the time limit in seconds.
    """
    now = time.monotonic_ns()
    for client in clients:
        client.hear_until(now)
    thaw()
    futures.wait([client.conversation.request("ping") for client in clients], patience)


def _go(conversation: Conversation) -> None:
    with contextlib.suppress(Unanswered):  # the fault that the client waited for may have killed it
        conversation.tell("go")
