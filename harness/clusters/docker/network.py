"""Network faults between the hosts of a container cluster: cut, delay, shape and reset links, and lose messages.

Cuts and losses are nftables rules in the network namespace of the host that would receive the packets. Links between
clients and servers are shaped by Toxiproxy, links between servers by packets that wait in a queue (NFQUEUE).
"""

from __future__ import annotations

import math
import threading
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harness.clusters.abilities.network import Links, LinkShape, MessageTrap, PacketAlteration
from harness.clusters.client_host import ANSWER
from harness.clusters.docker.containers.engine import Box
from harness.clusters.docker.containers.helper_client import Helper
from harness.clusters.docker.containers.toxiproxy import NO_REDIRECTS, ClientLinks, Direction
from harness.clusters.link_probes import LinkProbes

from .kinds import RealServers

TABLE: Final = "lock_harness"
_NO_RULES: Final = "\n".join(f"table {family} {TABLE} {{}}\ndelete table {family} {TABLE}" for family in ("inet", "ip"))
_PARTS: Final = 10_000
"""Resolution of a probability: nftables draws whole numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class _ShapedLinks:
    links: frozenset[tuple[str, str]]
    shape: LinkShape


@dataclass(frozen=True, slots=True, eq=False)
class _AlteredLinks:
    links: frozenset[tuple[str, str]]
    alteration: PacketAlteration


class _BlackHole:
    def __init__(self, undo: Callable[[], None], knock: Callable[[], float | None]) -> None:
        self.cancel = undo
        self._knock = knock

    @property
    def used(self) -> bool:
        return self._knock() is None


def remove_packet_rules(helper: Helper, boxes: Sequence[Box]) -> None:
    """Remove all filter, redirection and delay rules from these hosts, not only those of one fault."""
    helper.filter(dict.fromkeys(boxes, f"{_NO_RULES}\n{NO_REDIRECTS}"))
    for box in boxes:
        helper.delay(box, {}, 0)


class LinkFaults:
    """Current damage to the links. ``boxes`` are by host name, ``proxies`` by client (empty without proxies)."""

    def __init__(self, helper: Helper, boxes: Mapping[str, Box], proxies: Mapping[str, ClientLinks], seed: int) -> None:
        self._helper = helper
        self._boxes = boxes
        self._proxies = proxies
        self._seed = seed
        self._cuts: Counter[tuple[str, str]] = Counter()
        self._refused: dict[str, int] = {}
        self._shaped: list[_ShapedLinks] = []
        self._altered: list[_AlteredLinks] = []
        self._proxied: set[frozenset[str]] = set()
        self._lock = threading.RLock()

    def cut(self, links: Links) -> None:
        with self._lock:
            self._cuts.update(links)
            self._filter({end for link in links for end in link})

    def heal(self, links: Links) -> None:
        with self._lock:
            self._cuts.subtract(links)
            self._cuts = +self._cuts
            self._filter({end for link in links for end in link})

    def refuse(self, server: str, port: int | None) -> None:
        """Refuse the clients' connections to a dead server; ``port`` ``None`` ends that.

        Otherwise a client's proxy would accept them, and deliver requests that the client has given up once the server
        is back.
        """
        with self._lock:
            if port is None:
                self._refused.pop(server, None)
            else:
                self._refused[server] = port
            if self._proxies:
                self._filter(set(self._proxies))

    def shape(self, links: Links, shape: LinkShape) -> Callable[[], None]:
        """See :meth:`harness.clusters.abilities.network.Traffic.shape`."""
        shaped = _ShapedLinks(frozenset(links), shape)
        timed = LinkShape(shape.latency, shape.jitter, 0.0, shape.rate)
        undo = [self._proxy(*link, timed) for link in links if timed != LinkShape() and self.end_with_proxy(*link)]
        with self._lock:
            self._shaped.append(shaped)
            self._apply_shape(shaped)

        def undo_shape() -> None:
            with self._lock:
                if shaped not in self._shaped:
                    return
                self._shaped.remove(shaped)
                self._apply_shape(shaped)
            for call in undo:
                call()

        return undo_shape

    def alter(self, links: Links, alteration: PacketAlteration) -> Callable[[], None]:
        """See :meth:`harness.clusters.abilities.network.PacketFaults.alter_packets`."""
        altered = _AlteredLinks(frozenset(links), alteration)
        with self._lock:
            self._altered.append(altered)
            self._apply_alteration(altered)

        def undo() -> None:
            with self._lock:
                if altered in self._altered:
                    self._altered.remove(altered)
                    self._apply_alteration(altered)

        return undo

    def _apply_alteration(self, altered: _AlteredLinks) -> None:
        targets = {target for _, target in altered.links}
        if altered.alteration.duplicate:
            self._filter(targets)
        if altered.alteration.corrupt or altered.alteration.reorder_s:
            for target in targets:
                self._queue(target)

    def trap_message(self, source: str, target: str, needle: bytes, delay: float | None) -> MessageTrap:
        """Lose or delay one message between a client and a server; see
        :meth:`harness.clusters.abilities.network.Traffic.trap_message`."""
        client, server, direction = self._through_proxy(source, target)
        return self._proxies[client].trap_message(server, direction, needle, delay)

    def black_hole(self, client: str, server: str, knock: Callable[[], float | None]) -> MessageTrap:
        """See :meth:`harness.clusters.abilities.network.Traffic.black_hole`. ``knock`` returns ``None`` if no data gets
        through."""
        self._proxied.add(frozenset((client, server)))
        return _BlackHole(self._proxies[client].black_hole(server), knock)

    def reset(self, client: str, servers: Sequence[str]) -> None:
        """Reset all connections of a client to some servers."""
        self._proxies[client].reset(servers)

    def shaped_by_proxy(self, source: str, target: str) -> bool:
        """Return whether a proxy shapes this link; then only data shows the damage, and a ping does not."""
        return frozenset((source, target)) in self._proxied

    def end_with_proxy(self, source: str, target: str) -> str | None:
        """The end of a link that has a proxy; ``None`` if neither has."""
        return next((end for end in (source, target) if end in self._proxies), None)

    def _proxy(self, source: str, target: str, shape: LinkShape) -> Callable[[], None]:
        client, server, direction = self._through_proxy(source, target)
        self._proxied.add(frozenset((source, target)))
        return self._proxies[client].shape(server, direction, shape.latency, shape.jitter, shape.rate)

    def _through_proxy(self, source: str, target: str) -> tuple[str, str, Direction]:
        """(Client, other end, direction) of a link with a proxy."""
        client = self.end_with_proxy(source, target)
        if client is None:
            raise ValueError(f"no proxy between {source} and {target}")
        return (client, target, "request") if client == source else (client, source, "reply")

    def _apply_shape(self, shaped: _ShapedLinks) -> None:
        targets = {target for _, target in shaped.links}
        if shaped.shape.loss:
            self._filter(targets)
        if (shaped.shape.latency, shaped.shape.jitter, shaped.shape.rate) != (0.0, 0.0, None):
            for target in targets:
                self._delay(target, {source for source, end in shaped.links if end == target})

    def _filter(self, targets: set[str]) -> None:
        self._helper.filter({self._boxes[target]: self._rules(target) for target in sorted(targets)})

    def _rules(self, host: str) -> str:
        """Script that replaces a host's table atomically."""
        # Before connection tracking, as if packets never arrived, and before redirection to a proxy.
        chains = {"prerouting": self._arrivals(host), "output": self._departures(host)}
        lines = [_NO_RULES, f"table inet {TABLE} {{"]
        for hook, rules in chains.items():
            if rules:
                lines += [f"chain {hook} {{", f"type filter hook {hook} priority -300; policy accept;", *rules, "}"]
        lines.append("}")
        if duplicates := self._duplicates(host):
            chain = "type filter hook prerouting priority -300; policy accept;"
            lines += [f"table ip {TABLE} {{", "chain prerouting {", chain, *duplicates, "}", "}"]
        return "\n".join(lines) + "\n"

    def _duplicates(self, host: str) -> list[str]:
        """Rules that send a copy of a packet to the host itself. It arrives on the loopback interface."""
        rules = []
        for altered in self._altered:
            sources = sorted(source for source, end in altered.links if end == host and altered.alteration.duplicate)
            if sources:
                some = self._some_of(sources, altered.alteration.duplicate)
                rules.append(f'iifname != "lo" {some} dup to {self._boxes[host].ip}')
        return rules

    def _some_of(self, sources: Sequence[str], probability: float) -> str:
        """Return the condition that matches a packet from one of the ``sources`` with this probability."""
        addresses = ", ".join(self._boxes[source].ip for source in sources)
        return f"ip saddr {{ {addresses} }} numgen random mod {_PARTS} < {round(probability * _PARTS)}"

    def _arrivals(self, host: str) -> list[str]:
        cut = sorted(self._boxes[source].ip for source, end in self._cuts if end == host)
        rules = [f"ip saddr {{ {', '.join(cut)} }} drop"] if cut else []
        for shaped in self._shaped:
            sources = sorted(source for source, end in shaped.links if end == host and shaped.shape.loss)
            if sources:
                rules.append(f"{self._some_of(sources, shaped.shape.loss)} drop")
        return rules

    def _departures(self, host: str) -> list[str]:
        """Rules for a client with a proxy: it must not reach the proxy if its link to the server is cut."""
        if host not in self._proxies:
            return []
        cut = sorted(self._boxes[end].ip for source, end in self._cuts if source == host)
        rules = [f"ip daddr {{ {', '.join(cut)} }} drop"] if cut else []
        for server, port in sorted(self._refused.items()):
            rules.append(f"ip daddr {self._boxes[server].ip} tcp dport {port} reject with tcp reset")
        return rules

    def _delay(self, target: str, sources: set[str]) -> None:
        """Delay packets between servers by means of the queue."""
        if any(self.end_with_proxy(source, target) is None for source in sources):
            self._queue(target)

    def _queue(self, target: str) -> None:
        """Set how the queue treats packets that arrive at a host. A proxy delays those of links that it shapes."""
        shaped = {source for shaped in self._shaped for source, end in shaped.links if end == target}
        queued = {source for source in shaped if self.end_with_proxy(source, target) is None}
        queued |= {
            source
            for altered in self._altered
            for source, end in altered.links
            if end == target and (altered.alteration.corrupt or altered.alteration.reorder_s)
        }
        wanted = {self._boxes[source].ip: self._sum(source, target) for source in queued}
        self._helper.delay(self._boxes[target], wanted, self._seed)

    def _sum(self, source: str, target: str) -> dict[str, Any]:
        link, direct = (source, target), self.end_with_proxy(source, target) is None
        shapes = [shaped.shape for shaped in self._shaped if link in shaped.links and direct]
        alterations = [altered.alteration for altered in self._altered if link in altered.links]
        rates = [shape.rate for shape in shapes if shape.rate is not None]
        intact = math.prod(1 - alteration.corrupt for alteration in alterations)
        return {
            "delay": sum(shape.latency for shape in shapes),
            "jitter": sum(shape.jitter for shape in shapes) + sum(altered.reorder_s for altered in alterations),
            "loss": 0.0,
            "rate": min(rates, default=None),
            "reorder": any(alteration.reorder_s for alteration in alterations),
            "corrupt": 1 - intact,
        }


