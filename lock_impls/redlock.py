"""Redlock: the same key on N independent Redis masters; a client holds the lock if a majority granted it in time.

Commands: note the time; ``SET key value NX PX ms`` on each node in turn, with the same random value; note the time
again. The lock is held if at least N//2+1 nodes granted it and ttl - elapsed - drift is positive; that is its validity.
Otherwise, and to unlock: ``EVALSHA`` of "if GET is mine then DEL" on ALL nodes, including those that did not answer. A
random delay precedes the next try.
Source: Redis documentation, "Distributed locks with Redis"; articles 001, 003, 004.

Safe for: cutting duplicate work; available while only a minority of nodes is down. It needs clocks with bounded rates
and without jumps on the nodes, and crashed nodes must stay down for at least a ttl. It issues no token; the
documentation itself recommends fencing.

Known failures: rl-clock-jump, rl-restart, rl-pause-after, rl-split-vote, ttl-net-delay, ttl-overrun, late-acquire. Not
affected: rl-client-clock (the client uses a monotonic clock), nrl-expired (the elapsed time is checked),
rl-orphan-minority (acquire asks every node before it returns). rl-pause-inflight and rl-restart-delayed must not be
reported.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from .base import Endpoints, Grant, Indeterminate, LockError, LockInfo
from .polling import poll
from .redis_client import COMPARE_AND_DELETE, REQUIRES, RedisClient
from .redis_failures import EXPIRES, redlocks

RETRY_DELAY_S: Final = 0.2
"""Mean pause between two tries, as in redlock-py and node-redlock: a try costs two commands per node."""
DRIFT_FACTOR: Final = 0.01
DRIFT_MIN_S: Final = 0.002


class Redlock:
    info: ClassVar = LockInfo(
        name="redlock",
        title="Redlock: a majority of independent masters",
        algorithm="SET key value NX PX ms on N nodes; N//2+1 in time: held; validity = ttl - elapsed - drift.",
        source="Redis documentation, 'Distributed locks with Redis'; articles 001, 003, 004",
        safety="E",
        kinds=("redis-independent",),
        requires=REQUIRES,
        on_death=EXPIRES,
        outage="none while a majority of the servers is up",
        no_single_point=True,
        failures=redlocks("redlock"),
    )

    def __init__(self, nodes: list[RedisClient], key: str, ttl: float) -> None:
        self.nodes = nodes
        self.key = key
        self.ttl = ttl
        self.quorum = len(nodes) // 2 + 1
        self.value = ""
        self._delete_own = nodes[0].register_script(COMPARE_AND_DELETE)

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        login = endpoints.redis_login
        return cls([_open_node(host, port, ttl, login) for host, port in endpoints.addresses], key, ttl, **options)

    def acquire(self, timeout: float) -> Grant | None:
        value = uuid.uuid4().hex
        maybe_set: set[int] = set()  # nodes that may have our key: the SET was not refused, and no delete was confirmed
        grant = poll(lambda: self._try_lock(value, maybe_set), timeout, RETRY_DELAY_S)
        if grant is None and len(maybe_set) >= self.quorum:
            raise Indeterminate(f"no lock, but {self.key} may be set on {len(maybe_set)} of {len(self.nodes)} nodes")
        return grant

    def _try_lock(self, value: str, maybe_set: set[int]) -> Grant | None:
        began = time.monotonic()
        answers = [self._set(node, value) for node in self.nodes]
        elapsed = time.monotonic() - began
        validity = self.ttl - elapsed - (self.ttl * DRIFT_FACTOR + DRIFT_MIN_S)
        if answers.count(True) >= self.quorum and self.in_time(validity):
            self.value = value
            return Grant(valid_for=validity)
        maybe_set.update(i for i, answer in enumerate(answers) if answer is not False)
        deleted = [self._delete(node, value) for node in self.nodes]
        maybe_set.difference_update(i for i, answer in enumerate(deleted) if answer is not None)
        return None

    def in_time(self, validity: float) -> bool:
        """Return whether some of the lease is left after the vote."""
        return validity > 0

    def release(self) -> None:
        deleted = [self._delete(node, self.value) for node in self.nodes]
        if deleted.count(None) >= self.quorum:
            raise Indeterminate(f"{deleted.count(None)} of {len(self.nodes)} nodes did not answer")
        if True not in deleted:
            raise LockError(f"{self.key} is not held by this client on any node that answered")

    def _set(self, node: RedisClient, value: str) -> bool | None:
        """True: set, False: certainly not set, None: unknown."""
        before = node.unanswered
        try:
            return bool(node.set(self.key, value, nx=True, px=max(1, round(self.ttl * 1000))))
        except redis.RedisError:
            return None if node.unanswered > before else False

    def _delete(self, node: RedisClient, value: str) -> bool | None:
        """True: deleted, False: was not ours, None: unknown."""
        try:
            return bool(self._delete_own(keys=[self.key], args=[value], client=node))
        except redis.RedisError:
            return None


def _open_node(host: str, port: int, ttl: float, login: Mapping[str, Any]) -> RedisClient:
    """Open a client without retries and with a short time-out (5 % of the ttl, as in redsync).

    The algorithm goes on to the next node as soon as one does not answer, because all time spent here is subtracted
    from the validity.
    """
    timeout = max(0.05, ttl * 0.05)
    return RedisClient(
        host=host,
        port=port,
        decode_responses=True,
        socket_timeout=timeout,
        socket_connect_timeout=timeout,
        retry=Retry(NoBackoff(), 0),
        **login,
    )
