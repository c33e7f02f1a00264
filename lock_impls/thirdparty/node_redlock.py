"""node-redlock, the npm library ``redlock`` (Redlock for Node), unmodified; tested with redlock 5.0.0-beta.2 on ioredis
5.11.1, Node 18.

Its README promises "strong guarantees in both single-redis and multi-redis environments", fault tolerance through
several independent servers, and that it "does not care if a minority of redis instances/clusters fail". The
repository's README and API describe this release, which is the newest. ``npm install redlock`` may install 4.2.0 with
another API, if the registry calls that the latest; so the version is pinned.

Requests: one script to all servers at once, ``EVALSHA`` (EVAL if the server does not know it): EXISTS, SET PX. The vote
is over when a majority has granted or a majority has refused; an error counts as a refusal. Up to ten more tries follow
(as many as the waiting time allows, 200 ms ± 100 ms apart), with the same value, and nothing is taken back between
them; after the last a script deletes the client's own keys. Release and extend are similar scripts and are also tried
ten more times, so the release of an expired lock fails after two seconds. ``expiration`` is computed from the *wall*
clock (``Date.now()``) at the start of the first try.

``docker/node/node_redlock.js`` calls it. The only changed setting of ioredis is ``commandTimeout``: 1.5 s (by default
it waits for an answer for ever), so that an acquire that no server answers ends within 3 s. If the promise of an
acquire, release or extend is not settled within 4 s beyond its waiting time, the program answers "unknown outcome"; a
lock that arrives later is given back. The library's errors do not say what happened, so the program counts the servers'
answers: a key is certainly not held if fewer than a majority may have set it.
Source: its dist/esm/index.js; mike-marcacci/node-redlock.

Safe for: what redlock is safe for, as long as the client's clock does not jump and the number of servers is odd.

Known failures: nrl-expired (scenario nrl-expired.node), rl-client-clock, those of redlock, and nrl-tie: with an even
number of servers an acquire may never be settled. With any number of servers and three clients, lost tries keep the
keys that they have set and so refuse themselves: without any fault nobody gets a free lock for a ttl and longer
(scenario nrl-tie.split).
"""

from __future__ import annotations

from typing import ClassVar, Final

from harness.lock_impls.base import Failure, LockInfo
from harness.lock_impls.program import Checks, Extends
from harness.lock_impls.redis_failures import EXPIRES

RUN: Final = "harness run node-redlock --cluster docker"


class NodeRedlock(Checks, Extends):
    info: ClassVar = LockInfo(
        name="node-redlock",
        title="node-redlock's own Redlock, unmodified",
        algorithm="EVALSHA of EXISTS, SET PX on N nodes at once; N//2+1 = held until start + ttl - drift (wall clock).",
        source="npm: redlock 5.0.0-beta.2, dist/esm/index.js",
        safety="E",
        kinds=("redis-independent", "redis-single"),
        options={"command_timeout": 1.5},
        on_death=EXPIRES,
        outage="none while a majority of the servers is up",
        no_single_point=True,
        language="JavaScript",
        library="redlock 5.0.0-beta.2",
        promises="strong guarantees on one and on several servers; a minority of them may fail",
        runtime="node",
        failures=(
            Failure(
                "ttl-pause-write",
                "the holder is paused for longer than the ttl",
                f"{RUN} --nemesis client-pause --time-limit 12s",
            ),
            Failure(
                "nrl-tie",
                "votes split, each lost try keeps its keys until the last one, and nobody gets a free lock",
                f"{RUN} --nemesis none --clients 8 --ttl 4s --hold 50ms --time-limit 20s",
            ),
            Failure(
                "rl-clock-jump",
                "servers' clocks jump, so the key expires early on a majority",
                f"{RUN} --nemesis clock-jump --time-limit 12s",
            ),
            Failure("ttl-overrun", "the work takes longer than the ttl", f"{RUN} --hold 3s --time-limit 10s"),
        ),
    )
    command: ClassVar = ("node", "/opt/locks/program.js")
