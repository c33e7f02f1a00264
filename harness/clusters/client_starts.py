"""When the clients of a real run start: each one ``stagger`` after the one before it.

On a loaded machine a client may take its first step hundreds of milliseconds after it was told to run. If the next one
did not wait for that, another client than planned would acquire the lock first.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

from harness.clusters.base import RecordEntry

from .client_host import ClientHost

LATEST: Final = 2.0
"""Seconds after its planned start at which a client starts, even if the one before it has not recorded anything: it may
have been killed or paused."""


class ClientStarts:
    """Starts the clients of one run."""

    def __init__(self) -> None:
        self._recorded: defaultdict[int, threading.Event] = defaultdict(threading.Event)
        """By number of the client; set when it has recorded an entry."""
        self._over = threading.Event()

    def launch(self, client: ClientHost, job: Any, record: RecordEntry) -> Callable[[float], bool]:
        """Give a client its job, once it may start. See :meth:`harness.clusters.base.Cluster.launch`."""
        number, gap = int(client.name.removeprefix("c")), job.plan.stagger
        recorded = self._recorded[number]

        def record_and_note(**entry: Any) -> None:
            recorded.set()
            record(**entry)

        if number == 0 or gap == 0 or job.generation > 0:
            return client.launch(job, record_and_note)
        before = self._recorded[number - 1]
        later = _LaterStart(client, lambda: client.launch(job, record_and_note))

        def wait() -> None:
            before.wait(gap * (number - 1) + LATEST)
            if not self._over.wait(gap):
                later.start()

        threading.Thread(target=wait, name=f"start of {client.name}", daemon=True).start()
        return later.join

    def end(self) -> None:
        """Start no more clients."""
        self._over.set()


class _LaterStart:
    """The start of a client that waits. It is given up if the client's process ends before it."""

    def __init__(self, client: ClientHost, launch: Callable[[], Callable[[float], bool]]) -> None:
        self._client = client
        self._launch = launch
        self._conversation = client.conversation
        self._guard = threading.Lock()
        self._joined: Callable[[float], bool] | None = None
        self._given_up = False

    def start(self) -> None:
        with self._guard:
            same = self._client.alive and self._client.conversation is self._conversation
            if same and not self._given_up:
                self._joined = self._launch()

    def join(self, timeout: float) -> bool:
        """Wait for the end of the client's program. The run is over, so if it has not started, it never does."""
        with self._guard:
            self._given_up = True
        return self._joined is None or self._joined(timeout)
