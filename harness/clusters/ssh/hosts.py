"""Programs of a run on hosts: servers and clients, each with the process group by which faults find it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from harness.clusters.base import Role
from harness.clusters.client_host import ANSWER, REVIVAL, ClientHost, Entries
from harness.clusters.conversation import Refused, Unanswered

from .connection import HostConnection, RemoteProgram
from .links import Endpoint
from .offsets import HostClock
from .services.base import HostServers


class HostServer:
    """A server on a host; ``lines`` are its output and errors, each with its time of arrival."""

    role: Role = "server"

    def __init__(self, name: str, host: HostConnection, endpoint: Endpoint, servers: HostServers) -> None:
        self.name = name
        self.address = endpoint.address
        self.host = host
        self.lines: list[tuple[int, str]] = []
        self.starts = 0
        """How often its program was started."""
        self._endpoint = endpoint
        self._servers = servers
        self._program: RemoteProgram | None = None

    def start(self, *, wiped: bool) -> None:
        """Start the program, after its data was removed if ``wiped``."""
        if wiped:
            self.host.ask("empty", path=f"{self.name}/data")
        folder = f"{self.host.facts['folder']}/{self.name}"
        program = self._servers.program(self.name, folder)
        for name, text in program.files.items():
            self.host.ask("write", path=f"{self.name}/{name}", text=text)
        self._program = self.host.start(self.name, program.command, {}, self._endpoint.gid, self._hear)
        self.starts += 1

    def _hear(self, event: dict[str, Any]) -> None:
        text = event.get("out", event.get("err"))
        if text is not None:
            self.lines.append((time.monotonic_ns(), text))

    @property
    def group(self) -> int | None:
        """The process group of its program, None if it was never started."""
        return None if self._program is None else self._program.pid

    def answers(self) -> bool:
        return self._servers.answers(self.name)

    def expect_kill(self) -> None:
        """A server may die at any time."""


class RemoteClient(ClientHost):
    """Host with the client program. Its times are converted to this machine's monotonic clock."""

    def __init__(
        self,
        name: str,
        host: HostConnection,
        clock: HostClock,
        endpoint: Endpoint,
        entries: Entries,
        program: tuple[Sequence[str], Mapping[str, str]],
    ) -> None:
        super().__init__(name, endpoint.address, entries)
        self.host = host
        self.clock = clock
        self._endpoint = endpoint
        self._command, self._environment = program
        self._group: int | None = None
        self._finding = threading.Lock()

    def start(self) -> None:
        """Start the client program, which then waits for its job."""
        self._group = None
        self._start_program()

    def _begin(self, on_line: Callable[[bytes], None], on_end: Callable[[], None]) -> RemoteProgram:
        def hear(event: dict[str, Any]) -> None:
            if "out" in event:
                on_line(event["out"].encode())
            if "ended" in event:
                on_end()

        return self.host.start(self.name, self._command, self._environment, self._endpoint.gid, hear)

    def _on_event(self, process: Any, event: dict[str, Any]) -> None:
        if "entry" in event:
            entry = event["entry"]
            event = {**event, "entry": {**entry, "time": self.clock.here(entry["time"])}}
        super()._on_event(process, event)

    @property
    def group(self) -> int | None:
        """The process group of the client with the processes that it has started; None if it is dead."""
        with self._finding:
            if self._group is None and self.alive:
                self._group = int(self.conversation.ask("process", patience=REVIVAL))
            return self._group if self.alive else None

    def answers(self) -> bool:
        try:
            self.conversation.ask("ping", patience=ANSWER)
        except (Unanswered, Refused):
            return False
        return True
