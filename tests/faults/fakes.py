"""A cluster whose faults and heals can be made to fail on chosen hosts and links."""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal, cast

from harness.clusters.abilities.hosts import InterruptedCall
from harness.clusters.abilities.network import LinkShape, PacketAlteration
from harness.clusters.base import Cluster, Role
from harness.faults.base import InjectionContext

Deaf = Literal["none", "first", "all"]
"""On how many of the hosts or links a fault has no effect."""


@dataclass(frozen=True, slots=True)
class FakeHost:
    name: str
    role: Role
    address: str = ""


@dataclass(slots=True)
class FakeMessageTrap:
    used: bool
    cancel: Callable[[], object] = lambda: None


@dataclass(slots=True)
class FakeCluster:
    """Fake cluster that records each damage as the set of its hosts or links. ``deaf`` hosts and links take no
    damage, ``stubborn`` ones keep it after a heal. ``undone`` counts the healing calls by method."""

    deaf: Deaf = "none"
    stubborn: Deaf = "none"
    hosts: list[FakeHost] = field(default_factory=list)
    damage: dict[str, set[Any]] = field(default_factory=lambda: defaultdict(set))
    undone: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    offsets: dict[str, tuple[float, float]] = field(default_factory=dict)
    began: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    lives: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _clock: Any = field(default_factory=lambda: itertools.count(1, 100_000_000))
    _first: dict[str, Any] = field(default_factory=dict)
    _loss: float = 0.0
    _chance: Random = field(default_factory=lambda: Random(1))

    @property
    def parts(self) -> tuple[object, ...]:
        """The fake implements all abilities itself."""
        return (self,)

    def __post_init__(self) -> None:
        self.hosts = [
            *(FakeHost(f"n{number}", "server") for number in range(1, 6)),
            *(FakeHost(f"c{number}", "client") for number in range(3)),
        ]

    def _resists(self, how: Deaf, what: str, key: Any) -> bool:
        """Return whether the host or link ignores the damage or heal."""
        return how == "all" or (how == "first" and self._first.setdefault(what, key) == key)

    def _hit(self, what: str, key: Any) -> None:
        if not self._resists(self.deaf, what, key):
            self.damage[what].add(key)

    def _undo(self, what: str, key: Any) -> None:
        self.undone[what] += 1
        if not self._resists(self.stubborn, f"undo {what}", key):
            self.damage[what].discard(key)

    # Processes.

    def pause(self, host: str) -> None:
        self._hit("pause", host)

    def resume(self, host: str) -> None:
        self._undo("pause", host)

    def kill(self, host: str, *, for_good: bool = False) -> None:
        del for_good
        self._hit("kill", host)

    def start(self, host: str, *, wiped: bool) -> None:
        del wiped
        self._undo("kill", host)
        self.began[host] += host not in self.damage["kill"]
        self._undo("power", host)

    def hang(self, host: str) -> None:
        self._hit("hang", host)

    def hung(self, host: str) -> bool:
        return host in self.damage["hang"]

    def cancel_call(self, host: str) -> None:
        self._hit("cancel", host)

    def cancel_section(self, host: str) -> None:
        self._hit("cancel", host)

    def interrupt_call(self, host: str, by: str) -> None:
        del by
        self._hit("interrupt", host)

    def interrupt_section(self, host: str, by: str) -> None:
        del by
        self._hit("interrupt", host)

    def interrupted_calls(self, host: str) -> list[InterruptedCall]:
        return [InterruptedCall("acquire", 1)] if host in self.damage["interrupt"] else []

    def cancelled_calls(self, host: str) -> list[InterruptedCall]:
        return [InterruptedCall("acquire", 1)] if host in self.damage["cancel"] else []

    def state(self, host: str) -> str:
        if host in self.damage["kill"] | self.damage["power"]:
            return "dead"
        return "paused" if host in self.damage["pause"] else "running"

    def incarnation(self, host: str) -> int | None:
        return None if self.state(host) == "dead" else self.lives[host]

    def key_count(self, host: str) -> int | None:
        return None if self.state(host) == "dead" else 3

    def watch_keys(self, keys: object, on_change: object) -> None:
        raise AssertionError("no fault watches keys")

    def peers(self) -> list[str]:
        return [host.name for host in self.hosts if host.role == "server"]

    def primary(self) -> str | None:
        lost = self.damage["kill"] | self.damage["pause"] | {a for a, _ in self.damage["cut"]}
        return next(host.name for host in self.hosts if host.name not in lost)

    def leader(self) -> str | None:
        return self.primary()

    def members(self, host: str) -> dict[str, str]:
        del host
        return {name: "1" for name in self.peers() if name not in self.damage["member"]}

    def remove_member(self, host: str) -> None:
        self._hit("member", host)

    def add_member(self, host: str) -> None:
        self._undo("member", host)

    def ends_when_removed(self) -> bool:
        return False

    def ready(self, host: str) -> bool:
        return self.state(host) == "running"

    def end_program(self, host: str, within_s: float) -> bool:
        del host, within_s
        return True

    def choose_release(self, host: str, release: str) -> None:
        del release
        self._hit("release", host)

    def reported_version(self, host: str) -> str:
        return "valkey 8.1.8" if host in self.damage["release"] else "redis 7.0.15"

    def serves(self, host: str) -> bool:
        return self.state(host) == "running"

    def hand_over(self, host: str, within_s: float) -> bool:
        del host, within_s
        return True

    def limit_processor(self, host: str, share: float, period_s: float) -> Callable[[], None]:
        del share, period_s
        self._hit("starve", host)
        return lambda: self._undo("starve", host)

    def throttled_s(self, host: str) -> float:
        """The count of a starved host grows from call to call."""
        return next(self._clock) / 1e9 if host in self.damage["starve"] else 0.0

    # Disks and memory.

    def stall(self, host: str) -> None:
        self._hit("stall", host)

    def unstall(self, host: str) -> None:
        self._undo("stall", host)

    def newest_file(self, host: str) -> dict[str, str | int]:
        return {"path": "/data/log", "size": 10, "used": 10, "sha256": str(host in self.damage["file"])}

    def damage_file(self, host: str, how: str, size: int, seed: int) -> None:
        del how, size, seed
        self._hit("file", host)

    def starts(self, host: str) -> int:
        return self.began[host]

    def fill(self, host: str) -> None:
        self._hit("fill", host)

    def clear(self, host: str) -> None:
        self._undo("fill", host)

    def slow(self, host: str, writes_per_s: int) -> Callable[[], None]:
        del writes_per_s
        self._hit("slow", host)
        return lambda: self._undo("slow", host)

    def sync_s(self, host: str) -> float | None:
        return 1.0 if host in self.damage["slow"] else 0.001

    def lose_power(self, host: str) -> None:
        self._hit("power", host)

    def disk(self, host: str) -> str:
        if host in self.damage["power"]:
            return "fails"
        if host in self.damage["fill"]:
            return "full"
        return "hangs" if host in self.damage["stall"] else "works"

    def flood(self, host: str) -> dict[str, int]:
        self._hit("flood", host)
        return {"others": 2 if host in self.damage["flood"] else 0}

    def drain(self, host: str) -> None:
        self._undo("flood", host)

    def flooded(self, host: str) -> bool:
        return host in self.damage["flood"]

    # Clocks.

    def clock(self) -> tuple[int, int]:
        now = next(self._clock)
        return now, now

    def set_clock(self, host: str, offset: float, rate: float = 0.0) -> None:
        if offset == 0.0 and rate == 0.0:
            self._undo("clock", host)
        else:
            self._hit("clock", host)
        if (host in self.damage["clock"]) == bool(offset or rate):
            self.offsets[host] = (offset - rate * self.clock()[0] / 1e9, rate)

    def read_clock(self, host: str) -> int:
        offset, rate = self.offsets.get(host, (0.0, 0.0))
        return round(offset * 1e9 + rate * self.clock()[0])

    # Links.

    def cut(self, links: Iterable[tuple[str, str]]) -> None:
        for link in links:
            self._hit("cut", tuple(sorted(link)))

    def heal(self, links: Iterable[tuple[str, str]]) -> None:
        for link in links:
            self._undo("cut", tuple(sorted(link)))

    def reaches(self, source: str, target: str, timeout: float) -> float | None:
        link = tuple(sorted((source, target)))
        if link in self.damage["cut"] | self.damage["hole"]:
            return None
        if link not in self.damage["shape"]:
            return 0.001
        late = not self._loss or self._chance.random() < 1 - (1 - self._loss) ** 2
        return timeout if late else 0.001

    def shape(self, links: Iterable[tuple[str, str]], shape: LinkShape) -> Callable[[], None]:
        self._loss = shape.loss
        for link in links:
            self._hit("shape", tuple(sorted(link)))

        def undo() -> None:
            for link in links:
                self._undo("shape", tuple(sorted(link)))

        return undo

    def alter_packets(self, links: Iterable[tuple[str, str]], alteration: PacketAlteration) -> Callable[[], None]:
        del alteration
        hit = [tuple(sorted(link)) for link in links]
        for link in hit:
            self._hit("packets", link)

        def undo() -> None:
            for link in hit:
                self._undo("packets", link)

        return undo

    def count_packets(self, source: str, target: str, count: int) -> dict[str, int]:
        hits = count if tuple(sorted((source, target))) in self.damage["packets"] else 0
        return {"received": count, "damaged": hits, "duplicated": hits, "reordered": hits}

    def trap_message(self, source: str, target: str, needle: bytes, delay: float | None) -> FakeMessageTrap:
        del needle, delay
        self._hit("trap_message", (source, target))
        return FakeMessageTrap((source, target) in self.damage["trap_message"])

    def black_hole(self, client: str, server: str) -> FakeMessageTrap:
        link = tuple(sorted((client, server)))
        self._hit("hole", link)
        return FakeMessageTrap(link in self.damage["hole"], lambda: self._undo("hole", link))

    def black_holed(self, links: Iterable[tuple[str, str]]) -> list[bool]:
        return [tuple(sorted(link)) in self.damage["hole"] for link in links]

    def break_streams(self, host: str) -> int:
        self._hit("reset", host)
        return 2 if host in self.damage["reset"] else 0


def scene(cluster: FakeCluster) -> InjectionContext:
    """Return an injection context in which nothing waits, as if the fault was already healed."""
    over = threading.Event()
    over.set()
    return InjectionContext(cast(Cluster, cluster), Random(1), 2.0, "c0", over)
