"""A lock that waits with gevent."""

from __future__ import annotations

import gevent
import redis


class Lock:
    def __init__(self, client: redis.Redis, name: str) -> None:
        self.client, self.name = client, name

    def acquire(self) -> bool:
        gevent.sleep(0.01)
        return bool(self.client.set(self.name, "held", nx=True))

    def release(self) -> None:
        self.client.delete(self.name)
