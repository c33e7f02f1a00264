"""Faults of wall clocks. Monotonic clocks are never touched, as on a real machine whose time is set.

Offsets and rates of different faults add up on a host, and each fault is healed by itself. A fault that comes again
takes over what its earlier turns have left, also on hosts that it does not choose this time: those clocks stay as they
are, count as ``hosts`` of the new turn, and are corrected when that is healed. So a superseded turn has nothing left to
undo, and every wrong clock belongs to a fault that has not been healed.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from harness.clusters.abilities import CLOCKS, Needs
from harness.wording import listed

from .base import ComparisonColumn, Damage, Fault, FaultStep, InjectionContext, Observation, Question, targets
from .clocks import Shift
from .records import FaultRecord, Moment, ahead

TOLERANCE_NS: Final = 5_000_000


def _read(scene: InjectionContext, hosts: list[str]) -> tuple[dict[str, int], list[str]]:
    """Read how far clocks are ahead of true time, ns, and which are not where the active faults have put them."""
    cluster, clocks, wall_clocks = scene.cluster, scene.clocks, scene.part(CLOCKS)
    now: dict[str, int] = {}
    wrong: list[str] = []
    for host in hosts:
        bounds = [clocks.expected(host, cluster.clock()[0])]
        now[host] = wall_clocks.read_clock(host)
        bounds.append(clocks.expected(host, cluster.clock()[0]))  # a clock that drifts does so while it is read
        if not min(bounds) - TOLERANCE_NS <= now[host] <= max(bounds) + TOLERANCE_NS:
            wrong.append(host)
    return now, wrong


class _ClockFault(Fault, frozen=True):
    needs: ClassVar[Needs] = frozenset({CLOCKS})
    damages_with: ClassVar[str] = "set_clock"
    disturbs: ClassVar[bool] = False
    replaces: ClassVar[bool] = True
    fact: ClassVar[str] = "moved_ns"
    verbs: ClassVar[tuple[str, str]] = ("jumps", "jump")
    """Verb forms for one clock and for several."""

    @classmethod
    def story(cls, record: FaultRecord, ended: str) -> str:
        moved: dict[str, int] = record.observed["moved_ns"]
        shifts = sorted(set(moved.values()))
        if len(shifts) == 1:
            if len(moved) == 1:
                return f"{listed(moved)}'s wall clock {cls.verbs[0]} {ahead(shifts[0])}{ended}"
            return f"the wall clocks of {listed(moved)} {cls.verbs[1]} {ahead(shifts[0])}{ended}"
        each = ", ".join(f"{host}'s {ahead(ns)}" for host, ns in moved.items())
        return f"wall clocks jump ({each}){ended}"

    @classmethod
    def cause(cls, record: FaultRecord, moment: Moment) -> str:
        moves = ", ".join(f"{host} {ns / 1e9:+.3f} s" for host, ns in record.observed["moved_ns"].items())
        return f"the wall clocks jumped at {moment.seconds(record.injected_ns)} ({moves})"


def _shift(scene: InjectionContext, shifts: dict[str, Shift], rate: float = 0.0) -> Damage:
    """Move clocks and read them back. With a ``rate``, wait until the drift is measurable."""
    cluster, clocks, wall_clocks = scene.cluster, scene.clocks, scene.part(CLOCKS)
    began, _ = cluster.clock()
    before = {host: clocks.expected(host, began) for host in shifts}
    mine = {**shifts, **{host: old for host, old in clocks.of(scene.schedule).items() if host not in shifts}}
    clocks.take_over(cluster, scene.schedule, mine)
    intended = {host: clocks.expected(host, began) - before[host] for host in shifts}

    def observe() -> Observation:
        if rate:
            scene.over.wait(max(0.2, 3 * TOLERANCE_NS / 1e9 / abs(rate)))
        now, wrong = _read(scene, list(shifts))
        moved = {host: now[host] - before[host] for host in shifts}
        # The other servers' clocks too: a report shows where the rest stood.
        now |= {host: wall_clocks.read_clock(host) for host in scene.hosts("server") if host not in shifts}
        # A clock that is meant to stay where it was shows nothing, unless it is wrong.
        effects = {
            host: host not in wrong and abs(moved[host]) > TOLERANCE_NS
            for host in shifts
            if rate or host in wrong or abs(intended[host]) > TOLERANCE_NS
        }
        if rate:
            expected = f"each clock to gain {rate:g} s a second"
            return Observation(effects, {"clock_ns": now, "gained_ns": moved, "rate": rate}, expected)
        return Observation(effects, {"clock_ns": now, "moved_ns": moved}, f"clocks moved by {intended} ns")

    def healed() -> Observation:
        now, wrong = _read(scene, list(mine))
        expected = f"the clocks of {', '.join(wrong)} without what this fault had added"
        return Observation({host: host not in wrong for host in mine}, {"clock_ns": now}, expected)

    return Damage(list(mine), observe, lambda: clocks.take_away(cluster, scene.schedule, mine), healed)


def _to(offset: float) -> Shift:
    return Shift(round(offset * 1e9))


class ClockJump(_ClockFault, frozen=True):
    """One jump by ``by`` ttls (or ``seconds``, if given), forward or back. Each strike starts from the clock that
    the last one left."""

    name: ClassVar[str] = "clock-jump"
    question: ClassVar[Question | None] = "clock jump"
    summary: ClassVar[str] = "the wall clock of a majority of servers jumps forward once"
    schedule: ClassVar[dict[str, Any]] = {
        "on": "acquire", "nth": 5, "times": 1000, "every": "0.5 ttl", "until_exposed": True
    }  # fmt: skip
    search: ClassVar[dict[str, tuple[Any, ...]]] = {"by": (1.5, -4.0, 5.0, -30.0), "seconds": (None,)}
    step: ClassVar[FaultStep | None] = FaultStep(
        "put forward", "server", None, "a jump of a server's clock by 1.5 ttl", params={"by": 1.5}
    )
    column: ClassVar[ComparisonColumn | None] = ComparisonColumn(3)

    by: float = 1.5
    seconds: float | None = None
    target: str = "majority"

    def inject(self, scene: InjectionContext) -> Damage:
        jump = self.by * scene.ttl if self.seconds is None else self.seconds
        hosts = targets(scene, self.target, scene.hosts("server"))
        now, _ = scene.cluster.clock()
        before = scene.clocks.of(scene.schedule)
        offsets = {host: before[host].at(now) if host in before else 0 for host in hosts}
        return _shift(scene, {host: _to(jump + offset / 1e9) for host, offset in offsets.items()})


class ClockSkew(_ClockFault, frozen=True):
    """Jepsen's clock-skew: the clocks of some servers jump repeatedly, forward and back, each by a different time.

    Each bump puts a random, not empty set of hosts to a random offset of up to ``most`` ttls either way.
    """

    name: ClassVar[str] = "clock-skew"
    question: ClassVar[Question | None] = "clock jump"
    summary: ClassVar[str] = "wall clocks of some servers jump repeatedly, forward and back, each by a different time"
    schedule: ClassVar[dict[str, Any]] = {"on": "acquire", "nth": 3, "times": 1000, "every": "0.5 ttl"}

    most: float = 6.0
    target: str = ""

    def inject(self, scene: InjectionContext) -> Damage:
        servers = scene.hosts("server")
        chosen = targets(scene, self.target, servers) if self.target else self._some(scene, servers)
        return _shift(scene, {host: _to(scene.rng.uniform(-self.most, self.most) * scene.ttl) for host in chosen})

    def _some(self, scene: InjectionContext, servers: list[str]) -> list[str]:
        return sorted(scene.rng.sample(servers, scene.rng.randint(1, len(servers))))


class ClockOffset(_ClockFault, frozen=True):
    """A constant offset from the start of the run: clocks that were never set."""

    name: ClassVar[str] = "clock-offset"
    summary: ClassVar[str] = "wall clocks of clients and servers differ by a constant from the start of the run"
    schedule: ClassVar[dict[str, Any]] = {"at": 0.0}
    verbs: ClassVar[tuple[str, str]] = ("is off by", "are off by")
    search: ClassVar[dict[str, tuple[Any, ...]]] = {"by": (2.0,), "seconds": ("2 ttl", "-2 ttl", "30 ttl", "-30 ttl")}

    by: float = 2.0
    """Each host gets an offset of up to this many ttls, either way; with ``seconds`` exactly that."""
    seconds: float | None = None
    target: str = ""

    def inject(self, scene: InjectionContext) -> Damage:
        everyone = scene.hosts("server") + scene.hosts("client")
        hosts = targets(scene, self.target, everyone) if self.target else everyone
        return _shift(scene, {host: _to(self._offset(scene)) for host in hosts})

    def _offset(self, scene: InjectionContext) -> float:
        if self.seconds is not None:
            return self.seconds
        size = scene.rng.uniform(0.5, 1.0) * self.by * scene.ttl
        return size if scene.rng.random() < 0.5 else -size


class ClockDrift(_ClockFault, frozen=True):
    """Clocks that run too fast or too slow: ``rate`` 0.1 gains 0.1 s each second."""

    name: ClassVar[str] = "clock-drift"
    summary: ClassVar[str] = "wall clocks of a majority of servers run too fast"
    schedule: ClassVar[dict[str, Any]] = {"at": 0.5}
    fact: ClassVar[str] = "rate"
    search: ClassVar[dict[str, tuple[Any, ...]]] = {"rate": (0.5, -0.8, 2.0)}

    rate: float = 0.5
    target: str = "majority"

    def inject(self, scene: InjectionContext) -> Damage:
        hosts = targets(scene, self.target, scene.hosts("server"))
        now, _ = scene.cluster.clock()
        before = scene.clocks.of(scene.schedule)
        offsets = {host: before[host].at(now) if host in before else 0 for host in hosts}
        return _shift(scene, {host: Shift(offset, self.rate, now) for host, offset in offsets.items()}, self.rate)

    @classmethod
    def story(cls, record: FaultRecord, ended: str) -> str:
        rate = record.observed["rate"]
        pace = f"{abs(rate):.0%} too {'fast' if rate > 0 else 'slow'}"
        begin = record.verb("begins", "begin")
        return f"the wall {record.verb('clock', 'clocks')} of {record.who} {begin} to run {pace}{ended}"

    @classmethod
    def cause(cls, record: FaultRecord, moment: Moment) -> str:
        rate, since = record.observed["rate"], moment.seconds(record.injected_ns)
        return f"the wall clocks of {record.who} ran {abs(rate):.0%} too {'fast' if rate > 0 else 'slow'} from {since}"


class ClockStrobe(_ClockFault, frozen=True):
    """The clock of some servers swings between true time and true time plus ``by`` ttls, the other way at each turn."""

    name: ClassVar[str] = "clock-strobe"
    question: ClassVar[Question | None] = "clock jump"
    summary: ClassVar[str] = "wall clocks of a majority of servers jump forward and back many times a second"
    schedule: ClassVar[dict[str, Any]] = {"every": 0.15}

    by: float = 1.5
    target: str = "majority"

    def inject(self, scene: InjectionContext) -> Damage:
        hosts = targets(scene, self.target, scene.hosts("server"))
        ahead = {host for host, shift in scene.clocks.of(scene.schedule).items() if shift.offset_ns > TOLERANCE_NS}
        return _shift(scene, {host: _to(0.0 if host in ahead else self.by * scene.ttl) for host in hosts})
