"""A service that handles orders, one at a time in all its processes. Its lock is redis-py's, and is recorded."""

from __future__ import annotations

import argparse
import contextlib
import random
import time
from itertools import count

import redis
from redis.exceptions import LockError
from redis.lock import Lock

from harness.record import Recorder

ANSWER_S = 0.1
"""The longest time that Redis' answer to an acquire may take; the recorded lease is shorter by that."""


class CarelessLock(Lock):
    """A lock with a bug: its release deletes the key, whoever owns it."""

    def do_release(self, expected_token: str) -> None:
        del expected_token
        self.redis.delete(self.name)


def serve(host: str, port: int, recordings: str, bug: str, orders: int | None) -> None:
    """Handle ``orders`` orders (None: without end). With a bug, the work on some orders takes longer than the lease."""
    lease_s, slow_s = (10.0, 0.02) if bug == "none" else (0.3, 0.5)
    kind = CarelessLock if bug == "release" else Lock
    client = redis.Redis(host, port)
    recorder = Recorder(recordings)
    for number in count():
        if number == orders:
            break
        lock = recorder.wrap(
            kind(client, "orders", timeout=lease_s, sleep=0.01),
            key="orders",
            valid_for=lease_s - ANSWER_S,
            refused=(LockError,),
        )
        with contextlib.suppress(LockError), lock:  # the lease may have ended when it is released
            time.sleep(slow_s if random.random() < 0.2 else 0.005)
        time.sleep(random.uniform(0.0, 0.02))
    recorder.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--redis", default="127.0.0.1:6379", metavar="HOST:PORT")
    parser.add_argument("--recordings", default="recordings", metavar="FOLDER")
    parser.add_argument("--bug", choices=("none", "release", "lease"), default="none")
    parser.add_argument("--orders", type=int, help="default: without end")
    options = parser.parse_args()
    host, _, port = options.redis.rpartition(":")
    serve(host, int(port), options.recordings, options.bug, options.orders)


if __name__ == "__main__":
    main()
