"""A Redlock that sets its key on all servers at once and iterates over the sets that ``concurrent.futures`` returns."""

from __future__ import annotations

import time
import uuid
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from harness.lock_impls.base import Grant
from harness.lock_impls.redlock import Redlock


class ParallelRedlock(Redlock):
    """Gives back the key on the servers that have set it, in the order of a set of futures."""

    def __init__(self, nodes: Any, key: str, ttl: float) -> None:
        super().__init__(nodes, key, ttl)
        self._pool = ThreadPoolExecutor(len(nodes))
        self._granting: list[Any] = []

    def acquire(self, timeout: float) -> Grant | None:
        deadline = time.monotonic() + timeout
        while True:
            began = time.monotonic()
            self._set_everywhere()
            left = self.ttl - (time.monotonic() - began)
            if len(self._granting) >= self.quorum and left > 0:
                return Grant(valid_for=left)
            self.release()
            if time.monotonic() >= deadline:
                return None
            time.sleep(0.05)

    def _set_everywhere(self) -> None:
        self.value, ttl_ms = uuid.uuid4().hex, int(self.ttl * 1000)
        tries = {self._pool.submit(node.set, self.key, self.value, nx=True, px=ttl_ms): node for node in self.nodes}
        done, _ = wait(tries)
        self._granting = [tries[each] for each in done if each.exception() is None and each.result()]

    def release(self) -> None:
        for node in self._granting:
            self._delete_own(keys=[self.key], args=[self.value], client=node)
