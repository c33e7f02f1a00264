"""Mutants of a lock with one key on each of several Redis. :class:`Quorum` is correct as far as Redlock is; each other
class has one mistake."""

from __future__ import annotations

import random
import socket
import uuid
from typing import Any, ClassVar, Self

from harness.lock_impls.base import Endpoints, Grant, LockError
from harness.lock_impls.polling import poll
from harness.lock_impls.redis_client import COMPARE_AND_DELETE, OPTIONS, RedisClient, open_client_of_each


class Quorum:
    """Not a mutant: a key on more than half of the servers, and on none if they are fewer."""

    kinds: ClassVar = ("redis-independent",)

    def __init__(self, clients: tuple[RedisClient, ...], key: str, ttl: float) -> None:
        self.clients, self.key, self.ttl_ms = clients, key, round(ttl * 1000)
        self.token = ""

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        return cls(open_client_of_each(endpoints, **OPTIONS), key, ttl, **options)

    def acquire(self, timeout: float) -> Grant | None:
        return poll(self.try_lock, timeout)

    def try_lock(self) -> Grant | None:
        token = uuid.uuid4().hex
        taken = sum(bool(client.set(self.key, token, nx=True, px=self.ttl_ms)) for client in self.asked())
        if taken < self.needed():
            self.delete(token)
            return None
        self.token = token
        return Grant()

    def asked(self) -> list[RedisClient]:
        return random.sample(self.clients, len(self.clients))

    def needed(self) -> int:
        return len(self.clients) // 2 + 1

    def delete(self, token: str) -> int:
        return sum(bool(client.eval(COMPARE_AND_DELETE, 1, self.key, token)) for client in self.clients)

    def release(self) -> None:
        if not self.delete(self.token):
            raise LockError(f"{self.key} is not held by this client")


class QuorumTooSmall(Quorum):
    """A quorum is two of five servers, so two clients have one each."""

    def needed(self) -> int:
        return 2


class OneOfSeveralKeys(Quorum):
    """Each client takes the key of one server, and not all clients ask the same server."""

    def asked(self) -> list[RedisClient]:
        return [self.clients[int(socket.gethostname().removeprefix("c")) % len(self.clients)]]

    def needed(self) -> int:
        return 1


class ReleasesOneServer(Quorum):
    """Release deletes the key of one server only, so the others keep theirs until they expire."""

    def release(self) -> None:
        self.clients[0].eval(COMPARE_AND_DELETE, 1, self.key, self.token)
