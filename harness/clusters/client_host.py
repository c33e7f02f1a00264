"""The client program of a real cluster, from the control side: start it, give it a job, and record its history.

A backend's subclass of :class:`ClientHost` starts the program :mod:`harness.worker.client_agent` where its clients run.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from harness.clusters.base import ClusterEndpoints, RecordEntry, Role
from harness.errors import UNKNOWN, HarnessError

from .conversation import Conversation, LineChannel, Refused, Unanswered

AGENT: Final = "harness.worker.client_agent"
"""The module of the client program."""
REVIVAL: Final = 5.0
"""Seconds within which a started program answers, or a standby is ready."""
ANSWER: Final = 0.5
"""Seconds within which a program that is not paused answers."""
PREPARED: Final = 40.0
"""Seconds within which a client's lock must be ready."""
Entries = queue.SimpleQueue[Callable[[], None] | None]
"""History entries of all clients, recorded in order by one thread."""


class ClientError(HarnessError):
    """The client program itself failed: a workload raised, or a lock could not be opened."""

    exit_status = UNKNOWN


@contextlib.contextmanager
def preparing() -> Iterator[None]:
    """Raise ClientError for a client that does not prepare its lock within :data:`PREPARED`."""
    try:
        yield
    except (Refused, Unanswered, futures.TimeoutError) as error:
        reason = str(error) or f"no answer within {PREPARED:g} s"
        raise ClientError(f"the lock could not be made ready: {reason}") from error


class EntryThread:
    """Records the entries of all clients one by one. A fault that is triggered by an event strikes in this thread."""

    def __init__(self) -> None:
        self.entries: Entries = Entries()
        self.error: Exception | None = None
        """The first exception that recording an entry raised."""
        self._thread = threading.Thread(target=self._run, name="entries", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Return when all entries are recorded."""
        self.entries.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (take := self.entries.get()) is not None:
            try:
                take()
            except Exception as error:  # noqa: BLE001 - raised again when the run is over
                self.error = self.error or error


@dataclass(eq=False, slots=True)
class _ClientProcess:
    """One process of the client program. Its output may arrive when the next one is already running."""

    conversation: Conversation | None = None
    first_answer: Future[Any] | None = None
    kill_expected: bool = False
    """A fault kills the process, or it exits as its workload wants, so its end is no failure of the client program."""
    sent: list[Any] = field(default_factory=list)
    """Entries of the log of its sockets."""


class ClientHost(ABC):
    """Host with the client program. A subclass starts the program."""

    role: Role = "client"

    def __init__(self, name: str, address: str, entries: Entries) -> None:
        self.name = name
        self.address = address
        self.failure: str | None = None
        """How the client program failed: it ended unexpectedly, or wrote something else than messages. ``None`` if it
        did not."""
        self.kills = 0
        """How often a fault has killed the program."""
        self._entries = entries
        self._hung = threading.Event()
        self._record: RecordEntry | None = None
        self._process = _ClientProcess()
        self._until_ns: int | None = None
        self.logged_servers: tuple[str, ...] = ()
        """Addresses of servers to which the client's sockets are logged."""
        self.socket_logs: list[list[Any]] = []
        """Entries of :mod:`harness.history.socket_entries`, a list for each process of the client."""

    @abstractmethod
    def _begin(self, on_line: Callable[[bytes], None], on_end: Callable[[], None]) -> LineChannel:
        """Start the program :data:`AGENT`, and call ``on_line`` for each line of its output."""

    def _start_program(self) -> None:
        """Start the client program, which then waits for its job."""
        self._hung.clear()
        process = self._process = _ClientProcess()
        process.conversation = Conversation(self._begin, partial(self._on_event, process))
        process.first_answer = process.conversation.request("ping")
        if self.logged_servers:
            self.socket_logs.append(process.sent)
            process.conversation.tell("log_sockets", servers=self.logged_servers)

    @property
    def conversation(self) -> Conversation:
        assert self._process.conversation is not None, f"{self.name} was never started"
        return self._process.conversation

    @property
    def started(self) -> bool:
        return self._process.conversation is not None

    @property
    def alive(self) -> bool:
        return self.started and not self.conversation.ended.is_set()

    def await_start(self) -> None:
        """Wait until the program has forked from its relay; an earlier fault would hit neither of them."""
        if self._process.first_answer is not None:
            futures.wait([self._process.first_answer], REVIVAL)

    @property
    def has_answered(self) -> bool:
        """Return whether the program has answered its first ping, which precedes its job."""
        return self._process.first_answer is not None and self._process.first_answer.done()

    def expect_kill(self) -> None:
        """Note that the program is about to be killed."""
        self._process.kill_expected = True
        self.kills += 1

    @property
    def hung(self) -> bool:
        return self._hung.is_set()

    def prepare(self, lock: Mapping[str, Any], endpoints: ClusterEndpoints, **more: Any) -> Future[Any]:
        """Tell the program to open its lock on these servers; return its answer. ``lock`` has ``name``, ``ttl`` and
        ``options``."""
        lock = {**lock, "kind": endpoints.kind, "addresses": endpoints.addresses, **more}
        return self.conversation.request("prepare", lock=lock)

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
        if "unreadable" in event and not process.kill_expected:  # a killed program may leave half a line
            self.failure = (
                f"the client program on {self.name} failed: expected JSON objects on its standard output, one a line, "
                f"got {event['unreadable']!r}; a log belongs on standard error"
            )
        if "sent" in event:
            process.sent += event["sent"]
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


def end_histories(clients: Sequence[ClientHost], thaw: Callable[[], object], patience: float) -> list[str]:
    """End the histories of all clients at the same moment, now. Return the clients that live and do not answer within
    ``patience`` seconds, so that their last entries may be missing.

    If one client were recorded for longer than the others, it could acquire a lock whose release was no longer
    recorded. Entries sent before now may still be on their way: a ping's answer arrives after them, and so does the end
    of the program. A program that has not answered its first ping has no entries yet. ``thaw`` resumes paused clients.
    """
    now = time.monotonic_ns()
    for client in clients:
        client.hear_until(now)
    thaw()
    pings = {client.name: client.conversation.request("ping") for client in clients if client.has_answered}
    late = futures.wait(pings.values(), patience).not_done
    return [name for name, ping in pings.items() if ping in late]


def _go(conversation: Conversation) -> None:
    with contextlib.suppress(Unanswered):  # the fault that the client waited for may have killed it
        conversation.tell("go")
