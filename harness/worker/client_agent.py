"""The client program of a real cluster: ``python -m harness.worker.client_agent``, controlled over stdin and stdout.

In a container it has no argument. On the machine of the harness its argument is the harness's process id: it ends with
that process, however that ends.

Messages are newline-delimited JSON, described in ``docs/client-protocol.md`` so that a client can be written in any
language. Requests about the process itself (``ping``, ``clock``, ``hang``, ``go``) are answered at once, even while the
lock is working. The main thread executes all others one after the other.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any, Final

import msgspec

from harness.errors import Ending, LockFailed, ProcessEnds

from . import client_program
from .client import Client
from .client_program import ClientJob, event
from .endings import end_process
from .lifetime import end_with_parent
from .versions import installed_versions

if TYPE_CHECKING:
    from .socket_log import SocketLog

Message = dict[str, Any]
RELAY: Final = 0.004
"""Seconds after a message during which further messages are collected."""
_AT_ONCE: Final = ("ping", "clock", "hang", "go", "process")


class Agent:
    """Server side of the client protocol. ``send`` writes one line to the control side."""

    def __init__(self, output: int) -> None:
        self._output = output
        self._encode = msgspec.json.Encoder().encode
        self._writing = threading.Lock()
        self._todo: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._go = threading.Semaphore(0)
        self._mine = threading.local()
        """``waits``: the last entry of this thread triggers a fault."""
        self._hang = threading.Event()
        self._stops: tuple[str, ...] = ()
        self._client: Client | None = None
        self._sockets: SocketLog | None = None

    def send(self, message: Message) -> None:
        """Write one line at once, so that it arrives even if the process is killed right after."""
        line = self._encode(message) + b"\n"
        with self._writing:
            while line:
                line = line[os.write(self._output, line) :]

    # The history.

    def record(self, **fields: Any) -> None:
        """Send an entry of the history to the control side; a :data:`harness.clusters.base.RecordEntry`."""
        self._mine.waits = event(fields["f"], fields["type_"]) in self._stops
        message: Message = {"entry": fields, "waits": True} if self._mine.waits else {"entry": fields}
        if self._sockets is not None:
            self._sockets.note_call(fields["type_"], fields["f"], fields["process"])
            if sent := self._sockets.take():
                message["sent"] = sent
        self.send(message)

    def checkpoint(self) -> None:
        """Wait for ``go`` after an event that triggers a fault: the control side injects the fault in between."""
        if getattr(self._mine, "waits", False):
            self._mine.waits = False
            self._go.acquire()
        if self._hang.is_set():
            self.send({"hung": True})
            threading.Event().wait()

    # Requests.

    def listen(self) -> None:
        """Read requests until the control side closes the connection, then end the process."""
        for line in sys.stdin.buffer:
            message = msgspec.json.decode(line, type=Message)
            if message["op"] in _AT_ONCE:
                self._answer(message)
            else:
                self._todo.put(message)
        os._exit(0)

    def work(self) -> Ending | None:
        """Execute requests one after the other until ``close``, or until the client wants this process to end: return
        how."""
        while True:
            message = self._todo.get()
            try:
                self._answer(message)
            except ProcessEnds as end:
                return end.ending
            if message["op"] == "close":
                return None

    def _answer(self, message: Message) -> None:
        try:
            answer = {"ok": getattr(self, f"_do_{message['op']}", self._do_nothing_known)(message)}
        except Exception as error:  # noqa: BLE001 - the control side must learn of any error
            answer = {"error": f"{type(error).__name__}: {error}"}
        if "id" in message:
            self.send({"id": message["id"], **answer})

    def _do_nothing_known(self, message: Message) -> None:
        raise ValueError(f"unknown op {message['op']!r}")

    def _do_ping(self, message: Message) -> None:
        del message
        if self._sockets is not None and (sent := self._sockets.take()):
            self.send({"sent": sent})

    def _do_process(self, message: Message) -> int:
        """Return the id of this process, which is also the id of its process group on the harness's machine."""
        del message
        return os.getpid()

    def _do_versions(self, message: Message) -> dict[str, str]:
        """Return the versions of Python and of the installed ``packages``."""
        return installed_versions(message["packages"])

    def _do_clock(self, message: Message) -> list[int]:
        del message
        return [time.monotonic_ns(), time.time_ns()]

    def _do_hang(self, message: Message) -> None:
        del message
        self._hang.set()

    def _do_go(self, message: Message) -> None:
        del message
        self._go.release()

    def _job(self, message: Message) -> ClientJob:
        job = msgspec.convert(message["job"], ClientJob)
        self._stops = job.stops
        return job

    def _do_run(self, message: Message) -> None:
        """Run a whole workload and answer when it is over."""
        try:
            job = self._job(message)
            client_program.run(job, self.record, self.checkpoint, client_program.find_lock(job.plan.lock))
        except LockFailed:
            raise
        except Exception:  # noqa: BLE001 - a bug of the workload or of ours: the control side needs the traceback
            raise RuntimeError(traceback.format_exc()) from None

    def _do_log_sockets(self, message: Message) -> None:
        """Send what the lock's sockets send to the addresses ``servers`` and receive, as events ``sent``."""
        from .socket_log import SocketLog  # here, since most runs are not traced

        self._sockets = SocketLog(message["servers"], lambda entries: self.send({"sent": entries}))
        self._sockets.install()

    def _do_prepare(self, message: Message) -> None:
        client_program.prepare(msgspec.convert(message["lock"], client_program.LockPreparation))

    def _do_open(self, message: Message) -> None:
        job = self._job(message)
        self._client = client_program.client(job, self.record, self.checkpoint, client_program.find_lock(job.plan.lock))

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
    """The part of a grant that the resource needs."""

    valid_for = None

    def __init__(self, fence: int | str | None) -> None:
        self.fence = fence


def relay(output: int, *, with_parent: bool = False) -> int:
    """Fork. Until the child ends, this process copies to ``output`` what the child writes to the returned descriptor.

    A busy client sends thousands of entries a second. Sent one by one, each would wake the engine and the control side,
    which would take CPU time from the client and the servers; so entries that come close together are sent together.
    Data in the pipe is safe even if the client is killed. (This process is not killed: it stays outside the program.)
    ``with_parent`` has the child end with this process, in a process group of its own.
    """
    source, target = os.pipe()
    here = os.getpid()
    if os.fork() == 0:
        os.close(source)
        if with_parent:
            os.setpgid(0, 0)  # a fault strikes the client with the processes that it starts, and not the relay
            end_with_parent(here)
        return target
    os.close(target)
    while data := os.read(source, 1 << 16):
        while data:
            data = data[os.write(output, data) :]
        time.sleep(RELAY)
    os._exit(0)


def main() -> None:
    """Serve the control side. A lock's prints go to stderr, because stdout carries the protocol."""
    local = len(sys.argv) > 1
    if local:
        end_with_parent(int(sys.argv[1]))
    output = relay(os.dup(1), with_parent=local)
    os.dup2(2, 1)
    agent = Agent(output)
    threading.Thread(target=agent.listen, name="listener", daemon=True).start()
    ending = agent.work()
    if ending is not None:
        end_process(ending)


if __name__ == "__main__":
    main()
