"""What a lock with asyncio sends belongs to its call in progress only if that is certain."""

from __future__ import annotations

import asyncio
import inspect
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from harness.history.socket_entries import OPENED, PLACE, SENT
from harness.lock_impls.asynchronous import EventLoopThread
from harness.worker import socket_log
from harness.worker.socket_log import SocketLog

Address = tuple[str, int]
LIBRARY = """
import asyncio, socket

class Direct:
    async def open(self, address):
        self.reader, self.writer = await asyncio.open_connection(*address)

    async def ask(self, line):
        self.writer.write(line)
        return await self.reader.readline()

class Flushing(Direct):
    async def open(self, address):
        await super().open(address)
        self.queue = asyncio.Queue()
        self.flusher = asyncio.create_task(self.flush())

    async def flush(self):
        while True:
            self.writer.write(await self.queue.get())

    async def ask(self, line):
        await self.queue.put(line)
        return await self.reader.readline()

def ask_blocking(address, line, begin):
    begin.wait()
    with socket.create_connection(address) as connection:
        connection.sendall(line)
        return connection.recv(100)
"""
"""A client library: its file is no lock's."""


def library() -> dict[str, Any]:
    found: dict[str, Any] = {}
    exec(compile(LIBRARY, "<library>", "exec"), found)
    return found


Direct, Flushing, ask_blocking = (library()[name] for name in ("Direct", "Flushing", "ask_blocking"))


class Origin(NamedTuple):
    """Where the log says that a piece was sent: the call's process, and the line of the lock's code."""

    process: int
    line: str


class Calls:
    """Makes calls of a lock, and returns the origins of what it sent."""

    def __init__(self, log: SocketLog, loop: EventLoopThread, address: Address) -> None:
        self._log = log
        self._loop = loop
        self.address = address
        self._places: list[int] = []
        self._ours: set[int] = set()

    def call(self, process: int, function: Callable[[], Any]) -> Any:
        """Call the lock in this thread, as a client does."""
        self._log.note_call("invoke", "acquire", process)
        try:
            return self._loop.call("acquire", function)
        finally:
            self._log.note_call("ok", "acquire", process)

    def sent(self, process: int, function: Callable[[], Any]) -> list[Origin]:
        self.call(process, function)
        return self.take()

    def take(self) -> list[Origin]:
        """Return the origins since the last time. The server of the test is in the same process, and left out."""
        lines = inspect.getsource(inspect.getmodule(Calls)).splitlines()  # type: ignore[arg-type]
        found = []
        for kind, number, *rest in self._log.take():
            if kind == OPENED and rest[2] == self.address[1]:
                self._ours.add(number)
            elif kind == PLACE:
                self._places.append(rest[0])
            elif kind == SENT and number in self._ours:
                place = rest[3]
                found.append(Origin(rest[2], lines[self._places[place] - 1].strip() if place >= 0 else ""))
        return found


@pytest.fixture
def calls(log: SocketLog, server: Address) -> Iterator[Calls]:
    loop = EventLoopThread()
    yield Calls(log, loop, server)
    loop.end()


def test_the_task_that_awaits_a_call_sends_for_it(calls: Calls) -> None:
    connection = Direct()

    async def acquire() -> None:
        await connection.open(calls.address)
        await connection.ask(b"x\n")  # the only request

    assert calls.sent(7, acquire) == [(7, 'await connection.ask(b"x\\n")  # the only request')]


