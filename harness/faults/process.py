"""Processes that die, and the data that they have when they come back."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Literal

from harness.clusters.abilities import ELECTIONS, FAILOVER, LOCK_KEYS, NETWORK, PROCESSES, SHARDS, Needs
from harness.clusters.abilities.hosts import Processes
from harness.clusters.abilities.servers import Shards
from harness.clusters.base import Role
from harness.wording import listed

from .base import (
    ComparisonColumn,
    Damage,
    Fault,
    FaultStep,
    InjectionContext,
    Observation,
    Question,
    answered,
    once,
    targets,
)
from .partition import links_between
from .pause import not_paused, state_during
from .records import FaultRecord, Moment


def _kill_servers(scene: InjectionContext, hosts: list[str], *, wiped: bool) -> Damage:
    processes, keys = scene.part(PROCESSES), scene.part(LOCK_KEYS)
    sizes = {host: keys.key_count(host) for host in hosts}
    before = {host: processes.incarnation(host) for host in hosts}
    for host in hosts:
        processes.kill(host)

    def observe() -> Observation:
        states = {host: processes.state(host) for host in hosts}
        # A host that is back has a new incarnation already.
        died = [
            host for host in hosts if states[host] == "dead" or processes.incarnation(host) not in (None, before[host])
        ]
        facts = {"state": states, "died": died, "keys_before": sizes}
        return Observation({host: host in died for host in hosts}, facts, "all of them dead, or in another life")

    def healed() -> Observation:
        found = running(processes, hosts)
        after = {host: keys.key_count(host) for host in hosts}
        # Count the keys: servers without persistence come back empty from a plain kill, too.
        lost = [host for host in hosts if sizes[host] and after[host] == 0]
        return replace(found, facts={**found.facts, "keys_before": sizes, "keys_after": after, "wiped": lost})

    return Damage(hosts, observe, once(lambda: _start(processes, hosts, wiped=wiped)), healed)


def _start(processes: Processes, hosts: list[str], *, wiped: bool) -> None:
    for host in hosts:
        processes.start(host, wiped=wiped)


def running(processes: Processes, hosts: list[str]) -> Observation:
    """Observe hosts that should be up again."""
    states = {host: processes.state(host) for host in hosts}
    up = {host: state == "running" for host, state in states.items()}
    return Observation(up, {"state": states}, "all of them running")


def _in_its_shard(healed: Callable[[], Observation], shards: Shards, host: str) -> Observation:
    """Observe a host that is healed once it is its shard's primary or one of its replicas, too."""
    found, primary, replicas = healed(), shards.primary(), shards.replicas()
    back = found.effects.get(host, True) and host in (primary, *replicas)
    facts = {**found.facts, "primary": primary, "replicas": replicas}
    return replace(
        found, effects={**found.effects, host: back}, facts=facts, expected=f"{found.expected}, and in its shard"
    )


class ServersDie(Fault, frozen=True):
    """Base of the faults in which servers die and come back."""

    damages_with: ClassVar[str] = "kill"
    fact: ClassVar[str] = "keys_before"
    dies: ClassVar[tuple[str, str, str, str]] = ("is killed", "are killed", "was killed", "were killed")
    """Verb forms: now for one server and for several, and in the past for one and for several."""

    @classmethod
    def story(cls, record: FaultRecord, ended: str) -> str:
        empty = record.observed.get("after_heal", {}).get("wiped") or []
        lost = f", {listed(empty)} without data" if empty else ""
        if empty and set(empty) == set(record.hosts):
            lost = " without data"
        restarts = record.verb("restarts", "restart")
        back = f", and {restarts}{ended.replace(' until', ' at')}{lost}" if ended else ""
        return f"{record.who} {record.verb(*cls.dies[:2])}{back}"

    @classmethod
    def cause(cls, record: FaultRecord, moment: Moment) -> str:
        back = record.healed_ns is not None and record.healed_ns <= moment.ns
        empty = record.observed.get("after_heal", {}).get("wiped") if back else None
        some = "" if not empty or set(empty) == set(record.hosts) else f", and {listed(empty)}"
        lost = f"{some or ' and'} restarted without data" if empty else ""
        return f"{record.who} {record.verb(*cls.dies[2:])} at {moment.seconds(record.injected_ns)}{lost}"


