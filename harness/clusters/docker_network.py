"""What faults have done to the links of a real cluster, and how it is put into effect.

Cuts and losses are nftables rules in the network namespace of the host that would receive the packets. Links between
clients and servers are shaped by Toxiproxy, links between servers by packets that wait in a queue (NFQUEUE).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..containers.engine import Box
from ..containers.helper import Helper
from ..containers.toxiproxy import NO_REDIRECTS, Direction
from ..containers.toxiproxy import Links as Proxies
from .base import Links, Shape, Snare
from .docker_hosts import ANSWER
from .docker_kinds import RealServers

TABLE: Final = "lock_harness"
_NO_RULES: Final = f"table inet {TABLE} {{}}\ndelete table inet {TABLE}"
_PARTS: Final = 10_000
"""Of a chance: nftables draws whole numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class _Weight:
    links: frozenset[tuple[str, str]]
    shape: Shape


class _BlackHole:
    def __init__(self, undo: Callable[[], None], knock: Callable[[], float | None]) -> None:
        self.cancel = undo
        self._knock = knock

    @property
    def used(self) -> bool:
        return self._knock() is None


def let_pass(helper: Helper, boxes: Sequence[Box]) -> None:
    """All packets pass everywhere, straight to where they go, whatever was done before and by whom."""
    helper.filter(dict.fromkeys(boxes, f"{_NO_RULES}\n{NO_REDIRECTS}"))
    for box in boxes:
        helper.delay(box, {}, 0)


class Wires:
    """``boxes`` by host name; ``proxies`` by client, where clients have them."""

    def __init__(self, helper: Helper, boxes: Mapping[str, Box], proxies: Mapping[str, Proxies], seed: int) -> None:
        self._helper = helper
        self._boxes = boxes
        self._proxies = proxies
        self._seed = seed
        self._cuts: Counter[tuple[str, str]] = Counter()
        self._refused: dict[str, int] = {}
        self._weights: list[_Weight] = []
        self._proxied: set[frozenset[str]] = set()
        self._lock = threading.RLock()

    def cut(self, links: Links) -> None:
        with self._lock:
            self._cuts.update(links)
            self._filter({end for link in links for end in link})

    def mend(self, links: Links) -> None:
        with self._lock:
            self._cuts.subtract(links)
            self._cuts = +self._cuts
            self._filter({end for link in links for end in link})

    def refuse(self, server: str, port: int | None) -> None:
        """Where a proxy stands before a client, it would accept connections to a dead server, and deliver what the
        client has long given up when the server is back: refuse them at the client. ``port`` None ends that."""
        with self._lock:
            if port is None:
                self._refused.pop(server, None)
            else:
                self._refused[server] = port
            if self._proxies:
                self._filter(set(self._proxies))

    def shape(self, links: Links, shape: Shape) -> Callable[[], None]:
        """See :meth:`harness.clusters.base.Cluster.shape`."""
        weight = _Weight(frozenset(links), shape)
        timed = Shape(shape.latency, shape.jitter, 0.0, shape.rate)
        undo = [self._proxy(*link, timed) for link in links if timed != Shape() and self.end_with_proxy(*link)]
        with self._lock:
            self._weights.append(weight)
            self._put_on(weight)

        def relieve() -> None:
            with self._lock:
                if weight not in self._weights:
                    return
                self._weights.remove(weight)
                self._put_on(weight)
            for call in undo:
                call()

        return relieve

    def snare(self, source: str, target: str, needle: bytes, delay: float | None) -> Snare:
        """Lie in wait for one message between a client and a server."""
        client, server, direction = self._through_proxy(source, target)
        return self._proxies[client].snare(server, direction, needle, delay)

    def black_hole(self, client: str, server: str, knock: Callable[[], float | None]) -> Snare:
        """``knock`` tells whether anything gets through."""
        self._proxied.add(frozenset((client, server)))
        return _BlackHole(self._proxies[client].black_hole(server), knock)

    def reset(self, client: str, servers: Sequence[str]) -> None:
        """Reset all connections of a client to some servers."""
        self._proxies[client].reset(servers)

    def shaped_by_proxy(self, source: str, target: str) -> bool:
        """Has a proxy shaped this link, so that only data that passes it tells the truth?"""
        return frozenset((source, target)) in self._proxied

    def end_with_proxy(self, source: str, target: str) -> str | None:
        """The client of a link, if it has a proxy for it."""
        return next((end for end in (source, target) if end in self._proxies), None)

    def _proxy(self, source: str, target: str, shape: Shape) -> Callable[[], None]:
        client, server, direction = self._through_proxy(source, target)
        self._proxied.add(frozenset((source, target)))
        return self._proxies[client].shape(server, direction, shape.latency, shape.jitter, shape.rate)

    def _through_proxy(self, source: str, target: str) -> tuple[str, str, Direction]:
        """The client, the other end, and which way that is."""
        client = self.end_with_proxy(source, target)
        if client is None:
            raise ValueError(f"no proxy between {source} and {target}")
        return (client, target, "request") if client == source else (client, source, "reply")

    def _put_on(self, weight: _Weight) -> None:
        targets = {target for _, target in weight.links}
        if weight.shape.loss:
            self._filter(targets)
        if (weight.shape.latency, weight.shape.jitter, weight.shape.rate) != (0.0, 0.0, None):
            for target in targets:
                self._delay(target, {source for source, end in weight.links if end == target})

    def _filter(self, targets: set[str]) -> None:
        self._helper.filter({self._boxes[target]: self._rules(target) for target in sorted(targets)})

    def _rules(self, host: str) -> str:
        """The whole table of a host, which takes the place of the last one in one step."""
        # Before connection tracking, like packets that never arrived; and before they are led to a proxy.
        chains = {"prerouting": self._arrivals(host), "output": self._departures(host)}
        lines = [_NO_RULES, f"table inet {TABLE} {{"]
        for hook, rules in chains.items():
            if rules:
                lines += [f"chain {hook} {{", f"type filter hook {hook} priority -300; policy accept;", *rules, "}"]
        return "\n".join([*lines, "}"]) + "\n"

    def _arrivals(self, host: str) -> list[str]:
        cut = sorted(self._boxes[source].ip for source, end in self._cuts if end == host)
        rules = [f"ip saddr {{ {', '.join(cut)} }} drop"] if cut else []
        for weight in self._weights:
            sources = sorted(source for source, end in weight.links if end == host and weight.shape.loss)
            if sources:
                addresses = ", ".join(self._boxes[source].ip for source in sources)
                chance = f"numgen random mod {_PARTS} < {round(weight.shape.loss * _PARTS)}"
                rules.append(f"ip saddr {{ {addresses} }} {chance} drop")
        return rules

    def _departures(self, host: str) -> list[str]:
        """A client with a proxy must not reach that either where it could not reach the server."""
        if host not in self._proxies:
            return []
        cut = sorted(self._boxes[end].ip for source, end in self._cuts if source == host)
        rules = [f"ip daddr {{ {', '.join(cut)} }} drop"] if cut else []
        for server, port in sorted(self._refused.items()):
            rules.append(f"ip daddr {self._boxes[server].ip} tcp dport {port} reject with tcp reset")
        return rules

    def _delay(self, target: str, sources: set[str]) -> None:
        """Queue packets from servers to servers."""
        if not any(self.end_with_proxy(source, target) is None for source in sources):
            return
        wanted: dict[str, dict[str, Any]] = {}
        for source in {source for weight in self._weights for source, end in weight.links if end == target}:
            if self.end_with_proxy(source, target) is None:
                wanted[self._boxes[source].ip] = self._sum(source, target)
        self._helper.delay(self._boxes[target], wanted, self._seed)

    def _sum(self, source: str, target: str) -> dict[str, Any]:
        shapes = [weight.shape for weight in self._weights if (source, target) in weight.links]
        rates = [shape.rate for shape in shapes if shape.rate is not None]
        return {
            "delay": sum(shape.latency for shape in shapes),
            "jitter": sum(shape.jitter for shape in shapes),
            "loss": 0.0,
            "rate": min(rates, default=None),
            "reorder": False,
        }


