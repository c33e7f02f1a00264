"""Damaged files: a server is killed, the file with its newest data is damaged, and the server is started again.

A server that refuses to start with the file is a result: it stays unavailable, and its log says why.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec

from harness.clusters.abilities import DATA_FILES, LOCK_KEYS, PROCESSES, Needs
from harness.clusters.base import Role
from harness.wording import counted, listed

from .base import Damage, Fault, InjectionContext, Observation, once, targets
from .records import FaultRecord


class _DamagedFile(Fault, frozen=True):
    """Base of the faults that damage the end of what was written last."""

    damages_with: ClassVar[str] = "damage_file"
    fact: ClassVar[str] = "files"
    needs: ClassVar[Needs] = frozenset({DATA_FILES, LOCK_KEYS, PROCESSES})
    schedule: ClassVar[dict[str, Any]] = {"on": "acquire", "nth": 5, "for": 0.05}
    how: ClassVar[Literal["truncate", "flip"]]
    roles: ClassVar[tuple[Role, ...]] = ("server",)

    target: str = "minority"
    bytes: Annotated[int, msgspec.Meta(ge=1)] = 64

    def inject(self, scene: InjectionContext) -> Damage:
        processes, files, keys = scene.part(PROCESSES), scene.part(DATA_FILES), scene.part(LOCK_KEYS)
        hosts = targets(scene, self.target, scene.hosts("server"))
        sizes = {host: keys.key_count(host) for host in hosts}
        starts = {host: files.starts(host) for host in hosts}
        for host in hosts:
            processes.kill(host)
        before = {host: files.newest_file(host) for host in hosts}
        for host in hosts:
            files.damage_file(host, self.how, self.bytes, scene.rng.randrange(1 << 30))
        after = {host: files.newest_file(host) for host in hosts}

        def observe() -> Observation:
            damaged = {host: before[host] is not None and before[host] != after[host] for host in hosts}
            found = {host: {"before": before[host], "after": after[host]} for host in hosts}
            return Observation(damaged, {"files": found, "keys_before": sizes}, "a file of each of them was changed")

        def heal() -> None:
            for host in hosts:
                processes.start(host, wiped=False)

        def healed() -> Observation:
            states = {host: processes.state(host) for host in hosts}
            refused = [host for host in hosts if states[host] == "dead" and files.starts(host) > starts[host]]
            left = {host: keys.key_count(host) for host in hosts}
            facts = {"state": states, "refused": refused, "keys_before": sizes, "keys_after": left}
            # A server may listen for a moment before it reads the file and ends, so it must answer a request.
            answer = [host for host in hosts if left[host] is not None or sizes[host] is None]
            done = {host: (states[host] == "running" and host in answer) or host in refused for host in hosts}
            return Observation(done, facts, "all of them answering again, or ended again after their start")

        return Damage(hosts, observe, once(heal), healed)

    @classmethod
    def loss(cls, size: int) -> str:
        """Return the clause that says what is done to a file."""
        raise NotImplementedError

    @classmethod
    def story(cls, record: FaultRecord, ended: str) -> str:
        harm = cls.loss(record.params.get("bytes", 0))
        after = record.observed.get("after_heal", {})
        refused = after.get("refused") or []
        if not ended:
            back = ""
        elif refused:
            back = f"; {listed(refused)} {'does' if len(refused) == 1 else 'do'} not start with it"
        else:
            back = f", and {record.verb('restarts', 'restart')}{ended.replace(' until', ' at')}"
        return f"{record.who} {record.verb('is', 'are')} killed, {harm}{back}"


class FileTruncation(_DamagedFile, frozen=True):
    """Servers are killed, and the last ``bytes`` bytes of what they wrote are cut off before they start again."""

    name: ClassVar[str] = "file-truncation"
    summary: ClassVar[str] = "a server is killed, and starts again without the last bytes of its log"
    how: ClassVar[Literal["truncate", "flip"]] = "truncate"

    @classmethod
    def loss(cls, size: int) -> str:
        return f"the last {counted(size, 'byte')} of its newest file are cut off"


class BitFlip(_DamagedFile, frozen=True):
    """Servers are killed, and one bit of the last ``bytes`` bytes that they wrote is flipped before the next start."""

    name: ClassVar[str] = "bit-flip"
    summary: ClassVar[str] = "a server is killed, and starts again with a flipped bit near the end of its log"
    how: ClassVar[Literal["truncate", "flip"]] = "flip"

    @classmethod
    def loss(cls, size: int) -> str:
        return f"one bit of the last {counted(size, 'byte')} of its newest file is flipped"
