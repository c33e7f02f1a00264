"""Adapter of bsm/redislock, a lock on one Redis server for Go. It is unmodified; tested with github.com/bsm/redislock
0.9.4 and go-redis 9.17.2.

Its README promises a "simplified distributed locking implementation using Redis", points to Redis's article about
distributed locks, and shows ``TTL`` as the way to find out whether the lock is still held. It makes no other promise.

Requests: an obtain is one script: ``SET key value NX PX ms``, or else, if the key has the same token, ``SET key value
PX ms``; so a request that go-redis repeats (up to three times, if it is not answered) finds its own key. While the key
is another's, it is repeated after each backoff. ``Release`` is "if GET is mine then DEL", ``Refresh`` "if GET is mine
then PEXPIRE", ``TTL`` "if GET is mine then PTTL".

``docker/go/redislock.go`` calls it as the README does, with go-redis's defaults: ``Obtain`` with a context that ends
with the waiting time and the README's backoff of 100 ms (none if the waiting time is 0); ``Release``, ``Refresh`` and
``TTL`` get 2 s. :meth:`still_valid` is ``TTL() > 0``, which asks the server. A ``Lock`` has no time of its own.
Source: redislock.go.

Safe for: cutting duplicate work. It has no fencing token.

Known failures: nrl-expired (``Obtain`` never looks at the time that it took: it returns a lock that has expired before
its answer came), ttl-pause-write, ttl-overrun.
"""

from __future__ import annotations

from typing import ClassVar

from harness.lock_impls.base import Failure, LockInfo
from harness.lock_impls.program import Checks, Extends
from harness.lock_impls.redis_failures import EXPIRES

_RUN = "harness run bsm-redislock --cluster docker"


class BsmRedislock(Checks, Extends):
    info: ClassVar = LockInfo(
        name="bsm-redislock",
        title="bsm/redislock's own Lock, unmodified",
        algorithm="A script: SET key value NX PX ms, or SET it again if the token is the same; repeated every 100 ms.",
        source="github.com/bsm/redislock 0.9.4, redislock.go",
        safety="E",
        kinds=("redis-single",),
        on_death=EXPIRES,
        outage="unavailable while the server is down",
        language="Go",
        library="github.com/bsm/redislock 0.9.4",
        promises="a simplified lock on one Redis server; TTL says whether it is still held",
        runtime="go",
        lease="ttl",
        failures=(
            Failure(
                "ttl-pause-write", "the holder is paused for longer than the ttl", f"{_RUN} --nemesis client-pause"
            ),
            Failure("ttl-overrun", "the work takes longer than the ttl", f"{_RUN} --hold 3s"),
        ),
    )
    command: ClassVar = ("/opt/locks",)
