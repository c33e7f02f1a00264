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
        self._error: Exception | None = None
        recorder.listeners.append(self._on_entry)
        self._thread = threading.Thread(target=self._watch, name="exits", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Start no more programs. Raises the error that has ended the watch, if there was one."""
        self._over.set()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def abandon(self) -> None:
        """The run is cut short: start no more programs, since nothing would end them. Errors of a cluster that is being
        removed do not matter."""
        self._over.set()

    def _on_entry(self, op: Op) -> None:
        if op.f == "exit":
            self._exiting[str(op.node)] = None
        elif op.f == "crash":
            self._exiting.pop(str(op.node), None)

    def _watch(self) -> None:
        try:
            while not self._over.wait(POLL):
                for host in list(self._exiting):
                    if self._is_gone(host) and not self._over.is_set():
                        self._processes.start(host, wiped=False)
                        self._relaunch(host)
        except Exception as error:  # noqa: BLE001 - raised again by stop
            self._error = error

    def _is_gone(self, host: str) -> bool:
        with self._recorder.lock:  # no fault strikes meanwhile
            if host not in self._exiting or self._processes.incarnation(host) is not None:
                return False
            del self._exiting[host]
            self._recorder.nemesis("exited", {"host": host}, node=host)
        return True
