"""Partitions: which directed links are cut is a pure function of the hosts and of chance (Jepsen calls it a grudge)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, ClassVar

from .base import Damage, Fault, Scene, Seen, answered, once, probe, targets

Links = list[tuple[str, str]]


def between(left: Sequence[str], right: Sequence[str]) -> Links:
    """All links between two groups, both directions."""
    return [pair for a in left for b in right for pair in ((a, b), (b, a))]


def halves(servers: Sequence[str], rng: Random) -> tuple[list[str], list[str]]:
    """Two groups whose sizes differ by one at most; the smaller one first."""
    shuffled = rng.sample(list(servers), len(servers))
    middle = len(shuffled) // 2
    return sorted(shuffled[:middle]), sorted(shuffled[middle:])


def ring(servers: Sequence[str]) -> Links:
    """Every server sees a majority, and no two the same: each only its neighbours on a ring."""
    count = len(servers)
    reach = (count // 2 + 1) // 2
    return [
        (a, b)
        for i, a in enumerate(servers)
        for j, b in enumerate(servers)
        if min((i - j) % count, (j - i) % count) > reach
    ]


def bridge(servers: Sequence[str]) -> Links:
    """Two halves that only meet through one server in the middle."""
    middle = len(servers) // 2
    return between(servers[:middle], servers[middle + 1 :])


def _cut(scene: Scene, links: Links, hosts: list[str]) -> Damage:
    cluster = scene.cluster
    cluster.cut(links)
    sample = links[:: max(1, len(links) // 4)][:4]

    def observe() -> Seen:
        answers = probe(cluster, sample)
        silent = bool(answers) and all(trip is None for trip in answers.values())
        return Seen(silent, {"cut": [f"{a}>{b}" for a, b in links], "probe": answers}, "no answer across the cut")

    return Damage(hosts, observe, once(lambda: cluster.mend(links)), lambda: answered(cluster, sample))


class _Partition(Fault, frozen=True):
    needs: ClassVar[frozenset[str]] = frozenset({"cut"})
    schedule: ClassVar[dict[str, Any]] = {"every": "4 ttl", "for": "2 ttl"}


class PartitionHalves(_Partition, frozen=True):
    """Servers and clients are split in two groups; each client stays with one of them. ``left`` and ``right`` are
    host names, for certain groups: without ``right`` it is everybody else, and who is in neither sees both."""

    name: ClassVar[str] = "partition-halves"
    summary: ClassVar[str] = "hosts are split into two random halves, clients with them"

    left: str = ""
    right: str = ""

    def inject(self, scene: Scene) -> Damage:
        everybody = [host.name for host in scene.cluster.hosts]
        if self.left:
            one = targets(scene, self.left, everybody)
            other = targets(scene, self.right, everybody) if self.right else [n for n in everybody if n not in one]
            return _cut(scene, between(one, other), one)
        left, right = halves(scene.hosts("server") + scene.hosts("sentinel"), scene.rng)
        with_left, with_right = halves(scene.hosts("client"), scene.rng)
        return _cut(scene, between(left + with_left, right + with_right), left + with_left)


class PartitionMajority(_Partition, frozen=True):
    """A minority of the servers is cut from the rest and from all clients."""

    name: ClassVar[str] = "partition-majority"
    summary: ClassVar[str] = "a minority of the servers is cut from everybody else"

    def inject(self, scene: Scene) -> Damage:
        servers = scene.hosts("server")
        few = targets(scene, "minority", servers)
        rest = [host.name for host in scene.cluster.hosts if host.name not in few]
        return _cut(scene, between(few, rest), few)


class PartitionNode(_Partition, frozen=True):
    """One server is cut from everybody; with ``target`` a certain one."""

    name: ClassVar[str] = "partition-node"
    summary: ClassVar[str] = "one server is cut from everybody else"

    target: str = "one"

    def inject(self, scene: Scene) -> Damage:
        alone = targets(scene, self.target, scene.hosts("server"))
        rest = [host.name for host in scene.cluster.hosts if host.name not in alone]
        return _cut(scene, between(alone, rest), alone)


class PartitionReplicas(_Partition, frozen=True):
    """The primary is cut from its replicas and from nobody else: what it acknowledges is on it alone."""

    name: ClassVar[str] = "partition-replicas"
    summary: ClassVar[str] = "the primary is cut from its replicas, and goes on serving clients"
    needs: ClassVar[frozenset[str]] = frozenset({"cut", "failover"})
    disturbs: ClassVar[bool] = False

    def inject(self, scene: Scene) -> Damage:
        servers = scene.hosts("server")
        primary, replicas = targets(scene, "primary", servers), targets(scene, "replicas", servers)
        return _cut(scene, between(primary, replicas), primary)


class PartitionRing(_Partition, frozen=True):
    """Each server sees its neighbours on a ring only."""

    name: ClassVar[str] = "partition-ring"
    summary: ClassVar[str] = "each server sees a majority, and no two the same"
    needs: ClassVar[frozenset[str]] = frozenset({"cut", "peers"})

    def inject(self, scene: Scene) -> Damage:
        servers = scene.hosts("server") + scene.hosts("sentinel")
        return _cut(scene, ring(servers), servers)


class PartitionBridge(_Partition, frozen=True):
    """Two halves with one server between them."""

    name: ClassVar[str] = "partition-bridge"
    summary: ClassVar[str] = "two halves of the servers meet only through one of them"
    needs: ClassVar[frozenset[str]] = frozenset({"cut", "peers"})

    def inject(self, scene: Scene) -> Damage:
        servers = scene.hosts("server") + scene.hosts("sentinel")
        return _cut(scene, bridge(servers), servers)


class PartitionClients(_Partition, frozen=True):
    """Some clients are cut from some servers: ``clients`` and ``servers`` are targets."""

    name: ClassVar[str] = "partition-clients"
    summary: ClassVar[str] = "some clients lose a minority of the servers"

    clients: str = "minority"
    servers: str = "minority"

    def inject(self, scene: Scene) -> Damage:
        some = targets(scene, self.clients, scene.hosts("client"))
        lost = targets(scene, self.servers, scene.hosts("server"))
        return _cut(scene, between(some, lost), some + lost)


class PartitionOneway(_Partition, frozen=True):
    """Packets are lost in one direction only: requests arrive and answers do not, or the other way round."""

    name: ClassVar[str] = "partition-oneway"
    summary: ClassVar[str] = "answers of some servers are lost, although requests reach them"

    target: str = "minority"
    lost: str = "answers"

    def inject(self, scene: Scene) -> Damage:
        some = targets(scene, self.target, scene.hosts("server"))
        rest = [host.name for host in scene.cluster.hosts if host.name not in some]
        links = [(a, b) for a in some for b in rest]
        return _cut(scene, links if self.lost == "answers" else [(b, a) for a, b in links], some)
