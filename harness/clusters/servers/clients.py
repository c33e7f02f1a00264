"""Clients as processes of this machine: start, pause, hang, kill and probe them."""

from __future__ import annotations

import signal
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from harness.clusters.abilities.hosts import State
from harness.clusters.client_host import ANSWER, REVIVAL, ClientHost, Entries
from harness.clusters.conversation import Refused, Unanswered
from harness.clusters.program_faults import ProgramFaults
from harness.clusters.programs import LocalProgram, await_stop, send_signal


class LocalClient(ClientHost):
    """Host with the client program, which is a process group of this machine."""

    def __init__(self, name: str, entries: Entries, command: Sequence[str], environment: Mapping[str, str]) -> None:
        super().__init__(name, "127.0.0.1", entries)
        self._command = command
        self._environment = environment
        self._group: int | None = None

    def start(self) -> None:
        """Start the client program, which then waits for its job."""
        self._group = None  # before the new program lives: another thread may ask for its group
        self._start_program()

    def _begin(self, on_line: Callable[[bytes], None], on_end: Callable[[], None]) -> LocalProgram:
        return LocalProgram(self._command, on_line, on_end, environment=self._environment)

    def find_group(self) -> int:
        """Return the id of the client's process group, which is the id of its process too. Raises :class:`Unanswered`
        if the program does not start."""
        if self._group is None:
            self._group = int(self.conversation.ask("process", patience=REVIVAL))
        return self._group

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the client, with the processes that it has started."""
        if self.alive:
            send_signal(self.find_group(), number)

    def stop(self) -> None:
        """Pause the client; return when none of its threads runs."""
        if self.alive:
            self.signal(signal.SIGSTOP)
            await_stop(self.find_group())

    def end(self) -> None:
        """End the program in whatever state it is."""
        self.expect_kill()
        if self._group is not None:
            send_signal(self._group, signal.SIGKILL)
        self.close()


class ProcessMethods(ProgramFaults):
    """Mixin that implements :class:`harness.clusters.abilities.hosts.Processes` and ``ClientHangs`` for clients."""

    _clients: dict[str, LocalClient]

    @abstractmethod
    def _prepare(self, client: LocalClient) -> Future[Any]:
        """Tell a client program to open its lock; return its answer."""

    def _client(self, name: str) -> LocalClient:
        return self._clients[name]

    def _freeze(self, host: str) -> None:
        self._clients[host].stop()

    def _thaw(self, host: str) -> None:
        self._clients[host].signal(signal.SIGCONT)

    def _kill_program(self, host: str) -> None:
        client = self._clients[host]
        client.expect_kill()
        client.signal(signal.SIGKILL)
        client.conversation.ended.wait(REVIVAL)

    def _revive(self, host: str, *, wiped: bool) -> None:
        del wiped  # a client keeps nothing
        client = self._clients[host]
        client.start()
        prepared = self._prepare(client)
        if self._pauses[host]:
            prepared.exception(REVIVAL)

    def state(self, host: str) -> State:
        try:
            self._clients[host].conversation.ask("ping", patience=ANSWER)
        except (Unanswered, Refused):
            return "paused" if self.incarnation(host) is not None else "dead"
        return "running"

    def incarnation(self, host: str) -> int | None:
        client = self._clients[host]
        return client.find_group() if client.alive else None
