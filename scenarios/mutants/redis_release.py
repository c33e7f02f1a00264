"""Mutants of a Redis lock that release its key wrongly, or answer too late."""

from __future__ import annotations

import socket
import threading
import time

from harness.lock_impls.base import Grant, LockError
from harness.lock_impls.polling import poll
from harness.lock_impls.redis_client import known_grant

from .redis import TokenLock

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


class DeletesThenCompares(TokenLock):
    """Release sends GETDEL and compares the value afterwards, when another client's key is deleted already."""

    def unlock(self) -> bool:
        return bool(self.client.getdel(self.key) == self.token)


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


class WaitsWithoutTimeout(TokenLock):
    """A try with a timeout of 0 waits for the key all the same."""

    def acquire(self, timeout: float) -> Grant | None:
        return super().acquire(timeout or self.ttl)


class SleepsThroughRelease(TokenLock):
    """A waiter sleeps for all of its timeout before its second and last try."""

    def acquire(self, timeout: float) -> Grant | None:
        return known_grant(lambda: poll(self.try_lock, timeout, retry_delay_s=10 * timeout), self.client)


class LeavesOneOut(TokenLock):
    """One client waits for its whole timeout without a try."""

    def acquire(self, timeout: float) -> Grant | None:
        if socket.gethostname() != "c2":
            return super().acquire(timeout)
        time.sleep(timeout)
        return None


class RefusesOneClient(TokenLock):
    """Each request of one client is refused with an error."""

    def acquire(self, timeout: float) -> Grant | None:
        if socket.gethostname() == "c2":
            raise LockError("this client is not registered")
        return super().acquire(timeout)


class BelongsToTheFirst(TokenLock):
    """The key stays with the client that came first: it sets it for ever, and its own later acquires succeed."""

    def try_lock(self) -> Grant | None:
        mine = socket.gethostname()
        self.client.setnx(self.key, mine)
        return Grant() if self.client.get(self.key) == mine else None

    def unlock(self) -> bool:
        return True
