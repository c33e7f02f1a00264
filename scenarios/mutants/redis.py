"""Mutants of a lock that is one key of one Redis: how they take the key, and its lease. :class:`TokenLock` is correct;
each other class has one mistake."""

from __future__ import annotations

import math
import socket
import threading
import time
import uuid
from typing import ClassVar

from harness.lock_impls.base import Grant, Indeterminate
from harness.lock_impls.redis_client import COMPARE_AND_DELETE, COMPARE_AND_EXPIRE, RedisLock


class TokenLock(RedisLock):
    """Not a mutant: SET NX PX with a random token, compared by the script that deletes the key."""

    kinds: ClassVar = ("redis-single",)
    token = ""

    def try_lock(self) -> Grant | None:
        token = self.new_token()
        if not self.client.set(self.key, token, nx=True, px=self.ttl_ms):
            return None
        self.token = token
        return self.granted()

    def unlock(self) -> bool:
        return bool(self.client.eval(COMPARE_AND_DELETE, 1, self.key, self.token))

    def new_token(self) -> str:
        return uuid.uuid4().hex

    def granted(self) -> Grant:
        return Grant(valid_for=self.ttl)


# Taking the key.


class NoNx(TokenLock):
    """SET has no NX, so each client overwrites the key of the holder."""

    def try_lock(self) -> Grant | None:
        self.token = self.new_token()
        self.client.set(self.key, self.token, px=self.ttl_ms)
        return self.granted()


class IgnoresAnswer(TokenLock):
    """The answer to SET NX is ignored, so a busy key counts as acquired."""

    def try_lock(self) -> Grant | None:
        self.token = self.new_token()
        self.client.set(self.key, self.token, nx=True, px=self.ttl_ms)
        return self.granted()


class ChecksThenSets(TokenLock):
    """EXISTS and SET are two commands, so two clients can both find no key and set it."""

    def try_lock(self) -> Grant | None:
        if self.client.exists(self.key):
            return None
        self.token = self.new_token()
        self.client.set(self.key, self.token, px=self.ttl_ms)
        return self.granted()


class KeyOfItsOwn(TokenLock):
    """The name of the client is part of the key, so each client has a lock of its own."""

    def try_lock(self) -> Grant | None:
        self.key = f"{self.key.partition('@')[0]}@{socket.gethostname()}"
        return super().try_lock()


class NoServer(TokenLock):
    """The lock is a dictionary of the process, so clients on other machines do not see it."""

    taken: ClassVar[set[str]] = set()

    def try_lock(self) -> Grant | None:
        if self.key in self.taken:
            return None
        self.taken.add(self.key)
        return self.granted()

    def unlock(self) -> bool:
        self.taken.discard(self.key)
        return True


class TrueAfterTimeout(TokenLock):
    """Acquire reports success when its time is up, although another client holds the key."""

    def acquire(self, timeout: float) -> Grant | None:
        return super().acquire(timeout) or Grant()


class GhostHold(TokenLock):
    """Each third SET succeeds and acquire reports "not acquired", so the key is taken and nobody holds it."""

    tries = 0

    def acquire(self, timeout: float) -> Grant | None:
        grant = super().acquire(timeout)
        self.tries += 1
        return None if self.tries % 3 == 0 else grant


class OnePermitTooMany(TokenLock):
    """A counting lock for one holder admits two, because it compares the count with <= 1 before it counts."""

    ADMIT: ClassVar = """
    if tonumber(redis.call("get", KEYS[1]) or "0") <= 1 then
        redis.call("incr", KEYS[1])
        return redis.call("pexpire", KEYS[1], ARGV[1])
    end
    return 0
    """

    def try_lock(self) -> Grant | None:
        return self.granted() if self.client.eval(self.ADMIT, 1, self.key, self.ttl_ms) else None

    def unlock(self) -> bool:
        return int(self.client.decr(self.key)) >= 0


