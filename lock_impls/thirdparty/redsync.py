"""Adapter of redsync, an implementation of Redlock for Go. It is unmodified; tested with
github.com/go-redsync/redsync/v4 4.15.0 and the go-redis that it requires, 9.17.2. (The newer 4.18.1 differs only in how
its mutex joins errors.)

redsync's documentation promises "a distributed mutual exclusion lock implementation as described in" the Redlock
article, whose lock works while a majority of the servers is up; and asks to "understand how it works before using it in
production environments". redsync gives a server 5 % of the expiry to answer (``WithTimeoutFactor``), but go-redis heeds
that only with the option ``context_timeouts`` below.

Requests: an acquire sends ``SET key value NX PX ms`` to all servers at once; go-redis repeats it up to three times if
it is not answered. The lock is held if a majority granted it and time is left: expiry - elapsed - 1 % of the expiry.
Otherwise redsync sends ``EVALSHA`` of "if GET is mine then DEL" to all, waits 50 to 250 ms, and tries again with the
same value. An extend is "if GET is mine then PEXPIRE" on all.

``docker/go/redsync.go`` calls it as the README does, with go-redis's defaults: ``LockContext`` with a context that ends
with the waiting time (``TryLock`` if that is 0), with as many tries as fit; ``UnlockContext`` and ``ExtendContext`` get
2 s. ``Valid()`` is deprecated, so :meth:`still_valid` is "before ``Until()``".
Options: ``context_timeouts`` is go-redis's ``ContextTimeoutEnabled``, without which go-redis waits 3 s for an answer
whatever the context says; ``set_nx_on_extend`` is redsync's ``WithSetNXOnExtend``.

The Go program decides from each server's answer what an acquire that failed has left behind. If fewer than a majority
may have the key, it is certainly not held; else its outcome is unknown.
Source: mutex.go.

Safe for: cutting duplicate work. It has no fencing token.

Known failures: redsync-extend (with ``set_nx_on_extend``), and those of redlock. With one of five servers silent, all
clients wait for go-redis's 3 s, and a client whose ttl is shorter never gets the lock. A ``LockContext`` whose context
ends during a try gives back nothing, not even to servers that answer (docs/findings).
"""

from __future__ import annotations

from typing import ClassVar

from harness.lock_impls.base import Failure, LockInfo
from harness.lock_impls.program import Checks, Extends
from harness.lock_impls.redis_failures import EXPIRES

_RUN = "harness run redsync --cluster docker"


class Redsync(Checks, Extends):
    info: ClassVar = LockInfo(
        name="redsync",
        title="redsync's own Mutex, unmodified",
        algorithm="SET key value NX PX ms on N nodes at once; N//2+1 in time: held until ttl - elapsed - 1 %.",
        source="github.com/go-redsync/redsync/v4 4.15.0, mutex.go",
        safety="E",
        kinds=("redis-independent", "redis-single"),
        options={"context_timeouts": False, "set_nx_on_extend": False},
        on_death=EXPIRES,
        outage=(
            "unavailable while one server is silent, unless the ttl is longer than go-redis waits (3 s) or "
            "context_timeouts is on"
        ),
        no_single_point=True,
        language="Go",
        library="github.com/go-redsync/redsync/v4 4.15.0",
        promises=(
            "Redlock as Redis documents it: a majority of the servers is the lock, and each has 5 % of the expiry to "
            "answer"
        ),
        runtime="go",
        failures=(
            Failure(
                "ttl-pause-write", "the holder is paused for longer than the ttl", f"{_RUN} --nemesis client-pause"
            ),
            Failure(
                "rl-clock-jump",
                "servers' clocks jump, so the key expires early on some",
                f"{_RUN} --nemesis clock-jump",
            ),
            Failure("rl-restart", "servers restart empty and vote a second time", f"{_RUN} --nemesis kill-amnesia"),
            Failure("ttl-overrun", "the work takes longer than the ttl", f"{_RUN} --hold 3s"),
        ),
    )
    command: ClassVar = ("/opt/locks",)