class Kill(ServersDie, frozen=True):
    """Servers are killed (SIGKILL) and come back with their data."""

    name: ClassVar[str] = "kill"
    question: ClassVar[Question | None] = "server crash"
    summary: ClassVar[str] = "a minority of the servers is killed and restarts with its data"
    needs: ClassVar[Needs] = frozenset({PROCESSES, LOCK_KEYS})
    schedule: ClassVar[dict[str, Any]] = {"every": "3 ttl", "for": "0.5 ttl"}

    roles: ClassVar[tuple[Role, ...]] = ("server", "sentinel")
    target: str = "minority"

    def inject(self, scene: InjectionContext) -> Damage:
        return _kill_servers(scene, targets(scene, self.target, scene.hosts("server")), wiped=False)


class KillAmnesia(ServersDie, frozen=True):
    """Servers are killed and come back empty: no persistence, or a disk that was lost."""

    name: ClassVar[str] = "kill-amnesia"
    question: ClassVar[Question | None] = "server crash"
    summary: ClassVar[str] = "a majority of the servers is killed and restarts at once, without its data"
    needs: ClassVar[Needs] = frozenset({PROCESSES, LOCK_KEYS})
    schedule: ClassVar[dict[str, Any]] = {"on": "acquire", "nth": 5, "times": 1000, "every": "3 ttl", "for": 0.0}
    search: ClassVar[dict[str, tuple[Any, ...]]] = {"for": (0.0, 0.5, "1.5 ttl")}
    step: ClassVar[FaultStep | None] = FaultStep("wipe", "server", 0.0, "a restart of a server without its data")
    column: ClassVar[ComparisonColumn | None] = ComparisonColumn(4)

    roles: ClassVar[tuple[Role, ...]] = ("server", "sentinel")
    target: str = "majority"

    def inject(self, scene: InjectionContext) -> Damage:
        return _kill_servers(scene, targets(scene, self.target, scene.hosts("server")), wiped=True)


class ClientCrash(Fault, frozen=True):
    """A client's host dies. With ``restart`` it comes back as a new process after the heal."""

    name: ClassVar[str] = "client-crash"
    question: ClassVar[Question | None] = "holder crash"
    beyond_clients: ClassVar[bool] = False
    summary: ClassVar[str] = "a client is killed just after an acquire"
    needs: ClassVar[Needs] = frozenset({PROCESSES})
    disturbs: ClassVar[bool] = False
    schedule: ClassVar[dict[str, Any]] = {"on": "acquire", "nth": 5}
    damages_with: ClassVar[str] = "kill"
    column: ClassVar[ComparisonColumn | None] = ComparisonColumn(2)
    silences: ClassVar[Literal["", "pause", "hang", "death"]] = "death"
    fact: ClassVar[str] = "state"

    roles: ClassVar[tuple[Role, ...]] = ("client",)
    search: ClassVar[dict[str, tuple[Any, ...]]] = {"restart": (False, True), "for": (None,)}
    target: str = "holder"
    restart: bool = False

    def inject(self, scene: InjectionContext) -> Damage:
        processes = scene.part(PROCESSES)
        hosts = targets(scene, self.target, scene.hosts("client"))
        for host in hosts:
            processes.kill(host, for_good=not self.restart)

        def observe() -> Observation:
            states = {host: processes.state(host) for host in hosts}
            dead = {host: state == "dead" for host, state in states.items()}
            return Observation(dead, {"state": states}, "the client dead")

        if not self.restart:
            return Damage(hosts, observe, lambda: None, crashed=hosts)
        heal = once(lambda: _start(processes, hosts, wiped=True))
        return Damage(hosts, observe, heal, lambda: running(processes, hosts), crashed=hosts, restarted=hosts)

    @classmethod
    def story(cls, record: FaultRecord, ended: str) -> str:
        anew = f", and {record.verb('restarts', 'restart')}{ended.replace(' until', ' at')}"
        again = anew if ended and record.params.get("restart") else ""
        return f"{record.who} {record.verb('dies', 'die')}{again}"

    @classmethod
    def cause(cls, record: FaultRecord, moment: Moment) -> str:
        return state_during(record, moment)


