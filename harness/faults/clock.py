"""Faults of wall clocks. Monotonic clocks are never touched, as on a real machine whose time is set."""

from __future__ import annotations

import time
from typing import Any, ClassVar

from ..clusters.base import Cluster, Facts
from .base import Damage, Fault, Scene, Seen, targets

TOLERANCE_NS = 5_000_000


def _offsets(cluster: Cluster, hosts: list[str]) -> dict[str, int]:
    return {host: cluster.read_clock(host) for host in hosts}


def _set(scene: Scene, wanted: dict[str, float], rate: float = 0.0) -> Damage:
    """Put clocks to offsets from true time, and read them back."""
    cluster = scene.cluster
    before = _offsets(cluster, list(wanted))
    for host, offset in wanted.items():
        cluster.set_clock(host, offset, rate)

    def observe() -> Seen:
        now = _offsets(cluster, list(wanted))
        moved = {host: now[host] - before[host] for host in wanted}
        intended = {host: int(offset * 1e9) - before[host] for host, offset in wanted.items()}
        effective = any(abs(ns) > TOLERANCE_NS for ns in moved.values()) and all(
            abs(moved[host] - intended[host]) <= TOLERANCE_NS + abs(rate) * 1e9 for host in wanted
        )
        return Seen(effective, {"clock_ns": now, "moved_ns": moved}, f"clocks moved by {intended} ns")

    def heal() -> Facts:
        for host in wanted:
            cluster.set_clock(host, 0.0)
        return {"clock_ns": _offsets(cluster, list(wanted))}

    return Damage(list(wanted), observe, heal)


class ClockJump(Fault, frozen=True):
    """One jump by ``by`` ttls (or ``seconds``, if given), forward or back."""

    name: ClassVar[str] = "clock-jump"
    summary: ClassVar[str] = "the wall clock of a majority of servers jumps forward once"
    needs: ClassVar[frozenset[str]] = frozenset({"clock"})
    disturbs: ClassVar[bool] = False
    replaces: ClassVar[bool] = True
    schedule: ClassVar[dict[str, Any]] = {"on": "acquire", "nth": 5}

    by: float = 1.5
    seconds: float | None = None
    target: str = "majority"

    def inject(self, scene: Scene) -> Damage:
        jump = self.by * scene.ttl if self.seconds is None else self.seconds
        hosts = targets(scene, self.target, scene.hosts("server"))
        return _set(scene, {host: scene.cluster.read_clock(host) / 1e9 + jump for host in hosts})


class ClockSkew(Fault, frozen=True):
    """Jepsen's clock-skew: the clocks of some servers are bumped apart, forward and back, again and again.

    Each bump puts a random, not empty set of hosts to a random offset of up to ``most`` ttls either way.
    """

    name: ClassVar[str] = "clock-skew"
    summary: ClassVar[str] = "wall clocks of some servers are bumped apart, forward and back, again and again"
    needs: ClassVar[frozenset[str]] = frozenset({"clock"})
    disturbs: ClassVar[bool] = False
    replaces: ClassVar[bool] = True
    schedule: ClassVar[dict[str, Any]] = {"on": "acquire", "nth": 3, "times": 1000, "every": "0.5 ttl"}

    most: float = 6.0
    target: str = ""

    def inject(self, scene: Scene) -> Damage:
        servers = scene.hosts("server")
        chosen = targets(scene, self.target, servers) if self.target else self._some(scene, servers)
        return _set(scene, {host: scene.rng.uniform(-self.most, self.most) * scene.ttl for host in chosen})

    def _some(self, scene: Scene, servers: list[str]) -> list[str]:
        return sorted(scene.rng.sample(servers, scene.rng.randint(1, len(servers))))


class ClockOffset(Fault, frozen=True):
    """A constant offset from the start: clocks that were never set."""

    name: ClassVar[str] = "clock-offset"
    summary: ClassVar[str] = "clients' and servers' wall clocks are apart from the start, by a constant"
    needs: ClassVar[frozenset[str]] = frozenset({"clock"})
    disturbs: ClassVar[bool] = False
    replaces: ClassVar[bool] = True
    schedule: ClassVar[dict[str, Any]] = {"at": 0.0}

    by: float = 2.0
    """Each host gets an offset of up to this many ttls, either way; with ``seconds`` exactly that."""
    seconds: float | None = None
    target: str = ""

    def inject(self, scene: Scene) -> Damage:
        everyone = scene.hosts("server") + scene.hosts("client")
        hosts = targets(scene, self.target, everyone) if self.target else everyone
        return _set(scene, {host: self._offset(scene) for host in hosts})

    def _offset(self, scene: Scene) -> float:
        if self.seconds is not None:
            return self.seconds
        size = scene.rng.uniform(0.5, 1.0) * self.by * scene.ttl
        return size if scene.rng.random() < 0.5 else -size


class ClockDrift(Fault, frozen=True):
    """Clocks that run too fast or too slow: ``rate`` 0.1 gains 0.1 s each second."""

    name: ClassVar[str] = "clock-drift"
    summary: ClassVar[str] = "wall clocks of a majority of servers run too fast"
    needs: ClassVar[frozenset[str]] = frozenset({"clock"})
    disturbs: ClassVar[bool] = False
    replaces: ClassVar[bool] = True
    schedule: ClassVar[dict[str, Any]] = {"at": 0.5}

    rate: float = 0.5
    target: str = "majority"

    def inject(self, scene: Scene) -> Damage:
        cluster = scene.cluster
        hosts = targets(scene, self.target, scene.hosts("server"))
        began, _ = cluster.clock()
        before = _offsets(cluster, hosts)
        for host in hosts:
            cluster.set_clock(host, before[host] / 1e9, self.rate)

        def observe() -> Seen:
            time.sleep(0.2)
            gained = {host: cluster.read_clock(host) - before[host] for host in hosts}
            expected = int((cluster.clock()[0] - began) * self.rate)
            effective = all(abs(ns - expected) <= TOLERANCE_NS for ns in gained.values())
            return Seen(effective, {"gained_ns": gained, "rate": self.rate}, f"each clock gained {expected} ns")

        def heal() -> Facts:
            for host in hosts:
                cluster.set_clock(host, 0.0)
            return {"clock_ns": _offsets(cluster, hosts)}

        return Damage(hosts, observe, heal)


class ClockStrobe(Fault, frozen=True):
    """The clock of some servers swings between true time and true time plus ``by`` ttls, at each call the other way."""

    name: ClassVar[str] = "clock-strobe"
    summary: ClassVar[str] = "wall clocks of a majority of servers swing to and fro, many times a second"
    needs: ClassVar[frozenset[str]] = frozenset({"clock"})
    disturbs: ClassVar[bool] = False
    replaces: ClassVar[bool] = True
    schedule: ClassVar[dict[str, Any]] = {"every": 0.15}

    by: float = 1.5
    target: str = "majority"

    def inject(self, scene: Scene) -> Damage:
        hosts = targets(scene, self.target, scene.hosts("server"))
        ahead = {host: scene.cluster.read_clock(host) > TOLERANCE_NS for host in hosts}
        return _set(scene, {host: 0.0 if ahead[host] else self.by * scene.ttl for host in hosts})
