"""Rolling upgrades: servers are stopped one after the other, and started as another release with the same data."""

from __future__ import annotations

import threading
import time
from typing import Annotated, Any, ClassVar, Final

import msgspec

from harness.clusters.abilities import LOCK_KEYS, PROCESSES, RELEASES, Needs, leader_of
from harness.clusters.abilities.hosts import Processes
from harness.clusters.abilities.servers import DEFAULT_RELEASE, LockKeys, ServerReleases
from harness.clusters.base import Role
from harness.wording import listed

from .base import Damage, Fault, InjectionContext, Observation, targets
from .records import FaultRecord, Moment

STOPS_WITHIN_S: Final = 12.0
"""Seconds that a server gets to end. A Redis waits for its replicas for 10 s (shutdown-timeout)."""
STARTS_WITHIN_S: Final = 20.0
"""Seconds that a server gets to work again."""
HANDED_OVER_WITHIN_S: Final = 40.0
"""Seconds that another server gets to become the primary. Sentinels take some 12 s for all of it."""
FIRST_STOP_S: Final = 1.0
"""Seconds that an injection waits until the first server has ended, so that it strikes before a client's next step."""


class _Rollout:
    """The upgrade of the servers, one after the other, in a thread of its own."""

    def __init__(self, scene: InjectionContext, fault: RollingUpgrade, hosts: list[str]) -> None:
        self._fault = fault
        self._over = scene.over
        self._releases: ServerReleases = scene.part(RELEASES)
        self._processes: Processes = scene.part(PROCESSES)
        self._keys: LockKeys = scene.part(LOCK_KEYS)
        self._cluster = scene.cluster
        self._first_stop = threading.Event()
        self._error: Exception | None = None
        self._waiting = list(hosts)
        self.order: list[str] = []
        self.versions = {host: self._releases.reported_version(host) for host in hosts}
        self.facts: dict[str, dict[str, Any]] = {
            name: {} for name in ("ended_by_itself", "down_s", "keys_before", "keys_after", "handed_over")
        }
        self._thread = threading.Thread(target=self._work, name="rolling-upgrade", daemon=True)

    def begin(self) -> None:
        self._thread.start()
        self._first_stop.wait(FIRST_STOP_S)

    def await_end(self) -> None:
        """Wait until all servers have been started. Raises the error that ended the upgrade."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def reported(self) -> dict[str, str]:
        return {host: self._releases.reported_version(host) for host in self.versions}

    def serving(self) -> dict[str, bool]:
        return {host: self._releases.serves(host) for host in self.versions}

    def _work(self) -> None:
        try:
            while self._waiting:
                host = self._next()
                self.order.append(host)
                self._upgrade(host)
                if self._waiting:
                    self._over.wait(self._fault.pause)
        except Exception as error:  # noqa: BLE001 - raised where the effect is observed
            self._error = error
        finally:
            self._first_stop.set()

    def _next(self) -> str:
        """Take the next server. The primary is the last one."""
        primary = leader_of(self._cluster)
        others = [host for host in self._waiting if host != primary]
        host = (others or self._waiting)[0]
        self._waiting.remove(host)
        return host

    def _upgrade(self, host: str) -> None:
        if self._fault.hand_over and leader_of(self._cluster) == host:
            self.facts["handed_over"][host] = self._releases.hand_over(host, HANDED_OVER_WITHIN_S)
        self.facts["keys_before"][host] = self._keys.key_count(host)
        stopped = time.monotonic()
        self.facts["ended_by_itself"][host] = self._releases.end_program(host, STOPS_WITHIN_S)
        self._first_stop.set()
        self._releases.choose_release(host, self._fault.to)
        self._processes.start(host, wiped=False)
        deadline = time.monotonic() + STARTS_WITHIN_S
        while not (serves := self._releases.serves(host)) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.facts["down_s"][host] = round(time.monotonic() - stopped, 3) if serves else None
        self.facts["keys_after"][host] = self._keys.key_count(host)


class RollingUpgrade(Fault, frozen=True):
    """Servers are upgraded to the release ``to``, one after the other, with ``pause`` seconds between them: each is
    asked to end (SIGTERM), started as that release with the data that it has on its disk, and awaited.

    ``to`` is a value of the server option ``release``, or ``default`` for the release of the servers' own image.
    Replicas come before their primary. With ``hand_over`` the primary first lets a replica take over. The heal ends
    the pauses only: the upgrade goes on to its end, and servers stay upgraded.
    """

    name: ClassVar[str] = "rolling-upgrade"
    summary: ClassVar[str] = "the servers are restarted one after the other as another release, with their data"
    needs: ClassVar[Needs] = frozenset({LOCK_KEYS, PROCESSES, RELEASES})
    damages_with: ClassVar[str] = "choose_release"
    fact: ClassVar[str] = "versions_before"
    schedule: ClassVar[dict[str, Any]] = {"on": "acquire", "nth": 5, "for": 10.0}
    takes: ClassVar[float] = 3.0
    on_request: ClassVar[bool] = True

    roles: ClassVar[tuple[Role, ...]] = ("server",)
    target: str = "servers"
    to: str = "valkey-8.1.8"
    pause: Annotated[float, msgspec.Meta(ge=0)] = 1.0
    hand_over: bool = True

    def releases(self) -> tuple[str, ...]:
        return (self.to,)

    def inject(self, scene: InjectionContext) -> Damage:
        hosts = targets(scene, self.target, scene.hosts("server"))
        rollout = _Rollout(scene, self, hosts)
        rollout.begin()

        def observe() -> Observation:
            rollout.await_end()
            before, after = rollout.versions, rollout.reported()
            upgraded = {host: self._is_upgrade(before[host], after[host]) for host in hosts}
            versions = {"versions_before": before, "versions_after": after, "order": rollout.order}
            expected = f"all of them to report {self.to.replace('-', ' ', 1)}"
            if self.to == DEFAULT_RELEASE:
                expected = "all of them to report another version than before"
            return Observation(upgraded, {**versions, **rollout.facts}, expected)

        def healed() -> Observation:
            rollout.await_end()
            serving = rollout.serving()
            facts = {"versions": rollout.reported(), "stays_upgraded": True, "serves": serving}
            return Observation(serving, facts, "all of them upgraded and serving; they stay upgraded")

        return Damage(hosts, observe, lambda: None, healed)

    def _is_upgrade(self, before: str, after: str) -> bool:
        is_wanted = self.to == DEFAULT_RELEASE or after == self.to.replace("-", " ", 1)
        return bool(after) and after != before and is_wanted

    @classmethod
    def story(cls, record: FaultRecord, ended: str) -> str:
        del ended  # servers stay upgraded
        return f"{record.who} {record.verb('is', 'are')} {cls._upgraded(record)}"

    @classmethod
    def cause(cls, record: FaultRecord, moment: Moment) -> str:
        at = moment.seconds(record.injected_ns)
        return f"{record.who} {record.verb('was', 'were')} {cls._upgraded(record)}, from {at} on"

    @classmethod
    def _upgraded(cls, record: FaultRecord) -> str:
        facts = record.observed
        before, after = (listed(sorted(set(facts[f"versions_{when}"].values()))) for when in ("before", "after"))
        turns = " one after the other" if len(record.hosts) > 1 else ""
        return f"restarted{turns} as {after} instead of {before}"
