"""Links that carry packets badly: late, unevenly, slowly, not all of them, or all but one."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from ..clusters.base import Links, Shape
from .base import PROBE, Damage, Fault, Scene, Seen, answered, probe, targets

CATCH: Final = 10.0
"""Seconds within which a message to lose or to hold back must have come by."""
NORMAL: Final = 0.1
"""A round trip in less, in seconds, is that of a link with nothing on it."""
PROBES: Final = 20


def _ends(scene: Scene, clients: str, servers: str) -> Links:
    some = targets(scene, clients, scene.hosts("client"))
    far = targets(scene, servers, scene.hosts("server"))
    return [pair for a in some for b in far for pair in ((a, b), (b, a))]


def _shape(scene: Scene, links: Links, shape: Shape, slower: float) -> Damage:
    """Shape links; the effect is a probe that takes at least ``slower`` seconds more, or is lost."""
    cluster = scene.cluster
    hosts = sorted({host for link in links for host in link})
    undo = cluster.shape(links, shape)
    sample = links[:4]

    def observe() -> Seen:
        trips = probe(cluster, sample, max(PROBE, 4 * slower))
        effective = any(trip is None or trip >= slower for trip in trips.values())
        return Seen(effective, {"probe": trips}, f"round trips of {slower:g} s and more, or none")

    return Damage(hosts, observe, undo, lambda: answered(cluster, sample, max(slower, NORMAL)))


class Latency(Fault, frozen=True):
    """Each packet takes ``delay`` seconds longer, one way, and up to ``jitter`` more."""

    search: ClassVar[dict[str, tuple[Any, ...]]] = {"delay": (0.05, 0.4, 0.02, 1.1), "jitter": (0.0, 0.1)}
    name: ClassVar[str] = "latency"
    summary: ClassVar[str] = "packets between clients and servers take longer, and unevenly so"
    needs: ClassVar[frozenset[str]] = frozenset({"shape"})
    schedule: ClassVar[dict[str, Any]] = {"every": "4 ttl", "for": "2 ttl"}

    delay: float = 0.05
    jitter: float = 0.1
    clients: str = "clients"
    servers: str = "servers"

    def inject(self, scene: Scene) -> Damage:
        links = _ends(scene, self.clients, self.servers)
        return _shape(scene, links, Shape(latency=self.delay, jitter=self.jitter), 2 * self.delay)


class SlowLink(Fault, frozen=True):
    """Links carry ``rate`` bytes a second."""

    name: ClassVar[str] = "slow-link"
    summary: ClassVar[str] = "links between clients and servers carry few bytes a second"
    needs: ClassVar[frozenset[str]] = frozenset({"shape"})
    schedule: ClassVar[dict[str, Any]] = {"every": "4 ttl", "for": "2 ttl"}

    rate: float = 2000.0
    clients: str = "clients"
    servers: str = "servers"

    def inject(self, scene: Scene) -> Damage:
        links = _ends(scene, self.clients, self.servers)
        return _shape(scene, links, Shape(rate=self.rate), 64 / self.rate)


class PacketLoss(Fault, frozen=True):
    """Each packet is lost with probability ``loss``; TCP repeats it after 0.2 s, 0.6 s ..."""

    name: ClassVar[str] = "packet-loss"
    summary: ClassVar[str] = "packets between clients and servers are lost, and come late for it"
    needs: ClassVar[frozenset[str]] = frozenset({"shape"})
    schedule: ClassVar[dict[str, Any]] = {"every": "4 ttl", "for": "2 ttl"}

    loss: float = 0.3
    clients: str = "clients"
    servers: str = "servers"

    def inject(self, scene: Scene) -> Damage:
        cluster = scene.cluster
        links = _ends(scene, self.clients, self.servers)
        damage = _shape(scene, links, Shape(loss=self.loss), 0.1)

        def observe() -> Seen:
            sent = late = 0
            while sent < PROBES and not scene.over.is_set():
                trip = cluster.reaches(*links[sent % len(links)], PROBE)
                sent += 1
                late += trip is None or trip > 0.1
            return Seen(late > 0, {"probes": sent, "late": late}, f"some of {PROBES} probes late or lost")

        return dataclasses.replace(damage, observe=observe)


class BlackHole(Fault, frozen=True):
    """Connections are accepted and carry nothing, either way: worse than a cut, which is at least not connected. Those
    that lost data break at the heal."""

    name: ClassVar[str] = "black-hole"
    summary: ClassVar[str] = "connections to a minority of the servers are accepted, and nothing comes through"
    needs: ClassVar[frozenset[str]] = frozenset({"hole"})
    schedule: ClassVar[dict[str, Any]] = {"every": "4 ttl", "for": "2 ttl"}

    clients: str = "clients"
    servers: str = "minority"

    def inject(self, scene: Scene) -> Damage:
        cluster = scene.cluster
        some = targets(scene, self.clients, scene.hosts("client"))
        far = targets(scene, self.servers, scene.hosts("server"))
        holes = [cluster.black_hole(client, server) for client in some for server in far]

        def observe() -> Seen:
            deadline = time.monotonic() + CATCH
            while not any(hole.used for hole in holes) and time.monotonic() < deadline and not scene.over.wait(0.02):
                pass
            used = any(hole.used for hole in holes)
            return Seen(used, {"swallowed": used}, "data that does not come through")

        def heal() -> None:
            for hole in holes:
                hole.cancel()

        return Damage(sorted({*some, *far}), observe, heal, lambda: answered(cluster, [(some[0], far[0])], NORMAL))


class ConnectionReset(Fault, frozen=True):
    """All connections of some hosts are reset at once."""

    search: ClassVar[dict[str, tuple[Any, ...]]] = {"for": (0.1,)}
    name: ClassVar[str] = "connection-reset"
    summary: ClassVar[str] = "the connections of some clients are reset"
    needs: ClassVar[frozenset[str]] = frozenset({"reset"})
    replaces: ClassVar[bool] = True
    schedule: ClassVar[dict[str, Any]] = {"every": "1 ttl", "for": 0.1}

    target: str = "minority"

    def inject(self, scene: Scene) -> Damage:
        hosts = targets(scene, self.target, scene.hosts("client"))
        broken = {host: scene.cluster.break_streams(host) for host in hosts}

        def observe() -> Seen:
            return Seen(sum(broken.values()) > 0, {"broken": broken}, "at least one connection to reset")

        return Damage(hosts, observe, lambda: None)


class _OneMessage(Fault, frozen=True):
    needs: ClassVar[frozenset[str]] = frozenset({"swallow"})
    replaces: ClassVar[bool] = True
    takes: ClassVar[float] = 1.0

    client: str = "holder"
    server: str = "servers"
    containing: str = ""

    def _on(self, scene: Scene, direction: str, delay: float | None) -> Damage:
        some = targets(scene, self.client, scene.hosts("client"))
        far: Sequence[str] = [self.server] if self.server == "resource" else self._servers(scene)
        rules = [
            scene.cluster.swallow(*((a, b) if direction == "request" else (b, a)), self.containing.encode(), delay)
            for a in some
            for b in far
        ]

        def observe() -> Seen:
            deadline = time.monotonic() + CATCH
            while not any(rule.used for rule in rules) and time.monotonic() < deadline:
                if scene.over.wait(0.02):
                    break
            used = sum(rule.used for rule in rules)
            return Seen(used > 0, {"messages": used, "delay": delay}, f"one {direction} caught")

        def heal() -> None:
            for rule in rules:
                rule.cancel()

        return Damage(sorted({*some, *far}), observe, heal)

    def _servers(self, scene: Scene) -> list[str]:
        return targets(scene, self.server, scene.hosts("server"))


class LostReply(_OneMessage, frozen=True):
    """The next answer from ``server`` to ``client`` is lost for ever: the request was executed, and nobody says so. Nor
    does that connection bring any later answer, since a TCP stream has no holes: the client has to give it up."""

    name: ClassVar[str] = "lost-reply"
    summary: ClassVar[str] = "one answer is lost: executed, but the client never hears of it"
    search: ClassVar[dict[str, tuple[Any, ...]]] = {
        "client": ("holder",), "server": ("servers",), "containing": ("",), "for": (0.5,)
    }  # fmt: skip
    schedule: ClassVar[dict[str, Any]] = {"on": "acquire:invoke", "nth": 8, "times": 1000, "every": "2 ttl", "for": 0.5}

    def inject(self, scene: Scene) -> Damage:
        return self._on(scene, "reply", None)


class DelayedRequest(_OneMessage, frozen=True):
    """The next request from ``client`` that contains ``containing`` takes ``delay`` seconds (or 1.5 ttl) longer."""

    name: ClassVar[str] = "delayed-request"
    summary: ClassVar[str] = "one request is held back for longer than the ttl, and then delivered"
    search: ClassVar[dict[str, tuple[Any, ...]]] = {
        "client": ("holder",), "delay": (None, "0.2 ttl", "0.5 ttl", "2.6 ttl"), "for": (0.5,)
    }  # fmt: skip
    disturbs: ClassVar[bool] = False
    schedule: ClassVar[dict[str, Any]] = {"on": "read", "nth": 3, "for": 0.5}

    delay: float | None = None

    def inject(self, scene: Scene) -> Damage:
        return self._on(scene, "request", self.delay if self.delay is not None else 1.5 * scene.ttl)
