"""portalocker 3.2.0's RedisLock, imitated command for command on redis-py; the library itself is not run here.

The lock is a pub/sub channel: a client holds it if it is the only subscriber. A contender that finds a subscriber sends
it a ping. If no answer comes within a second, it kills the subscriber's connection and subscribes itself.
"""

from __future__ import annotations

import json
import random
import time
from typing import Any, ClassVar

from harness.lock_impls.base import Grant
from harness.lock_impls.origins import model_of
from harness.lock_impls.polling import poll
from harness.lock_impls.redis_client import RedisClient, RedisLock, known_outcome

POLL_S = 0.1
UNAVAILABLE_S = 1.0


class PubSubLock(RedisLock):
    """pubsub-retry: a holder that was paused for a second finds its connection killed; redis-py 6 and later silently
    reconnects and subscribes again, and the holder goes on (wolph/portalocker#137, #139, #142)."""

    origin: ClassVar = model_of("RedisLock", "portalocker", "3.2.0", "portalocker/redis.py, line 252")
    kinds: ClassVar = ("redis-single",)

    def __init__(self, client: RedisClient, key: str, ttl: float) -> None:
        super().__init__(client, key, ttl)
        self._pubsub: Any = None
        self._thread: Any = None

    def acquire(self, timeout: float) -> Grant | None:
        with known_outcome(self.client):
            return poll(self.try_lock, timeout, POLL_S)

    def try_lock(self) -> Grant | None:
        if self._subscribers() and self._holder_answers():
            return None
        self.client.client_setname(f"{self.key}-lock")
        self._pubsub = self.client.pubsub()  # type: ignore[no-untyped-call]
        self._pubsub.subscribe(**{self.key: self._pinged})
        self._thread = self._pubsub.run_in_thread(sleep_time=POLL_S, daemon=True)
        time.sleep(0.01)
        if self._subscribers() == 1:
            return Grant()
        self.unlock()
        return None

    def unlock(self) -> bool:
        self._thread.stop()
        self._thread.join()
        self._pubsub.close()
        return True

    def _subscribers(self) -> int:
        return int(self.client.pubsub_numsub(self.key)[0][1])

    def _pinged(self, message: dict[str, Any]) -> None:
        self.client.publish(json.loads(message["data"])["response_channel"], str(time.time()))

    def _holder_answers(self) -> bool:
        """Return whether the holder answers a ping; kills the connections of one that does not."""
        channel = f"{self.key}-{random.random()}"
        with self.client.pubsub() as answers:  # type: ignore[no-untyped-call]
            answers.subscribe(channel)
            self.client.publish(self.key, json.dumps({"response_channel": channel, "message": "ping"}))
            until = time.monotonic() + UNAVAILABLE_S
            while time.monotonic() < until:
                if answers.get_message(ignore_subscribe_messages=True, timeout=POLL_S):
                    return True
        for found in self.client.client_list("pubsub"):
            if found["name"] == f"{self.key}-lock":
                self.client.client_kill_filter(found["id"])
        return False


class PubSubLockFenced(PubSubLock):
    """pubsub-retry, cured by numbers from a counter: a resource that checks them refuses the killed holder."""

    origin: ClassVar = PubSubLock.origin.fixed("each grant has a number from a counter")

    def try_lock(self) -> Grant | None:
        grant = super().try_lock()
        return None if grant is None else Grant(fence=int(self.client.incr(f"fence:{self.key}")))
