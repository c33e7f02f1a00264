"""The process that starts workers: how soon it sees that one has ended, and what it keeps loaded."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest

from harness.run.processes import workers
from harness.sim import dispatch
from harness.worker import server
from harness.worker.channel import Channel, Frame
from harness.worker.watchdog import StackFile, Watchdog

LATE = "harness.documents.sweep"
"""A module that no server has loaded at first."""


class _Idle(Watchdog):
    interval_s = 1e6

    def __init__(self) -> None: ...

    def look(self) -> str:
        return ""


def test_the_end_of_a_worker_is_seen_soon_after_it_closed_its_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel closes the files of a process before the process can be waited for."""
    answers = [(0, 0)] * 5
    monkeypatch.setattr(os, "waitpid", lambda pid, _: answers.pop() if answers else (pid, 0))
    ours, theirs = socket.socketpair()
    read, write = os.pipe()
    os.close(write)
    stack = StackFile()
    with ours, theirs:
        end = server._supervise(1, server._Control(theirs), read, _Idle(), stack)
    os.close(read)
    stack.close()
    assert (end.status, answers) == (0, [])


def test_the_place_where_a_worker_hung_is_in_the_users_code_or_else_in_a_library() -> None:
    ours = [Path(dispatch.__file__), Path(dispatch.__file__).resolve()]
    calls = [*ours, Path(threading.__file__), Path("/home/me/mylock.py")]
    stack = tuple(f'File "{path}", line {number} in acquire' for number, path in enumerate(calls))

    def place(*stack: str) -> str:
        return workers.sentence_of(server.WorkerEnd(status=-9, hung="2 s", stack=stack)).partition("recorded")[2]

    assert place(*stack) == ", at /home/me/mylock.py:3 in acquire"
    assert place(*stack[:3]) == f", at {threading.__file__}:2 in acquire"
    assert place(*stack[:2]) == ""


def loads_a_module(argument: bytes, channel: Channel) -> bytes:
    found = argument.decode() in sys.modules
    __import__(argument.decode())
    return msgspec.json.encode(found)


def test_a_module_that_a_call_loaded_is_loaded_for_the_next_call() -> None:
    def call() -> bool:
        result = workers.call(f"{__name__}:loads_a_module", LATE.encode(), lambda _kind, _body: None)
        return msgspec.json.decode(result, type=bool)

    call()
    assert call()


def is_interrupted_in_its_result(argument: bytes, channel: Channel) -> bytes:
    """Return more bytes than a socket holds, and get SIGINT while they are being sent."""
    main = threading.main_thread().ident

    def interrupt() -> None:
        while sys._current_frames()[main or 0].f_code is not Channel.send.__code__:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    return b"x" * int(argument)


def test_a_late_interrupt_does_not_cut_the_result() -> None:
    size = 30_000_000
    result = workers.call(f"{__name__}:is_interrupted_in_its_result", str(size).encode(), lambda _kind, _body: None)
    assert len(result) == size


def reports_until_interrupted(_: bytes, channel: Channel) -> bytes:
    channel.send(Frame.PROGRESS, b"")
    while True:
        time.sleep(0.01)


def test_a_worker_that_the_harness_interrupts_early_ends_with_a_keyboard_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt):
        workers.call(f"{__name__}:reports_until_interrupted", b"", lambda _kind, _body: True)


def test_a_server_is_started_early_only_if_none_is_idle() -> None:
    workers.close_servers()
    workers.start_early()
    workers.start_early()
    assert [len(idle) for idle in workers._servers.values()] == [1]


def test_modules_of_locks_and_of_users_are_not_kept() -> None:
    assert server.is_kept("harness.checkers.holds")
    assert not server.is_kept("harness.lock_impls.redlock")
    assert not server.is_kept("redis.client")
    assert not server.is_kept("my_locks")


def searches_again(argument: bytes, channel: Channel) -> bytes:
    del argument, channel
    from harness.sim import captured, patches

    found = dict(captured._searched)
    with patches.virtual():
        now = captured._searched
        again = [name for name, seen in found.items() if now[name] is not seen and now[name].names == seen.names]
    return msgspec.json.encode((len(found), again))


def test_a_worker_finds_what_the_simulator_replaces_searched() -> None:
    """Without it, each short run takes about half as long again."""
    result = workers.call(f"{__name__}:searches_again", b"", lambda _kind, _body: None, preload=("redis",))
    searched, again = msgspec.json.decode(result, type=tuple[int, list[str]])
    assert searched > 100
    assert again == []
