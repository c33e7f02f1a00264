"""The client program in a container: ``python -m harness.client_agent``, driven over stdin and stdout.

Newline JSON, described in ``docs/client-protocol.md`` so that a client can be written in any language. Requests about
the process itself (``ping``, ``clock``, ``hang``, ``go``) are answered at once, also while the lock is at work; the
others are done one after the other by the main thread, as a program would.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
import traceback
from typing import Any, Final

import msgspec

from . import client_program
from .client_program import Job, event
from .workloads.client import Client

Message = dict[str, Any]
RELAY: Final = 0.004
"""Seconds after a message in which further ones are collected."""
_AT_ONCE: Final = ("ping", "clock", "hang", "go")


class Agent:
    """``send`` writes one line to the control side."""

    def __init__(self, output: int) -> None:
        self._output = output
        self._encode = msgspec.json.Encoder().encode
        self._writing = threading.Lock()
        self._todo: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._go = threading.Semaphore(0)
        self._waits = False
        self._hang = threading.Event()
        self._stops: tuple[str, ...] = ()
        self._client: Client | None = None

    def send(self, message: Message) -> None:
        """In one write: what has left the process is heard, even if it is killed the next moment."""
        line = self._encode(message) + b"\n"
        with self._writing:
            while line:
                line = line[os.write(self._output, line) :]

    # The history.

    def record(self, **fields: Any) -> None:
        """A :data:`harness.clusters.base.Record`: one entry of the history, told to the control side."""
        self._waits = event(fields["f"], fields["type_"]) in self._stops
        self.send({"entry": fields, "waits": True} if self._waits else {"entry": fields})

    def checkpoint(self) -> None:
        """Where a fault on an event takes hold: the control side has it strike, and then says ``go``."""
        if self._waits:
            self._waits = False
            self._go.acquire()
        if self._hang.is_set():
            self.send({"hung": True})
            threading.Event().wait()

    # Requests.

    def listen(self) -> None:
        """Read requests until the control side is gone, and then end the process."""
        for line in sys.stdin.buffer:
            message = msgspec.json.decode(line, type=Message)
            if message["op"] in _AT_ONCE:
                self._answer(message)
            else:
                self._todo.put(message)
        os._exit(0)

    def work(self) -> None:
        """Do what is asked for, one thing after the other, until ``close``."""
        while True:
            message = self._todo.get()
            self._answer(message)
            if message["op"] == "close":
                return

    def _answer(self, message: Message) -> None:
        try:
            answer = {"ok": getattr(self, f"_do_{message['op']}", self._do_nothing_known)(message)}
        except Exception as error:  # noqa: BLE001 - whatever it was, the control side must hear of it
            answer = {"error": f"{type(error).__name__}: {error}"}
        if "id" in message:
            self.send({"id": message["id"], **answer})

    def _do_nothing_known(self, message: Message) -> None:
        raise ValueError(f"unknown op {message['op']!r}")

    def _do_ping(self, message: Message) -> None:
        del message

    def _do_clock(self, message: Message) -> list[int]:
        del message
        return [time.monotonic_ns(), time.time_ns()]

    def _do_hang(self, message: Message) -> None:
        del message
        self._hang.set()

    def _do_go(self, message: Message) -> None:
        del message
        self._go.release()

    def _job(self, message: Message) -> Job:
        job = msgspec.convert(message["job"], Job)
        self._stops = job.stops
        return job

    def _do_run(self, message: Message) -> None:
        """The whole loop of a workload; the answer comes when it is over."""
        try:
            client_program.run(self._job(message), self.record, self.checkpoint)
        except client_program.LockFailed:
            raise
        except Exception:  # noqa: BLE001
            raise RuntimeError(traceback.format_exc()) from None

    def _do_prepare(self, message: Message) -> None:
        client_program.prepare(msgspec.convert(message["lock"], client_program.Prepared))

    def _do_open(self, message: Message) -> None:
        self._client = client_program.client(self._job(message), self.record, self.checkpoint)

    @property
    def _opened(self) -> Client:
        if self._client is None:
            raise ValueError("nothing is open")
        return self._client

    def _do_acquire(self, message: Message) -> Message | None:
        grant = self._opened.acquire(message["key"])
        return None if grant is None else {"fence": grant.fence, "valid_for": grant.valid_for}

    def _do_release(self, message: Message) -> None:
        self._opened.release(message["key"])

    def _do_access(self, message: Message) -> Any:
        fence = _Token(message.get("fence"))
        call = {"read": self._opened.read, "take": self._opened.take}.get(message["f"])
        if call is not None:
            return call(message["key"], fence)
        return self._opened.write(message["key"], fence, message.get("value"))

    def _do_close(self, message: Message) -> None:
        del message
        self._client = None


class _Token:
    """A grant, as far as the resource needs it."""

    valid_for = None

    def __init__(self, fence: int | str | None) -> None:
        self.fence = fence


def relay(output: int) -> int:
    """Fork; this process passes on to ``output`` what the new one writes to the returned descriptor, until that ends.

    A busy client tells thousands of entries a second. Each on its own would wake the engine and the control side,
    which take the time from the client and the servers; so what comes close together is passed on together. What has
    been written is safe in a pipe, even if the client is killed (this process is not: it stands outside).
    """
    source, target = os.pipe()
    if os.fork() == 0:
        os.close(source)
        return target
    os.close(target)
    while data := os.read(source, 1 << 16):
        while data:
            data = data[os.write(output, data) :]
        time.sleep(RELAY)
    os._exit(0)


def main() -> None:
    """Serve the control side. What a lock prints goes to stderr: stdout is the protocol's."""
    output = relay(os.dup(1))
    os.dup2(2, 1)
    agent = Agent(output)
    threading.Thread(target=agent.listen, name="listener", daemon=True).start()
    agent.work()


if __name__ == "__main__":
    main()
