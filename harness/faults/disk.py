"""Disks that stand still, and machines that lose power: what a server has on its disk, and not only in its memory or
in its kernel's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from ..clusters.base import Role
from .base import Damage, Fault, Scene, Seen, once, targets
from .process import running


class DiskStall(Fault, frozen=True):
    """The disk of servers takes no writes: whoever writes waits, and goes on when it ends. What had been written before
    is safe: a stall begins with a sync."""

    name: ClassVar[str] = "disk-stall"
    summary: ClassVar[str] = "the disks of a minority of the servers take no writes for a while"
    needs: ClassVar[frozenset[str]] = frozenset({"disk"})
    schedule: ClassVar[dict[str, Any]] = {"every": "4 ttl", "for": "1.5 ttl"}

    roles: ClassVar[tuple[Role, ...]] = ("server",)
    target: str = "minority"

    def inject(self, scene: Scene) -> Damage:
        cluster = scene.cluster
        hosts = targets(scene, self.target, scene.hosts("server"))
        for host in hosts:
            cluster.stall(host)

        def observe() -> Seen:
            disks = {host: cluster.disk(host) for host in hosts}
            return Seen(set(disks.values()) == {"hangs"}, {"disk": disks}, "a write to each of these disks hangs")

        def heal() -> None:
            for host in hosts:
                cluster.unstall(host)

        def healed() -> Seen:
            disks = {host: cluster.disk(host) for host in hosts}
            states = {host: cluster.state(host) for host in hosts}
            fine = "hangs" not in disks.values() and "paused" not in states.values()
            return Seen(fine, {"disk": disks, "state": states}, "no write hangs, and no server")

        return Damage(hosts, observe, once(heal), healed)


class PowerLoss(Fault, frozen=True):
    """The machines of servers lose power, all at once: what they have acknowledged and not yet synced is gone. They
    come back with what is on their disks."""

    name: ClassVar[str] = "power-loss"
    summary: ClassVar[str] = "a majority of the servers loses power, and with it what was not synced to disk"
    needs: ClassVar[frozenset[str]] = frozenset({"disk"})
    schedule: ClassVar[dict[str, Any]] = {"on": "acquire", "nth": 5, "times": 1000, "every": "3 ttl", "for": 0.02}

    roles: ClassVar[tuple[Role, ...]] = ("server",)
    target: str = "majority"

    def inject(self, scene: Scene) -> Damage:
        cluster = scene.cluster
        hosts = targets(scene, self.target, scene.hosts("server"))
        before = {host: cluster.size(host) for host in hosts}
        lives = {host: cluster.life(host) for host in hosts}
        for host in hosts:
            cluster.lose_power(host)

        def observe() -> Seen:
            disks = {host: cluster.disk(host) for host in hosts}
            states = {host: cluster.state(host) for host in hosts}
            # It may have power again already: then it lives another life.
            died = [
                host
                for host in hosts
                if (states[host] == "dead" and disks[host] == "fails") or cluster.life(host) not in (None, lives[host])
            ]
            facts = {"disk": disks, "state": states, "died": died, "keys_before": before}
            return Seen(died == hosts, facts, "all of them dead and their disks out of reach, or in another life")

        def heal() -> None:
            for host in hosts:
                cluster.start(host, wiped=False)

        def healed() -> Seen:
            disks = {host: cluster.disk(host) for host in hosts}
            found = running(cluster, hosts)
            after = {host: cluster.size(host) for host in hosts}
            lost = [host for host in hosts if before[host] and after[host] == 0]
            facts = {**found.facts, "disk": disks, "keys_before": before, "keys_after": after, "wiped": lost}
            return replace(found, effective=found.effective and "fails" not in disks.values(), facts=facts)

        return Damage(hosts, observe, once(heal), healed)
