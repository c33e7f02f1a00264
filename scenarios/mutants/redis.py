"""Mutants of a lock that is one key of one Redis. :class:`TokenLock` is correct; each other class has one mistake."""

from __future__ import annotations

import math
import socket
import threading
import time
import uuid
from typing import ClassVar

from harness.lock_impls.base import Grant, LockInfo
from harness.lock_impls.polling import poll
from harness.lock_impls.redis_client import COMPARE_AND_DELETE, COMPARE_AND_EXPIRE, RedisLock


def promises(**claims: bool) -> LockInfo:
    """Return the description of a mutant that claims more than mutual exclusion, and documents no failure."""
    return LockInfo(
        name="mutant",
        title="a wrong lock",
        algorithm="",
        source="harness.scenarios.mutants",
        safety="E",
        kinds=("redis-single",),
        limits=(),
        **claims,  # type: ignore[arg-type]
    )


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


# Release.


class DeletesAnybodysKey(TokenLock):
    """Release deletes the key without a look at its value, so a late holder deletes the key of the next."""

    def unlock(self) -> bool:
        self.client.delete(self.key)
        return True


class GetThenDelete(TokenLock):
    """Release compares the token with GET and then sends DEL, so a pause between them deletes another's key."""

    def unlock(self) -> bool:
        mine = self.client.get(self.key) == self.token
        return mine and bool(self.client.delete(self.key))


class SameToken(TokenLock):
    """All clients use the same token, so a late holder's comparison succeeds with the key of the next."""

    def new_token(self) -> str:
        return "locked"


class ReleaseNeverReturns(TokenLock):
    """Release waits for ever, before it deletes the key."""

    def release(self) -> None:
        while True:
            time.sleep(1.0)


class ReleaseRaises(TokenLock):
    """Each release raises an error, and the key stays until it expires."""

    def release(self) -> None:
        raise ValueError("the token has the wrong encoding")


class ReleaseRefused(TokenLock):
    """The token is overwritten after SET, so each release is refused as that of another client."""

    def try_lock(self) -> Grant | None:
        grant = super().try_lock()
        self.token = self.new_token()
        return grant


class ReleaseDoesNothing(TokenLock):
    """Release returns without a command to the server, so the key stays until it expires."""

    def release(self) -> None:
        return


class ReleasesAnotherKey(TokenLock):
    """Release deletes a key of another name, and ignores that there is none."""

    def unlock(self) -> bool:
        self.client.delete(f"lock:{self.key}")
        return True


class ReleasesLater(TokenLock):
    """Release returns at once and deletes the key after 1.5 s, in a thread."""

    def unlock(self) -> bool:
        threading.Timer(1.5, super().unlock).start()
        return True


class ReleaseOfNothingSucceeds(TokenLock):
    """Release after the lease has ended reports success, although the key is that of another client."""

    def unlock(self) -> bool:
        super().unlock()
        return True


# Answers.


class HangsLater(TokenLock):
    """The fourth acquire of a client never returns."""

    acquires = 0

    def acquire(self, timeout: float) -> Grant | None:
        self.acquires += 1
        while self.acquires > 3:
            time.sleep(1.0)
        return super().acquire(timeout)


class IgnoresTimeout(TokenLock):
    """Acquire ignores its timeout, and waits for three seconds more."""

    def acquire(self, timeout: float) -> Grant | None:
        return super().acquire(timeout + 3.0)


class BelongsToTheFirst(TokenLock):
    """The key stays with the client that came first: it sets it for ever, and its own later acquires succeed."""

    def try_lock(self) -> Grant | None:
        mine = socket.gethostname()
        self.client.setnx(self.key, mine)
        return Grant() if self.client.get(self.key) == mine else None

    def unlock(self) -> bool:
        return True


# Fencing tokens, re-entry and order.


class Fenced(TokenLock):
    """Not a mutant: grants have a number, which a script counts together with SET."""

    info: ClassVar = promises(fence=True)

    def granted(self) -> Grant:
        return Grant(fence=self.fence(), valid_for=self.ttl)

    def fence(self) -> int | None:
        return int(self.client.incr(f"{self.key}:fence"))


class ConstantFence(Fenced):
    """The fencing token is the same for each grant."""

    def fence(self) -> int | None:
        return 1


class DecreasingFence(Fenced):
    """The fencing token decreases with each grant."""

    def fence(self) -> int | None:
        return int(self.client.decr(f"{self.key}:fence"))


class EqualFences(Fenced):
    """Two grants in succession have the same fencing token: it is counted in each second one."""

    def fence(self) -> int | None:
        return int(self.client.incr(f"{self.key}:fence")) // 2


class NullFence(Fenced):
    """The lock promises fencing tokens, and its grants have none."""

    def fence(self) -> int | None:
        return None


class FenceOfItsOwn(Fenced):
    """Each client counts its own grants, so the tokens of two clients have no order."""

    grants = 0

    def fence(self) -> int | None:
        self.grants += 1
        return self.grants


class InnerReleaseFrees(TokenLock):
    """The holder may acquire again, but holds are not counted, so the first release frees the key."""

    info: ClassVar = promises(reentrant=True)

    def try_lock(self) -> Grant | None:
        if self.token and self.client.get(self.key) == self.token:
            return self.granted()
        return super().try_lock()


class RefusesItsHolder(TokenLock):
    """The lock promises that its holder can acquire again, and refuses it."""

    info: ClassVar = promises(reentrant=True)


class LastComesFirst(TokenLock):
    """The lock promises the order of arrival, and serves the last in the queue first."""

    info: ClassVar = promises(queue=True)

    def acquire(self, timeout: float) -> Grant | None:
        queue, ticket = f"{self.key}:queue", self.new_token()
        self.client.rpush(queue, ticket)
        grant = poll(lambda: self._in_turn(queue, ticket), timeout)
        if grant is None:
            self.client.lrem(queue, 0, ticket)
        return grant

    def _in_turn(self, queue: str, ticket: str) -> Grant | None:
        if self.client.lindex(queue, -1) != ticket:
            return None
        grant = self.try_lock()
        if grant is not None:
            self.client.lrem(queue, 0, ticket)
        return grant


# Sharing.


class ReadersAdmitWriters(TokenLock):
    """A writer does not look for readers, so it holds the lock together with them."""

    shared = False

    def acquire_shared(self, timeout: float) -> Grant | None:
        grant = poll(self._try_shared, timeout)
        self.shared = grant is not None
        return grant

    def _try_shared(self) -> Grant | None:
        if self.client.exists(self.key):
            return None
        self.client.incr(f"{self.key}:readers")
        return Grant()

    def unlock(self) -> bool:
        if not self.shared:
            return super().unlock()
        self.shared = False
        return int(self.client.decr(f"{self.key}:readers")) >= 0


class ReadersIgnoreWriter(ReadersAdmitWriters):
    """A reader does not look for a writer, so it holds the lock together with one."""

    def try_lock(self) -> Grant | None:
        return None if int(self.client.get(f"{self.key}:readers") or 0) else super().try_lock()

    def _try_shared(self) -> Grant | None:
        self.client.incr(f"{self.key}:readers")
        return Grant()