class LinkMethods(LinkProbes):
    """Mixin that implements :class:`harness.clusters.abilities.network.Network`, ``Traffic`` and ``PacketFaults``."""

    servers: RealServers
    _helper: Helper
    _boxes: dict[str, Box]
    _link_faults: LinkFaults

    @abstractmethod
    def resource(self) -> tuple[str, int]:
        """See :meth:`harness.clusters.base.Cluster.resource`."""

    def _address(self, host: str) -> tuple[str, int]:
        """(IP address, port) on which a server listens."""
        return self._boxes[host].ip, self.servers.port(host)

    def cut(self, links: Links) -> None:
        self._link_faults.cut(links)

    def heal(self, links: Links) -> None:
        self._link_faults.heal(links)

    def reaches(self, source: str, target: str, timeout: float) -> float | None:
        if not self._link_faults.shaped_by_proxy(source, target):
            return self._helper.ping(self._boxes[source], self._boxes[target].ip, timeout)
        client = self._link_faults.end_with_proxy(source, target)
        assert client is not None
        server = target if client == source else source
        if server not in self.servers.roles:
            return self._helper.knock(self._boxes[client], *self.resource(), timeout)
        hello, greets = self.servers.KNOCK, self.servers.GREETS
        return self._helper.knock(self._boxes[client], *self._address(server), timeout, hello, greets=greets)

    def shape(self, links: Links, shape: LinkShape) -> Callable[[], None]:
        return self._link_faults.shape(links, shape)

    def alter_packets(self, links: Links, alteration: PacketAlteration) -> Callable[[], None]:
        return self._link_faults.alter(links, alteration)

    def count_packets(self, source: str, target: str, count: int) -> dict[str, int]:
        return self._helper.exchange(self._boxes[source], self._boxes[target], count)

    def trap_message(self, source: str, target: str, needle: bytes, delay: float | None) -> MessageTrap:
        return self._link_faults.trap_message(source, target, needle, delay)

    def black_hole(self, client: str, server: str) -> MessageTrap:
        return self._link_faults.black_hole(client, server, lambda: self.reaches(client, server, ANSWER))

    def break_streams(self, host: str) -> int:
        count = self._helper.connections(self._boxes[host], [self._address(name) for name in self.servers.roles])
        self._link_faults.reset(host, list(self.servers.roles))
        return count
