"""The fault seam: inject, observe that it took effect, heal, observe that it is undone.

A fault is a msgspec struct whose fields are its parameters; its class says what it is called, what it needs of a
cluster, and whether it excuses a lock from being available. Its damage undoes itself.

``inject`` and ``heal`` return at once and may be called from any thread; what observes may take time and has a thread
of its own.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, Final

import msgspec

from ..clusters.base import Cluster, Facts, Role, names
from ..errors import UsageError
from .clocks import Clocks

PROBE: float = 0.3
"""Seconds that a probe across the network may take."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Where a fault strikes: the cluster, chance, the lock's ttl in seconds, and the client whose doing
    triggered it.

    ``over`` is set when the fault has been healed: whoever still waits for its effect gives up then. ``clocks`` is
    what the faults of a run have done to wall clocks; ``schedule`` is the same for all turns of one fault.
    """

    cluster: Cluster
    rng: Random
    ttl: float
    client: str | None = None
    over: threading.Event = field(default_factory=threading.Event)
    clocks: Clocks = field(default_factory=Clocks)
    schedule: Hashable = field(default_factory=object)

    def hosts(self, role: Role) -> list[str]:
        return names(self.cluster.hosts, role)


@dataclass(frozen=True, slots=True)
class Seen:
    """What was observed: did the fault (or its heal) take effect, the facts, and in words what was expected."""

    effective: bool
    facts: Facts
    expected: str


def nothing_to_undo() -> Seen:
    """What is seen of the heal of a fault that leaves nothing behind."""
    return Seen(True, {}, "nothing")


@dataclass(slots=True)
class Damage:
    """An injected fault: the hosts actually hit, how to see it, how to undo it, and how to see that it is undone.

    ``heal`` is idempotent. ``healed`` looks once; the nemesis asks again for a while, since servers take time to come
    back. ``crashed`` names client hosts whose programs died.
    """

    hosts: list[str]
    observe: Callable[[], Seen]
    heal: Callable[[], object]
    healed: Callable[[], Seen] = nothing_to_undo
    crashed: list[str] = field(default_factory=list)
    restarted: list[str] = field(default_factory=list)
    """Client hosts whose programs must be launched again after the heal."""


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all faults. ``schedule`` is when it happens if the user only names it: fields of a FaultSpec, where a
    string such as ``"1.5 ttl"`` means multiples of the lock's ttl."""

    name: ClassVar[str]
    summary: ClassVar[str]
    needs: ClassVar[frozenset[str]] = frozenset()
    disturbs: ClassVar[bool] = True
    schedule: ClassVar[dict[str, Any]] = {"every": 10.0, "for": 5.0}
    replaces: ClassVar[bool] = False
    """The next turn of this fault takes the place of the last, as with a clock that is set again."""
    takes: ClassVar[float] = 0.5
    """Seconds until its effect has surely been seen; it does not strike when less is left before the run settles."""
    roles: ClassVar[tuple[Role, ...]] = ("server", "sentinel", "client")
    """Whom its ``target`` may name."""
    companions: ClassVar[tuple[dict[str, Any], ...]] = ()
    """Other faults that come with it if the user only names it: fields of FaultSpecs."""
    search: ClassVar[dict[str, tuple[Any, ...]]] = {}
    """What a search for failures tries: values of parameters, and of ``for``, the simplest first; as in ``schedule``,
    ``"1.5 ttl"`` means multiples of the lock's ttl. Hosts are tried without being named."""

    def inject(self, scene: Scene) -> Damage:
        raise NotImplementedError


GROUPS: Final = (
    "one", "minority", "majority", "all", "servers", "sentinels", "clients", "primary", "replicas", "holder"
)  # fmt: skip
"""Targets named by intent; see :func:`targets`."""
GROUP_ROLES: Final[dict[str, Role]] = {
    "servers": "server", "sentinels": "sentinel", "clients": "client",
    "primary": "server", "replicas": "server", "holder": "client",
}  # fmt: skip
"""Groups that are of one role whatever the fault; the others choose among those whom the fault is for."""


def targets(scene: Scene, target: str, default: Sequence[str]) -> list[str]:
    """Host names for a target named by intent, or by name.

    ``one``, ``minority``, ``majority`` and ``all`` choose among ``default``; ``servers``, ``sentinels``, ``clients``,
    ``primary``, ``replicas`` and ``holder`` (the client whose event triggered the fault) speak for themselves; anything
    else is a list of host names with commas.
    """
    servers = scene.hosts("server")
    groups: dict[str, Callable[[], Sequence[str]]] = {
        "one": lambda: [scene.rng.choice(list(default))],
        "minority": lambda: _some(scene.rng, default, max(1, (len(default) - 1) // 2)),
        "majority": lambda: _some(scene.rng, default, len(default) // 2 + 1),
        "all": lambda: default,
        "servers": lambda: servers,
        "sentinels": lambda: scene.hosts("sentinel"),
        "clients": lambda: scene.hosts("client"),
        "primary": lambda: _primary(scene, servers),
        "replicas": lambda: [name for name in servers if name not in _primary(scene, servers)],
        "holder": lambda: [scene.client or scene.rng.choice(scene.hosts("client"))],
    }
    if target in groups:
        return list(groups[target]())
    wanted = [name.strip() for name in target.split(",")]
    known = [host.name for host in scene.cluster.hosts]
    for name in wanted:
        if name not in known:
            raise UsageError(f"fault target {name!r}: expected one of {', '.join([*groups, *known])}")
    return wanted


def probe(cluster: Cluster, links: Sequence[tuple[str, str]], timeout: float = PROBE) -> dict[str, float | None]:
    """Round trips in seconds across links, all at once; None where nothing came back within ``timeout``."""
    trips: dict[str, float | None] = {f"{source}>{target}": None for source, target in links}

    def ask(source: str, target: str) -> None:
        trips[f"{source}>{target}"] = cluster.reaches(source, target, timeout)

    # Not a pool: its start-up holds a lock of the whole process while it waits.
    threads = [threading.Thread(target=ask, args=link, daemon=True) for link in links]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return trips


def once(undo: Callable[[], object]) -> Callable[[], None]:
    """A heal that may be called again: starts, resumes and mends count, and one too many would undo another fault."""
    done: list[bool] = []

    def heal() -> None:
        if not done:
            done.append(True)
            undo()

    return heal


def answered(cluster: Cluster, links: Sequence[tuple[str, str]], within: float = PROBE) -> Seen:
    """What is seen of links that should work again."""
    trips = probe(cluster, links)
    fine = all(trip is not None and trip < within for trip in trips.values())
    return Seen(fine, {"probe": trips}, f"answers within {within:g} s on every link")


def _primary(scene: Scene, servers: list[str]) -> list[str]:
    primary = scene.cluster.primary()
    return servers[:1] if primary is None else [primary]


def _some(rng: Random, pool: Sequence[str], count: int) -> list[str]:
    return sorted(rng.sample(list(pool), min(count, len(pool))))


def multiples(value: Any, ttl: float) -> Any:
    """``"1.5 ttl"`` as seconds; anything else as it is."""
    if isinstance(value, str) and value.endswith(" ttl"):
        return math.ceil(float(value.removesuffix(" ttl")) * ttl * 1000) / 1000
    return value
