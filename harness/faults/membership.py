"""Changes of the members of servers that agree by majority: a member is removed, and added again."""

from __future__ import annotations

import re
import threading
import time
from typing import Any, ClassVar, Final

from harness.clusters.abilities import MEMBERS, PROCESSES, Needs
from harness.clusters.abilities.hosts import Processes
from harness.clusters.abilities.servers import Membership
from harness.clusters.base import Role

from .base import Damage, Fault, InjectionContext, Observation, targets
from .records import FaultRecord, Moment

AGAIN_S: Final = 0.2
"""Seconds between two requests to change the members, while the first one was refused."""
SERVES_WITHIN_S: float = 15.0
"""Seconds that a member gets to serve again. A new member of etcd announces itself to the others; if its request is
lost while it takes over their data, it tries again after 7 s."""
ONE_SERVER: Final = re.compile(r"one|follower|primary|n\d+")
"""Targets that mean one server."""


class _Change:
    """One removal of a member: what the other members report, and its undoing."""

    def __init__(self, members: Membership, processes: Processes, host: str, others: list[str]) -> None:
        self._members = members
        self._processes = processes
        self._others = others
        self._changing = threading.Lock()
        self._healed = False
        self._requested_at = 0.0
        self.host = host
        self.led = members.leader() == host
        self.before, _ = self.reported()
        self.began = time.monotonic()

    def reported(self) -> tuple[dict[str, str] | None, str | None]:
        """Return (id by host of the members, the other member that reported it); (None, None) if none answers."""
        for host in self._others:
            if (found := self._members.members(host)) is not None:
                return found, host
        return None, None

    def remove(self) -> None:
        """Ask for the removal. After the heal this does nothing: it would remove the member again."""
        with self._changing:
            if not self._healed:
                self._members.remove_member(self.host)

    def restore(self) -> None:
        """Bring the member back."""
        with self._changing:
            if self._healed:
                return
            self._healed = True
            present, _ = self.reported()
            if self._members.ends_when_removed():
                if present is None or self.host not in present:
                    self._processes.kill(self.host)  # starts are counted: one without a kill would undo another fault
                    self._processes.start(self.host, wiped=True)
            else:
                self._members.add_member(self.host)
                self._requested_at = time.monotonic()

    def back(self) -> Observation:
        """Wait until the member is back if it should be, and ask for it again if it was refused."""
        deadline = time.monotonic() + (SERVES_WITHIN_S if self._healed else 0.0)
        while not (seen := self._look()).effective and time.monotonic() < deadline:
            time.sleep(0.1)
        return seen

    def _look(self) -> Observation:
        members, reporter = self.reported()
        is_member = members is not None and self.host in members
        refused = not is_member and not self._members.ends_when_removed()
        if refused and self._healed and time.monotonic() - self._requested_at > AGAIN_S:
            self._members.add_member(self.host)
            self._requested_at = time.monotonic()
        serves = is_member and self._members.ready(self.host)
        facts = {"members": members, "asked": reporter, "serves": serves}
        return Observation({self.host: serves}, facts, "it among the members, and serving clients")


class MembershipChange(Fault, frozen=True):
    """A member is removed by the cluster's own protocol, and added again at the heal. etcd: the removed member's
    program ends, and a new member with an empty data directory takes its place. ZooKeeper: the removed server goes on
    as a follower that does not vote.

    ``target`` is one server: ``one``, ``primary`` (the leader), ``follower``, or a name. The others may refuse for some
    seconds (etcd: until all members have been connected for 5 s), so they are asked again for ``patience`` seconds.
    """

    name: ClassVar[str] = "membership-change"
    summary: ClassVar[str] = "a member is removed from a quorum by its own protocol, and added again"
    needs: ClassVar[Needs] = frozenset({MEMBERS, PROCESSES})
    damages_with: ClassVar[str] = "remove_member"
    fact: ClassVar[str] = "members_before"
    schedule: ClassVar[dict[str, Any]] = {"every": 12.0, "for": 5.0}
    takes: ClassVar[float] = 3.0

    roles: ClassVar[tuple[Role, ...]] = ("server",)
    target: str = "one"
    patience: float = 8.0

    def __post_init__(self) -> None:
        if not ONE_SERVER.fullmatch(self.target):
            raise ValueError(f"target: got {self.target!r}, expected one, primary, follower or the name of one server")

    def inject(self, scene: InjectionContext) -> Damage:
        servers = scene.hosts("server")
        (host,) = targets(scene, self.target, servers)
        others = [name for name in servers if name != host]
        change = _Change(scene.part(MEMBERS), scene.part(PROCESSES), host, others)
        change.remove()

        def observe() -> Observation:
            deadline = change.began + self.patience
            while True:
                members, reporter = change.reported()
                gone = members is not None and host not in members
                if gone or time.monotonic() >= deadline or scene.over.is_set():
                    break
                scene.over.wait(AGAIN_S)
                change.remove()
            seconds = round(time.monotonic() - change.began, 3)
            facts = {"members_before": change.before, "members": members, "asked": reporter, "led": change.led}
            expected = "the other members to report a membership without it"
            return Observation({host: gone}, {**facts, "seconds": seconds}, expected)

        return Damage([host], observe, change.restore, change.back)

    @classmethod
    def story(cls, record: FaultRecord, ended: str) -> str:
        back = f", and added again{ended.replace(' until', ' at')}" if ended else ""
        return f"{cls._who(record)} is removed from the members{back}"

    @classmethod
    def cause(cls, record: FaultRecord, moment: Moment) -> str:
        again = record.healed_ns is not None and record.healed_ns <= moment.ns
        back = f", and added again at {moment.seconds(record.healed_ns)}" if again and record.healed_ns else ""
        return f"{cls._who(record)} was removed from the members at {moment.seconds(record.injected_ns)}{back}"

    @classmethod
    def _who(cls, record: FaultRecord) -> str:
        return f"the leader {record.who}" if record.observed.get("led") else record.who
