"""The interface of a fault: inject it, confirm that it took effect, heal it, confirm that it is healed.

A fault is a msgspec struct. Its fields are its parameters. Its class states the name, what the fault needs of a
cluster, and whether it excuses a lock from being available.

``inject`` and ``heal`` return at once and may be called from any thread. Observing may take time, so each observation
runs in a thread of its own.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, Final, Literal, TypeVar

import msgspec

from harness.clusters.abilities import SHARDS, Ability, Needs, leader_of
from harness.clusters.abilities.network import Links, Network
from harness.clusters.base import Cluster, ObservedFacts, Role, names
from harness.errors import UsageError

from .clocks import Clocks
from .records import PARTIAL, FaultRecord, Moment

PROBE_TIMEOUT_S: float = 0.3
"""Time-out of a probe across the network."""
Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class InjectionContext:
    """Arguments of an injection: cluster, random numbers, the lock's ttl in seconds, and the client whose event
    triggered the fault.

    ``over`` is set when the fault has been healed; an observation that still waits gives up then. ``clocks`` records
    what the faults of a run have done to wall clocks. ``schedule`` is the same for all turns of one fault.
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

    def part(self, ability: Ability[Part]) -> Part:
        """Return the part of the cluster that has this ability, which the fault must have among its ``needs``."""
        return ability.of(self.cluster)


@dataclass(frozen=True, slots=True)
class Observation:
    """Result of observing a fault (or its heal): effects, facts that prove them, and the expectation in words.

    ``effects`` is True for each examined host (``n1``) or link (``c0>n1``) that shows the effect. A fault that affects
    only some of them did not take effect.
    """

    effects: Mapping[str, bool]
    facts: ObservedFacts
    expected: str
    unit: str = "hosts"

    @property
    def effective(self) -> bool:
        return bool(self.effects) and all(self.effects.values())

    def error(self, f: str) -> str | None:
        """Return the error of the ``inject`` or ``heal`` entry that records this, None if it took effect.

        A partial effect says on how many: ``took effect on 2 of 3 hosts, not on n2; expected all of them paused``.
        """
        if self.effective:
            return None
        missing = [name for name, affected in self.effects.items() if not affected]
        affected = len(self.effects) - len(missing)
        what = "not undone" if f == "heal" else "no effect seen"
        if affected:
            what = "undone on" if f == "heal" else PARTIAL
            what += f" {affected} of {len(self.effects)} {self.unit}, not on {', '.join(missing)}"
        return f"{what}; expected {self.expected}"


def nothing_to_undo() -> Observation:
    """Return the observation of the heal of a fault that leaves nothing behind."""
    return Observation({"nothing to undo": True}, {}, "nothing")


@dataclass(slots=True)
class Damage:
    """An injected fault: the hosts that were hit, and how to observe it, heal it, and observe that it is healed.

    ``heal`` is idempotent. ``healed`` looks once; the nemesis calls it again for a while, since servers take time to
    come back. ``crashed`` names the client hosts whose programs died.
    """

    hosts: list[str]
    observe: Callable[[], Observation]
    heal: Callable[[], object]
    healed: Callable[[], Observation] = nothing_to_undo
    crashed: list[str] = field(default_factory=list)
    restarted: list[str] = field(default_factory=list)
    """Client hosts whose programs must be launched again after the heal."""


@dataclass(frozen=True, slots=True)
class FaultStep:
    """A fault as a step of an exhaustive search.

    ``verb`` and ``undo`` name its steps (``pause c0``, ``resume c0``); ``words`` describe it with its article. It
    strikes one host of ``role`` with the parameters ``params``. It is over at once (``ttls`` 0), never ends (None), or
    lasts for that many ttls of the lock. With ``within``, it also strikes a client in the middle of its own step, right
    after the end of a call. With ``in_calls`` it strikes a client only while that waits in a call of its lock.
    """

    verb: str
    role: Role
    ttls: float | None
    words: str
    undo: str = ""
    params: dict[str, Any] = field(default_factory=dict)
    within: bool = False
    in_calls: bool = False


@dataclass(frozen=True, slots=True)
class ComparisonColumn:
    """A fault as a column of a comparison of locks.

    Columns stand in the order of ``rank``. ``ttl_s`` and ``hold_s`` are the lease and the work under it in seconds
    where the usual ones would hide the effect (None: the usual ones), and ``why`` says so.
    """

    rank: int
    ttl_s: float | None = None
    hold_s: float | None = None
    why: str = ""


