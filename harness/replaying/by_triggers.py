"""From a plan as the simulator plays it to one for real clusters: where there was a time, or a command that only the
simulator can see, there is an event of a client, and what is left of the time is a delay after it.

A strike in the middle of a client's call has no event of its own. There the client's next request is held back, and
the fault strikes while it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from ..fault_specs import build_fault
from ..history import SECOND, History, Op
from ..plan import FaultSpec, Plan
from .delays import as_faults, hold_back
from .simulated import Command
from .strikes import Strike, after, before, named, on_command, strikes, trigger

HELD_DOWN: Final = ("client-pause", "client-crash")
"""Faults that come to the same as long as the client's next request does not arrive."""
GROUPS_BY_CHANCE: Final = ("one", "minority", "majority")
AT_ONCE: Final = 0.005
"""What comes so soon (s) after an entry comes with it."""
SHORT: Final = 0.05
"""What is less than this (s) after an entry is within its call, unless that is over by then."""
WINDOW: Final = 0.4
"""How long (s) a request is held back for a fault to strike meanwhile: long enough for real ones."""
STANDS: Final = 0.1
"""A client stands still so long (s) after its entry: by then its request is on its way."""
LATES: Final = (2 * STANDS, 0.8 * STANDS)
"""How much longer (s) than the client stands still its request is held back: so that it goes on before the answer is
there, or finds it already, if it would not wait for it by then."""

Translated = tuple[list[FaultSpec], str]
"""The faults that stand for one, and what is to be said of it (or nothing)."""


def by_triggers(
    plan: Plan, history: History, commands: Sequence[Command] = (), *, late: float = LATES[0]
) -> tuple[Plan, tuple[str, ...]]:
    """The plan for real clusters, and in plain words what was changed or left out. ``history`` is the plan's own on the
    simulator, ``commands`` what clients and servers said meanwhile: without them strikes in the middle of a client's
    call, and messages that come late, can only be put near to where they were. What a client that stands still in the
    middle of a call was about to send is held back for ``late`` seconds longer than that (see :data:`LATES`)."""
    translation = _Translation(plan, history, commands, late)
    faults: list[FaultSpec] = []
    notes: list[str] = []
    for spec, strike in zip(plan.faults, strikes(plan, history, commands), strict=True):
        some, note = translation.of(spec, strike)
        faults += some
        notes += [note] if note else []
    held, more = as_faults(plan, history, commands)
    notes += more
    if plan.shuffle:
        notes.append("who runs next is left to the machine: only the simulator can shuffle it")
    real = msgspec.structs.replace(plan, cluster="docker", faults=(*faults, *held), delays=(), shuffle=0)
    return real, tuple(notes)