class WithWires:
    """The part of a real cluster that damages links; see :class:`harness.clusters.base.Cluster`."""

    servers: RealServers
    _helper: Helper
    _boxes: dict[str, Box]
    _wires: Wires

    def resource(self) -> tuple[str, int]:
        raise NotImplementedError

    def _address(self, host: str) -> tuple[str, int]:
        """Where a server takes connections."""
        return self._boxes[host].ip, self.servers.port(host)

    def cut(self, links: Links) -> None:
        self._wires.cut(links)

    def mend(self, links: Links) -> None:
        self._wires.mend(links)

    def reaches(self, source: str, target: str, timeout: float) -> float | None:
        if not self._wires.shaped_by_proxy(source, target):
            return self._helper.ping(self._boxes[source], self._boxes[target].ip, timeout)
        client = self._wires.end_with_proxy(source, target)
        assert client is not None
        server = target if client == source else source
        if server not in self.servers.roles:
            return self._helper.knock(self._boxes[client], *self.resource(), timeout)
        hello, greets = self.servers.KNOCK, self.servers.GREETS
        return self._helper.knock(self._boxes[client], *self._address(server), timeout, hello, greets=greets)

    def shape(self, links: Links, shape: Shape) -> Callable[[], None]:
        return self._wires.shape(links, shape)

    def swallow(self, source: str, target: str, needle: bytes, delay: float | None) -> Snare:
        return self._wires.snare(source, target, needle, delay)

    def black_hole(self, client: str, server: str) -> Snare:
        return self._wires.black_hole(client, server, lambda: self.reaches(client, server, ANSWER))

    def break_streams(self, host: str) -> int:
        count = self._helper.connections(self._boxes[host], [self._address(name) for name in self.servers.roles])
        self._wires.reset(host, list(self.servers.roles))
        return count