Question = Literal["client pause", "holder crash", "clock jump", "server crash", "failover", "partition"]
"""Kinds of trouble that readers ask about when they choose a lock, in the order of a table of locks."""


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all faults. Everything that other parts of the harness know about one fault is stated by its class.

    ``disturbs``: a lock may be unavailable while the fault lasts. ``schedule`` is when it strikes if the user gives
    only its name: fields of a FaultSpec, where a string such as ``"1.5 ttl"`` means multiples of the lock's ttl.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    needs: ClassVar[Needs] = frozenset()
    """The abilities that a cluster must have."""
    damages_with: ClassVar[str] = ""
    """The method of a part of the cluster that does the damage. Tests replace it by one that does nothing; the
    observation must notice that."""
    disturbs: ClassVar[bool] = True
    only_delays: ClassVar[bool] = False
    """True if messages arrive later or in another order, and nothing else: no server and no link to one fails."""
    schedule: ClassVar[dict[str, Any]] = {"every": 10.0, "for": 5.0}
    replaces: ClassVar[bool] = False
    """True if the next turn of this fault replaces the previous one, as with a clock that is set again."""
    takes: ClassVar[float] = 0.5
    """Seconds until its effect is certainly observed. It is not injected if the run settles earlier."""
    awaits_clients: ClassVar[bool] = False
    """True if it takes effect only when a client does something."""
    beyond_clients: ClassVar[bool] = True
    """False if it damages only clients and their connections, which is also possible where the servers are a user's."""
    roles: ClassVar[tuple[Role, ...]] = ("server", "sentinel", "client")
    """The roles of the hosts that its ``target`` may name."""
    companions: ClassVar[tuple[dict[str, Any], ...]] = ()
    """Further faults to inject if the user gives only its name: fields of FaultSpecs."""
    search: ClassVar[dict[str, tuple[Any, ...]]] = {}
    """Values that a search for failures tries, for parameters and for ``for``, the simplest first. As in ``schedule``,
    ``"1.5 ttl"`` means multiples of the lock's ttl. A search always tries different hosts."""
    workloads: ClassVar[tuple[str, ...]] = ()
    """Workloads that show what the fault breaks, although searches draw them rarely, the best first. Some rounds of a
    search draw only this fault with one of these workloads."""
    step: ClassVar[FaultStep | None] = None
    """The fault in an exhaustive search, None if that does not support it."""
    column: ClassVar[ComparisonColumn | None] = None
    """The fault in an ordinary comparison of locks, None if it is not part of that."""
    stands_in_for: ClassVar[str] = ""
    """The fault that this one replaces in a comparison where the servers cannot suffer that one."""
    silences: ClassVar[Literal["", "pause", "hang", "death"]] = ""
    """State in which an affected client makes no requests: paused, its thread hung (others run), or dead."""
    coroutines: ClassVar[bool | None] = None
    """True if it strikes only clients whose lock has coroutines as methods, False if only those with plain methods."""
    on_request: ClassVar[bool] = False
    """True if a search has it only if the user names it."""
    fact: ClassVar[str] = ""
    """Observed fact that its description needs. A record without the fact gets a general description."""
    question: ClassVar[Question | None] = None
    """The kind of trouble that this fault makes; None if readers do not ask about it."""
    tells_moment: ClassVar[bool] = False
    """True if its story says at which point of a call it took effect, so that the event of its trigger is left out."""

    def inject(self, scene: InjectionContext) -> Damage:
        raise NotImplementedError

    def releases(self) -> tuple[str, ...]:
        """Return the releases of the servers that must be at hand beside the one with which they start."""
        return ()

    @classmethod
    def effect_ns(cls, record: FaultRecord) -> int:
        """Return when it took effect, ns (monotonic): later than the injection if it waits for a call."""
        return record.injected_ns

    @classmethod
    def story(cls, record: FaultRecord, ended: str) -> str:
        """Return the clause of a story that follows "At 0.205 s, ".

        ``ended`` is " until 3.850 s" if the fault was over before the violation, else empty.
        """
        return f"{record.fault} strikes {record.who or 'no host'}{ended}"

    @classmethod
    def cause(cls, record: FaultRecord, moment: Moment) -> str:
        """Return the clause of a run's summary that names the fault as active at ``moment``.

        Later effects of the fault are left out.
        """
        return f"{record.fault} struck {record.who or 'no host'} at {moment.seconds(record.injected_ns)}"

    @classmethod
    def describes(cls, record: FaultRecord) -> bool:
        """Return True if the record has the facts that this fault's description needs."""
        return record.seen and cls.fact in record.observed


