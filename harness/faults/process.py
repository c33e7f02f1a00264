"""Processes that die, and what is left of them when they come back."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from ..clusters.base import Cluster, Role
from .base import Damage, Fault, Scene, Seen, answered, once, targets
from .partition import between
from .pause import not_paused


def _kill_servers(scene: Scene, hosts: list[str], *, wiped: bool) -> Damage:
    cluster = scene.cluster
    sizes = {host: cluster.size(host) for host in hosts}
    lives = {host: cluster.life(host) for host in hosts}
    for host in hosts:
        cluster.kill(host)

    def observe() -> Seen:
        states = {host: cluster.state(host) for host in hosts}
        # It may be back already: then it lives another life.
        died = [host for host in hosts if states[host] == "dead" or cluster.life(host) not in (None, lives[host])]
        facts = {"state": states, "died": died, "keys_before": sizes}
        return Seen(died == hosts, facts, "all of them dead, or in another life")

    def healed() -> Seen:
        found = running(cluster, hosts)
        after = {host: cluster.size(host) for host in hosts}  # asked of those that answer, if they do
        # Seen, not believed: servers without persistence come back empty from a plain kill, too.
        lost = [host for host in hosts if sizes[host] and after[host] == 0]
        return replace(found, facts={**found.facts, "keys_before": sizes, "keys_after": after, "wiped": lost})

    return Damage(hosts, observe, once(lambda: _start(cluster, hosts, wiped=wiped)), healed)


def _start(cluster: Cluster, hosts: list[str], *, wiped: bool) -> None:
    for host in hosts:
        cluster.start(host, wiped=wiped)


def running(cluster: Cluster, hosts: list[str]) -> Seen:
    """What is seen of hosts that should be up again."""
    states = {host: cluster.state(host) for host in hosts}
    return Seen(all(state == "running" for state in states.values()), {"state": states}, "all of them running")


class Kill(Fault, frozen=True):
    """Servers are killed (SIGKILL) and come back with their data."""

    name: ClassVar[str] = "kill"
    summary: ClassVar[str] = "a minority of the servers is killed and comes back with its data"
    needs: ClassVar[frozenset[str]] = frozenset({"kill"})
    schedule: ClassVar[dict[str, Any]] = {"every": "3 ttl", "for": "0.5 ttl"}

    roles: ClassVar[tuple[Role, ...]] = ("server", "sentinel")
    target: str = "minority"

    def inject(self, scene: Scene) -> Damage:
        return _kill_servers(scene, targets(scene, self.target, scene.hosts("server")), wiped=False)


class KillAmnesia(Fault, frozen=True):
    """Servers are killed and come back empty: no persistence, or a disk that was lost."""

    name: ClassVar[str] = "kill-amnesia"
    summary: ClassVar[str] = "a majority of the servers is killed and comes back at once, without its data"
    needs: ClassVar[frozenset[str]] = frozenset({"kill"})
    schedule: ClassVar[dict[str, Any]] = {"on": "acquire", "nth": 5, "times": 1000, "every": "3 ttl", "for": 0.0}
    search: ClassVar[dict[str, tuple[Any, ...]]] = {"for": (0.0, 0.5, "1.5 ttl")}

    roles: ClassVar[tuple[Role, ...]] = ("server", "sentinel")
    target: str = "majority"

    def inject(self, scene: Scene) -> Damage:
        return _kill_servers(scene, targets(scene, self.target, scene.hosts("server")), wiped=True)


class ClientCrash(Fault, frozen=True):
    """A client's host dies with all it was doing. With ``restart`` it comes back as a new process after the heal."""

    name: ClassVar[str] = "client-crash"
    summary: ClassVar[str] = "a client that has just got the lock dies"
    needs: ClassVar[frozenset[str]] = frozenset({"kill"})
    disturbs: ClassVar[bool] = False
    schedule: ClassVar[dict[str, Any]] = {"on": "acquire", "nth": 5}

    roles: ClassVar[tuple[Role, ...]] = ("client",)
    search: ClassVar[dict[str, tuple[Any, ...]]] = {"restart": (False, True), "for": (None,)}
    target: str = "holder"
    restart: bool = False

    def inject(self, scene: Scene) -> Damage:
        cluster = scene.cluster
        hosts = targets(scene, self.target, scene.hosts("client"))
        for host in hosts:
            cluster.kill(host, for_good=not self.restart)

        def observe() -> Seen:
            states = {host: cluster.state(host) for host in hosts}
            return Seen(all(state == "dead" for state in states.values()), {"state": states}, "the client dead")

        if not self.restart:
            return Damage(hosts, observe, lambda: None, crashed=hosts)
        heal = once(lambda: _start(cluster, hosts, wiped=True))
        return Damage(hosts, observe, heal, lambda: running(cluster, hosts), crashed=hosts, restarted=hosts)


