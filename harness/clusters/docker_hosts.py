"""Hosts of a real cluster: a container, and the program in it that can die and come back."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final

from docker.errors import APIError

from ..containers.channel import Channel, Conversation, Refused, Unanswered
from ..containers.engine import Box
from .base import Record, Role

STANDBY: Final = ["sh", "-c", 'read -r how || exit; [ "$how" = kept ] || rm -rf /data/*; exec "$@"', "standby"]
AGENT: Final = ["python3", "-m", "harness.client_agent"]
Spare = Callable[[Box, list[int]], None]
"""Tells the helper which processes of a box do not count; see :meth:`harness.containers.helper.Helper.spare`."""
Entries = queue.SimpleQueue[Callable[[], None] | None]
"""What clients tell, to be recorded one after the other by one thread."""


class Server:
    """A host with a server or a sentinel on it; keeps the lines that it writes, with their times of arrival.

    A start must be quick, or what is lost by a restart is not missed: a shell stands by in the container and becomes
    the program when it is told to.
    """

    def __init__(self, name: str, role: Role, box: Box, program: tuple[list[str], dict[str, str]]) -> None:
        self.name = name
        self.role = role
        self.box = box
        self.address = box.ip
        self.lines: list[tuple[int, str]] = []
        self._command, self._environment = program
        self._running: Channel | None = None
        self._next: Channel | None = None
        self._closed = False
        self._lock = threading.Lock()
        self.standing_by = threading.Event()
        """Is the next program ready, and known to be spared? One that is killed before would take it along."""

    def stand_by(self, spare: Spare) -> None:
        """Get the next program ready; ``spare`` is told which process must not be taken for the host's own."""
        with self._lock:
            self._next = self.box.start([*STANDBY, *self._command], self._hear, environment=self._environment)
            spare(self.box, [self._next.pid()])
            self.standing_by.set()

    def start(self, *, wiped: bool, spare: Spare) -> None:
        """Run the program; ``wiped`` without what an earlier one has left."""
        with self._lock:
            assert self._next is not None, f"nothing stands by on {self.name}"
            self.standing_by.clear()
            spare(self.box, [])
            self._next.send(b"wiped" if wiped else b"kept")
            self._running = self._next
        threading.Thread(target=self._stand_by_again, args=(spare,), daemon=True).start()

    def _stand_by_again(self, spare: Spare) -> None:
        """The engine starts nothing in a container that is paused, or that is being removed."""
        while not self._closed:
            try:
                self.stand_by(spare)
            except (APIError, OSError, RuntimeError, Refused):
                time.sleep(0.05)
            else:
                return

    def leave(self) -> None:
        """Run the program so that it goes on when this process is gone; it is not heard."""
        self.box.leave(self._command, self._environment)

    def _hear(self, line: bytes) -> None:
        self.lines.append((time.monotonic_ns(), line.decode(errors="replace").rstrip("\r")))

    def close(self) -> None:
        self._closed = True
        for channel in (self._running, self._next):
            if channel is not None:
                channel.close()


class Client:
    """A host with the client program on it."""

    role: Role = "client"

    def __init__(self, name: str, box: Box, entries: Entries, environment: Mapping[str, str]) -> None:
        self.name = name
        self.box = box
        self.address = box.ip
        self.failure: str | None = None
        """Why the client program ended, where it should not have."""
        self._entries = entries
        self._environment = dict(environment)
        self._hung = threading.Event()
        self._record: Record | None = None
        self._conversation: Conversation | None = None

    def start(self, spare: Spare) -> None:
        """Start the client program, which then waits for its job; ``spare`` is told of its relay, which must outlive
        it."""
        self._hung.clear()
        relays: list[Channel] = []

        def begin(on_line: Callable[[bytes], None], on_end: Callable[[], None]) -> Channel:
            relays.append(self.box.start(AGENT, on_line, on_end=on_end, environment=self._environment))
            return relays[0]

        self._conversation = Conversation(begin, self._on_event)
        spare(self.box, [relays[0].pid()])

    @property
    def conversation(self) -> Conversation:
        assert self._conversation is not None, f"{self.name} was never started"
        return self._conversation

    @property
    def hung(self) -> bool:
        return self._hung.is_set()

    def launch(self, job: Any, record: Record) -> Callable[[float], bool]:
        self._record = record
        return self._joined(self.conversation.request("run", job=job))

    def _joined(self, loop: Future[Any]) -> Callable[[float], bool]:
        loop.add_done_callback(self._note_failure)

        def join(timeout: float) -> bool:
            deadline = time.monotonic() + timeout
            while not (loop.done() or self.hung):
                if time.monotonic() >= deadline:
                    return False
                time.sleep(0.02)
            return True

        return join

    def _note_failure(self, loop: Future[Any]) -> None:
        """A program that was killed is no failure; one that raised is."""
        if not loop.cancelled() and isinstance(loop.exception(), Refused):
            self.failure = f"the client program on {self.name} failed: {loop.exception()}"

    def _on_event(self, event: dict[str, Any]) -> None:
        if event.get("hung"):
            self._hung.set()
        if "entry" in event and self._record is not None:
            record, conversation = self._record, self._conversation

            def take() -> None:
                record(**event["entry"])
                if event.get("waits") and conversation is not None:
                    _go(conversation)

            self._entries.put(take)

    def close(self) -> None:
        if self._conversation is not None:
            self._conversation.close()


def _go(conversation: Conversation) -> None:
    with contextlib.suppress(Unanswered):  # the fault that the client waited for may have killed it
        conversation.tell("go")