GROUPS: Final = (
    "one", "minority", "majority", "all", "servers", "sentinels", "clients", "primary", "replicas", "follower", "holder"
)  # fmt: skip
"""Targets named by intent; see :func:`targets`."""
GROUP_ROLES: Final[dict[str, Role]] = {
    "servers": "server", "sentinels": "sentinel", "clients": "client",
    "primary": "server", "replicas": "server", "follower": "server", "holder": "client",
}  # fmt: skip
"""Groups whose role does not depend on the fault. Other groups choose among the hosts that the fault is for."""


def targets(scene: InjectionContext, target: str, default: Sequence[str]) -> list[str]:
    """Return the host names that a target means.

    ``one``, ``minority``, ``majority`` and ``all`` choose among ``default``. ``holder`` is the client whose event
    triggered the fault. ``servers``, ``sentinels``, ``clients``, ``primary`` and ``replicas`` mean what they say, and
    ``follower`` is one of the replicas.
    Anything else is a list of host names with commas; UsageError for a name that no host has.
    """
    servers = scene.hosts("server")

    groups: dict[str, Callable[[], Sequence[str]]] = {
        "one": lambda: [scene.rng.choice(list(default))],
        "minority": lambda: _random_hosts(scene.rng, default, max(1, (len(default) - 1) // 2)),
        "majority": lambda: _random_hosts(scene.rng, default, len(default) // 2 + 1),
        "all": lambda: default,
        "servers": lambda: servers,
        "sentinels": lambda: scene.hosts("sentinel"),
        "clients": lambda: scene.hosts("client"),
        "primary": lambda: _primary(scene, servers),
        "replicas": lambda: _replicas(scene, servers),
        "follower": lambda: [scene.rng.choice(_replicas(scene, servers))],
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


def probe(
    network: Network, links: Sequence[tuple[str, str]], timeout: float = PROBE_TIMEOUT_S
) -> dict[str, float | None]:
    """Measure round trips across links, all at once: seconds by link (``c0>n1``), None if ``timeout`` passed first."""
    trips: dict[str, float | None] = {f"{source}>{target}": None for source, target in links}

    def ask(source: str, target: str) -> None:
        trips[f"{source}>{target}"] = network.reaches(source, target, timeout)

    # Not a pool: its start-up holds a lock of the whole process while it waits.
    threads = [threading.Thread(target=ask, args=link, daemon=True) for link in links]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return trips


def once(undo: Callable[[], object]) -> Callable[[], None]:
    """Make a heal idempotent. Clusters count starts, resumes and heals, so a second call would undo another fault."""
    done: list[bool] = []

    def heal() -> None:
        if not done:
            done.append(True)
            undo()

    return heal


def answered(network: Network, links: Links, within: float = PROBE_TIMEOUT_S) -> Observation:
    """Observe links that should work again: each answers within ``within`` seconds."""
    trips = probe(network, links)
    effects = {link: trip is not None and trip < within for link, trip in trips.items()}
    expected = f"answers within {within:g} s on every link"
    return Observation(effects or {"no link": True}, {"probe": trips}, expected, "links")


def _primary(scene: InjectionContext, servers: list[str]) -> list[str]:
    primary = leader_of(scene.cluster)
    return servers[:1] if primary is None else [primary]


def _replicas(scene: InjectionContext, servers: list[str]) -> list[str]:
    if (shards := SHARDS.find(scene.cluster)) is not None:
        return shards.replicas()
    primary = _primary(scene, servers)
    return [name for name in servers if name not in primary]


def _random_hosts(rng: Random, pool: Sequence[str], count: int) -> list[str]:
    return sorted(rng.sample(list(pool), min(count, len(pool))))


def multiples(value: Any, ttl: float) -> Any:
    """Turn ``"1.5 ttl"`` into seconds; return anything else unchanged."""
    if isinstance(value, str) and value.endswith(" ttl"):
        return math.ceil(float(value.removesuffix(" ttl")) * ttl * 1000) / 1000
    return value
