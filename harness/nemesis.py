"""The nemesis: decides when which fault strikes, has it observed, and heals it. See :class:`harness.plan.FaultSpec`.

It runs as threads of the cluster's control side. A fault on an event is injected at once, in the middle of the
client's step that caused the event, so that it falls between exactly the two steps that the story needs; it is
observed afterwards.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final

import msgspec

from .client_program import event
from .clusters.base import Cluster
from .discovery import classes, find
from .errors import UsageError, unknown_name
from .faults.base import GROUPS, Damage, Fault, Scene, Seen, multiples
from .history import NEMESIS, Op
from .plan import FaultSpec, Plan
from .recorder import Recorder

FAULTS: Final = "harness.faults"


def fault_names() -> list[str]:
    return list(classes(FAULTS, "inject"))


def fault_class(name: str) -> type[Fault]:
    """The fault called ``name``; UsageError with the nearest names."""
    found: type[Fault] = find("nemesis", FAULTS, "inject", name)
    return found


def default_specs(name: str, ttl: float) -> list[FaultSpec]:
    """When ``name`` (and what comes with it) strikes if a user only names it; none for the fault that never does."""
    fault = fault_class(name)
    schedules = [{"fault": name, **fault.schedule}, *fault.companions] if fault.schedule else []
    return [
        msgspec.convert({key: multiples(value, ttl) for key, value in schedule.items()}, FaultSpec)
        for schedule in schedules
    ]


def build_fault(spec: FaultSpec) -> Fault:
    """The fault with its parameters; UsageError names a parameter it does not have."""
    try:
        return msgspec.convert(spec.params, fault_class(spec.fault))
    except msgspec.ValidationError as error:
        raise UsageError(f"fault {spec.fault!r}, params: {error}") from error


def needs(spec: FaultSpec) -> set[str]:
    """What a cluster must be able to do for this fault at this moment."""
    tapped = spec.on is not None and spec.on.split(":")[0] in _TAPS
    return set(build_fault(spec).needs) | ({"tap"} if tapped else set())


def refuse_overlap(spec: FaultSpec) -> None:
    """A fault that comes again must be over by then, or be of the kind whose next turn takes the place of the last."""
    again = spec.every is not None or spec.times > 1
    if not again or fault_class(spec.fault).replaces:
        return
    if spec.for_ is None or spec.for_ > (spec.every or 0.0):
        raise UsageError(
            f"fault {spec.fault!r} would strike again while it lasts: give 'for', and 'every' at least as long "
            f"(got for = {spec.for_}, every = {spec.every})"
        )


_TAPS: Final = ("request", "reply")
_CALLS: Final = ("acquire", "check", "extend", "read", "release", "take", "write")
_ENDINGS: Final = ("invoke", "ok", "fail", "info")
_TARGETS: Final = ("target", "client", "clients", "server", "servers")


def refuse_unknown_words(spec: FaultSpec, hosts: list[str]) -> None:
    """Events nobody causes and targets nobody is are refused before the run starts."""
    kind, _, detail = (spec.on or "acquire").partition(":")
    if kind not in (*_CALLS, *_TAPS):
        raise unknown_name(f"event of fault {spec.fault!r}", kind, [*_CALLS, *_TAPS])
    if kind in _CALLS and detail and detail not in _ENDINGS:
        raise unknown_name(f"ending in the event {spec.on!r}", detail, _ENDINGS)
    if kind in _TAPS and detail != detail.upper():
        raise UsageError(f"fault {spec.fault!r}: commands are in capitals: {kind}:{detail.upper()}, got {spec.on!r}")
    fault = build_fault(spec)
    for target in (getattr(fault, name, "") for name in _TARGETS):
        if target and target not in (*GROUPS, "resource"):
            for name in target.split(","):
                if name.strip() not in hosts:
                    raise unknown_name(f"target of fault {spec.fault!r}", name.strip(), [*GROUPS, *hosts])


@dataclass(slots=True)
class _Trigger:
    """A fault that waits for its event."""

    spec: FaultSpec
    fault: Fault
    seen: int = 0
    fired: int = 0
    rests_until: int = 0

    def matches(self, event: str, client: str | None, node: str | None, now: int) -> bool:
        """Count the event if it is the awaited one; True when it is time to strike."""
        spec = self.spec
        if event != spec.on or (spec.client is not None and client != f"c{spec.client}"):
            return False
        if spec.node is not None and node != spec.node:
            return False
        self.seen += 1
        if self.seen < spec.nth or self.fired >= spec.times or now < self.rests_until:
            return False
        self.fired += 1
        self.rests_until = now + int((spec.every or 0.0) * 1e9)
        return True


@dataclass(slots=True)
class _Active:
    """A fault that has struck and is not healed."""

    id: int
    spec: FaultSpec
    damage: Damage
    healed: bool = False


@dataclass(order=True, slots=True)
class _Due:
    """Something to do at a time (ns, monotonic)."""

    at: int
    number: int
    act: Callable[[], None] = field(compare=False)


class Nemesis:
    """``relaunch(host)`` starts the program of a client's host again after a crash."""

    def __init__(
        self, plan: Plan, cluster: Cluster, recorder: Recorder, rng: Random, relaunch: Callable[[str], None]
    ) -> None:
        self._plan = plan
        self._cluster = cluster
        self._recorder = recorder
        self._rng = rng
        self._relaunch = relaunch
        self._triggers = [_Trigger(spec, build_fault(spec)) for spec in plan.faults if spec.on is not None]
        self._news: queue.Queue[Callable[[], None] | None] = queue.Queue()
        self._due: queue.PriorityQueue[_Due] = queue.PriorityQueue()
        self._active: list[_Active] = []
        self._replaced: list[_Active] = []
        self._error: Exception | None = None
        self._ids = 0
        self._struck: list[FaultSpec] = []
        self._numbers = 0
        self._stopped = False
        self._until = 0
        self._observers: list[threading.Thread] = []

    # Life.

    def start(self) -> None:
        """Begin; times of the plan count from now."""
        now = time.monotonic_ns()
        self._until = now + int((self._plan.time_limit - self._plan.settle_time) * 1e9)
        for spec in self._plan.faults:
            if spec.on is None:
                first = spec.at if spec.at is not None else spec.every
                self._later(now + int((first or 0.0) * 1e9), partial(self._strike_on_time, spec))
        self._recorder.listeners.append(self._on_op)
        if any("tap" in needs(trigger.spec) for trigger in self._triggers):
            self._cluster.tap(lambda phase, client, command: self._on_event(f"{phase}:{command}", client, None))
        self._thread = threading.Thread(target=self._work, name="nemesis", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Strike no more, heal everything, and wait until what was injected has been observed."""
        self._stopped = True
        self._cluster.tap(None)
        self._news.put(None)
        self._thread.join()
        while not self._news.empty():
            late = self._news.get()
            if late is not None:
                late()
        for observer in self._observers:
            observer.join()
        for active in reversed(self._active[:]):
            self._heal(active)
        for active in self._replaced:  # it may have struck other hosts than the turn that took its place
            active.damage.heal()
        if self._error is not None:
            raise self._error
        for spec in self._plan.faults:
            if not any(spec is struck for struck in self._struck):
                self._record_absence(spec)

    def _record_absence(self, spec: FaultSpec) -> None:
        """A fault that was asked for and never struck: the run proves nothing about it."""
        value = {"id": self._ids, "fault": spec.fault, "hosts": [], "observed": {}}
        self._ids += 1
        awaited = f"its event {spec.on!r} (number {spec.nth})" if spec.on else "its time"
        self._recorder.nemesis("inject", value, type_="fail", error=f"never struck: {awaited} did not come")

    def _work(self) -> None:
        while not self._stopped:
            wait = None
            if not self._due.empty():
                due = self._due.get()
                wait = (due.at - time.monotonic_ns()) / 1e9
                if wait <= 0:
                    self._try(due.act)
                    continue
                self._due.put(due)
            try:
                act = self._news.get(timeout=wait)
            except queue.Empty:
                continue
            if act is not None:
                self._try(act)

    def _try(self, act: Callable[[], None]) -> None:
        """A fault that raises must not end the nemesis in silence: :meth:`stop` raises the first error again."""
        try:
            act()
        except Exception as error:  # noqa: BLE001
            self._error = self._error or error

    def _later(self, at: int, act: Callable[[], None]) -> None:
        self._numbers += 1
        self._due.put(_Due(at, self._numbers, act))

    # Events.

    def _on_op(self, op: Op) -> None:
        if op.process != NEMESIS:
            self._on_event(event(op.f, op.type), op.node, op.node)

    def _on_event(self, event: str, client: str | None, node: str | None) -> None:
        now, _ = self._cluster.clock()
        for trigger in self._triggers:
            if trigger.matches(event, client, node, now):
                if trigger.spec.delay:
                    strike = partial(self._strike, trigger.spec, trigger.fault, client)
                    self._news.put(partial(self._later, now + int(trigger.spec.delay * 1e9), strike))
                else:
                    self._strike(trigger.spec, trigger.fault, client)

    def _strike_on_time(self, spec: FaultSpec) -> None:
        if spec.every is not None:
            self._later(time.monotonic_ns() + int(spec.every * 1e9), lambda: self._strike_on_time(spec))
        self._strike(spec, build_fault(spec), None)

    # Faults.

    def _strike(self, spec: FaultSpec, fault: Fault, client: str | None) -> None:
        """Inject now; observe and heal later, from the nemesis' own threads.

        Nobody records meanwhile: what clients do before and after the fault stands before and after it in the history.
        """
        with self._recorder.lock:
            self._inject(spec, fault, client)

    def _inject(self, spec: FaultSpec, fault: Fault, client: str | None) -> None:
        if self._stopped or self._cluster.clock()[0] >= self._until:
            return
        scene = Scene(self._cluster, self._rng, self._plan.ttl, client)
        number = self._ids
        self._ids += 1
        damage = fault.inject(scene)
        self._struck.append(spec)
        params = msgspec.to_builtins(fault)
        disturbs = fault.disturbs and not spec.tolerated
        about = {"id": number, "fault": spec.fault, "hosts": damage.hosts}
        self._recorder.nemesis("inject", {**about, "disturbs": disturbs, "params": params}, type_="invoke")
        for host in damage.crashed:
            self._recorder.nemesis("crash", {"host": host}, node=host)
        now, _ = self._cluster.clock()
        active = _Active(number, spec, damage)
        self._news.put(lambda: self._follow(active, now))

    def _follow(self, active: _Active, struck: int) -> None:
        self._supersede(active.spec)
        self._active.append(active)
        observer = threading.Thread(target=self._observe, args=(active,), name=f"observer-{active.id}", daemon=True)
        self._observers.append(observer)
        observer.start()
        if active.spec.for_ is not None:
            self._later(struck + int(active.spec.for_ * 1e9), lambda: self._heal(active))

    def _supersede(self, spec: FaultSpec) -> None:
        """A fault whose next turn takes its place is over when that comes; there is nothing to undo."""
        for active in [active for active in self._active if active.spec is spec and spec.for_ is None]:
            self._active.remove(active)
            active.healed = True
            self._replaced.append(active)
            self._record("heal", active, Seen(True, {"superseded": True}, ""))

    def _observe(self, active: _Active) -> None:
        self._try(lambda: self._record("inject", active, active.damage.observe()))

    def _heal(self, active: _Active) -> None:
        if active.healed:
            return
        active.healed = True
        self._active.remove(active)
        facts = active.damage.heal()
        for host in active.damage.restarted:
            self._relaunch(host)
        self._record("heal", active, Seen(True, facts, ""))

    def _record(self, f: str, active: _Active, seen: Seen) -> None:
        value: dict[str, Any] = {
            "id": active.id,
            "fault": active.spec.fault,
            "hosts": active.damage.hosts,
            "observed": seen.facts,
        }
        error = None if seen.effective else f"no effect seen; expected {seen.expected}"
        self._recorder.nemesis(f, value, type_="ok" if seen.effective else "fail", error=error)
