"""Memory pressure: a server that also serves as a cache evicts the lock's key to make room."""

from __future__ import annotations

from typing import Any, ClassVar

from harness.clusters.abilities import MEMORY, Needs
from harness.clusters.base import ObservedFacts, Role

from .base import Damage, Fault, InjectionContext, Observation, once, targets
from .records import FaultRecord


class Eviction(Fault, frozen=True):
    """Cache entries fill a server's memory until it evicts older keys, as ``volatile-lru`` does. Keys that never expire
    are not evicted. The heal deletes the entries and restores the server's settings."""

    name: ClassVar[str] = "eviction"
    damages_with: ClassVar[str] = "flood"
    fact: ClassVar[str] = "flood"
    summary: ClassVar[str] = "a server runs out of memory and evicts the lock's key"
    needs: ClassVar[Needs] = frozenset({MEMORY})
    schedule: ClassVar[dict[str, Any]] = {"on": "acquire", "nth": 5, "times": 1000, "every": "3 ttl", "for": 0.5}
    takes: ClassVar[float] = 1.0
    awaits_clients: ClassVar[bool] = True
    search: ClassVar[dict[str, tuple[Any, ...]]] = {"for": (0.5,)}

    roles: ClassVar[tuple[Role, ...]] = ("server",)
    target: str = "primary"

    def inject(self, scene: InjectionContext) -> Damage:
        memory = scene.part(MEMORY)
        hosts = targets(scene, self.target, scene.hosts("server"))

        def observe() -> Observation:
            floods: dict[str, ObservedFacts] = {host: memory.flood(host) for host in hosts}
            evicted = {host: facts.get("others", 0) > 0 for host, facts in floods.items()}
            return Observation(evicted, {"flood": floods}, "keys evicted that were there before")

        def heal() -> None:
            for host in hosts:
                memory.drain(host)

        def healed() -> Observation:
            left = {host: memory.flooded(host) for host in hosts}
            dry = {host: flooded is False for host, flooded in left.items()}
            return Observation(dry, {"flooded": left}, "nothing left of it")

        return Damage(hosts, observe, once(heal), healed)

    @classmethod
    def story(cls, record: FaultRecord, ended: str) -> str:
        del ended  # what was evicted stays lost
        return f"{record.who} runs out of memory and evicts older keys"
