"""Faults of wall clocks. Monotonic clocks are never touched, as on a real machine whose time is set.

Offsets and rates of different faults add up on a host, and each is taken away by itself. A fault that comes again
takes over what its earlier turns have left, also on hosts that it does not choose this time: those clocks stay as they
are, are among the ``hosts`` of the new turn, and are put right when that is healed. So a turn that was superseded has
nothing left to undo, and whatever is wrong with a clock belongs to a fault that has not been healed.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from ..clusters.base import Cluster
from .base import Damage, Fault, Scene, Seen, targets
from .clocks import Clocks, Shift

TOLERANCE_NS: Final = 5_000_000


def _read(cluster: Cluster, clocks: Clocks, hosts: list[str]) -> tuple[dict[str, int], list[str]]:
    """How far clocks are ahead of true time, ns, and which of them are not where the faults at work have put them."""
    now: dict[str, int] = {}
    wrong: list[str] = []
    for host in hosts:
        bounds = [clocks.expected(host, cluster.clock()[0])]
        now[host] = cluster.read_clock(host)
        bounds.append(clocks.expected(host, cluster.clock()[0]))  # a clock that drifts does so while it is read
        if not min(bounds) - TOLERANCE_NS <= now[host] <= max(bounds) + TOLERANCE_NS:
            wrong.append(host)
    return now, wrong


def _shift(scene: Scene, shifts: dict[str, Shift], rate: float = 0.0) -> Damage:
    """Move clocks, and read them back. With a ``rate``, wait until it can be told from none."""
    cluster, clocks = scene.cluster, scene.clocks
    began, _ = cluster.clock()
    before = {host: clocks.expected(host, began) for host in shifts}
    mine = {**shifts, **{host: old for host, old in clocks.of(scene.schedule).items() if host not in shifts}}
    clocks.take_over(cluster, scene.schedule, mine)
    intended = {host: clocks.expected(host, began) - before[host] for host in shifts}

    def observe() -> Seen:
        if rate:
            scene.over.wait(max(0.2, 3 * TOLERANCE_NS / 1e9 / abs(rate)))
        now, wrong = _read(cluster, clocks, list(shifts))
        moved = {host: now[host] - before[host] for host in shifts}
        # The others' too: whoever reads of a jump asks where the rest stood.
        now |= {host: cluster.read_clock(host) for host in scene.hosts("server") if host not in shifts}
        effective = not wrong and any(abs(ns) > TOLERANCE_NS for ns in moved.values())
        if rate:
            expected = f"each clock to gain {rate:g} s a second"
            return Seen(effective, {"clock_ns": now, "gained_ns": moved, "rate": rate}, expected)
        return Seen(effective, {"clock_ns": now, "moved_ns": moved}, f"clocks moved by {intended} ns")

    def healed() -> Seen:
        now, wrong = _read(cluster, clocks, list(mine))
        return Seen(not wrong, {"clock_ns": now}, f"the clocks of {', '.join(wrong)} without what this fault had added")

    return Damage(list(mine), observe, lambda: clocks.take_away(cluster, scene.schedule, mine), healed)


def _to(offset: float) -> Shift:
    return Shift(round(offset * 1e9))


class ClockJump(Fault, frozen=True):
    """One jump by ``by`` ttls (or ``seconds``, if given), forward or back; each turn jumps from where the last has
    left the clock."""

    name: ClassVar[str] = "clock-jump"
    summary: ClassVar[str] = "the wall clock of a majority of servers jumps forward once"
    needs: ClassVar[frozenset[str]] = frozenset({"clock"})
    disturbs: ClassVar[bool] = False
    replaces: ClassVar[bool] = True
    schedule: ClassVar[dict[str, Any]] = {"on": "acquire", "nth": 5}
    search: ClassVar[dict[str, tuple[Any, ...]]] = {"by": (1.5, -4.0, 5.0, -30.0), "seconds": (None,)}

    by: float = 1.5
    seconds: float | None = None
    target: str = "majority"

    def inject(self, scene: Scene) -> Damage:
        jump = self.by * scene.ttl if self.seconds is None else self.seconds
        hosts = targets(scene, self.target, scene.hosts("server"))
        now, _ = scene.cluster.clock()
        before = scene.clocks.of(scene.schedule)
        offsets = {host: before[host].at(now) if host in before else 0 for host in hosts}
        return _shift(scene, {host: _to(jump + offset / 1e9) for host, offset in offsets.items()})


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
        return _shift(scene, {host: _to(scene.rng.uniform(-self.most, self.most) * scene.ttl) for host in chosen})

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
    search: ClassVar[dict[str, tuple[Any, ...]]] = {"by": (2.0,), "seconds": ("2 ttl", "-2 ttl", "30 ttl", "-30 ttl")}

    by: float = 2.0
    """Each host gets an offset of up to this many ttls, either way; with ``seconds`` exactly that."""
    seconds: float | None = None
    target: str = ""

    def inject(self, scene: Scene) -> Damage:
        everyone = scene.hosts("server") + scene.hosts("client")
        hosts = targets(scene, self.target, everyone) if self.target else everyone
        return _shift(scene, {host: _to(self._offset(scene)) for host in hosts})

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
    search: ClassVar[dict[str, tuple[Any, ...]]] = {"rate": (0.5, -0.8, 2.0)}

    rate: float = 0.5
    target: str = "majority"

    def inject(self, scene: Scene) -> Damage:
        hosts = targets(scene, self.target, scene.hosts("server"))
        now, _ = scene.cluster.clock()
        before = scene.clocks.of(scene.schedule)
        offsets = {host: before[host].at(now) if host in before else 0 for host in hosts}
        return _shift(scene, {host: Shift(offset, self.rate, now) for host, offset in offsets.items()}, self.rate)


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
        ahead = {host for host, shift in scene.clocks.of(scene.schedule).items() if shift.offset_ns > TOLERANCE_NS}
        return _shift(scene, {host: _to(0.0 if host in ahead else self.by * scene.ttl) for host in hosts})
