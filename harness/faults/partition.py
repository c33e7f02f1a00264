"""Network partitions: which links between hosts each of them cuts (Jepsen calls this set a grudge), and the faults
that cut and restore them.

A link has a direction: a host may reach another that cannot answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, ClassVar

from harness.clusters.abilities import FAILOVER, NETWORK, PEERS, Needs
from harness.wording import listed

from .base import (
    ComparisonColumn,
    Damage,
    Fault,
    InjectionContext,
    Observation,
    Question,
    answered,
    once,
    probe,
    targets,
)
from .records import FaultRecord, Moment

Links = list[tuple[str, str]]


def links_between(left: Sequence[str], right: Sequence[str]) -> Links:
    """Return all links between two groups, in both directions."""
    return [pair for a in left for b in right for pair in ((a, b), (b, a))]


def halves(servers: Sequence[str], rng: Random) -> tuple[list[str], list[str]]:
    """Split servers at random into two groups whose sizes differ by one at most; the smaller group comes first."""
    shuffled = rng.sample(list(servers), len(servers))
    middle = len(shuffled) // 2
    return sorted(shuffled[:middle]), sorted(shuffled[middle:])


def ring(servers: Sequence[str]) -> Links:
    """Return the links to cut so that each server reaches only its neighbours on a ring.

    Every server then reaches a majority, and no two servers the same one.
    """
    count = len(servers)
    reach = (count // 2 + 1) // 2
    return [
        (a, b)
        for i, a in enumerate(servers)
        for j, b in enumerate(servers)
        if min((i - j) % count, (j - i) % count) > reach
    ]


def bridge(servers: Sequence[str]) -> Links:
    """Return the links to cut so that two halves meet only through the server in the middle."""
    middle = len(servers) // 2
    return links_between(servers[:middle], servers[middle + 1 :])


def _cut_links(scene: InjectionContext, links: Links, hosts: list[str]) -> Damage:
    network = scene.part(NETWORK)
    network.cut(links)
    sample = links[:: max(1, len(links) // 4)][:4]

    def observe() -> Observation:
        answers = probe(network, sample)
        silent = {link: trip is None for link, trip in answers.items()}
        facts = {"cut": [f"{a}>{b}" for a, b in links], "probe": answers}
        return Observation(silent, facts, "no answer across the cut", "links")

    return Damage(hosts, observe, once(lambda: network.heal(links)), lambda: answered(network, sample))


class _Partition(Fault, frozen=True):
    needs: ClassVar[Needs] = frozenset({NETWORK})
    damages_with: ClassVar[str] = "cut"
    schedule: ClassVar[dict[str, Any]] = {"every": "4 ttl", "for": "2 ttl"}
    fact: ClassVar[str] = "cut"

    @classmethod
    def story(cls, record: FaultRecord, ended: str) -> str:
        links = [(a, b) for a, _, b in (link.partition(">") for link in record.observed["cut"])]
        one_way = not {(b, a) for a, b in links} & set(links)
        if one_way:
            sources, targets = sorted({a for a, _ in links}), sorted({b for _, b in links})
            return f"all packets from {listed(sources)} to {listed(targets)} are lost{ended}"
        sides = _sides(links)
        if sides is None:
            pairs = sorted({" and ".join(sorted(link)) for link in links})
            return f"the network is cut between {'; '.join(pairs)}{ended}"
        here, there = sides
        return f"{listed(here)} {'are' if len(here) > 1 else 'is'} cut off from {listed(there)}{ended}"

    @classmethod
    def cause(cls, record: FaultRecord, moment: Moment) -> str:
        others = {host for link in record.observed["cut"] for host in link.split(">")} - set(record.hosts)
        apart = listed(sorted(others)) or "each other"
        return f"{record.who} {record.verb('was', 'were')} cut off from {apart} at {moment.seconds(record.injected_ns)}"


def _sides(links: Links) -> tuple[list[str], list[str]] | None:
    """Return the two groups between which all links are cut, the first by name first; None if there are none."""
    first = min(min(link) for link in links)
    there = sorted({b for a, b in links if a == first} | {a for a, b in links if b == first})
    here = sorted({a for a, b in links if b in there and a not in there})
    every = {frozenset((a, b)) for a in here for b in there}
    return (here, there) if every == {frozenset(link) for link in links} else None


class PartitionHalves(_Partition, frozen=True):
    """Servers and clients are split into two groups; each client stays with one of them.

    ``left`` and ``right`` are host names, for certain groups. Without ``right`` that group is everybody else. A host
    in neither group reaches both.
    """

    name: ClassVar[str] = "partition-halves"
    question: ClassVar[Question | None] = "partition"
    summary: ClassVar[str] = "a partition splits servers and clients into two random halves"

    left: str = ""
    right: str = ""

    def inject(self, scene: InjectionContext) -> Damage:
        everybody = [host.name for host in scene.cluster.hosts]
        if self.left:
            one = targets(scene, self.left, everybody)
            other = targets(scene, self.right, everybody) if self.right else [n for n in everybody if n not in one]
            return _cut_links(scene, links_between(one, other), one)
        left, right = halves(scene.hosts("server") + scene.hosts("sentinel"), scene.rng)
        with_left, with_right = halves(scene.hosts("client"), scene.rng)
        return _cut_links(scene, links_between(left + with_left, right + with_right), left + with_left)


class PartitionMajority(_Partition, frozen=True):
    """A minority of the servers is cut off from the rest and from all clients."""

    name: ClassVar[str] = "partition-majority"
    question: ClassVar[Question | None] = "partition"
    summary: ClassVar[str] = "a partition separates a minority of the servers from all other hosts"

    def inject(self, scene: InjectionContext) -> Damage:
        servers = scene.hosts("server")
        few = targets(scene, "minority", servers)
        rest = [host.name for host in scene.cluster.hosts if host.name not in few]
        return _cut_links(scene, links_between(few, rest), few)


class PartitionNode(_Partition, frozen=True):
    """One server is cut off from all other hosts; ``target`` chooses it."""

    name: ClassVar[str] = "partition-node"
    question: ClassVar[Question | None] = "partition"
    summary: ClassVar[str] = "a partition separates one server from all other hosts"
    column: ClassVar[ComparisonColumn | None] = ComparisonColumn(5)

    target: str = "one"

    def inject(self, scene: InjectionContext) -> Damage:
        alone = targets(scene, self.target, scene.hosts("server"))
        rest = [host.name for host in scene.cluster.hosts if host.name not in alone]
        return _cut_links(scene, links_between(alone, rest), alone)


class PartitionReplicas(_Partition, frozen=True):
    """The primary is cut off from its replicas only, so what it acknowledges exists on it alone."""

    name: ClassVar[str] = "partition-replicas"
    question: ClassVar[Question | None] = "partition"
    summary: ClassVar[str] = "a partition separates the primary from its replicas, while it still serves clients"
    needs: ClassVar[Needs] = frozenset({NETWORK, FAILOVER})
    disturbs: ClassVar[bool] = False

    def inject(self, scene: InjectionContext) -> Damage:
        servers = scene.hosts("server")
        primary, replicas = targets(scene, "primary", servers), targets(scene, "replicas", servers)
        return _cut_links(scene, links_between(primary, replicas), primary)


class PartitionRing(_Partition, frozen=True):
    """Each server reaches only its neighbours on a ring."""

    name: ClassVar[str] = "partition-ring"
    question: ClassVar[Question | None] = "partition"
    summary: ClassVar[str] = "each server reaches a majority, but no two servers reach the same majority"
    needs: ClassVar[Needs] = frozenset({NETWORK, PEERS})

    def inject(self, scene: InjectionContext) -> Damage:
        peers = scene.part(PEERS).peers()
        return _cut_links(scene, ring(peers), peers)


class PartitionBridge(_Partition, frozen=True):
    """Two halves of the servers are connected through one server only."""

    name: ClassVar[str] = "partition-bridge"
    question: ClassVar[Question | None] = "partition"
    summary: ClassVar[str] = "two halves of the servers are connected only through one server"
    needs: ClassVar[Needs] = frozenset({NETWORK, PEERS})

    def inject(self, scene: InjectionContext) -> Damage:
        peers = scene.part(PEERS).peers()
        return _cut_links(scene, bridge(peers), peers)


class PartitionClients(_Partition, frozen=True):
    """Some clients are cut off from some servers: ``clients`` and ``servers`` are targets."""

    name: ClassVar[str] = "partition-clients"
    question: ClassVar[Question | None] = "partition"
    beyond_clients: ClassVar[bool] = False
    summary: ClassVar[str] = "a partition separates some clients from a minority of the servers"

    clients: str = "minority"
    servers: str = "minority"

    def inject(self, scene: InjectionContext) -> Damage:
        some = targets(scene, self.clients, scene.hosts("client"))
        lost = targets(scene, self.servers, scene.hosts("server"))
        return _cut_links(scene, links_between(some, lost), some + lost)


class PartitionOneway(_Partition, frozen=True):
    """Packets are lost in one direction only: requests arrive and answers do not, or the reverse."""

    name: ClassVar[str] = "partition-oneway"
    question: ClassVar[Question | None] = "partition"
    summary: ClassVar[str] = "requests reach some servers, but their answers are lost"

    target: str = "minority"
    lost: str = "answers"

    def inject(self, scene: InjectionContext) -> Damage:
        some = targets(scene, self.target, scene.hosts("server"))
        rest = [host.name for host in scene.cluster.hosts if host.name not in some]
        links = [(a, b) for a in some for b in rest]
        return _cut_links(scene, links if self.lost == "answers" else [(b, a) for a, b in links], some)