def test_each_of_two_calls_at_the_same_time_has_its_own_messages(calls: Calls) -> None:
    both = threading.Barrier(2)

    async def acquire(times: int) -> None:
        connection = Direct()
        await connection.open(calls.address)
        for _ in range(times):
            await connection.ask(b"x\n")

    def client(process: int, times: int) -> None:
        calls._log.note_call("invoke", "acquire", process)
        both.wait()
        calls._loop.call("acquire", lambda: acquire(times))
        both.wait()
        calls._log.note_call("ok", "acquire", process)

    threads = [threading.Thread(target=client, args=one) for one in ((1, 3), (2, 5))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    line = 'await connection.ask(b"x\\n")'
    assert sorted(calls.take()) == [(1, line)] * 3 + [(2, line)] * 5


def test_tasks_that_a_call_makes_send_for_it(calls: Calls) -> None:
    async def one() -> None:
        connection = Direct()
        await connection.open(calls.address)
        await connection.ask(b"x\n")

    async def acquire() -> None:
        await asyncio.gather(one(), one())

    assert calls.sent(7, acquire) == [(7, 'await connection.ask(b"x\\n")')] * 2


def test_a_thread_that_a_call_passes_a_function_to_sends_for_it_from_the_line_that_waits(calls: Calls) -> None:
    waits = threading.Event()

    async def acquire() -> None:
        asyncio.get_running_loop().call_soon(waits.set)
        await asyncio.to_thread(ask_blocking, calls.address, b"x\n", waits)

    assert calls.sent(7, acquire) == [(7, 'await asyncio.to_thread(ask_blocking, calls.address, b"x\\n", waits)')]


def test_a_task_that_writes_for_a_connection_sends_for_no_later_call(calls: Calls) -> None:
    connection = Flushing()

    async def first() -> None:
        await connection.open(calls.address)  # makes the task
        await connection.ask(b"x\n")

    assert calls.sent(7, first) == [(7, 'await connection.ask(b"x\\n")')]
    made = "await connection.open(calls.address)  # makes the task"
    assert calls.sent(8, lambda: connection.ask(b"y\n")) == [(-1, made)]


def note_in_another_thread(calls: Calls, *types: str) -> None:
    """Note the begin (``invoke``) or end of a call of another thread of the client."""

    def note() -> None:
        for type_ in types:
            calls._log.note_call(type_, "acquire", 1)

    other = threading.Thread(target=note)
    other.start()
    other.join()


def test_a_task_that_a_call_has_made_sends_for_no_call_while_there_are_two(calls: Calls) -> None:
    connection = Flushing()

    async def acquire() -> None:
        await connection.open(calls.address)
        await connection.ask(b"x\n")

    note_in_another_thread(calls, "invoke")
    assert [origin.process for origin in calls.sent(7, acquire)] == [-1]


def test_a_task_may_send_late_what_a_call_that_has_ended_meanwhile_has_queued(calls: Calls) -> None:
    connection = Flushing()

    async def acquire() -> None:
        await connection.open(calls.address)
        note_in_another_thread(calls, "invoke", "ok")
        await connection.ask(b"x\n")

    assert [origin.process for origin in calls.sent(7, acquire)] == [-1]


def test_a_renewal_sends_for_no_later_call(calls: Calls) -> None:
    connection, due, renewed = Direct(), asyncio.Event(), asyncio.Event()
    tasks = []

    async def renew() -> None:
        await due.wait()
        await connection.ask(b"renew\n")
        renewed.set()

    async def first() -> None:
        await connection.open(calls.address)
        tasks.append(asyncio.create_task(renew()))

    async def second() -> None:
        due.set()
        await renewed.wait()

    assert calls.sent(7, first) == []
    assert calls.sent(8, second) == [(-1, 'await connection.ask(b"renew\\n")')]


def test_what_did_not_fit_into_the_socket_has_no_call(log: SocketLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_log, "BATCH", 10_000)
    size, full = 1 << 24, threading.Event()
    loop = EventLoopThread()

    def read() -> int:
        connection, _ = listening.accept()
        with connection:
            full.wait()
            left = size
            while left and (got := connection.recv(1 << 20)):
                left -= len(got)
            return left

    async def acquire() -> None:
        _, writer = await asyncio.open_connection(*calls.address)
        writer.write(bytes(size))
        full.set()
        await writer.drain()
        while writer.transport.get_write_buffer_size():
            await asyncio.sleep(0.001)
        writer.close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        calls = Calls(log, loop, listening.getsockname())
        reader = threading.Thread(target=read)
        reader.start()
        sent = calls.sent(7, acquire)
        reader.join()
    loop.end()
    assert sent[0] == (7, "writer.write(bytes(size))")
    assert len(sent) > 1
    assert set(sent[1:]) == {(-1, "")}
