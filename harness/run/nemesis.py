"""The nemesis: decides when which fault strikes and when it is healed. See :class:`harness.plan.FaultSpec`.

It runs as threads of the cluster's control side and leaves the rest to :mod:`harness.run.fault_engine`. A fault on an
event is injected at once, in the middle of the client's step that caused the event, so that it falls between exactly
the two steps that the story needs; it is observed afterwards.

On real clusters each client's steps run in a thread of their own. So the nemesis accesses shared state only while it
holds the recorder's lock. Its own thread may access its state without the lock until that thread has ended.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Final

from harness.clusters.abilities import TAPS
from harness.clusters.base import Cluster
from harness.faults.base import Fault
from harness.faults.catalogue import build_fault, needs
from harness.history import NEMESIS, Op
from harness.plan import FaultSpec, Plan
from harness.worker.client_program import event

from .fault_engine import FaultEngine, FaultTrigger, InjectedStrike, first_strike_s
from .recorder import Recorder

HEALS_WITHIN: Final = 5.0
"""Seconds after its heal within which a fault must be observed to be healed: servers take time to come back."""

EFFECT_WITHIN: Final = 5.0
"""Seconds that the clients' start waits for the effect of a fault at time 0."""


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
        self._engine = FaultEngine(cluster, recorder, plan.ttl)
        self._triggers = [(FaultTrigger(spec), build_fault(spec)) for spec in plan.faults if spec.on is not None]
        self._news: queue.Queue[Callable[[], None] | None] = queue.Queue()
        self._due: queue.PriorityQueue[_Due] = queue.PriorityQueue()
        self._error: Exception | None = None
        self._struck: list[FaultSpec] = []
        self._numbers = 0
        self._stopped = False
        self._until = 0
        self._watchers: list[threading.Thread] = []

    # Life.

    def start(self) -> None:
        """Begin. The plan's times count from the return. Faults at time 0 are in effect then, so that no client starts
        before them."""
        self._until = self._cluster.clock()[0] + self._lasts_ns
        timed = [(first_strike_s(spec), partial(self._strike_on_time, spec)) for spec in self._plan.faults
                 if spec.on is None]  # fmt: skip
        for first_s, strike in timed:
            if not first_s:
                self._try(strike)
        self._await_effects()
        now = time.monotonic_ns()
        self._until = now + self._lasts_ns
        for first_s, strike in timed:
            if first_s:
                self._later(now + int(first_s * 1e9), strike)
        self._recorder.listeners.append(self._on_op)
        if any(TAPS in needs(trigger.spec) for trigger, _ in self._triggers):
            TAPS.of(self._cluster).tap(self._on_command)
        self._thread = threading.Thread(target=self._work, name="nemesis", daemon=True)
        self._thread.start()

    @property
    def _lasts_ns(self) -> int:
        return int((self._plan.time_limit - self._plan.settle_time) * 1e9)

    def _await_effects(self) -> None:
        """Wait until the faults that have struck are observed, except those that end sooner or need clients' requests.

        On the simulator a fault is in effect as soon as it was injected. A real one may need some time."""
        if self._cluster.backend == "sim":
            return
        while not self._news.empty():
            if (follow := self._news.get()) is not None:
                self._try(follow)
        for strike in self._engine.active():
            lasts_s = strike.spec.for_
            if not strike.fault.awaits_clients and (lasts_s is None or lasts_s > strike.fault.takes):
                strike.observed.wait(EFFECT_WITHIN)

    def stop(self) -> None:
        """Strike no more, heal everything at once, and wait until every effect and every heal has been observed."""
        with self._recorder.lock:  # a fault that struck before this has left its news, and none strikes after
            self._stopped = True
        if (taps := TAPS.find(self._cluster)) is not None:
            taps.tap(None)
        self._news.put(None)
        self._thread.join()
        while not self._news.empty():
            late = self._news.get()
            if late is not None:
                self._try(late)
        for strike in reversed(self._engine.active()):
            self._try(partial(self._heal, strike))
        for watcher in self._watchers:
            watcher.join()
        for strike in self._engine.masked():  # no fault is active any more that could explain the symptom
            self._try(partial(self._engine.confirm_heal, strike, HEALS_WITHIN, again=True))
        if self._error is not None:
            raise self._error
        for spec in self._plan.faults:
            if not any(spec is struck for struck in self._struck):
                self._engine.record_absence(spec)

    def abandon(self) -> None:
        """The run is cut short: strike, heal and observe no more. All damage goes with the cluster."""
        self._stopped = True
        self._engine.abandon()
        self._news.put(None)

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
        """Keep the first error for :meth:`stop` to raise: a fault that raises must not end the nemesis silently."""
        try:
            act()
        except Exception as error:  # noqa: BLE001 - stop() raises it in the main thread
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
            for trigger, fault in self._triggers:
                if trigger.fires(event, client, node, now) and not self._has_tested_the_lock(trigger, now):
                    strike = partial(self._strike, trigger.spec, fault, client)
                    if trigger.spec.delay:
                        self._news.put(partial(self._later, now + int(trigger.spec.delay * 1e9), strike))
                    else:
                        self._try(strike)

    def _has_tested_the_lock(self, trigger: FaultTrigger, now: int) -> bool:
        """Return whether a fault that strikes until it has tested the lock has done so.

        It may have to strike again later, since the exposure that it needs depends on all hand-overs of the run."""
        if not trigger.spec.until_exposed or trigger.fired < 2:
            return False
        from harness.checkers.exposure import missing_exposure  # late: most plans need no checker while they run

        if missing_exposure(self._recorder.history, trigger.spec.fault) is not None:
            return False
        trigger.back_off(now)
        return True

    def _strike_on_time(self, spec: FaultSpec) -> None:
        if spec.every is not None:
            self._later(time.monotonic_ns() + int(spec.every * 1e9), lambda: self._strike_on_time(spec))
        self._strike(spec, build_fault(spec), None)

    # Faults.

    def _strike(self, spec: FaultSpec, fault: Fault, client: str | None) -> None:
        """Inject now; observe and heal later, from the nemesis' own threads. No other thread records meanwhile."""
        with self._recorder.lock:
            if self._stopped or self._cluster.clock()[0] + int(fault.takes * 1e9) > self._until:
                return
            schedule = next(number for number, one in enumerate(self._plan.faults) if one is spec)
            strike = self._engine.inject(spec, fault, self._rng, client=client, schedule=schedule)
            self._struck.append(spec)
            now, _ = self._cluster.clock()
            self._news.put(lambda: self._follow(strike, now))

    def _follow(self, strike: InjectedStrike, struck: int) -> None:
        if strike.fault.replaces:
            self._engine.supersede(strike.spec)
        self._engine.activate(strike)
        self._watch(partial(self._engine.observe, strike), f"observer-{strike.id}")
        if strike.spec.for_ is not None:
            self._later(struck + int(strike.spec.for_ * 1e9), partial(self._heal, strike))

    def _heal(self, strike: InjectedStrike) -> None:
        """Heal now, and confirm it in a thread of its own: the next heal must not wait for that."""
        if strike not in self._engine.active():
            return
        self._engine.undo(strike)
        for host in strike.damage.restarted:
            self._relaunch(host)
        self._watch(partial(self._engine.confirm_heal, strike, HEALS_WITHIN), f"healer-{strike.id}")

    def _watch(self, look: Callable[[], None], name: str) -> None:
        watcher = threading.Thread(target=self._try, args=(look,), name=name, daemon=True)
        self._watchers.append(watcher)
        watcher.start()
