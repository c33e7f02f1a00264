"""Pause, kill, start and probe the programs of hosts."""

from __future__ import annotations

import threading
import time
from abc import abstractmethod
from concurrent.futures import Future, wait
from typing import Any

from harness.clusters.abilities.hosts import State
from harness.clusters.client_host import PREPARED, REVIVAL
from harness.clusters.conversation import Unanswered
from harness.clusters.host_clocks import HostClocks
from harness.clusters.program_faults import ProgramFaults

from .hosts import HostServer, RemoteClient


class ProcessMethods(ProgramFaults):
    """Mixin that implements :class:`harness.clusters.abilities.hosts.Processes` and ``ClientHangs``."""

    _hosts: dict[str, HostServer | RemoteClient]
    _wall_clocks: HostClocks

    @abstractmethod
    def _prepare(self, client: RemoteClient) -> Future[Any]:
        """Tell a client program to open its lock; return its answer."""

    @abstractmethod
    def _note_problem(self, problem: str) -> None:
        """See :class:`harness.clusters.real_cluster.RealCluster`."""

    def _signal(self, host: str, op: str) -> None:
        """Stop, resume or kill a program with the processes that it has started."""
        target = self._hosts[host]
        if (group := target.group) is not None:
            target.host.ask(op, group=group)

    def _freeze(self, host: str) -> None:
        self._signal(host, "stop")

    def _thaw(self, host: str) -> None:
        self._signal(host, "resume")

    def _kill_program(self, host: str) -> None:
        target = self._hosts[host]
        target.expect_kill()
        self._signal(host, "kill")
        if isinstance(target, RemoteClient):
            target.conversation.ended.wait(REVIVAL)

    def _revive(self, host: str, *, wiped: bool) -> None:
        """Start a host's program, and reapply its wall clock, since a new process begins with true time."""
        target = self._hosts[host]
        if isinstance(target, HostServer):
            target.start(wiped=wiped)
            if self._wall_clocks.was_set(host):
                threading.Thread(target=self._set_clock_again, args=(target,), daemon=True).start()
            return
        target.start()
        prepared = self._prepare(target)
        if self._wall_clocks.was_set(host) or self._pauses[host]:
            wait([prepared], PREPARED)
        if self._wall_clocks.was_set(host):
            self._restore_clock(host)

    def _set_clock_again(self, server: HostServer) -> None:
        deadline = time.monotonic() + REVIVAL
        while not server.answers() and time.monotonic() < deadline:
            time.sleep(0.01)
        self._restore_clock(server.name)

    def _restore_clock(self, host: str) -> None:
        problem = self._wall_clocks.restore(host)
        if problem and self.incarnation(host) is not None:  # a dead program has no clock
            self._note_problem(problem)

    def state(self, host: str) -> State:
        if self._hosts[host].answers():
            return "running"
        return "paused" if self.incarnation(host) is not None else "dead"

    def incarnation(self, host: str) -> int | None:
        target = self._hosts[host]
        try:
            group = target.group
            return None if group is None else min(target.host.ask("members", group=group), default=None)
        except Unanswered:
            return None

    def _client(self, name: str) -> RemoteClient:
        client = self._hosts[name]
        assert isinstance(client, RemoteClient), name
        return client

    def _server(self, name: str) -> HostServer:
        server = self._hosts[name]
        assert isinstance(server, HostServer), name
        return server
