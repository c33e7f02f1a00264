"""Calls of the command line in this process, and the locks of a user's that the tests run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import main

MYLOCK = """
import redis

class MyLock:
    def __init__(self, redis: redis.Redis, key: str, ttl: float) -> None:
        self.redis, self.key, self.ttl = redis, key, ttl

    def acquire(self) -> bool:
        return bool(self.redis.set(self.key, "me", nx=True, px=int(self.ttl * 1000)))

    def release(self) -> None:
        self.redis.delete(self.key)

class NoAcquire:
    def release(self) -> None: ...

class OneKind(MyLock):
    kinds = "postgres"

class Raises(MyLock):
    def acquire(self, timeout: float) -> bool:
        raise RuntimeError("out of\\norder.\\n")

class Exits(MyLock):
    def acquire(self, timeout: float) -> bool:
        raise SystemExit(0)

class Hangs(MyLock):
    def acquire(self, timeout: float) -> bool:
        import threading
        threading.Event().wait()

class Prints(MyLock):
    def acquire(self) -> bool:
        print("hello")
        return super().acquire()

class Yields(MyLock):
    def acquire(self, timeout: float):
        yield True

class OddGrant(MyLock):
    def acquire(self, timeout: float):
        from harness.lock_impls.base import Grant
        return Grant(fence=1.5, valid_for=float("nan"))
"""


def harness(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


def results_in(printed: str) -> Any:
    """Return the results of the one run of a printed document."""
    (run,) = json.loads(printed)["runs"]
    return run["results"]


def stored_run() -> Path:
    harness("run", "redis-token", "--time-limit", "5s", "--quiet")
    return Path("store/latest").resolve()
