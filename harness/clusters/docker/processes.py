"""Pause, kill, start and watch the programs of a container cluster's hosts."""

from __future__ import annotations

import contextlib
import shlex
import threading
import time
from abc import abstractmethod
from concurrent.futures import Future, wait
from functools import partial
from typing import Any

from harness.clusters.abilities.hosts import State
from harness.clusters.client_host import ANSWER, PREPARED, REVIVAL
from harness.clusters.conversation import Refused, Unanswered
from harness.clusters.docker.containers.engine import Box, Deployment, engine_errors, in_parallel
from harness.clusters.docker.containers.helper_client import Helper
from harness.clusters.host_clocks import HostClocks
from harness.clusters.key_watch import KeyWatch
from harness.clusters.program_faults import ProgramFaults

from .disks import Disks
from .hosts import ContainerClient, How, ServerHost
from .kinds import RealServers
from .network import LinkFaults
from .wire import WireRecorder


class ProcessMethods(ProgramFaults):
    """Mixin that implements :class:`harness.clusters.abilities.hosts.Processes`."""

    servers: RealServers
    deployment: Deployment
    _key_watch: KeyWatch | None
    _hosts: dict[str, ServerHost | ContainerClient]
    _boxes: dict[str, Box]
    _helper: Helper
    _link_faults: LinkFaults
    _disks: Disks | None
    _wall_clocks: HostClocks
    _wire: WireRecorder

    def __init__(self) -> None:
        super().__init__()
        self.frozen: dict[str, Any] = {}
        """Facts about a cluster that was frozen as a whole, as in :class:`harness.documents.run.FrozenCluster`."""
        self._frozen_ns = 0

    @abstractmethod
    def _prepare(self, client: ContainerClient) -> Future[Any] | None:
        """Tell a client program to open its lock; return its answer, or None if there is no lock to open."""

    @abstractmethod
    def _note_problem(self, problem: str) -> None:
        """See :class:`harness.clusters.real_cluster.RealCluster`."""

    def freeze_all(self) -> None:
        """See :class:`harness.clusters.abilities.hosts.ClusterFreeze`."""
        with self._damaging:
            began, self._frozen_ns = time.monotonic(), time.monotonic_ns()
            if self._key_watch is not None:
                self._key_watch.end()  # a frozen server does not answer, which says nothing about its keys
            there = {host: box.name for host, box in self._boxes.items()}
            looks = {host: self._look(host) for host in there}
            self.frozen = {"id": self.deployment.id, "seconds": 0.0, "hosts": {
                host: {"container": container, "look": looks[host]} for host, container in there.items()
            }}  # fmt: skip
            with engine_errors():
                in_parallel([partial(self._freeze_for_good, host) for host in there if not self._pauses[host]])
            self._frozen_ns = time.monotonic_ns()
            self.frozen["seconds"] = round(time.monotonic() - began, 3)

    def _look(self, host: str) -> str:
        """Return the shell command that shows what a host stores, or ""."""
        command = self.servers.look(host) if host in self.servers.roles else []
        return shlex.join(["docker", "exec", self._boxes[host].name, *command]) if command else ""

    def _freeze_for_good(self, host: str) -> None:
        if host in self._hosts:
            self._hosts[host].await_start()
        self._boxes[host].pause()

    def pause(self, host: str) -> None:
        with self._damaging:
            if not self.frozen:
                super().pause(host)

    def _freeze(self, host: str) -> None:
        """Pause the container once no program is being started in it. Otherwise the engine would block on the start and
        on all later requests for the container, also the one to resume it."""
        self._hosts[host].await_start()
        with self._wire.noting(host, "pause"):
            self._boxes[host].pause()

    def resume(self, host: str) -> None:
        with self._damaging:
            if not self.frozen:
                super().resume(host)

    def _thaw(self, host: str) -> None:
        with self._wire.noting(host, "resume"):
            self._boxes[host].unpause()

    def _thaw_all(self) -> None:
        for name in sorted(+self._pauses):  # the recordings of traffic do not note the end of the run
            self._boxes[name].unpause()

    def kill(self, host: str, *, for_good: bool = False) -> None:
        with self._damaging:
            if not self.frozen:
                super().kill(host, for_good=for_good)

    def _kill_program(self, host: str) -> None:
        target = self._hosts[host]
        target.await_start()
        if isinstance(target, ContainerClient):
            target.expect_kill()
        thaw = self._boxes[host].unpause if self._pauses[host] else lambda: None
        with self._wire.noting(host, "kill"):
            self._helper.kill(self._boxes[host], thaw)
        if isinstance(target, ServerHost):
            self._link_faults.refuse(host, self.servers.port(host))

    def end(self, host: str, within_s: float) -> bool:
        """See :meth:`harness.clusters.abilities.servers.ServerReleases.end_program`."""
        if self.frozen:
            return False
        self._hosts[host].await_start()
        self._helper.terminate(self._boxes[host])
        deadline = time.monotonic() + within_s
        while (lives := self.incarnation(host) is not None) and time.monotonic() < deadline:
            time.sleep(0.005)
        self.kill(host)
        return not lives

    def start(self, host: str, *, wiped: bool) -> None:
        with self._damaging:
            if not self.frozen:
                super().start(host, wiped=wiped)

    def _revive(self, host: str, *, wiped: bool) -> None:
        """Start a host's program and reapply its wall clock, since a new process begins with true time. That takes some
        milliseconds, in which a server may already read its data."""
        if self._pauses[host]:
            self._boxes[host].unpause()  # the engine starts nothing in a paused container
        target = self._hosts[host]
        if isinstance(target, ServerHost):
            if self._disks is not None:
                self._disks.restore_power(host)
            how: How = "wiped" if wiped else "kept"
            with self._wire.noting(host, "start", how=how):
                target.start(how, self._helper.spare)
            self._link_faults.refuse(host, None)
            if self._wall_clocks.was_set(host):
                threading.Thread(target=self._set_clock_again, args=(host,), daemon=True).start()
            return
        target.start(self._helper.spare)
        prepared = self._prepare(target)
        if self._wall_clocks.was_set(host):
            with contextlib.suppress(Unanswered):
                target.conversation.ask("ping", patience=REVIVAL)
            if prepared is not None:  # its program has a clock of its own
                wait([prepared], PREPARED)
            self._wall_clocks.set_again(host)

    def _set_clock_again(self, host: str) -> None:
        deadline = time.monotonic() + REVIVAL
        while not self.servers.answers(host) and time.monotonic() < deadline:
            time.sleep(0.002)
        problem = self._wall_clocks.restore(host)
        if problem and self.incarnation(host) is not None:  # a dead program has no clock
            self._note_problem(problem)

    def state(self, host: str) -> State:
        if self._works(host):
            return "running"
        return "paused" if self.incarnation(host) is not None else "dead"

    def _works(self, host: str) -> bool:
        if isinstance(self._hosts[host], ServerHost):
            return self.servers.answers(host)
        try:
            self._client(host).conversation.ask("ping", patience=ANSWER)
        except (Unanswered, Refused):
            return False
        return True

    def incarnation(self, host: str) -> int | None:
        return min(self._helper.members(self._boxes[host]), default=None)

    def key_count(self, host: str) -> int | None:
        return self.servers.key_count(host)

    def _client(self, name: str) -> ContainerClient:
        host = self._hosts[name]
        assert isinstance(host, ContainerClient), name
        return host

    def _server(self, name: str) -> ServerHost:
        host = self._hosts[name]
        assert isinstance(host, ServerHost), name
        return host