class CleansUpAtTimeout(TokenLock):
    """A waiter whose time is up deletes the key, which is that of the holder."""

    def acquire(self, timeout: float) -> Grant | None:
        grant = super().acquire(timeout)
        if grant is None:
            self.client.delete(self.key)
        return grant


class LostAnswerIsSuccess(TokenLock):
    """A SET without an answer counts as acquired, although the server may have refused it."""

    def acquire(self, timeout: float) -> Grant | None:
        try:
            return super().acquire(timeout)
        except Indeterminate:
            return self.granted()


# The lease.


class ExpiresInMilliseconds(TokenLock):
    """The lease in seconds is passed to PX as milliseconds, so the key expires at once."""

    def try_lock(self) -> Grant | None:
        token = self.new_token()
        if not self.client.set(self.key, token, nx=True, px=math.ceil(self.ttl)):
            return None
        self.token = token
        return self.granted()


class ExpiresAfterHours(TokenLock):
    """The lease in milliseconds is passed to EX as seconds, so the key of a dead holder stays."""

    def try_lock(self) -> Grant | None:
        token = self.new_token()
        if not self.client.set(self.key, token, nx=True, ex=self.ttl_ms):
            return None
        self.token = token
        return self.granted()


class LeaseInSecondCommand(TokenLock):
    """SETNX and EXPIRE are two commands, so the key of a client that dies between them stays for ever."""

    def try_lock(self) -> Grant | None:
        token = self.new_token()
        if not self.client.setnx(self.key, token):
            return None
        self.client.pexpire(self.key, self.ttl_ms)
        self.token = token
        return self.granted()


class PromisesLongerLease(TokenLock):
    """Acquire promises a lease of ten ttl, but the key expires after one."""

    def granted(self) -> Grant:
        return Grant(valid_for=10 * self.ttl)


class LeaseOfNoLength(NoNx):
    """Each grant has a lease that is over at once, and SET has no NX."""

    def granted(self) -> Grant:
        return Grant(valid_for=0.0)


class StillValidForEver(TokenLock):
    """The check of the holder always says that the lease lasts."""

    def still_valid(self) -> bool:
        return True


class ProlongsAnybodysLease(TokenLock):
    """Each client that has ever held the key prolongs it for ever, whoever's it is."""

    renewing = False

    def try_lock(self) -> Grant | None:
        grant = super().try_lock()
        if grant is not None and not self.renewing:
            self.renewing = True
            threading.Thread(target=self._renew, daemon=True).start()
        return grant

    def _renew(self) -> None:
        while True:
            time.sleep(self.ttl / 4)
            self.client.pexpire(self.key, self.ttl_ms)


class RenewsAfterRelease(TokenLock):
    """Release stops neither the renewal of the lease nor deletes the key, which is renewed for ever."""

    def try_lock(self) -> Grant | None:
        grant = super().try_lock()
        if grant is not None:
            threading.Thread(target=self._renew, args=(self.token,), daemon=True).start()
        return grant

    def _renew(self, token: str) -> None:
        while self.client.eval(COMPARE_AND_EXPIRE, 1, self.key, token, self.ttl_ms):
            time.sleep(self.ttl / 4)

    def unlock(self) -> bool:
        return bool(self.token)


class RenewsWithSet(TokenLock):
    """The lease is renewed with SET XX, which overwrites the key of the next holder."""

    def try_lock(self) -> Grant | None:
        grant = super().try_lock()
        if grant is not None:
            threading.Thread(target=self._renew, args=(self.token,), daemon=True).start()
        return grant

    def _renew(self, token: str) -> None:
        while self.token == token:
            self.client.set(self.key, token, xx=True, px=self.ttl_ms)
            time.sleep(self.ttl / 4)

    def unlock(self) -> bool:
        token, self.token = self.token, ""
        return bool(self.client.eval(COMPARE_AND_DELETE, 1, self.key, token))
