"""Consul's own lock for Go, ``api.Lock``, unmodified; tested with github.com/hashicorp/consul/api 1.32.1 on Consul
1.15.4.

Its documentation promises a lock for "client-side leader election", and that ``Lock`` "returns a channel that is closed
if our lock is lost"; "this channel could be closed at any time due to session invalidation, communication errors,
operator intervention". :meth:`still_valid` is whether that channel is open.

Requests: ``PUT /v1/session/create {TTL, LockDelay}``, renewed every TTL/2 · ``GET /v1/kv/key?wait=s`` until no session
holds the key · ``PUT /v1/kv/key?acquire=ID``; if that is refused although no session holds it, a lock-delay is in
effect, and it waits for 5 s · after the grant, for as long as it holds the lock, blocking queries ``GET
/v1/kv/key?consistent&index=N`` (its monitor, which closes the channel) · release: ``PUT /v1/kv/key?release=ID`` ·
``PUT /v1/session/destroy/ID``.

``docker/go/consul.go`` calls it with the client's defaults, as ``api.LockKey`` does, but for the session's TTL (half of
the ttl, upwards, at least 10 s, since servers end a session after twice its TTL), the ``lock_delay`` (15 s by default)
and the waiting time (``LockTryOnce`` with ``LockWaitTime``, and its stop channel). Every hold has a lock object and a
session of its own. The client's requests have no time-out, so if ``Lock`` or ``Unlock`` has not returned 4 s after its
time, the program answers "unknown outcome"; a lock that arrives later is given back.

Options: ``lock_delay``; ``monitor_retries`` is ``MonitorRetries``: how many failed queries of the monitor in a row do
not count as a loss; ``monitor_wait`` is how long (s) a blocking query lasts (``Config.WaitTime``), with half as much
more as the time-out of requests (``Config.HttpClient``). 0 leaves both as they are: five minutes, and no time-out.
Source: api/lock.go, api/session.go.

Safe for: cutting duplicate work. Its lock object has no fencing token; the key's ModifyIndex would be one, which the
library does not return.

Known failures: consul-isolated (scenario consul-isolated.api: a client that is cut off is told nothing for as long as
TCP keeps its connection, hashicorp/consul#18271). ``Unlock`` of a lost lock returns no error: the library ignores the
answer.
"""

from __future__ import annotations

from typing import ClassVar

from harness.lock_impls.base import Failure, LockInfo
from harness.lock_impls.consul_client import KINDS
from harness.lock_impls.program import Checks


class ConsulGoLock(Checks):
    info: ClassVar = LockInfo(
        name="consul-go-lock",
        title="Consul's api.Lock for Go, unmodified",
        algorithm="PUT key?acquire=session, renewed every TTL/2; a blocking query on the key tells of its loss.",
        source="github.com/hashicorp/consul/api 1.32.1, lock.go",
        safety="E",
        kinds=KINDS,
        options={"lock_delay": 15.0, "monitor_retries": 0, "monitor_wait": 0.0},
        on_death="expiry: nobody renews the session, and it ends after twice its TTL (at least 20 s); "
        "then the lock-delay",
        outage="unavailable while the server is down; a holder is told that its lock is lost",
        overtime=40.0,  # at most 20 s until the session ends, the lock-delay, and the pause of a waiter
        language="Go",
        library="github.com/hashicorp/consul/api 1.32.1",
        promises="a lock for leader election, whose channel closes if the lock is lost",
        runtime="go",
        failures=(
            Failure(
                "consul-isolated",
                "the holder is cut off until its session has ended, and its channel stays open",
                "harness run consul-go-lock --cluster docker --nemesis partition-clients --ttl 20s --hold 40s "
                "--time-limit 90s --lock-option lock_delay=1",
            ),
        ),
    )
    command: ClassVar = ("/opt/locks",)
