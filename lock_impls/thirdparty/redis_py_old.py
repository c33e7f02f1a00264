"""Methods that redis-py's ``Lock`` got later: ``owned`` and ``reacquire`` (3.1), for releases without them.

They do what a user of those releases does: compare the lock's token with the key, which only the server knows.
"""

from __future__ import annotations

from typing import Any

from harness.lock_impls.base import LockError
from harness.lock_impls.redis_client import COMPARE_AND_EXPIRE


def owned(lock: Any) -> bool:
    """Return whether the key has this lock's token, as ``Lock.owned`` does."""
    token = lock.local.token
    return token is not None and lock.redis.get(lock.name) == token


def reacquire(lock: Any) -> bool:
    """Set the key's remaining time to the lock's timeout, as ``Lock.reacquire`` does; LockError if it is not owned."""
    if lock.local.token is None or lock.timeout is None:
        raise LockError("a lock that is not held, or has no timeout, cannot be reacquired")
    milliseconds = int(lock.timeout * 1000)
    if not lock.redis.eval(COMPARE_AND_EXPIRE, 1, lock.name, lock.local.token, milliseconds):
        raise LockError("the lock is no longer owned")
    return True
