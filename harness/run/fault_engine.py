"""The fault engine: matches and counts trigger events, injects faults, observes and heals them, and records all that.

A run (:mod:`harness.run.nemesis`), an exhaustive search and a replay share it. They differ only in what decides when a
fault strikes and when it is healed: threads on the cluster's clock, the steps of a search, or a history read again.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec

from harness.clusters.base import Cluster
from harness.faults.base import Damage, Fault, InjectionContext, Observation
from harness.faults.clocks import Clocks
from harness.faults.contract import inject
from harness.faults.hooked import inject_by_hook, is_hooked
from harness.plan import FaultSpec

from .recorder import Recorder


def awaits(spec: FaultSpec, event: str, client: str | None, node: str | None) -> bool:
    """Is this the event that the fault waits for?

    ``node`` is the server of a command (``request:SET``), or the client of a call (``acquire``, ``read:invoke``).
    """
    return (
        event == spec.on
        and (spec.client is None or client == f"c{spec.client}")
        and (spec.node is None or node == spec.node)
    )


def first_strike_s(spec: FaultSpec) -> float:
    """Return when a fault that waits for no event strikes first, in seconds after the start."""
    return (spec.at if spec.at is not None else spec.every) or 0.0


@dataclass(slots=True)
class FaultTrigger:
    """A fault that waits for its event, and counts it. Times are in ns (monotonic)."""

    spec: FaultSpec
    seen: int = 0
    fired: int = 0
    rests_until: int = 0
    pause_ns: int = 500_000_000

    def fires(self, event: str, client: str | None, node: str | None, now: int) -> bool:
        """Count the event if it is the awaited one. Return True if the fault strikes on it."""
        spec = self.spec
        if not awaits(spec, event, client, node):
            return False
        self.seen += 1
        if self.seen < spec.nth or self.fired >= spec.times or now < self.rests_until:
            return False
        self.fired += 1
        self.rests_until = now + int((spec.every or 0.0) * 1e9)
        return True

    def back_off(self, now: int) -> None:
        """Take back the last firing and rest, each time twice as long."""
        self.fired -= 1
        self.pause_ns *= 2
        self.rests_until = now + self.pause_ns


@dataclass(slots=True, eq=False)
class InjectedStrike:
    """A fault that was injected. ``over`` is set when it is healed, so that its observation stops waiting, and
    ``observed`` when that has ended."""

    id: int
    spec: FaultSpec
    fault: Fault
    damage: Damage
    over: threading.Event
    observed: threading.Event = field(default_factory=threading.Event)


def _may_mask(other: InjectedStrike, healed: InjectedStrike, seen: Observation) -> bool:
    """May another fault be why a heal has no effect? Probes cross links between hosts that no fault names."""
    return "probe" in seen.facts or not set(other.damage.hosts).isdisjoint(healed.damage.hosts)


class FaultEngine:
    """Injects, observes and heals faults on a cluster, and records each step. ``ttl`` is the lock's, in seconds.

    The caller decides when. Its methods may be called from several threads.
    """

    def __init__(self, cluster: Cluster, recorder: Recorder, ttl: float) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._ttl = ttl
        self._clocks = Clocks()
        self._ids = 0
        self._active: list[InjectedStrike] = []
        self._masked: list[InjectedStrike] = []
        self._abandoned = False

    def inject(
        self, spec: FaultSpec, fault: Fault, rng: Random, *, client: str | None = None, schedule: Hashable
    ) -> InjectedStrike:
        """Inject a fault and record it. ``client`` caused it; ``schedule`` is the same for all turns of one fault.

        A fault that lasts 0 s is healed before this returns. To be called with the recorder locked, if clients run
        meanwhile: their entries before and after the fault then stand before and after it in the history.
        """
        over = threading.Event()
        scene = InjectionContext(self._cluster, rng, self._ttl, client, over, self._clocks, schedule)
        number, self._ids = self._ids, self._ids + 1
        began = self._cluster.clock()
        strike = inject_by_hook if is_hooked(spec.fault, self._cluster) else inject
        damage = strike(spec.fault, fault, scene)
        if spec.for_ == 0.0:
            damage.heal()
        value = {
            "id": number,
            "fault": spec.fault,
            "hosts": damage.hosts,
            "disturbs": fault.disturbs and not spec.tolerated,
            "params": msgspec.to_builtins(fault),
        }
        self._recorder.nemesis("inject", value, type_="invoke", at=began)
        for host in damage.crashed:
            self._recorder.nemesis("crash", {"host": host}, node=host)
        return InjectedStrike(number, spec, fault, damage, over)

    def record_absence(self, spec: FaultSpec) -> None:
        """Record a fault of the plan that never struck: the run proves nothing about it."""
        value = {"id": self._ids, "fault": spec.fault, "hosts": [], "observed": {}}
        self._ids += 1
        late = f"its event {spec.on!r} (number {spec.nth}) did not come in time"
        why = late if spec.on else "its time came too late to see what it does (a longer time limit gives it room)"
        self._recorder.nemesis("inject", value, type_="fail", error=f"never struck: {why}")

    # Active faults: those that were injected and not healed.

    def activate(self, strike: InjectedStrike) -> None:
        with self._recorder.lock:
            self._active.append(strike)

    def active(self) -> list[InjectedStrike]:
        with self._recorder.lock:
            return list(self._active)

    def abandon(self) -> None:
        """Give up: record no observation that fails from now on, since the cluster is being torn down."""
        self._abandoned = True
        for strike in list(self._active):
            strike.over.set()

    # Observing and healing.

    def observe(self, strike: InjectedStrike) -> None:
        """Observe whether the fault took effect, and record it."""
        try:
            self._record("inject", strike, strike.damage.observe())
        finally:
            strike.observed.set()

    def undo(self, strike: InjectedStrike) -> None:
        """Heal an active fault."""
        with self._recorder.lock:
            self._active.remove(strike)
        strike.over.set()
        strike.damage.heal()

    def supersede(self, spec: FaultSpec) -> None:
        """Heal the last turn of a fault whose next turn has struck; what is left of it belongs to the next turn."""
        for strike in [strike for strike in self.active() if strike.spec is spec]:
            self.undo(strike)
            self._record("heal", strike, Observation({"superseded": True}, {"superseded": True}, ""))

    def confirm_heal(self, strike: InjectedStrike, patience_s: float, *, again: bool = False) -> None:
        """Observe until the fault is healed, for ``patience_s`` seconds at most, and record it.

        If another active fault may explain the symptom, record that; :meth:`masked` then returns the strike, so that
        the caller can check it later. That second look (``again``) is recorded only if the fault is not healed.
        """
        deadline = time.monotonic() + patience_s
        while True:
            others = self.active()
            seen = strike.damage.healed()
            others += [other for other in self.active() if other not in others]
            masks = [other.spec.fault for other in others if _may_mask(other, strike, seen)]
            if seen.effective or masks or self._abandoned or time.monotonic() >= deadline:
                break
            time.sleep(0.1)
        if masks and not seen.effective:
            with self._recorder.lock:
                self._masked.append(strike)
            seen = Observation({"masked": True}, {**seen.facts, "at_work": masks}, seen.expected)
        if not (again and seen.effective):
            self._record("heal", strike, seen)

    def masked(self) -> list[InjectedStrike]:
        """Return the faults whose heals another fault may have hidden, and forget them."""
        masked, self._masked = self._masked, []
        return masked

    def _record(self, f: str, strike: InjectedStrike, seen: Observation) -> None:
        if self._abandoned and not seen.effective:
            return
        value: dict[str, Any] = {
            "id": strike.id,
            "fault": strike.spec.fault,
            "hosts": strike.damage.hosts,
            "observed": seen.facts,
        }
        self._recorder.nemesis(f, value, type_="ok" if seen.effective else "fail", error=seen.error(f))
