"""Locks that exclude each other and are useless all the same, and a workload that releases what it does not hold."""

from __future__ import annotations

import _thread
import os
import socket
import threading
import time
from dataclasses import replace
from typing import Any, ClassVar, NoReturn

from harness.lock_impls.redis_client import RedisClient
from harness.lock_impls.redlock import Redlock
from harness.worker.client import Client
from harness.worker.workloads.mutex import MutexWorkload

HANGS_AFTER = 3


def refuse(*_: object, **__: object) -> NoReturn:
    raise OSError("no route to the resource")


class Token:
    """A sound lock, whose release says so if the client holds nothing."""

    def __init__(self, redis: Any, key: str, ttl: float) -> None:
        self.redis, self.key, self.ttl = redis, key, ttl
        self.token = os.urandom(8).hex()

    def acquire(self, timeout: float) -> bool:
        return bool(self.redis.set(self.key, self.token, nx=True, px=int(self.ttl * 1000)))

    def release(self) -> None:
        if not self.owned():
            raise RuntimeError(f"{self.key} is not held by this client")
        self.redis.delete(self.key)

    def owned(self) -> bool:
        return bool(self.redis.get(self.key) == self.token.encode())


class PatientToken(Token):
    """The same lock, and a waiter tries until its timeout is over."""

    def acquire(self, timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        while not (granted := super().acquire(timeout)) and time.monotonic() < deadline:
            time.sleep(0.05)
        return granted


class InterruptsSections(PatientToken):
    """Raises KeyboardInterrupt in the main thread soon after each grant."""

    def acquire(self, timeout: float) -> bool:
        granted = super().acquire(timeout)
        if granted:
            threading.Timer(0.004, _thread.interrupt_main).start()
        return granted


class HidesTheResource(PatientToken):
    """After its first grant no socket connects, so no client reaches the resource."""

    def acquire(self, timeout: float) -> bool:
        granted = super().acquire(timeout)
        if granted:
            socket.create_connection = refuse
        return granted


class SecondsAsMilliseconds(PatientToken):
    """The lease is a thousandth of the ttl, and a release does not say that it was over."""

    info = replace(Redlock.info, name="seconds-as-milliseconds", kinds=("redis-single",), options={}, lease="ttl")

    def __init__(self, redis: Any, key: str, ttl: float) -> None:
        super().__init__(redis, key, ttl / 1000)

    def release(self) -> None:
        if self.owned():
            self.redis.delete(self.key)


class ReleasesAtNextAcquire(PatientToken):
    """Release only takes a note, and the next acquire of the same client deletes the key."""

    released = False

    def acquire(self, timeout: float) -> bool:
        if self.released:
            self.released = False
            super().release()
            time.sleep(0.1)
        return super().acquire(timeout)

    def release(self) -> None:
        self.redis.get(self.key)
        self.released = True


class OneClientOnly(Token):
    """All clients but one are refused without a command to a server."""

    def acquire(self, timeout: float) -> bool:
        return socket.gethostname() == "c0" and super().acquire(timeout)


class ReleaseNeverReturns(Token):
    def release(self) -> None:
        threading.Event().wait()


class ReleaseRaises(Token):
    def release(self) -> None:
        raise ConnectionError("no route to the lock")


class ReleaseIgnored(Token):
    """The key of a released lock lives until its ttl is over."""

    def release(self) -> None:
        self.redis.get(self.key)


class BelongsToTheFirst(Token):
    """The key never expires and is never deleted; its owner is granted it again."""

    def acquire(self, timeout: float) -> bool:
        return bool(self.redis.set(self.key, self.token, nx=True)) or self.owned()

    def release(self) -> None:
        self.redis.get(self.key)


class KeepsTheKey(Token):
    """Each client's third grant is reported as a refusal, and the key stays."""

    grants = 0

    def acquire(self, timeout: float) -> bool:
        granted = super().acquire(timeout)
        self.grants += granted
        return granted and self.grants % 3 != 0


class AcquireHangs(Token):
    """Each client's acquire hangs for ever after a few calls."""

    calls = 0

    def acquire(self, timeout: float) -> bool:
        self.calls += 1
        if self.calls > HANGS_AFTER:
            threading.Event().wait()
        return super().acquire(timeout)


class ConfirmsEveryRelease(Token):
    """A release by a client that holds nothing changes nothing, and says nothing."""

    def release(self) -> None:
        if self.owned():
            self.redis.delete(self.key)


class ReleaseAnyway(MutexWorkload):
    """Clients release the lock whether they were granted it or not."""

    name: ClassVar = "release-anyway"
    updates: ClassVar = False

    @staticmethod
    def run(client: Client) -> None:
        while not client.over():
            if client.acquire("k0", 0.0) is not None:
                client.sleep(client.hold)
            client.release("k0")
            client.sleep(client.rng.uniform(0.0, 0.1))


class NeedsAllServers(Redlock):
    """Says that it survives the loss of a server, and needs the votes of all."""

    info = replace(Redlock.info, name="needs-all-servers")

    def __init__(self, nodes: list[RedisClient], key: str, ttl: float) -> None:
        super().__init__(nodes, key, ttl)
        self.quorum = len(nodes)
