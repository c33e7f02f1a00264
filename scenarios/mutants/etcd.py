"""Mutants of a lock that is one key of etcd, bound to a lease. :class:`KeyLock` is correct; each other class has one
mistake."""

from __future__ import annotations

import time
import uuid
from typing import Any, ClassVar, Self

from harness.lock_impls.base import Endpoints, Grant, LockError
from harness.lock_impls.etcd_client import PATIENCE_S, ClientLease, EtcdMembers, EtcdSession
from harness.lock_impls.polling import poll


class KeyLock:
    """Not a mutant: a transaction puts the key if it does not exist, on a lease that a thread keeps alive."""

    kinds: ClassVar = ("etcd",)

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        self.endpoints, self.key, self.ttl = endpoints, key, ttl
        self.members = EtcdMembers(endpoints)
        self.lease: Any = None
        self.token = ""

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        return cls(endpoints, key, ttl, **options)

    def acquire(self, timeout: float) -> Grant | None:
        if self.lease is None or self.lease.lost():
            self.lease = self.new_lease(time.monotonic() + PATIENCE_S)
        return poll(self.try_lock, timeout)

    def release(self) -> None:
        if not self.unlock():
            raise LockError(f"{self.key} is not held by this client")

    def ask(self, request: Any) -> Any:
        return self.members.insist(request, time.monotonic() + PATIENCE_S)

    def new_lease(self, until: float) -> ClientLease:
        return EtcdSession(self.endpoints, self.ttl, until)

    def try_lock(self) -> Grant | None:
        token = uuid.uuid4().hex
        if not self.put(token):
            return None
        self.token = token
        return self.granted()

    def put(self, token: str) -> bool:
        def request(client: Any) -> Any:
            keys = client.transactions
            put = keys.put(self.key, token, lease=self.lease.id)
            return client.transaction(compare=[self.condition(keys)], success=[put], failure=[])

        return bool(self.ask(request)[0])

    def condition(self, keys: Any) -> Any:
        return keys.create(self.key) == 0

    def unlock(self) -> bool:
        def request(client: Any) -> Any:
            keys = client.transactions
            mine = keys.value(self.key) == self.token
            return client.transaction(compare=[mine], success=[keys.delete(self.key)], failure=[])

        return bool(self.ask(request)[0])

    def granted(self) -> Grant:
        return Grant(fence=self.fence())

    def fence(self) -> int | None:
        return None

    def entry(self) -> Any:
        return self.ask(lambda client: client.get(self.key))[1]


class NoCompare(KeyLock):
    """The key is put without a comparison, so each client overwrites the key of the holder."""

    def put(self, token: str) -> bool:
        self.ask(lambda client: client.put(self.key, token, lease=self.lease.id))
        return True


class IgnoresTransaction(KeyLock):
    """The answer to the transaction is ignored, so a failed comparison counts as acquired."""

    def put(self, token: str) -> bool:
        super().put(token)
        return True


class ReadsThenPuts(KeyLock):
    """The key is read and then put in two requests, between which another client does the same."""

    def put(self, token: str) -> bool:
        if self.ask(lambda client: client.get(self.key))[0] is not None:
            return False
        self.ask(lambda client: client.put(self.key, token, lease=self.lease.id))
        return True


class ComparesWrongly(KeyLock):
    """The transaction compares the key's version with < 2 instead of == 0, so a second client can put it."""

    def condition(self, keys: Any) -> Any:
        return keys.version(self.key) < 2


class NoLease(KeyLock):
    """The key is not bound to the lease, so the key of a dead holder stays for ever."""

    def put(self, token: str) -> bool:
        def request(client: Any) -> Any:
            keys = client.transactions
            return client.transaction(compare=[self.condition(keys)], success=[keys.put(self.key, token)], failure=[])

        return bool(self.ask(request)[0])


class NoKeepAlive(KeyLock):
    """Nobody keeps the lease alive, and the holder believes that it lasts."""

    def new_lease(self, until: float) -> ClientLease:
        return ClientLease(self.members, self.ttl, until)


class KeepsAliveForEver(KeyLock):
    """Release does not delete the key and leaves its lease alive, so the key stays for ever."""

    def unlock(self) -> bool:
        self.lease = None
        return True


class StopsKeepAliveOnly(KeyLock):
    """Release only stops the keep-alives, so the key stays until the lease ends."""

    def unlock(self) -> bool:
        self.lease.stop()
        self.lease = None
        return True


class RevokesNewLease(KeyLock):
    """Release revokes a lease that it has just been granted, instead of the key's."""

    def unlock(self) -> bool:
        self.ask(lambda client: client.lease(2).revoke())
        return True


class DeletesAnybodysKey(KeyLock):
    """Release deletes the key without a comparison, so a late holder deletes the key of the next."""

    def unlock(self) -> bool:
        return bool(self.ask(lambda client: client.delete(self.key)))


class DeletesPrefix(KeyLock):
    """Release deletes all keys that begin with the first letter of its own, among them keys of other holders."""

    def unlock(self) -> bool:
        return bool(self.ask(lambda client: client.delete_prefix(self.key[:1])))


class FenceIsVersion(KeyLock):
    """The fencing token is the version of the key, which is 1 for each new key."""

    def fence(self) -> int | None:
        return int(self.entry().version)


class FenceIsLease(KeyLock):
    """The fencing token is the number of the lease, which is the same for each grant of a client."""

    def fence(self) -> int | None:
        return int(self.lease.id)


class FirstByName(KeyLock):
    """The clients queue with keys of random names, and the first by name holds instead of the oldest."""

    mine = ""

    def put(self, token: str) -> bool:
        if not self.mine:
            self.mine = f"{self.key}/{token}"
            self.ask(lambda client: client.put(self.mine, "", lease=self.lease.id))
        names = [about.key.decode() for _, about in self.ask(lambda client: list(client.get_prefix(f"{self.key}/")))]
        return min(names, default="") == self.mine

    def unlock(self) -> bool:
        mine, self.mine = self.mine, ""
        return bool(self.ask(lambda client: client.delete(mine)))
