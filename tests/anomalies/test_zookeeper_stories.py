"""Failures of ZooKeeper locks that are a few steps in a fixed order: with the lock that has them, and with its cure. On
simulated and on real servers."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from lock_impls import catalogue
from lock_impls.base import Endpoints, LockError
from lock_impls.mistakes.zookeeper import (
    DeletesByName,
    DoesNotCount,
    LocksAgainOnTheOldNode,
    ReentersBlindly,
    Tidy,
)
from lock_impls.zookeeper_client import Session
from lock_impls.zookeeper_ephemeral import EphemeralLock
from lock_impls.zookeeper_sequential import SequentialLock
from tests.locks.zookeeper_play import TTL_S, Play, end_session, opened, real_servers, simulated

KAZOO = catalogue.find("kazoo-lock")
CLIENTS = 6
DELETE = 2
"""A request's type, ZooKeeper's ZooDefs.OpCode."""


@pytest.fixture(scope="module")
def real() -> Iterator[Endpoints]:
    with real_servers() as where:
        yield where


@pytest.fixture(params=["sim", pytest.param("docker", marks=pytest.mark.long)])
def play(request: pytest.FixtureRequest) -> Play:
    if request.param == "sim":
        return simulated
    where: Endpoints = request.getfixturevalue("real")
    return lambda story: story(where)


@pytest.mark.parametrize(("name", "woken"), [("zookeeper-herd", CLIENTS - 1), ("zookeeper-sequential", 1)])
def test_zk_herd(name: str, woken: int, play: Play) -> None:
    """One release wakes all who wait, or one."""

    def story(where: Endpoints) -> None:
        holder, *others = opened(catalogue.find(name), where, CLIENTS)
        holder.acquire(0)
        got = []
        waiters = [threading.Thread(target=lambda lock=lock: got.append(lock.acquire(20.0))) for lock in others]
        for waiter in waiters:
            waiter.start()
        until(lambda: all(lock.session.id is not None for lock in others))
        time.sleep(1.0)
        assert sum(lock.woken for lock in others) == 0
        holder.release()
        until(lambda: got)
        time.sleep(0.5)
        assert len(got) == 1
        assert sum(lock.woken for lock in others) == woken
        while waiters:
            for lock in others:
                if lock.held:
                    lock.release()
            waiters = [waiter for waiter in waiters if waiter.is_alive()]
            time.sleep(0.05)
        assert None not in got

    play(story)


def until(seen: Callable[[], object], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_zk_seq_reset(play: Play) -> None:
    """The parent has gone meanwhile, and the first one's name is another's: its release frees that one's lock. And the
    number is the same again, where the czxid is not."""

    def story(where: Endpoints) -> None:
        first, second, third, fourth = opened(Tidy, where, 4)
        fence = first.acquire(0).fence
        end_session(first.session, where)
        second.acquire(TTL_S)
        second.release()
        assert third.acquire(0).fence == fence == 0
        assert third.held.czxid > first.held.czxid
        assert third.held.path == first.held.path
        first.release()
        assert fourth.acquire(0) is not None, "third has not released it"

    play(story)


def test_zk_seq_reset_cured(play: Play) -> None:
    def story(where: Endpoints) -> None:
        first, second, third, fourth = opened(SequentialLock, where, 4)
        fence = first.acquire(0).fence
        end_session(first.session, where)
        second.acquire(TTL_S)
        second.release()
        assert third.acquire(0).fence > fence
        with pytest.raises(LockError):
            first.release()
        assert fourth.acquire(0) is None

    play(story)


@pytest.mark.parametrize(("lock", "safe"), [(DeletesByName, False), (EphemeralLock, True)])
def test_a_release_with_a_new_session(lock: Any, safe: bool, play: Play) -> None:
    """del-foreign, with one name for all: kazoo's next session may delete what it has not made."""

    def story(where: Endpoints) -> None:
        late, other, third = opened(lock, where, 3)
        late.acquire(0)
        end_session(late.session, where)
        other.acquire(TTL_S)
        if safe:
            with pytest.raises(LockError):
                late.release()
        else:
            late.release()
        assert (third.acquire(0) is None) is safe

    play(story)


