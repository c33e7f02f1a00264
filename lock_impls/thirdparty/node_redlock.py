"""node-redlock, the npm library ``redlock``, unmodified; tested with redlock 5.0.0-beta.2 on ioredis 5.11.1, Node 18.

Its README promises "strong guarantees in both single-redis and multi-redis environments", fault tolerance through
several independent servers, and that it "does not care if a minority of redis instances/clusters fail". This is the
newest release, whose README and API the repository shows; ``npm install redlock`` may bring 4.2.0, of another API,
where that is what the registry calls the latest. So it is pinned by its number.

Requests: one script to all servers at once, ``EVALSHA`` (EVAL where it is not known): EXISTS, SET PX. The vote is over
when a majority has said yes, or a majority no, and an error is a no. Up to ten more tries (as many as the time to wait
allows, 200 ms ± 100 ms apart), with the same value and nothing taken back between them; then a script that deletes its
own. Release and extend are scripts of the same kind and are tried again ten times too: the release of a lock that has
expired fails after two seconds. ``expiration`` is worked out of the *wall* clock (``Date.now()``) at the start of the
first try. ``docker/node/node_redlock.js`` calls it; of ioredis's settings only ``commandTimeout`` is not the default:
1.5 s (by default it waits for an answer for ever), so that an acquire that no server answers is over in 3 s. An
acquire, release or extend whose promise is not settled within 4 s beyond its waiting time is answered with "nobody
knows"; a lock that comes later is given back.

What its errors do not tell is counted from the servers' answers: a key is surely not held where fewer than a majority
may have set it.

Source: its dist/esm/index.js; mike-marcacci/node-redlock.

Safe for: what redlock is, as long as the client's clock does not jump and the number of servers is odd.
Known failures: nrl-expired (scenario nrl-expired.node), nrl-tie (with an even number of servers an acquire may never be
settled; with any number and three clients, lost tries keep what they have set and refuse themselves, and nobody gets a
lock that is free, with no fault at all, for a ttl and longer: scenario nrl-tie.split), rl-client-clock, and those of
redlock.
"""

from __future__ import annotations

from typing import ClassVar, Final

from lock_impls.base import Failure, LockInfo
from lock_impls.program import Checks, Extends
from lock_impls.redis_failures import EXPIRES

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
        outage="nothing: it needs a majority of the servers",
        no_single_point=True,
        language="JavaScript",
        library="redlock 5.0.0-beta.2",
        promises="strong guarantees on one and on several servers; a minority of them may fail",
        runtime="node",
        failures=(
            Failure(
                "ttl-pause-write",
                "its holder stands still for longer than the ttl",
                f"{RUN} --nemesis client-pause --time-limit 12s",
            ),
            Failure(
                "nrl-tie",
                "votes split, lost tries keep their keys until the last one, and nobody gets a lock that is free",
                f"{RUN} --nemesis none --clients 8 --ttl 4s --hold 50ms --time-limit 20s",
            ),
            Failure(
                "rl-clock-jump",
                "servers' clocks jump: the key expires on a majority",
                f"{RUN} --nemesis clock-jump --time-limit 12s",
            ),
            Failure("ttl-overrun", "the work takes longer than the ttl", f"{RUN} --hold 3s --time-limit 10s"),
        ),
    )
    command: ClassVar = ("node", "/opt/locks/program.js")
