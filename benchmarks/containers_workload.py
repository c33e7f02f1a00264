"""Workload of the clients in :mod:`benchmarks.containers`; loaded in their containers by its name, as a user's module
is.

``python -m benchmarks.containers_workload KIND HOST PORT SECONDS`` is the other side of the comparison: the same cycles
of the same lock, with nothing recorded.
"""

from __future__ import annotations

import sys
import time
from typing import Any, ClassVar, Final

from harness.lock_impls.base import Endpoints
from harness.worker.client import Client
from harness.worker.client_program import find_lock

LOCK: Final = "redis-token"
TTL: Final = 2.0
WARM_UP: Final = 0.3
"""Seconds at the beginning that count on neither side: connections are made, scripts are loaded."""


class Cycles:
    """Acquire and release a key of one's own, as fast as it goes."""

    name: ClassVar = "cycles"

    @staticmethod
    def stock(settings: Any, duration: float) -> dict[str, int]:
        del settings, duration
        return {}

    @staticmethod
    def run(client: Client) -> None:
        key = f"own-{client.node}"
        while not client.over():
            if client.acquire(key) is not None:
                client.release(key)


class Held(Cycles):
    """The same at leisure: most of the time each client holds its key, on connections that stay open."""

    name: ClassVar = "held"

    @staticmethod
    def run(client: Client) -> None:
        key = f"own-{client.node}"
        while not client.over():
            if client.acquire(key) is not None:
                client.sleep(client.hold)
                client.release(key)


def bare_rate(endpoints: Endpoints, seconds: float) -> float:
    """Cycles a second without a harness."""
    lock = find_lock(LOCK).open(endpoints, "bare", TTL)
    began = time.monotonic()
    counts_from, ends = began + WARM_UP, began + WARM_UP + seconds
    count = 0
    while (now := time.monotonic()) < ends:
        grant = lock.acquire(TTL)
        assert grant is not None, "nobody else has this key"
        lock.release()
        count += now >= counts_from
    return count / seconds


def main() -> None:
    """Print the rate."""
    kind, host, port, seconds = sys.argv[1:]
    print(bare_rate(Endpoints(kind, ((host, int(port)),)), float(seconds)))


if __name__ == "__main__":
    main()
