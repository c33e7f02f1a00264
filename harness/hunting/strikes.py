"""The faults of an exhaustive search: whom one can strike, for how long, and what it is called as a step."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import msgspec

from ..clusters.base import Role, names
from ..clusters.sim import SimCluster
from ..errors import unknown_name
from ..fault_specs import build_fault
from ..faults.base import Damage, Fault, Scene, Seen
from ..faults.clocks import Clocks
from ..plan import FaultSpec
from ..recorder import Recorder


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of fault that is over at once (``ttls`` 0), stays (None), or lasts for so many ttls of the lock.

    ``verb`` and ``undo`` name its steps (``pause c0``, ``resume c0``). It strikes one host of a ``role``; ``within``: a
    client in the middle of its step, too, right after the end of a call.
    """

    verb: str
    role: Role
    ttls: float | None
    words: str
    undo: str = ""
    params: dict[str, Any] = field(default_factory=dict)
    within: bool = False


FAMILIES: Final = {
    "client-pause": Family("pause", "client", 1.5, "a pause of a client for 1.5 ttl", "resume", within=True),
    "clock-jump": Family("put forward", "server", None, "a jump of a server's clock by 1.5 ttl", params={"by": 1.5}),
    "kill-amnesia": Family("wipe", "server", 0.0, "a restart of a server without its data"),
}


def family(name: str) -> Family:
    """UsageError for one that an exhaustive search does not know."""
    if name not in FAMILIES:
        raise unknown_name("fault of an exhaustive search", name, FAMILIES)
    return FAMILIES[name]


@dataclass(frozen=True, slots=True)
class Target:
    """One fault on one host, as a step."""

    name: str
    family: Family
    host: str

    @property
    def step(self) -> str:
        return f"{self.family.verb} {self.host}"

    @property
    def undo(self) -> str:
        return f"{self.family.undo} {self.host}"


@dataclass(slots=True)
class _Struck:
    number: int
    target: Target
    damage: Damage
    until_ns: int


class Strikes:
    """Injects and heals on a steered cluster, and records both as the nemesis does, with what is seen of them at
    once."""

    def __init__(
        self, cluster: SimCluster, recorder: Recorder, families: tuple[str, ...], most: int, ttl: float
    ) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._most = most
        self._ttl = ttl
        self._clocks = Clocks()
        self._struck: list[_Struck] = []
        self._count = 0
        self.targets: dict[str, Target] = {}
        """All there are, by the names of their steps."""
        for name in families:
            for host in names(cluster.hosts, family(name).role):
                target = Target(name, family(name), host)
                self.targets[target.step] = target

    @property
    def left(self) -> int:
        """How many may still strike."""
        return self._most - self._count

    def at_work(self, host: str) -> bool:
        """Has a fault struck this host that is to end, and has not?"""
        return any(struck.target.host == host for struck in self._struck)

    @property
    def next_end(self) -> int | None:
        """When the next fault is over, ns."""
        return min((struck.until_ns for struck in self._struck), default=None)

    def due(self) -> dict[str, str]:
        """The steps that end faults whose time is over, and their hosts."""
        now, _ = self._cluster.clock()
        return {struck.target.undo: struck.target.host for struck in self._struck if struck.until_ns <= now}

    def strike(self, step: str) -> None:
        target = self.targets[step]
        fault = self._fault(target)
        schedule: Hashable = self._count
        scene = Scene(self._cluster, Random(0), self._ttl, None, clocks=self._clocks, schedule=schedule)
        now, _ = self._cluster.clock()
        number, self._count = self._count, self._count + 1
        damage = fault.inject(scene)
        about = {"id": number, "fault": target.name, "hosts": damage.hosts}
        more = {"disturbs": fault.disturbs, "params": msgspec.to_builtins(fault)}
        self._recorder.nemesis("inject", {**about, **more}, type_="invoke")
        ttls = target.family.ttls
        struck = _Struck(number, target, damage, now + round((ttls or 0.0) * self._ttl * 1e9))
        if ttls == 0.0:
            damage.heal()
        self._see("inject", struck, damage.observe)
        if ttls == 0.0:
            self._see("heal", struck, damage.healed)
        elif ttls is not None:
            self._struck.append(struck)

    def end(self, step: str) -> None:
        """Take the one of :meth:`due`."""
        struck = next(struck for struck in self._struck if struck.target.undo == step)
        self._struck.remove(struck)
        struck.damage.heal()
        self._see("heal", struck, struck.damage.healed)

    def _fault(self, target: Target) -> Fault:
        return build_fault(FaultSpec(target.name, at=0.0, params={**target.family.params, "target": target.host}))

    def _see(self, f: str, struck: _Struck, look: Callable[[], Seen]) -> None:
        seen = look()
        value = {
            "id": struck.number,
            "fault": struck.target.name,
            "hosts": struck.damage.hosts,
            "observed": seen.facts,
        }
        what = "not undone" if f == "heal" else "no effect seen"
        error = None if seen.effective else f"{what}; expected {seen.expected}"
        self._recorder.nemesis(f, value, type_="ok" if seen.effective else "fail", error=error)
