"""Pauses: processes that stop and later continue without noticing it (GC, SIGSTOP, a stolen virtual CPU)."""

from __future__ import annotations

import threading
import time
from typing import Any, ClassVar, Final, Literal

from harness.clusters.abilities import HANGS, PROCESSES, Needs
from harness.clusters.abilities.hosts import Processes
from harness.clusters.base import Role
from harness.wording import listed

from .base import ComparisonColumn, Damage, Fault, FaultStep, InjectionContext, Observation, Question, once, targets
from .records import FaultRecord, Moment

PATIENCE: Final = 2.0
"""Seconds within which a client takes its next step, at which it can hang."""


def _pause(scene: InjectionContext, hosts: list[str]) -> Damage:
    processes = scene.part(PROCESSES)
    for host in hosts:
        processes.pause(host)
    resumed = threading.Event()

    def observe() -> Observation:
        states: dict[str, str] = {}
        for host in hosts:
            if not resumed.is_set():  # afterwards an answer says nothing about the pause
                state = processes.state(host)
                states[host] = "paused" if state == "running" and resumed.is_set() else state
        paused = {host: state == "paused" for host, state in states.items()}
        return Observation(paused, {"state": states}, "all of them paused")

    def heal() -> None:
        resumed.set()
        for host in hosts:
            processes.resume(host)

    return Damage(hosts, observe, once(heal), lambda: not_paused(processes, hosts))


def not_paused(processes: Processes, hosts: list[str]) -> Observation:
    """Observe hosts that were resumed. A host that has died since then counts as not paused."""
    states = {host: processes.state(host) for host in hosts}
    going = {host: state != "paused" for host, state in states.items()}
    return Observation(going, {"state": states}, "none of them paused")


class _Pause(Fault, frozen=True):
    needs: ClassVar[Needs] = frozenset({PROCESSES})
    damages_with: ClassVar[str] = "pause"
    fact: ClassVar[str] = "state"

    @classmethod
    def story(cls, record: FaultRecord, ended: str) -> str:
        return f"{record.who} {record.verb('is', 'are')} paused{ended}"

    @classmethod
    def cause(cls, record: FaultRecord, moment: Moment) -> str:
        return state_during(record, moment)


def state_during(record: FaultRecord, moment: Moment) -> str:
    """Return the clause that says in which state hosts were, and from when to when."""
    state = listed(sorted(set(record.observed["state"].values())))
    until = "" if record.healed_ns is None else f" to {moment.seconds(record.healed_ns)}"
    return f"{record.who} {record.verb('was', 'were')} {state} from {moment.seconds(record.injected_ns)}{until}"


class ClientPause(_Pause, frozen=True):
    """A client with all its threads stops for a while; by default the one whose event triggered the fault."""

    name: ClassVar[str] = "client-pause"
    question: ClassVar[Question | None] = "client pause"
    beyond_clients: ClassVar[bool] = False
    summary: ClassVar[str] = "a client is paused, just after an acquire, for longer than the ttl"
    disturbs: ClassVar[bool] = False
    schedule: ClassVar[dict[str, Any]] = {"on": "acquire", "nth": 3, "times": 1000, "every": "3 ttl", "for": "1.5 ttl"}
    step: ClassVar[FaultStep | None] = FaultStep(
        "pause", "client", 1.5, "a pause of a client for 1.5 ttl", "resume", within=True
    )
    column: ClassVar[ComparisonColumn | None] = ComparisonColumn(1)
    silences: ClassVar[Literal["", "pause", "hang", "death"]] = "pause"

    roles: ClassVar[tuple[Role, ...]] = ("client",)
    target: str = "holder"

    def inject(self, scene: InjectionContext) -> Damage:
        return _pause(scene, targets(scene, self.target, scene.hosts("client")))


class ServerPause(_Pause, frozen=True):
    """Servers stop: their kernel still accepts connections, and nothing answers."""

    name: ClassVar[str] = "server-pause"
    summary: ClassVar[str] = "a minority of the servers is paused for a while"
    schedule: ClassVar[dict[str, Any]] = {"every": "4 ttl", "for": "1.5 ttl"}

    roles: ClassVar[tuple[Role, ...]] = ("server", "sentinel")
    target: str = "minority"

    def inject(self, scene: InjectionContext) -> Damage:
        return _pause(scene, targets(scene, self.target, scene.hosts("server")))


class ClientHang(Fault, frozen=True):
    """The client's own thread blocks for ever; other threads of its process, such as a watchdog, continue."""

    name: ClassVar[str] = "client-hang"
    beyond_clients: ClassVar[bool] = False
    summary: ClassVar[str] = "the thread that holds the lock blocks for ever, while the lock's watchdog continues"
    needs: ClassVar[Needs] = frozenset({HANGS})
    damages_with: ClassVar[str] = "hang"
    awaits_clients: ClassVar[bool] = True
    silences: ClassVar[Literal["", "pause", "hang", "death"]] = "hang"
    fact: ClassVar[str] = "hung"
    disturbs: ClassVar[bool] = False
    replaces: ClassVar[bool] = True
    schedule: ClassVar[dict[str, Any]] = {"on": "acquire", "nth": 3}

    roles: ClassVar[tuple[Role, ...]] = ("client",)
    target: str = "holder"

    def inject(self, scene: InjectionContext) -> Damage:
        hangs = scene.part(HANGS)
        hosts = targets(scene, self.target, scene.hosts("client"))
        for host in hosts:
            hangs.hang(host)

        def observe() -> Observation:
            deadline = time.monotonic() + PATIENCE
            while not all(hangs.hung(host) for host in hosts) and time.monotonic() < deadline:
                time.sleep(0.01)
            hung = {host: hangs.hung(host) for host in hosts}
            return Observation(hung, {"hung": hung}, "the worker blocked at its next step")

        return Damage(hosts, observe, lambda: None)

    @classmethod
    def story(cls, record: FaultRecord, ended: str) -> str:
        del ended  # it lasts until the client is restarted
        return f"the thread of {record.who} that uses the lock hangs; its other threads continue"

    @classmethod
    def cause(cls, record: FaultRecord, moment: Moment) -> str:
        return f"the thread of {record.who} that held the lock hung from {moment.seconds(record.injected_ns)}"
