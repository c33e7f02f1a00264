"""Faults of disks and of power: they show what a server has on its disk, and not only in memory or in the kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, ClassVar

import msgspec

from harness.clusters.abilities import DISKS, LOCK_KEYS, PROCESSES, Needs
from harness.clusters.base import Role
from harness.wording import counted, listed

from .base import Damage, Fault, InjectionContext, Observation, Question, once, targets
from .process import ServersDie, running
from .records import FaultRecord


class DiskStall(Fault, frozen=True):
    """The disks of servers take no writes: a server that writes waits until the stall ends. What was written before is
    safe, since a stall begins with a sync."""

    name: ClassVar[str] = "disk-stall"
    damages_with: ClassVar[str] = "stall"
    fact: ClassVar[str] = "disk"
    summary: ClassVar[str] = "writes to the disks of a minority of the servers block for a while"
    needs: ClassVar[Needs] = frozenset({DISKS, PROCESSES})
    schedule: ClassVar[dict[str, Any]] = {"every": "4 ttl", "for": "1.5 ttl"}

    roles: ClassVar[tuple[Role, ...]] = ("server",)
    target: str = "minority"

    def inject(self, scene: InjectionContext) -> Damage:
        disks, processes = scene.part(DISKS), scene.part(PROCESSES)
        hosts = targets(scene, self.target, scene.hosts("server"))
        for host in hosts:
            disks.stall(host)

        def observe() -> Observation:
            found = {host: disks.disk(host) for host in hosts}
            hangs = {host: disk == "hangs" for host, disk in found.items()}
            return Observation(hangs, {"disk": found}, "a write to each of these disks hangs")

        def heal() -> None:
            for host in hosts:
                disks.unstall(host)

        def healed() -> Observation:
            found = {host: disks.disk(host) for host in hosts}
            states = {host: processes.state(host) for host in hosts}
            fine = {host: found[host] != "hangs" and states[host] != "paused" for host in hosts}
            return Observation(fine, {"disk": found, "state": states}, "no write hangs, and no server")

        return Damage(hosts, observe, once(heal), healed)

    @classmethod
    def story(cls, record: FaultRecord, ended: str) -> str:
        return f"writes to the {record.verb('disk', 'disks')} of {record.who} hang{ended}"


class DiskFull(Fault, frozen=True):
    """The disks of servers have no space left. What a server does then is its own: Redis with a synced log ends at its
    next write, others refuse writes. A server that has ended is started again when there is space."""

    name: ClassVar[str] = "disk-full"
    damages_with: ClassVar[str] = "fill"
    fact: ClassVar[str] = "disk"
    summary: ClassVar[str] = "the disks of a minority of the servers have no space left, and writes to them fail"
    needs: ClassVar[Needs] = frozenset({DISKS, PROCESSES})
    schedule: ClassVar[dict[str, Any]] = {"every": "5 ttl", "for": "2 ttl"}

    roles: ClassVar[tuple[Role, ...]] = ("server",)
    target: str = "minority"

    def inject(self, scene: InjectionContext) -> Damage:
        disks, processes = scene.part(DISKS), scene.part(PROCESSES)
        hosts = targets(scene, self.target, scene.hosts("server"))
        ended: list[str] = []
        for host in hosts:
            disks.fill(host)

        def observe() -> Observation:
            found = {host: disks.disk(host) for host in hosts}
            full = {host: disk == "full" for host, disk in found.items()}
            return Observation(full, {"disk": found}, "a write to each of these disks fails for want of space")

        def heal() -> None:
            for host in hosts:
                disks.clear(host)
            start_ended()

        def start_ended() -> None:
            for host in hosts:
                if processes.incarnation(host) is None:
                    if host not in ended:
                        ended.append(host)
                    processes.kill(host)  # starts are counted: one without a kill would undo another fault
                    processes.start(host, wiped=False)

        def healed() -> Observation:
            found = {host: disks.disk(host) for host in hosts}
            states = {host: processes.state(host) for host in hosts}
            if "dead" in states.values():  # it ended while it was being healed
                start_ended()
            fine = {host: found[host] == "works" and states[host] == "running" for host in hosts}
            facts = {"disk": found, "state": states, "ended": list(ended)}
            return Observation(fine, facts, "a write to each of these disks works, and all servers run")

        return Damage(hosts, observe, once(heal), healed)

    @classmethod
    def story(cls, record: FaultRecord, ended: str) -> str:
        gone = record.observed.get("after_heal", {}).get("ended") or []
        dies = f"; {listed(gone)} {'ends' if len(gone) == 1 else 'end'}" if gone else ""
        disk = record.verb("disk", "disks")
        return f"the {disk} of {record.who} {record.verb('has', 'have')} no space left{ended}{dies}"


class SlowFsync(Fault, frozen=True):
    """The disks of servers take ``writes_per_s`` writes a second at most: a server that syncs its log waits for each
    sync, and what it answers after that is late."""

    name: ClassVar[str] = "slow-fsync"
    damages_with: ClassVar[str] = "slow"
    fact: ClassVar[str] = "sync_s"
    summary: ClassVar[str] = "each sync to the disks of the servers takes half a second"
    needs: ClassVar[Needs] = frozenset({DISKS})
    schedule: ClassVar[dict[str, Any]] = {"every": "5 ttl", "for": "3 ttl"}
    takes: ClassVar[float] = 2.0

    roles: ClassVar[tuple[Role, ...]] = ("server",)
    target: str = "servers"
    writes_per_s: Annotated[int, msgspec.Meta(ge=1)] = 2

    def inject(self, scene: InjectionContext) -> Damage:
        disks = scene.part(DISKS)
        hosts = targets(scene, self.target, scene.hosts("server"))
        undone = [disks.slow(host, self.writes_per_s) for host in hosts]
        slow_s = 0.5 / self.writes_per_s

        def timed() -> dict[str, float | None]:
            for host in hosts:
                disks.sync_s(host)  # the first write after a pause does not wait
            return {host: disks.sync_s(host) for host in hosts}

        def observe() -> Observation:
            found = timed()
            late = {host: took is None or took >= slow_s for host, took in found.items()}
            return Observation(late, {"sync_s": found}, f"a sync of {slow_s:g} s and more on each of these disks")

        def heal() -> None:
            for undo in undone:
                undo()

        def healed() -> Observation:
            found = timed()
            quick = {host: took is not None and took < slow_s for host, took in found.items()}
            return Observation(quick, {"sync_s": found}, f"a sync of less than {slow_s:g} s on each of these disks")

        return Damage(hosts, observe, once(heal), healed)

    @classmethod
    def story(cls, record: FaultRecord, ended: str) -> str:
        rate = counted(int(record.params.get("writes_per_s", 0)), "write")
        return (
            f"the {record.verb('disk', 'disks')} of {record.who} {record.verb('takes', 'take')} {rate} a second{ended}"
        )


class PowerLoss(ServersDie, frozen=True):
    """The machines of servers lose power at the same moment: what they have acknowledged and not yet synced is lost.
    They come back with what is on their disks."""

    name: ClassVar[str] = "power-loss"
    question: ClassVar[Question | None] = "server crash"
    damages_with: ClassVar[str] = "lose_power"
    dies: ClassVar[tuple[str, str, str, str]] = ("loses power", "lose power", "lost power", "lost power")
    summary: ClassVar[str] = "a majority of the servers loses power, and with it all data that was not synced to disk"
    needs: ClassVar[Needs] = frozenset({DISKS, LOCK_KEYS, PROCESSES})
    schedule: ClassVar[dict[str, Any]] = {"on": "acquire", "nth": 5, "times": 1000, "every": "3 ttl", "for": 0.02}

    roles: ClassVar[tuple[Role, ...]] = ("server",)
    target: str = "majority"

    def inject(self, scene: InjectionContext) -> Damage:
        disks, processes, keys = scene.part(DISKS), scene.part(PROCESSES), scene.part(LOCK_KEYS)
        hosts = targets(scene, self.target, scene.hosts("server"))
        before = {host: keys.key_count(host) for host in hosts}
        incarnations = {host: processes.incarnation(host) for host in hosts}
        for host in hosts:
            disks.lose_power(host)

        def observe() -> Observation:
            found = {host: disks.disk(host) for host in hosts}
            states = {host: processes.state(host) for host in hosts}
            # A host that has power again has a new incarnation already.
            died = [
                host
                for host in hosts
                if (states[host] == "dead" and found[host] == "fails")
                or processes.incarnation(host) not in (None, incarnations[host])
            ]
            facts = {"disk": found, "state": states, "died": died, "keys_before": before}
            expected = "all of them dead and their disks out of reach, or in another life"
            return Observation({host: host in died for host in hosts}, facts, expected)

        def heal() -> None:
            for host in hosts:
                processes.start(host, wiped=False)

        def healed() -> Observation:
            states = {host: disks.disk(host) for host in hosts}
            found = running(processes, hosts)
            after = {host: keys.key_count(host) for host in hosts}
            lost = [host for host in hosts if before[host] and after[host] == 0]
            facts = {**found.facts, "disk": states, "keys_before": before, "keys_after": after, "wiped": lost}
            back = {host: up and states[host] != "fails" for host, up in found.effects.items()}
            return replace(found, effects=back, facts=facts)

        return Damage(hosts, observe, once(heal), healed)
