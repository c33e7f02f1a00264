"""The nemesis: decides when which fault strikes, has it observed, and heals it. See :class:`harness.plan.FaultSpec`.

It runs as threads of the cluster's control side. A fault on an event is injected at once, in the middle of the
client's step that caused the event, so that it falls between exactly the two steps that the story needs; it is
observed afterwards. On real clusters that step is in a thread of its own: what the threads share is only touched
under the recorder's lock, or by the nemesis' own thread until that has ended.
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
from .fault_specs import (
    FAULTS,
    build_fault,
    default_specs,
    fault_class,
    fault_names,
    needs,
    refuse_overlap,
    refuse_unknown_words,
)
from .faults.base import Damage, Fault, Scene, Seen
from .faults.clocks import Clocks
from .history import NEMESIS, Op
from .plan import FaultSpec, Plan
from .recorder import Recorder

__all__ = [
    "FAULTS",
    "Nemesis",
    "build_fault",
    "default_specs",
    "fault_class",
    "fault_names",
    "needs",
    "refuse_overlap",
    "refuse_unknown_words",
]
HEALS_WITHIN: Final = 5.0
"""Seconds after its undoing in which a fault must be seen to be undone: servers take time to come back."""


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


@dataclass(slots=True, eq=False)
class _Active:
    """A fault that has struck and is not healed; ``over`` says so to those who wait for its effect."""

    id: int
    spec: FaultSpec
    fault: Fault
    damage: Damage
    over: threading.Event


def _may_mask(other: _Active, healed: _Active, seen: Seen) -> bool:
    """May what was seen be another fault's doing? Probes cross links between hosts that no fault names."""
    return "probe" in seen.facts or not set(other.damage.hosts).isdisjoint(healed.damage.hosts)


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
        self._masked: list[_Active] = []
        self._clocks = Clocks()
        self._error: Exception | None = None
        self._ids = 0
        self._struck: list[FaultSpec] = []
        self._numbers = 0
        self._stopped = False
        self._abandoned = False
        self._until = 0
        self._watchers: list[threading.Thread] = []

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
            self._cluster.tap(self._on_command)
        self._thread = threading.Thread(target=self._work, name="nemesis", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Strike no more, undo everything at once, and then wait until all that was done and undone has been seen."""
        with self._recorder.lock:  # whatever strikes before this has left its news, and nothing strikes after
            self._stopped = True
        self._cluster.tap(None)
        self._news.put(None)
        self._thread.join()
        while not self._news.empty():
            late = self._news.get()
            if late is not None:
                self._try(late)
        for active in reversed(self._at_work()):
            self._try(partial(self._heal, active))
        for watcher in self._watchers:
            watcher.join()
        masked, self._masked = self._masked, []
        for active in masked:  # nothing is at work any more that could be mistaken for it
            self._try(partial(self._see_healed, active, again=True))
        if self._error is not None:
            raise self._error
        for spec in self._plan.faults:
            if not any(spec is struck for struck in self._struck):
                self._record_absence(spec)

    def abandon(self) -> None:
        """The run is cut short: strike, heal and look no more. What was done goes with the cluster."""
        self._abandoned = self._stopped = True
        self._news.put(None)
        for active in list(self._active):
            active.over.set()

    def _record_absence(self, spec: FaultSpec) -> None:
        """A fault that was asked for and never struck: the run proves nothing about it."""
        value = {"id": self._ids, "fault": spec.fault, "hosts": [], "observed": {}}
        self._ids += 1
        late = f"its event {spec.on!r} (number {spec.nth}) did not come in time"
        why = late if spec.on else "its time came too late to see what it does (a longer time limit gives it room)"
        self._recorder.nemesis("inject", value, type_="fail", error=f"never struck: {why}")

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

    def _on_command(self, phase: str, client: str, server: str, command: str) -> None:
        self._on_event(f"{phase}:{command}", client, server)

    def _on_event(self, event: str, client: str | None, node: str | None) -> None:
        with self._recorder.lock:  # events come from several threads, and a trigger counts
            now, _ = self._cluster.clock()
            for trigger in self._triggers:
                if trigger.matches(event, client, node, now):
                    if trigger.spec.delay:
                        strike = partial(self._strike, trigger.spec, trigger.fault, client)
                        self._news.put(partial(self._later, now + int(trigger.spec.delay * 1e9), strike))
                    else:
                        self._try(partial(self._strike, trigger.spec, trigger.fault, client))

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
        if self._stopped or self._cluster.clock()[0] + int(fault.takes * 1e9) > self._until:
            return
        over = threading.Event()
        schedule = next(number for number, one in enumerate(self._plan.faults) if one is spec)
        scene = Scene(self._cluster, self._rng, self._plan.ttl, client, over, self._clocks, schedule)
        number = self._ids
        self._ids += 1
        began = self._cluster.clock()
        damage = fault.inject(scene)
        if spec.for_ == 0.0:  # before the client that caused it takes its next step
            damage.heal()
        self._struck.append(spec)
        params = msgspec.to_builtins(fault)
        disturbs = fault.disturbs and not spec.tolerated
        about = {"id": number, "fault": spec.fault, "hosts": damage.hosts}
        self._recorder.nemesis("inject", {**about, "disturbs": disturbs, "params": params}, type_="invoke", at=began)
        for host in damage.crashed:
            self._recorder.nemesis("crash", {"host": host}, node=host)
        now, _ = self._cluster.clock()
        active = _Active(number, spec, fault, damage, over)
        self._news.put(lambda: self._follow(active, now))

    def _follow(self, active: _Active, struck: int) -> None:
        if active.fault.replaces:
            self._supersede(active.spec)
        with self._recorder.lock:
            self._active.append(active)
        self._watch(partial(self._observe, active), f"observer-{active.id}")
        if active.spec.for_ is not None:
            self._later(struck + int(active.spec.for_ * 1e9), partial(self._heal, active))

    def _supersede(self, spec: FaultSpec) -> None:
        """A fault whose next turn takes its place is over when that comes; what is left of it is the next one's."""
        for active in [active for active in self._at_work() if active.spec is spec]:
            self._undo(active)
            self._record("heal", active, Seen(True, {"superseded": True}, ""))

    def _observe(self, active: _Active) -> None:
        self._record("inject", active, active.damage.observe())

    def _heal(self, active: _Active) -> None:
        """Undo now; see to it later, in a thread of its own: the next heal must not wait for it."""
        if active not in self._at_work():
            return
        self._undo(active)
        for host in active.damage.restarted:
            self._relaunch(host)
        self._watch(partial(self._see_healed, active), f"healer-{active.id}")

    def _undo(self, active: _Active) -> None:
        with self._recorder.lock:
            self._active.remove(active)
        active.over.set()
        active.damage.heal()

    def _see_healed(self, active: _Active, *, again: bool = False) -> None:
        """Look until it is seen to be undone. What another fault may be the cause of is looked at ``again`` when all
        are healed; that is an entry only if it is bad news."""
        deadline = time.monotonic() + HEALS_WITHIN
        while True:
            others = self._at_work()
            seen = active.damage.healed()
            others += [other for other in self._at_work() if other not in others]
            masks = [other.spec.fault for other in others if _may_mask(other, active, seen)]
            if seen.effective or masks or self._abandoned or time.monotonic() >= deadline:
                break
            time.sleep(0.1)
        if masks and not seen.effective:
            with self._recorder.lock:
                self._masked.append(active)
            seen = Seen(True, {**seen.facts, "at_work": masks}, seen.expected)
        if not (again and seen.effective):
            self._record("heal", active, seen)

    def _at_work(self) -> list[_Active]:
        with self._recorder.lock:
            return list(self._active)

    def _watch(self, look: Callable[[], None], name: str) -> None:
        watcher = threading.Thread(target=self._try, args=(look,), name=name, daemon=True)
        self._watchers.append(watcher)
        watcher.start()

    def _record(self, f: str, active: _Active, seen: Seen) -> None:
        if self._abandoned and not seen.effective:  # looked for where nothing is any more
            return
        value: dict[str, Any] = {
            "id": active.id,
            "fault": active.spec.fault,
            "hosts": active.damage.hosts,
            "observed": seen.facts,
        }
        what = "not undone" if f == "heal" else "no effect seen"
        error = None if seen.effective else f"{what}; expected {seen.expected}"
        self._recorder.nemesis(f, value, type_="ok" if seen.effective else "fail", error=error)
