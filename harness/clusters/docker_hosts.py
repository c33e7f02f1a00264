"""Hosts of a real cluster: a container, and the program in it that can die and come back."""

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

from ..containers.channel import Channel, Conversation, Refused, Unanswered
from ..containers.engine import Box
from .base import Record, Role

STANDBY: Final = """restore=$1; shift
read -r how || exit
case $how in
wiped) rm -rf /data/* ;;
new) rm -rf /data/* /data/.[!.]* /tmp/* /tmp/.[!.]*; eval "$restore" ;;
esac
exec "$@"
"""
How = Literal["kept", "wiped", "new"]
"""How a server's program finds its data: as it was left, gone, or as it and all else is before a first start."""
AGENT: Final = ["python3", "-m", "harness.client_agent"]
Spare = Callable[[Box, list[int]], None]
"""Tells the helper which processes of a box do not count; see :meth:`harness.containers.helper.Helper.spare`."""
REVIVAL: Final = 5.0
"""Seconds in which a program that was started answers, or stands by."""
ANSWER: Final = 0.5
"""Seconds in which a program that is not paused answers."""
Entries = queue.SimpleQueue[Callable[[], None] | None]
"""What clients tell, to be recorded one after the other by one thread."""


class Server:
    """A host with a server or a sentinel on it; keeps the lines that it writes, with their times of arrival.

    A start must be quick, or what is lost by a restart is not missed: a shell stands by in the container and becomes
    the program when it is told to. ``restore`` is what it does before a first start, beside emptying /data.
    """

    def __init__(
        self,
        name: str,
        role: Role,
        box: Box,
        program: tuple[list[str], dict[str, str]],
        restore: str = "",
        heard: Callable[[str], None] = lambda line: None,  # noqa: ARG005
    ) -> None:
        self.name = name
        self.role = role
        self.box = box
        self.address = box.ip
        self.lines: list[tuple[int, str]] = []
        self._command, self._environment = program
        self._standby = ["sh", "-c", STANDBY, "standby", restore, *self._command]
        self._heard = heard
        self._running: Channel | None = None
        self._next: Channel | None = None
        self._closed = False
        self._lock = threading.Lock()
        self.standing_by = threading.Event()
        """Is the next program ready, and known to be spared? One that is killed before would take it along."""

    def await_start(self) -> None:
        """Until nothing is being started any more."""
        self.standing_by.wait(REVIVAL)

    def stand_by(self, spare: Spare) -> None:
        """Get the next program ready; ``spare`` is told which process must not be taken for the host's own."""
        with self._lock:
            if self._closed:
                return
            self._next = self.box.start(self._standby, self._hear, environment=self._environment)
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
        text = line.decode(errors="replace").rstrip("\r")
        self.lines.append((time.monotonic_ns(), text))
        self._heard(text)

    def close(self) -> None:
        self._closed = True
        with self._lock:  # nothing is started any more
            channels = self._running, self._next
        for channel in channels:
            if channel is not None:
                channel.close()


@dataclass(eq=False, slots=True)
class _Life:
    """One process of the client program. What it said may be heard when the next one lives already."""

    conversation: Conversation | None = None
    first_answer: Future[Any] | None = None
    doomed: bool = False
    """Will it end, or has it, without being to blame for it?"""


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
        self._life = _Life()
        self._until_ns: int | None = None

    def start(self, spare: Spare) -> None:
        """Start the client program, which then waits for its job; ``spare`` is told of its relay, which must outlive
        it."""
        self._hung.clear()
        life = self._life = _Life()
        relays: list[Channel] = []

        def begin(on_line: Callable[[bytes], None], on_end: Callable[[], None]) -> Channel:
            relays.append(self.box.start(AGENT, on_line, on_end=on_end, environment=self._environment))
            return relays[0]

        life.conversation = Conversation(begin, partial(self._on_event, life))
        life.first_answer = life.conversation.request("ping")
        spare(self.box, [relays[0].pid()])

    @property
    def conversation(self) -> Conversation:
        assert self._life.conversation is not None, f"{self.name} was never started"
        return self._life.conversation

    @property
    def started(self) -> bool:
        return self._life.conversation is not None

    def await_start(self) -> None:
        """Until the program has parted from its relay: what strikes before that strikes neither."""
        if self._life.first_answer is not None:
            futures.wait([self._life.first_answer], REVIVAL)

    def doom(self) -> None:
        """It is going to be killed."""
        self._life.doomed = True

    @property
    def hung(self) -> bool:
        return self._hung.is_set()

    def launch(self, job: Any, record: Record) -> Callable[[float], bool]:
        self._record = record
        return self._joined(self.conversation.request("run", job=job))

    def _joined(self, loop: Future[Any]) -> Callable[[float], bool]:
        loop.add_done_callback(partial(self._note_failure, self._life))

        def join(timeout: float) -> bool:
            deadline = time.monotonic() + timeout
            while not (loop.done() or self.hung):
                if time.monotonic() >= deadline:
                    return False
                time.sleep(0.02)
            return True

        return join

    def _note_failure(self, life: _Life, loop: Future[Any]) -> None:
        """A program that was killed is no failure; one that raised is, and one that is gone by itself."""
        if loop.cancelled() or (error := loop.exception()) is None:
            return
        if isinstance(error, Refused) or not life.doomed:
            self.failure = f"the client program on {self.name} failed: {error}"

    def _on_event(self, life: _Life, event: dict[str, Any]) -> None:
        if event.get("hung") and life is self._life:
            self._hung.set()
        if "entry" in event and self._record is not None:
            record = self._record

            def take() -> None:
                if self._until_ns is None or event["entry"]["time"] <= self._until_ns:
                    record(**event["entry"])
                if event.get("waits") and life.conversation is not None:
                    _go(life.conversation)

            self._entries.put(take)

    def hear_until(self, time_ns: int) -> None:
        """Record nothing that happens later."""
        self._until_ns = time_ns

    def close(self) -> None:
        self.doom()
        if self._life.conversation is not None:
            self._life.conversation.close()


def hear_out(clients: Sequence[Client], thaw: Callable[[], object], patience: float) -> None:
    """End the history of all clients at one moment: now. If one were heard for longer than the others, it could be
    seen to get a lock whose release was not heard any more. What they have said before is on its way: a ping is
    answered after it. ``thaw`` lets those go on that are frozen."""
    now = time.monotonic_ns()
    for client in clients:
        client.hear_until(now)
    thaw()
    futures.wait([client.conversation.request("ping") for client in clients], patience)


def _go(conversation: Conversation) -> None:
    with contextlib.suppress(Unanswered):  # the fault that the client waited for may have killed it
        conversation.tell("go")
