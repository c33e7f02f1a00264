"""Processes of clients that exit: record when each is gone, and start its program again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from harness.clusters.abilities import PROCESSES
from harness.clusters.base import Cluster
from harness.history import Op

from .recorder import Recorder

POLL: Final = 0.02
"""Seconds between two looks at the processes that have begun to exit."""


class ExitWatch:
    """Waits for processes that have begun to exit, and calls ``relaunch(host)`` when they are gone.

    A process that crashes meanwhile is left to the fault that killed it."""

    def __init__(self, cluster: Cluster, recorder: Recorder, relaunch: Callable[[str], None]) -> None:
        self._processes = PROCESSES.of(cluster)
        self._recorder = recorder
        self._relaunch = relaunch
        self._exiting: dict[str, None] = {}
        self._over = threading.Event()
        recorder.listeners.append(self._on_entry)
        self._thread = threading.Thread(target=self._watch, name="exits", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _on_entry(self, op: Op) -> None:
        if op.f == "exit":
            self._exiting[str(op.node)] = None
        elif op.f == "crash":
            self._exiting.pop(str(op.node), None)

    def _watch(self) -> None:
        while not self._over.wait(POLL):
            for host in list(self._exiting):
                if self._is_gone(host):
                    self._processes.start(host, wiped=False)
                    self._relaunch(host)

    def _is_gone(self, host: str) -> bool:
        with self._recorder.lock:  # no fault strikes meanwhile
            if host not in self._exiting or self._processes.incarnation(host) is not None:
                return False
            del self._exiting[host]
            self._recorder.nemesis("exited", {"host": host}, node=host)
        return True
