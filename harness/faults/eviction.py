"""Memory pressure: a server that is also somebody's cache drops the lock's key to make room."""

from __future__ import annotations

from typing import Any, ClassVar

from ..clusters.base import Facts, Role
from .base import Damage, Fault, Scene, Seen, once, targets


class Eviction(Fault, frozen=True):
    """Cache entries fill a server's memory until it evicts keys that were there before, as ``volatile-lru`` does; at
    the heal they go, and its settings are what they were. What never expires is not evicted."""

    name: ClassVar[str] = "eviction"
    summary: ClassVar[str] = "a server runs out of memory and evicts the lock's key"
    needs: ClassVar[frozenset[str]] = frozenset({"evict"})
    schedule: ClassVar[dict[str, Any]] = {"on": "acquire", "nth": 5, "times": 1000, "every": "3 ttl", "for": 0.5}
    takes: ClassVar[float] = 1.0
    search: ClassVar[dict[str, tuple[Any, ...]]] = {"for": (0.5,)}

    roles: ClassVar[tuple[Role, ...]] = ("server",)
    target: str = "primary"

    def inject(self, scene: Scene) -> Damage:
        cluster = scene.cluster
        hosts = targets(scene, self.target, scene.hosts("server"))

        def observe() -> Seen:
            floods: dict[str, Facts] = {host: cluster.flood(host) for host in hosts}
            evicted = all(facts.get("others", 0) > 0 for facts in floods.values())
            return Seen(evicted, {"flood": floods}, "keys evicted that were there before")

        def heal() -> None:
            for host in hosts:
                cluster.drain(host)

        def healed() -> Seen:
            left = {host: cluster.flooded(host) for host in hosts}
            return Seen(not any(left.values()) and None not in left.values(), {"flooded": left}, "nothing left of it")

        return Damage(hosts, observe, once(heal), healed)