class _Translation:
    def __init__(self, plan: Plan, history: History, commands: Sequence[Command], late: float) -> None:
        self._plan = plan
        self._late = late
        self._history = history
        self._commands = commands

    def of(self, spec: FaultSpec, strike: Strike | None) -> Translated:
        if strike is None:
            if on_command(spec):
                return [], f"{spec.fault} on {spec.on} is left out: it did not strike on the simulator either"
            return [spec], ""
        pinned = _pinned(spec, strike)
        faults, note = self._at_its_moment(pinned, strike)
        if pinned is not spec:
            note = "; ".join(filter(None, [note, f"{spec.fault} strikes {', '.join(strike.hosts)} again, by name"]))
        return faults, note

    def _at_its_moment(self, spec: FaultSpec, strike: Strike) -> Translated:
        if on_command(spec):
            return self._on_command(spec, strike)
        if spec.on is not None:
            return self._on_call(spec, strike)
        return self._on_time(spec, strike)

    # By the kind of moment.

    def _on_call(self, spec: FaultSpec, strike: Strike) -> Translated:
        """It has its trigger; it gets the client that caused it, if it comes once."""
        if spec.client is not None or spec.times > 1 or strike.client is None:
            return [spec], ""
        cause = round(strike.inject.time - spec.delay * SECOND)
        op = before(self._history, strike.inject.index, strike.client)
        while op is not None and (op.time > cause or trigger(self._history, op)["on"] != spec.on):
            op = before(self._history, op.index, strike.client)
        if op is None:
            return [spec], ""
        return [self._on(spec, op, spec.delay)], f"{spec.fault} waits for {self._named(op)}: that caused it"

    def _on_time(self, spec: FaultSpec, strike: Strike) -> Translated:
        if spec.every is not None:
            return [spec], f"{spec.fault} strikes every {spec.every:g} s, whatever the clients are at by then"
        op = before(self._history, strike.inject.index)
        if not spec.at or op is None:
            return [spec], ""
        moment = f"at {spec.at:g} s"
        if op.type == "invoke" and strike.inject.time - op.time < SHORT * SECOND:
            return self._in_call(spec, strike, op, moment)
        return self._near(spec, strike, op, moment)

    def _on_command(self, spec: FaultSpec, strike: Strike) -> Translated:
        begun = before(self._history, strike.inject.index, strike.client)
        moment = f"on {spec.on}"
        if begun is None:
            note = f"{spec.fault} strikes at once: no client had begun anything when {spec.on} came"
            return [FaultSpec(spec.fault, at=0.0, for_=spec.for_, tolerated=spec.tolerated, params=spec.params)], note
        if spec.delay >= SHORT:
            return self._near(spec, strike, begun, f"{spec.delay:g} s after {spec.on}")
        return self._in_call(spec, strike, begun, moment)

    def _near(self, spec: FaultSpec, strike: Strike, begun: Op, moment: str) -> Translated:
        """So long after the entry ``begun`` as on the simulator."""
        delay = _rounded(strike.inject.time - begun.time)
        note = f"{spec.fault} strikes {_after(delay)}{self._named(begun)}, not {moment}"
        return [self._on(spec, begun, delay)], note

    # In the middle of a call.

    def _in_call(self, spec: FaultSpec, strike: Strike, begun: Op, moment: str) -> Translated:
        """Between the commands of a call that began with the entry ``begun``."""
        client = str(begun.node)
        if spec.fault in HELD_DOWN and client not in strike.hosts:
            return self._near(spec, strike, begun, moment)
        ended = after(self._history, strike.inject.index, client)
        to = [said for said in self._requests(client, strike.inject.time, ended) if _concerns(spec, strike, said)]
        if not to and ended is not None and self._commands and ended.type != "invoke":
            note = f"{spec.fault} strikes on {self._named(ended)}, not {moment}: the call ended with that"
            return [self._on(spec, ended, 0.0)], note
        if not to or (spec.fault not in HELD_DOWN and not self._answered(strike, begun)):
            return self._near(spec, strike, begun, moment)
        return self._meanwhile(spec, strike, begun, to[0], moment)

    def _requests(self, client: str, since: int, until: Op | None) -> list[Command]:
        return [
            said
            for said in self._commands
            if said.phase == "request" and said.client == client and said.time >= since
            and (until is None or said.time <= until.time)
        ]  # fmt: skip

    def _answered(self, strike: Strike, begun: Op) -> bool:
        """Has one of the hosts that are hit executed a command of this call before it is?"""
        return any(
            said.phase == "reply" and said.client == begun.node and said.server in strike.hosts
            and begun.time <= said.time <= strike.inject.time
            for said in self._commands
        )  # fmt: skip

    def _meanwhile(self, spec: FaultSpec, strike: Strike, begun: Op, request: Command, moment: str) -> Translated:
        """Hold the request back, and strike while it is under way."""
        down = spec.fault in HELD_DOWN
        stands = None if spec.fault == "client-crash" else spec.for_
        lasts = self._plan.time_limit if stands is None else round(stands + self._late, 3)
        gap = _rounded(strike.inject.time - begun.time)
        held = hold_back(self._plan, self._history, begun, request, lasts if down else WINDOW, wait=gap)
        struck = self._on(spec, begun, round(gap + (STANDS if down else WINDOW / 2), 3))
        note = (
            f"{spec.fault} strikes while the {request.name} of {request.client} to {request.server} after "
            f"{self._named(begun)} is held back for {held.params['delay']:g} s, not {moment}"
        )
        return [held, struck], note

    def _on(self, spec: FaultSpec, op: Op, delay: float) -> FaultSpec:
        """The same fault, so long after this entry of a client."""
        return msgspec.structs.replace(spec, at=None, node=None, times=1, delay=delay, **trigger(self._history, op))

    def _named(self, op: Op) -> str:
        return named(self._history, op)


def _concerns(spec: FaultSpec, strike: Strike, said: Command) -> bool:
    """Does it matter to this request whether the fault strikes before it or after it?"""
    return spec.fault in HELD_DOWN or said.server in strike.hosts


def _pinned(spec: FaultSpec, strike: Strike) -> FaultSpec:
    """The same fault on those whom it hit, if it strikes once: whom chance chose must not hang on what else chance
    decides."""
    by_chance = GROUPS_BY_CHANCE if spec.on is not None else (*GROUPS_BY_CHANCE, "holder")
    again = spec.every is not None or spec.times > 1
    if again or getattr(build_fault(spec), "target", None) not in by_chance or not strike.hosts:
        return spec
    return msgspec.structs.replace(spec, params={**spec.params, "target": ",".join(strike.hosts)})


def _after(delay: float) -> str:
    return f"{delay:g} s after " if delay else "on "


def _rounded(ns: int) -> float:
    """Seconds, to the millisecond; what is less than a few of them is nothing."""
    seconds = round(ns / SECOND, 3)
    return 0.0 if seconds < AT_ONCE else seconds
