"""redsync, the Redlock for Go, unmodified; tested with github.com/go-redsync/redsync/v4 4.15.0 and the go-redis that it
asks for, 9.17.2 (in redsync 4.18.1 the mutex is the same but for how it joins errors).

Its documentation promises "a distributed mutual exclusion lock implementation as described in" the Redlock article,
whose lock goes on while a majority of the servers is up; and asks to "understand how it works before using it in
production environments". A server is given 5 % of the expiry for its answer (``WithTimeoutFactor``).

Requests: ``SET key value NX PX ms`` on all servers at once, go-redis repeats what is not answered up to three times ·
held when a majority said yes and expiry - elapsed - 1 % is positive · else ``EVALSHA`` of "if GET is mine then DEL" on
all, a pause of 50 to 250 ms, and again with the same value · extend: "if GET is mine then PEXPIRE" on all.
``docker/go/redsync.go`` calls it as the README does, with go-redis's defaults: ``LockContext`` with a context that ends
with the waiting time (``TryLock`` where that is 0), as many tries as fit; ``UnlockContext`` and ``ExtendContext`` get
2 s. ``Valid()`` is deprecated, so :meth:`still_valid` is "before ``Until()``".
Options: ``context_timeouts`` is go-redis's ``ContextTimeoutEnabled``, without which go-redis waits 3 s for an answer
whatever the context says; ``set_nx_on_extend`` is redsync's ``WithSetNXOnExtend``.

Held or not is worked out of what each server answered: a key is surely not held where fewer than a majority may have
it.

Source: mutex.go.

Safe for: cutting duplicate work. It issues no token.
Known failures: redsync-extend (with ``set_nx_on_extend``), and those of redlock. With one server of five silent it
keeps everybody waiting for go-redis's 3 s, and lets nobody in whose ttl is shorter; a ``LockContext`` whose context
ends during a try gives back nothing, not even to servers that answer (docs/findings.md).
"""

from __future__ import annotations

from typing import ClassVar

from lock_impls.base import Failure, LockInfo
from lock_impls.program import Checks, Extends
from lock_impls.redis_failures import EXPIRES

_RUN = "harness run redsync --cluster docker"


class Redsync(Checks, Extends):
    info: ClassVar = LockInfo(
        name="redsync",
        title="redsync's own Mutex, unmodified",
        algorithm="SET key value NX PX ms on N nodes at once; N//2+1 in time = held until ttl - elapsed - 1 %.",
        source="github.com/go-redsync/redsync/v4 4.15.0, mutex.go",
        safety="E",
        kinds=("redis-independent", "redis-single"),
        options={"context_timeouts": False, "set_nx_on_extend": False},
        on_death=EXPIRES,
        outage="nobody gets it while one server is silent, unless the ttl is longer than go-redis waits (3 s) or "
        "context_timeouts is on",
        no_single_point=True,
        language="Go",
        library="github.com/go-redsync/redsync/v4 4.15.0",
        promises="Redlock as Redis documents it: a majority of the servers is the lock, each of which gets 5 % of the "
        "expiry to answer in",
        runtime="go",
        failures=(
            Failure(
                "ttl-pause-write", "its holder stands still for longer than the ttl", f"{_RUN} --nemesis client-pause"
            ),
            Failure("rl-clock-jump", "servers' clocks jump: the key expires on some", f"{_RUN} --nemesis clock-jump"),
            Failure("rl-restart", "servers come back empty and vote again", f"{_RUN} --nemesis kill-amnesia"),
            Failure("ttl-overrun", "the work takes longer than the ttl", f"{_RUN} --hold 3s"),
        ),
    )
    command: ClassVar = ("/opt/locks",)
