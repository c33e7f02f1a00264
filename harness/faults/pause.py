"""Pauses: processes that stand still and then go on as if nothing had happened (GC, SIGSTOP, a stolen virtual CPU)."""

from __future__ import annotations

import time
from typing import Any, ClassVar, Final

from ..clusters.base import Cluster, Role
from .base import Damage, Fault, Scene, Seen, once, targets

PATIENCE: Final = 2.0
"""Seconds within which a client takes its next step, where it can hang."""


def _pause(scene: Scene, hosts: list[str]) -> Damage:
    cluster = scene.cluster
    for host in hosts:
        cluster.pause(host)

    def observe() -> Seen:
        states = {host: cluster.state(host) for host in hosts}
        return Seen(all(state == "paused" for state in states.values()), {"state": states}, "all of them paused")

    def heal() -> None:
        for host in hosts:
            cluster.resume(host)

    return Damage(hosts, observe, once(heal), lambda: not_paused(cluster, hosts))


def not_paused(cluster: Cluster, hosts: list[str]) -> Seen:
    """What is seen of hosts that have been told to go on: one that has died meanwhile is not paused either."""
    states = {host: cluster.state(host) for host in hosts}
    return Seen("paused" not in states.values(), {"state": states}, "none of them paused")


class ClientPause(Fault, frozen=True):
    """A client stands still, all its threads included; by default the one whose event triggered it."""

    name: ClassVar[str] = "client-pause"
    summary: ClassVar[str] = "a client that has just got the lock stands still for longer than the ttl"
    needs: ClassVar[frozenset[str]] = frozenset({"pause"})
    disturbs: ClassVar[bool] = False
    schedule: ClassVar[dict[str, Any]] = {"on": "acquire", "nth": 3, "times": 1000, "every": "3 ttl", "for": "1.5 ttl"}

    roles: ClassVar[tuple[Role, ...]] = ("client",)
    target: str = "holder"

    def inject(self, scene: Scene) -> Damage:
        return _pause(scene, targets(scene, self.target, scene.hosts("client")))


class ServerPause(Fault, frozen=True):
    """Servers stand still: they accept connections, since their kernel does, and answer nothing."""

    name: ClassVar[str] = "server-pause"
    summary: ClassVar[str] = "a minority of the servers stands still for a while"
    needs: ClassVar[frozenset[str]] = frozenset({"pause"})
    schedule: ClassVar[dict[str, Any]] = {"every": "4 ttl", "for": "1.5 ttl"}

    roles: ClassVar[tuple[Role, ...]] = ("server", "sentinel")
    target: str = "minority"

    def inject(self, scene: Scene) -> Damage:
        return _pause(scene, targets(scene, self.target, scene.hosts("server")))


class ClientHang(Fault, frozen=True):
    """The client's own thread blocks for ever; other threads of its process (a watchdog) go on."""

    name: ClassVar[str] = "client-hang"
    summary: ClassVar[str] = "the thread that holds the lock blocks for ever, and its watchdog does not"
    needs: ClassVar[frozenset[str]] = frozenset({"hang"})
    disturbs: ClassVar[bool] = False
    replaces: ClassVar[bool] = True
    schedule: ClassVar[dict[str, Any]] = {"on": "acquire", "nth": 3}

    roles: ClassVar[tuple[Role, ...]] = ("client",)
    target: str = "holder"

    def inject(self, scene: Scene) -> Damage:
        cluster = scene.cluster
        hosts = targets(scene, self.target, scene.hosts("client"))
        for host in hosts:
            cluster.hang(host)

        def observe() -> Seen:
            deadline = time.monotonic() + PATIENCE
            while not all(cluster.hung(host) for host in hosts) and time.monotonic() < deadline:
                time.sleep(0.01)
            hung = {host: cluster.hung(host) for host in hosts}
            return Seen(all(hung.values()), {"hung": hung}, "the worker blocked at its next step")

        return Damage(hosts, observe, lambda: None)
