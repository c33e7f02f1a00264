"""Faults of links: packets that are late, uneven or slow, packets that are lost, and connections that are reset."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from math import comb
from typing import Any, ClassVar, Final

from harness.clusters.abilities import NETWORK, TRAFFIC, Needs
from harness.clusters.abilities.network import Links, LinkShape, MessageTrap, Traffic
from harness.wording import listed

from .base import PROBE_TIMEOUT_S, Damage, Fault, InjectionContext, Observation, Question, answered, probe, targets
from .records import FaultRecord, Moment, seconds

CATCH_WITHIN_S: Final = 10.0
"""Time for which an observation waits for a message that the fault can lose or delay."""
NORMAL_S: Final = 0.1
"""The round trip of an undisturbed link takes less."""
PROBES: Final = 20
"""Number of round trips that detect packet loss on a link."""
BY_CHANCE: Final = 0.001
"""Probability below which so few late probes count as no packet loss on some link."""


def ends(scene: InjectionContext, clients: str, servers: str) -> Links:
    """Return the links between these hosts, both ways."""
    some = targets(scene, clients, scene.hosts("client"))
    far = targets(scene, servers, scene.hosts("server"))
    return [pair for a in some for b in far if a != b for pair in ((a, b), (b, a))]


def _shape(scene: InjectionContext, links: Links, shape: LinkShape, slower: float) -> Damage:
    """LinkShape links; a link shows the effect if a probe takes at least ``slower`` seconds or is lost."""
    network = scene.part(NETWORK)
    hosts = sorted({host for link in links for host in link})
    undo = scene.part(TRAFFIC).shape(links, shape)
    sample = links[:4]

    def observe() -> Observation:
        trips = probe(network, sample, max(PROBE_TIMEOUT_S, 4 * slower))
        late = {link: trip is None or trip >= slower for link, trip in trips.items()}
        return Observation(late, {"probe": trips}, f"round trips of {slower:g} s and more, or none", "links")

    return Damage(hosts, observe, undo, lambda: answered(network, sample, max(slower, NORMAL_S)))


def least_hits(trials: int, chance: float) -> int:
    """Return how many of ``trials`` trials succeed, at least, if each succeeds with probability ``chance``.

    The answer may be wrong with a probability of :data:`BY_CHANCE`. It is at least 1.
    """
    below = 0.0
    for count in range(trials + 1):
        below += comb(trials, count) * chance**count * (1 - chance) ** (trials - count)
        if below > BY_CHANCE:
            return max(1, count)
    return max(1, trials)


def _packets(record: FaultRecord, how: str, ended: str) -> str:
    return f"packets between {record.who} {how}{ended}"


class Latency(Fault, frozen=True):
    """Each packet takes ``delay`` seconds longer, one way, and up to ``jitter`` more."""

    search: ClassVar[dict[str, tuple[Any, ...]]] = {"delay": (0.05, 0.4, 0.02, 1.1), "jitter": (0.0, 0.1)}
    name: ClassVar[str] = "latency"
    beyond_clients: ClassVar[bool] = False
    only_delays: ClassVar[bool] = True
    fact: ClassVar[str] = "probe"
    summary: ClassVar[str] = "packets between clients and servers are delayed, each by a different time"
    needs: ClassVar[Needs] = frozenset({NETWORK, TRAFFIC})
    damages_with: ClassVar[str] = "shape"
    schedule: ClassVar[dict[str, Any]] = {"every": "4 ttl", "for": "2 ttl"}

    delay: float = 0.05
    jitter: float = 0.1
    clients: str = "clients"
    servers: str = "servers"

    def inject(self, scene: InjectionContext) -> Damage:
        links = ends(scene, self.clients, self.servers)
        return _shape(scene, links, LinkShape(latency=self.delay, jitter=self.jitter), 2 * self.delay)

    @classmethod
    def story(cls, record: FaultRecord, ended: str) -> str:
        return _packets(record, f"take {seconds(record.params.get('delay', 0.0))} longer each way", ended)


class SlowLink(Fault, frozen=True):
    """Links carry ``rate`` bytes a second."""

    name: ClassVar[str] = "slow-link"
    beyond_clients: ClassVar[bool] = False
    only_delays: ClassVar[bool] = True
    fact: ClassVar[str] = "probe"
    summary: ClassVar[str] = "links between clients and servers carry few bytes a second"
    needs: ClassVar[Needs] = frozenset({NETWORK, TRAFFIC})
    damages_with: ClassVar[str] = "shape"
    schedule: ClassVar[dict[str, Any]] = {"every": "4 ttl", "for": "2 ttl"}

    rate: float = 2000.0
    clients: str = "clients"
    servers: str = "servers"

    def inject(self, scene: InjectionContext) -> Damage:
        links = ends(scene, self.clients, self.servers)
        return _shape(scene, links, LinkShape(rate=self.rate), 64 / self.rate)

    @classmethod
    def story(cls, record: FaultRecord, ended: str) -> str:
        return _packets(record, f"slow down to {record.params.get('rate', 0.0):g} bytes a second", ended)


class PacketLoss(Fault, frozen=True):
    """Each packet is lost with probability ``loss``; TCP repeats it after 0.2 s, 0.6 s ...

    Which probes are late is a matter of chance, so the observation counts late probes over all links.
    """

    name: ClassVar[str] = "packet-loss"
    beyond_clients: ClassVar[bool] = False
    fact: ClassVar[str] = "probes"
    summary: ClassVar[str] = "packets between clients and servers are lost, and retransmitted later"
    needs: ClassVar[Needs] = frozenset({NETWORK, TRAFFIC})
    damages_with: ClassVar[str] = "shape"
    schedule: ClassVar[dict[str, Any]] = {"every": "4 ttl", "for": "2 ttl"}

    loss: float = 0.3
    clients: str = "clients"
    servers: str = "servers"

    def inject(self, scene: InjectionContext) -> Damage:
        network = scene.part(NETWORK)
        links = ends(scene, self.clients, self.servers)
        damage = _shape(scene, links, LinkShape(loss=self.loss), 0.1)

        def observe() -> Observation:
            sent = late = 0
            while sent < PROBES and not scene.over.is_set():
                trip = network.reaches(*links[sent % len(links)], PROBE_TIMEOUT_S)
                sent += 1
                late += trip is None or trip > NORMAL_S
            fewest = least_hits(sent, 1 - (1 - self.loss) ** 2)  # a packet goes each way
            expected = f"at least {fewest} of {sent} probes late or lost, and {late} were"
            return Observation({"probes": late >= fewest}, {"probes": sent, "late": late}, expected, "samples")

        return dataclasses.replace(damage, observe=observe)

    @classmethod
    def story(cls, record: FaultRecord, ended: str) -> str:
        return f"{record.params.get('loss', 0.0):.0%} of the {_packets(record, 'are lost', ended)}"


class BlackHole(Fault, frozen=True):
    """Connections are accepted and carry nothing, either way. Clients notice that later than a cut, which refuses
    connections. Connections that lost data break at the heal."""

    name: ClassVar[str] = "black-hole"
    question: ClassVar[Question | None] = "partition"
    beyond_clients: ClassVar[bool] = False
    summary: ClassVar[str] = "connections to a minority of the servers are accepted, but all data on them is lost"
    needs: ClassVar[Needs] = frozenset({NETWORK, TRAFFIC})
    damages_with: ClassVar[str] = "black_hole"
    awaits_clients: ClassVar[bool] = True
    fact: ClassVar[str] = "swallowed"
    schedule: ClassVar[dict[str, Any]] = {"every": "4 ttl", "for": "2 ttl"}

    clients: str = "clients"
    servers: str = "minority"

    def inject(self, scene: InjectionContext) -> Damage:
        network, traffic = scene.part(NETWORK), scene.part(TRAFFIC)
        some = targets(scene, self.clients, scene.hosts("client"))
        far = targets(scene, self.servers, scene.hosts("server"))
        links = [(client, server) for client in some for server in far]
        holes = [traffic.black_hole(client, server) for client, server in links]

        def observe() -> Observation:
            used = _await_use(scene, holes)
            # Links that no client has used since the fault began count too, so data is sent on each.
            effects = {name: used and silent for name, silent in _silent(traffic, links).items()}
            return Observation(effects, {"swallowed": used}, "data that does not come through", "links")

        def heal() -> None:
            for hole in holes:
                hole.cancel()

        def healed() -> Observation:
            probed = answered(network, links[:1], NORMAL_S)
            carries = {name: not silent for name, silent in _silent(traffic, links).items()}
            return dataclasses.replace(probed, effects={**carries, **probed.effects})

        return Damage(sorted({*some, *far}), observe, heal, healed)

    @classmethod
    def story(cls, record: FaultRecord, ended: str) -> str:
        return f"all data between {record.who} is lost, although the connections stay open{ended}"


class ConnectionReset(Fault, frozen=True):
    """All connections of some hosts are reset at once."""

    search: ClassVar[dict[str, tuple[Any, ...]]] = {"for": (0.1,)}
    name: ClassVar[str] = "connection-reset"
    beyond_clients: ClassVar[bool] = False
    summary: ClassVar[str] = "the connections of some clients are reset"
    needs: ClassVar[Needs] = frozenset({TRAFFIC})
    damages_with: ClassVar[str] = "break_streams"
    fact: ClassVar[str] = "broken"
    replaces: ClassVar[bool] = True
    schedule: ClassVar[dict[str, Any]] = {"every": "1 ttl", "for": 0.1}

    target: str = "minority"

    def inject(self, scene: InjectionContext) -> Damage:
        hosts = targets(scene, self.target, scene.hosts("client"))
        traffic = scene.part(TRAFFIC)
        broken = {host: traffic.break_streams(host) for host in hosts}

        def observe() -> Observation:
            effects = {host: count > 0 for host, count in broken.items()}
            return Observation(effects, {"broken": broken}, "at least one connection to reset")

        return Damage(hosts, observe, lambda: None)

    @classmethod
    def story(cls, record: FaultRecord, ended: str) -> str:
        del ended  # a reset is over at once
        return f"the connections of {record.who} are reset"


def _await_use(scene: InjectionContext, traps: Sequence[MessageTrap]) -> bool:
    """Wait until one of the traps has caught something, and return whether one has."""
    deadline = time.monotonic() + CATCH_WITHIN_S
    while not any(trap.used for trap in traps) and time.monotonic() < deadline and not scene.over.wait(0.02):
        pass
    return any(trap.used for trap in traps)


def _silent(traffic: Traffic, links: Links) -> dict[str, bool]:
    """Return for each link whether all data on it is lost."""
    names = [f"{client}>{server}" for client, server in links]
    return dict(zip(names, traffic.black_holed(links), strict=True))


class _OneMessage(Fault, frozen=True):
    """Catches the first message on any of several links. The other links need not carry data."""

    needs: ClassVar[Needs] = frozenset({TRAFFIC})
    damages_with: ClassVar[str] = "trap_message"
    fact: ClassVar[str] = "messages"
    replaces: ClassVar[bool] = True
    takes: ClassVar[float] = 1.0
    awaits_clients: ClassVar[bool] = True

    client: str = "holder"
    server: str = "servers"
    containing: str = ""

    def _on(self, scene: InjectionContext, direction: str, delay: float | None) -> Damage:
        some = targets(scene, self.client, scene.hosts("client"))
        far: Sequence[str] = [self.server] if self.server == "resource" else self._servers(scene)
        traffic = scene.part(TRAFFIC)
        rules = [
            traffic.trap_message(*((a, b) if direction == "request" else (b, a)), self.containing.encode(), delay)
            for a in some
            for b in far
        ]

        def observe() -> Observation:
            _await_use(scene, rules)
            caught = sum(rule.used for rule in rules)
            facts = {"messages": caught, "delay": delay}
            return Observation({direction: caught > 0}, facts, f"one {direction} caught", "messages")

        def heal() -> None:
            for rule in rules:
                rule.cancel()

        return Damage(sorted({*some, *far}), observe, heal)

    def _servers(self, scene: InjectionContext) -> list[str]:
        return targets(scene, self.server, scene.hosts("server"))

    @classmethod
    def story(cls, record: FaultRecord, ended: str) -> str:
        del ended  # the message is caught once
        clients = [host for host in record.hosts if host.startswith("c")]
        servers = [host for host in record.hosts if host not in clients]
        delay = record.observed["delay"]
        if delay is None:
            return f"an answer from {listed(servers)} to {listed(clients)} is lost"
        return f"a request from {listed(clients)} to {listed(servers)} is held back for {seconds(delay)}"

    @classmethod
    def cause(cls, record: FaultRecord, moment: Moment) -> str:
        delay = record.observed["delay"]
        held = "lost" if delay is None else f"held back for {delay:g} s"
        return f"a message between {record.who} was {held} at {moment.seconds(record.injected_ns)}"


class LostReply(_OneMessage, frozen=True):
    """Loss of the next answer from ``server`` to ``client``: the server executed the request; the client does not know.

    The connection delivers no later answer either, since a TCP stream has no gaps; the client must close it.
    """

    name: ClassVar[str] = "lost-reply"
    beyond_clients: ClassVar[bool] = False
    summary: ClassVar[str] = "one answer is lost: the server executed the request, but the client does not learn it"
    search: ClassVar[dict[str, tuple[Any, ...]]] = {
        "client": ("holder",), "server": ("servers",), "containing": ("",), "for": (0.5,)
    }  # fmt: skip
    schedule: ClassVar[dict[str, Any]] = {"on": "acquire:invoke", "nth": 8, "times": 1000, "every": "2 ttl", "for": 0.5}

    def inject(self, scene: InjectionContext) -> Damage:
        return self._on(scene, "reply", None)


class DelayedRequest(_OneMessage, frozen=True):
    """The next request from ``client`` that contains ``containing`` takes ``delay`` seconds (or 1.5 ttl) longer."""

    name: ClassVar[str] = "delayed-request"
    beyond_clients: ClassVar[bool] = False
    summary: ClassVar[str] = "one request is delayed for longer than the ttl, and then delivered"
    search: ClassVar[dict[str, tuple[Any, ...]]] = {
        "client": ("holder",), "delay": (None, "0.2 ttl", "0.5 ttl", "2.6 ttl"), "for": (0.5,)
    }  # fmt: skip
    disturbs: ClassVar[bool] = False
    schedule: ClassVar[dict[str, Any]] = {
        "on": "read", "nth": 3, "times": 1000, "every": "0.5 ttl", "for": 0.5, "until_exposed": True
    }  # fmt: skip

    delay: float | None = None

    def inject(self, scene: InjectionContext) -> Damage:
        return self._on(scene, "request", self.delay if self.delay is not None else 1.5 * scene.ttl)
