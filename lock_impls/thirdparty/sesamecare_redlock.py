"""The npm library ``@sesamecare-oss/redlock``, a maintained fork of node-redlock 5, unmodified; tested with 1.4.0 on
ioredis 5.11.1, Node 18.

Its README repeats node-redlock's promises: "strong guarantees in both single-redis and multi-redis environments" and
fault tolerance through several independent servers.

Requests, settings and the program around it are those of :mod:`.node_redlock`: one script to all servers at once, up to
ten more tries, and a time limit for promises that are not settled. The fork computes ``expiration`` from the wall clock
(``Date.now()``) at the start of each try.
Source: its build/index.js; sesamecare/redlock.

Safe for: what redlock is safe for, as long as the client's clock does not jump.

Known failures: those of redlock, rl-client-clock, and two of node-redlock's: nrl-expired (a vote that takes longer
than the lease is granted; many tries no longer are, since each has a time of its own) and, by reading its source,
nrl-tie (with an even number of servers an acquire may never be settled).
"""

from __future__ import annotations

from typing import ClassVar, Final

from harness.lock_impls.base import Failure, LockInfo
from harness.lock_impls.program import Checks, Extends
from harness.lock_impls.redis_failures import EXPIRES

_RUN: Final = "harness run sesamecare-redlock --cluster docker"


class SesamecareRedlock(Checks, Extends):
    info: ClassVar = LockInfo(
        name="sesamecare-redlock",
        title="@sesamecare-oss/redlock's own Redlock, unmodified",
        algorithm="EVALSHA of EXISTS, SET PX on N nodes at once; N//2+1 = held until start + ttl - drift (wall clock).",
        source="npm: @sesamecare-oss/redlock 1.4.0, build/index.js",
        safety="E",
        kinds=("redis-independent", "redis-single"),
        options={"command_timeout": 1.5},
        on_death=EXPIRES,
        outage="none while a majority of the servers is up",
        no_single_point=True,
        language="JavaScript",
        library="@sesamecare-oss/redlock 1.4.0",
        promises="strong guarantees on one and on several servers; a minority of them may fail",
        runtime="node",
        failures=(
            Failure(
                "ttl-pause-write",
                "the holder is paused for longer than the ttl",
                f"{_RUN} --nemesis client-pause --time-limit 12s",
            ),
            Failure("ttl-overrun", "the work takes longer than the ttl", f"{_RUN} --hold 3s --time-limit 10s"),
        ),
    )
    command: ClassVar = ("node", "/opt/locks/program.js")