class Failover(Fault, frozen=True):
    """The primary is lost while its last writes are on it alone, and another server is promoted.

    ``how``: ``kill`` it, ``pause`` it, or ``isolate`` it from all servers and sentinels (clients still reach it). It
    comes back at the heal; the new primary is what the sentinels name.
    """

    name: ClassVar[str] = "failover"
    summary: ClassVar[str] = "the primary dies before its last writes have reached a replica; one is promoted"
    needs: ClassVar[frozenset[str]] = frozenset({"kill", "cut", "failover"})
    schedule: ClassVar[dict[str, Any]] = {"on": "acquire", "times": 1000, "every": 15.0, "for": 6.0}
    companions: ClassVar[tuple[dict[str, Any], ...]] = (
        {"fault": "partition-replicas", "on": "acquire:invoke", "times": 1000, "every": 15.0, "for": 6.0},
    )

    takes: ClassVar[float] = 3.0
    search: ClassVar[dict[str, tuple[Any, ...]]] = {"how": ("kill", "pause", "isolate"), "for": (6.0, None)}

    how: str = "kill"
    patience: float = 8.0

    def inject(self, scene: Scene) -> Damage:
        cluster = scene.cluster
        old = cluster.primary() or scene.hosts("server")[0]
        heal, healed = self._strike(cluster, old, scene)
        began, _ = cluster.clock()

        def observe() -> Seen:
            new = _await_new_primary(scene, old, self.patience)
            took = (cluster.clock()[0] - began) / 1e9
            facts = {"primary_before": old, "primary_after": new, "seconds": round(took, 3)}
            return Seen(new not in (None, old), facts, "another primary")

        return Damage([old], observe, once(heal), healed)

    def _strike(self, cluster: Cluster, old: str, scene: Scene) -> tuple[Callable[[], None], Callable[[], Seen]]:
        if self.how == "kill":
            cluster.kill(old)
            return lambda: cluster.start(old, wiped=False), lambda: running(cluster, [old])
        if self.how == "pause":
            cluster.pause(old)
            return lambda: cluster.resume(old), lambda: not_paused(cluster, [old])
        others = [host for host in scene.hosts("server") + scene.hosts("sentinel") if host != old]
        links = between([old], others)
        cluster.cut(links)
        return lambda: cluster.mend(links), lambda: answered(cluster, links[:4])


class LeaderLoss(Failover, frozen=True):
    """The leader of servers that agree by majority is lost; the others elect another. ``how`` as for ``failover``."""

    name: ClassVar[str] = "leader-loss"
    summary: ClassVar[str] = "the leader of a quorum is killed and comes back after another has been elected"
    needs: ClassVar[frozenset[str]] = frozenset({"kill", "cut", "leader"})
    schedule: ClassVar[dict[str, Any]] = {"every": 12.0, "for": 5.0}
    companions: ClassVar[tuple[dict[str, Any], ...]] = ()

    patience: float = 20.0
    """A ZooKeeper that votes may wait 5 s for a connection to one that is frozen, and vote again."""


def _await_new_primary(scene: Scene, old: str, patience: float) -> str | None:
    deadline = time.monotonic() + patience
    while True:
        now = scene.cluster.primary()
        if now not in (None, old) or time.monotonic() >= deadline or scene.over.is_set():
            return now
        scene.over.wait(0.05)
