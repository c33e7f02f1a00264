"""node-redlock 5.0.0-beta.2, imitated command for command on redis-py; the library itself is not run here.

All nodes get at once a script that sets the key unless it exists. The vote is over when a majority has granted or a
majority has refused; an error is a refusal. Keys set by a lost try stay until the last try has failed.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from typing import Any, ClassVar, Final, Self

import redis

from harness.lock_impls.base import Endpoints, Grant
from harness.lock_impls.origins import model_of
from harness.lock_impls.redis_client import RedisClient
from harness.lock_impls.redlock import DRIFT_FACTOR, DRIFT_MIN_S, RETRY_DELAY_S, Redlock

ACQUIRE: Final = """
if redis.call("exists", KEYS[1]) == 1 then
    return 0
end
redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2])
return 1
"""


class NodeRedlockModel(Redlock):
    """node-redlock's acquire, with two mistakes.

    nrl-expired: it computes when the lock will expire, but does not check whether that time has already passed
    (mike-marcacci/node-redlock#296, #299).
    nrl-tie: with an even number of nodes a vote may end without a majority for either side, and the promise is never
    settled (#369).
    """

    origin: ClassVar = model_of(
        "acquire and its vote", "node-redlock", "5.0.0-beta.2", "src/index.ts, lines 328 and 531"
    )
    checks_time: ClassVar = False
    _unsettled = False

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self:
        # ioredis waits for an answer for ever.
        nodes = [RedisClient(host=h, port=p, socket_timeout=None) for h, p in endpoints.addresses]
        return cls(nodes, key, ttl, **options)

    def acquire(self, timeout: float) -> Grant | None:
        until, value = time.monotonic() + timeout, uuid.uuid4().hex
        while True:
            began = time.monotonic()
            won = self._vote(value)
            if self._unsettled:  # nothing is cleaned up: the caller waits for a promise that is never settled
                time.sleep(max(0.0, until - time.monotonic()))
                return None
            if won:
                left = began + self.ttl - (self.ttl * DRIFT_FACTOR + DRIFT_MIN_S) - time.monotonic()
                if left > 0 or not self.checks_time:
                    self.value = value
                    return Grant(valid_for=left)
            if time.monotonic() >= until:
                break
            time.sleep(RETRY_DELAY_S * random.uniform(0.5, 1.5))
        for node in self.nodes:
            self._delete(node, value)
        return None

    def _vote(self, value: str) -> bool:
        votes: list[bool] = []
        over = threading.Event()
        if self._unsettled:
            return False

        def ask(node: RedisClient) -> None:
            try:
                votes.append(node.eval(ACQUIRE, 1, self.key, value, str(round(self.ttl * 1000))) == 1)
            except redis.RedisError:
                votes.append(False)
            if max(votes.count(True), votes.count(False)) >= self.quorum or len(votes) == len(self.nodes):
                over.set()

        for node in self.nodes:
            threading.Thread(target=ask, args=(node,), daemon=True).start()
        over.wait()
        self._unsettled = max(votes.count(True), votes.count(False)) < self.quorum
        return votes.count(True) >= self.quorum


class NodeRedlockModelInTime(NodeRedlockModel):
    """nrl-expired, cured as in the library's pull requests 274 and 276, which are in no release: a lock that has
    expired by the time the votes are counted is not held."""

    origin: ClassVar = NodeRedlockModel.origin.fixed("a lock that has expired by the end of the vote is not held")
    checks_time: ClassVar = True