class Failover(Fault, frozen=True):
    """The primary is lost while its last writes exist on it alone, and another server is promoted.

    ``how``: ``kill`` it, ``pause`` it, or ``isolate`` it from all servers and sentinels (clients still reach it). It
    comes back at the heal. The new primary is the one that the sentinels name.
    """

    name: ClassVar[str] = "failover"
    question: ClassVar[Question | None] = "failover"
    summary: ClassVar[str] = (
        "the primary is killed before its last writes have reached a replica, and a replica is promoted"
    )
    needs: ClassVar[Needs] = frozenset({PROCESSES, NETWORK, FAILOVER})
    damages_with: ClassVar[str] = "kill"
    column: ClassVar[ComparisonColumn | None] = ComparisonColumn(
        6, 10.0, 4.0,
        "a shorter lease would expire before the promotion, so the loss of the lock could do no harm",
    )  # fmt: skip
    fact: ClassVar[str] = "primary_before"
    lost: ClassVar[str] = "primary"
    """Name that a story gives to the lost server."""
    schedule: ClassVar[dict[str, Any]] = {"on": "acquire", "times": 1000, "every": 15.0, "for": 6.0}
    companions: ClassVar[tuple[dict[str, Any], ...]] = (
        {"fault": "partition-replicas", "on": "acquire:invoke", "times": 1000, "every": 15.0, "for": 6.0},
    )

    takes: ClassVar[float] = 3.0
    search: ClassVar[dict[str, tuple[Any, ...]]] = {"how": ("kill", "pause", "isolate"), "for": (6.0, None)}

    how: str = "kill"
    patience: float = 8.0

    def inject(self, scene: InjectionContext) -> Damage:
        cluster = scene.cluster
        old = self._leading(scene) or scene.hosts("server")[0]
        heal, healed = self._strike(scene, old)
        if (shards := SHARDS.find(scene.cluster)) is not None:
            healed = partial(_in_its_shard, healed, shards, old)
        began, _ = cluster.clock()

        def observe() -> Observation:
            new = self._await_another(scene, old)
            took = (cluster.clock()[0] - began) / 1e9
            facts = {"primary_before": old, "primary_after": new, "seconds": round(took, 3)}
            return Observation({old: new not in (None, old)}, facts, "another primary")

        return Damage([old], observe, once(heal), healed)

    @classmethod
    def story(cls, record: FaultRecord, ended: str) -> str:
        del ended  # what counts is when another server took over
        facts = record.observed
        how = {"pause": "is paused", "isolate": "is cut off from the other servers"}.get(
            record.params.get("how", ""), "dies"
        )
        after = f"{facts['primary_after']} takes over {facts['seconds']:.1f} s later"
        return f"the {cls.lost} {facts['primary_before']} {how}, and {after}"

    @classmethod
    def cause(cls, record: FaultRecord, moment: Moment) -> str:
        facts, at = record.observed, moment.seconds(record.injected_ns)
        moved = f"from {facts['primary_before']} to {facts['primary_after']}"
        return f"the primary was lost at {at}, and moved {moved} {facts['seconds']:.1f} s later"

    def _leading(self, scene: InjectionContext) -> str | None:
        """Return the host that leads the others now."""
        return scene.part(FAILOVER).primary()

    def _await_another(self, scene: InjectionContext, old: str) -> str | None:
        """Wait until another host leads, ``patience`` seconds at most, and return the host that leads then."""
        deadline = time.monotonic() + self.patience
        while True:
            now = self._leading(scene)
            if now not in (None, old) or time.monotonic() >= deadline or scene.over.is_set():
                return now
            scene.over.wait(0.05)

    def _strike(self, scene: InjectionContext, old: str) -> tuple[Callable[[], None], Callable[[], Observation]]:
        processes, network = scene.part(PROCESSES), scene.part(NETWORK)
        if self.how == "kill":
            processes.kill(old)
            return lambda: processes.start(old, wiped=False), lambda: running(processes, [old])
        if self.how == "pause":
            processes.pause(old)
            return lambda: processes.resume(old), lambda: not_paused(processes, [old])
        others = [host for host in scene.hosts("server") + scene.hosts("sentinel") if host != old]
        links = links_between([old], others)
        network.cut(links)
        return lambda: network.heal(links), lambda: answered(network, links[:4])


class LeaderLoss(Failover, frozen=True):
    """The leader of servers that agree by majority is lost; the others elect another. ``how`` as for ``failover``."""

    name: ClassVar[str] = "leader-loss"
    question: ClassVar[Question | None] = "failover"
    summary: ClassVar[str] = "the leader of a quorum is killed and restarts after the election of another"
    needs: ClassVar[Needs] = frozenset({PROCESSES, NETWORK, ELECTIONS})
    column: ClassVar[ComparisonColumn | None] = None
    stands_in_for: ClassVar[str] = Failover.name
    lost: ClassVar[str] = "leader"
    schedule: ClassVar[dict[str, Any]] = {"every": 12.0, "for": 5.0}
    companions: ClassVar[tuple[dict[str, Any], ...]] = ()

    patience: float = 20.0
    """Seconds. A ZooKeeper server that votes may wait 5 s for a connection to a frozen one, and then vote again."""

    def _leading(self, scene: InjectionContext) -> str | None:
        return scene.part(ELECTIONS).leader()