@pytest.mark.parametrize(("lock", "safe"), [(DoesNotCount, False), (SequentialLock, True)])
def test_zk_reentry_without_a_counter(lock: Any, safe: bool, play: Play) -> None:
    """Acquired twice, released once: the outer section goes on, and another comes in."""

    def story(where: Endpoints) -> None:
        mine, other = opened(lock, where)
        outer, inner = mine.acquire(0), mine.acquire(0.3)
        assert outer is not None
        assert (inner is None) is safe
        if inner is not None:
            mine.release()
        assert (other.acquire(0) is None) is safe

    play(story)


@pytest.mark.parametrize(("lock", "safe"), [(ReentersBlindly, False), (SequentialLock, True)])
def test_zk_reentry_without_a_look(lock: Any, safe: bool, play: Play) -> None:
    """Its session has ended and another holds the lock: it gets it "again"."""

    def story(where: Endpoints) -> None:
        mine, other = opened(lock, where)
        first = mine.acquire(0)
        end_session(mine.session, where)
        second = other.acquire(TTL_S)
        again = mine.acquire(0.3)
        assert (again is None) is safe
        assert first.fence < second.fence, "the resource refuses the one that came back"
        if again is not None:
            assert again.fence == first.fence

    play(story)


@pytest.mark.parametrize(("lock", "safe"), [(LocksAgainOnTheOldNode, False), (SequentialLock, True)])
def test_cur_old_session(lock: Any, safe: bool, play: Play) -> None:
    """With a new session it finds the node of its old one, which ends a moment later."""

    def story(where: Endpoints) -> None:
        mine, other = opened(lock, where)
        mine.acquire(0)
        old, mine.session = mine.session, Session(where, TTL_S)
        again = mine.acquire(0.3)
        assert (again is None) is safe
        old.client.stop()
        taken = other.acquire(TTL_S)
        assert taken is not None, "two holders, if the other one believes to be one"
        if again is not None:
            assert again.fence < taken.fence
        assert not mine.still_valid()

    play(story)


class CutsDeletes:
    """A TCP proxy before one server: once armed, it breaks the connection on which the next delete is asked for, and
    the server never hears of it."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.armed = False
        self.cut = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._listener.getsockname()
        return host, port

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                threading.Thread(target=self._requests, args=(client, server), daemon=True).start()
                threading.Thread(target=self._answers, args=(server, client), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError, struct.error), client, server, client.makefile("rb") as stream:
            while True:
                header = stream.read(4)
                body = stream.read(*struct.unpack(">i", header))
                if self.armed and len(body) >= 8 and struct.unpack(">i", body[4:8])[0] == DELETE:
                    self.armed, self.cut = False, self.cut + 1
                    client.shutdown(socket.SHUT_RDWR)
                    server.shutdown(socket.SHUT_RDWR)
                    return
                server.sendall(header + body)

    @staticmethod
    def _answers(server: socket.socket, client: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65536):
                client.sendall(data)

    def close(self) -> None:
        self._listener.close()


@pytest.mark.long
@pytest.mark.parametrize(("name", "orphaned"), [("kazoo-lock", True), ("zookeeper-sequential", False)])
def test_kz_orphan(name: str, orphaned: bool, real: Endpoints) -> None:
    """A try that finds the lock taken loses its connection while it cleans up: its node stays in the queue for as long
    as its session lives, and when its turn comes nobody gets the lock (python-zk/kazoo#732)."""
    proxy = CutsDeletes(real.addresses[0])
    holder, third = opened(catalogue.find(name), real)
    trier = catalogue.find(name).open(Endpoints("zookeeper", (proxy.address,)), _key_of(holder), TTL_S)
    try:
        assert holder.acquire(0) is not None
        proxy.armed = True
        assert trier.acquire(0) is None
        assert proxy.cut == 1
        holder.release()
        assert (third.acquire(2 * TTL_S) is None) is orphaned
    finally:
        proxy.close()


def _key_of(lock: Any) -> str:
    path: str = lock.lock.path if hasattr(lock, "lock") else lock.path
    return path.rpartition("/")[2]
