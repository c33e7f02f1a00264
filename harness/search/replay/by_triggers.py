"""Turn a plan for the simulator into one for real clusters.

A strike at a time, or on a command that only the simulator can observe, becomes a strike on an event of a client; the
remaining time becomes a delay. A strike in the middle of a client's call has no event of its own, so the client's next
request is held back, and the fault strikes meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from harness.faults.catalogue import build_fault, fault_class, is_on_command
from harness.history import SECOND, History, Op
from harness.plan import FaultSpec, Plan
from harness.run.tapping import Command

from .delays import as_faults, hold_back
from .strikes import RecordedStrike, after, before, named, strikes, trigger

GROUPS_BY_CHANCE: Final = ("one", "minority", "majority", "follower")
AT_ONCE: Final = 0.005
"""The longest time (s) from an entry to a strike that counts as simultaneous with it."""
SHORT: Final = 0.05
"""A strike earlier than this (s) after an entry is within its call, unless the call has ended by then."""
WINDOW: Final = 0.4
"""Time (s) for which a request is held back while a fault strikes: long enough on real machines."""
STANDS: Final = 0.1
"""Time (s) from a client's entry to its pause; by then its request has been sent."""
LATES: Final = (2 * STANDS, 0.8 * STANDS)
"""Times (s) by which a request is held back for longer than the client's pause.

With the first, the client continues before the answer has arrived. With the second, the answer has arrived by then, in
case the client would not wait for it.
"""

Translated = tuple[list[FaultSpec], str]
"""The faults that replace one fault, and a note about the change (may be empty)."""


def by_triggers(
    plan: Plan, history: History, commands: Sequence[Command] = (), *, late: float = LATES[0]
) -> tuple[Plan, tuple[str, ...]]:
    """Return the plan for real clusters, and notes in plain words on what was changed or left out.

    ``history`` is the plan's own history on the simulator; ``commands`` are the messages of clients and servers in it.
    Without commands, strikes in the middle of a client's call and late messages keep their times only approximately.
    The request of a client that is paused in the middle of a call is held back for ``late`` seconds longer than the
    pause (see :data:`LATES`).
    """
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
        notes.append("the machine schedules the threads: only the simulator can shuffle them")
    real = msgspec.structs.replace(plan, cluster="docker", faults=(*faults, *held), delays=(), shuffle=0)
    return real, tuple(notes)


class _Translation:
    def __init__(self, plan: Plan, history: History, commands: Sequence[Command], late: float) -> None:
        self._plan = plan
        self._late = late
        self._history = history
        self._commands = commands

    def of(self, spec: FaultSpec, strike: RecordedStrike | None) -> Translated:
        if strike is None:
            if is_on_command(spec):
                return [], f"{spec.fault} on {spec.on} is left out: it never struck on the simulator"
            return [spec], ""
        pinned = _pinned(spec, strike)
        faults, note = self._at_its_moment(pinned, strike)
        if pinned is not spec:
            note = "; ".join(
                filter(
                    None, [note, f"{spec.fault} strikes the same hosts as on the simulator: {', '.join(strike.hosts)}"]
                )
            )
        return faults, note

    def _at_its_moment(self, spec: FaultSpec, strike: RecordedStrike) -> Translated:
        if is_on_command(spec):
            return self._on_command(spec, strike)
        if spec.on is not None:
            return self._on_call(spec, strike)
        return self._on_time(spec, strike)

    # By the kind of moment.

    def _on_call(self, spec: FaultSpec, strike: RecordedStrike) -> Translated:
        """Keep the trigger. A fault that strikes once gets the client that caused it."""
        if spec.client is not None or spec.times > 1 or strike.client is None:
            return [spec], ""
        cause = round(strike.inject.time - spec.delay * SECOND)
        op = before(self._history, strike.inject.index, strike.client)
        while op is not None and (op.time > cause or trigger(self._history, op)["on"] != spec.on):
            op = before(self._history, op.index, strike.client)
        if op is None:
            return [spec], ""
        return [
            self._on(spec, op, spec.delay)
        ], f"{spec.fault} strikes on {self._named(op)}, which triggered it on the simulator"

    def _on_time(self, spec: FaultSpec, strike: RecordedStrike) -> Translated:
        if spec.every is not None:
            return [spec], f"{spec.fault} strikes every {spec.every:g} s, independent of the clients' steps"
        op = before(self._history, strike.inject.index)
        if not spec.at or op is None:
            return [spec], ""
        moment = f"at {spec.at:g} s"
        if op.type == "invoke" and strike.inject.time - op.time < SHORT * SECOND:
            return self._in_call(spec, strike, op, moment)
        return self._near(spec, strike, op, moment)

    def _on_command(self, spec: FaultSpec, strike: RecordedStrike) -> Translated:
        begun = before(self._history, strike.inject.index, strike.client)
        moment = f"on {spec.on}"
        if begun is None:
            note = f"{spec.fault} strikes at once: {spec.on} came before the first call of a client"
            return [FaultSpec(spec.fault, at=0.0, for_=spec.for_, tolerated=spec.tolerated, params=spec.params)], note
        if spec.delay >= SHORT:
            return self._near(spec, strike, begun, f"{spec.delay:g} s after {spec.on}")
        return self._in_call(spec, strike, begun, moment)

    def _near(self, spec: FaultSpec, strike: RecordedStrike, begun: Op, moment: str) -> Translated:
        """Strike as long after the entry ``begun`` as on the simulator."""
        delay = _rounded(strike.inject.time - begun.time)
        note = f"{spec.fault} strikes {_after(delay)}{self._named(begun)}, not {moment}"
        return [self._on(spec, begun, delay)], note

    # In the middle of a call.

    def _in_call(self, spec: FaultSpec, strike: RecordedStrike, begun: Op, moment: str) -> Translated:
        """Strike between the commands of a call that began with the entry ``begun``."""
        client = str(begun.node)
        if _silences(spec) and client not in strike.hosts:
            return self._near(spec, strike, begun, moment)
        ended = after(self._history, strike.inject.index, client)
        to = [
            command for command in self._requests(client, strike.inject.time, ended) if _concerns(spec, strike, command)
        ]
        if not to and ended is not None and self._commands and ended.type != "invoke":
            note = f"{spec.fault} strikes on {self._named(ended)}, not {moment}: that entry ended the call"
            return [self._on(spec, ended, 0.0)], note
        if not to or (not _silences(spec) and not self._answered(strike, begun)):
            return self._near(spec, strike, begun, moment)
        return self._meanwhile(spec, strike, begun, to[0], moment)

    def _requests(self, client: str, since: int, until: Op | None) -> list[Command]:
        return [
            command
            for command in self._commands
            if command.phase == "request" and command.client == client and command.time >= since
            and (until is None or command.time <= until.time)
        ]  # fmt: skip

    def _answered(self, strike: RecordedStrike, begun: Op) -> bool:
        """Return whether a host that the fault hits executed a command of this call before the strike."""
        return any(
            command.phase == "reply" and command.client == begun.node and command.server in strike.hosts
            and begun.time <= command.time <= strike.inject.time
            for command in self._commands
        )  # fmt: skip

    def _meanwhile(
        self, spec: FaultSpec, strike: RecordedStrike, begun: Op, request: Command, moment: str
    ) -> Translated:
        """Hold the request back, and strike while it is under way."""
        down = _silences(spec)
        stands = None if fault_class(spec.fault).silences == "death" else spec.for_
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
        """Return the same fault, ``delay`` seconds after this entry of a client."""
        return msgspec.structs.replace(spec, at=None, node=None, times=1, delay=delay, **trigger(self._history, op))

    def _named(self, op: Op) -> str:
        return named(self._history, op)


def _silences(spec: FaultSpec) -> bool:
    """Return whether the fault keeps a whole client from sending anything.

    The exact time of such a fault makes no difference, as long as the client's next request does not arrive.
    """
    return fault_class(spec.fault).silences in ("pause", "death")


def _concerns(spec: FaultSpec, strike: RecordedStrike, command: Command) -> bool:
    """Return whether it matters to this request that the fault strikes before it or after it."""
    return _silences(spec) or command.server in strike.hosts


def _pinned(spec: FaultSpec, strike: RecordedStrike) -> FaultSpec:
    """Return the same fault on the hosts that it hit, if it strikes once.

    Other random decisions must not change which hosts were chosen.
    """
    by_chance = GROUPS_BY_CHANCE if spec.on is not None else (*GROUPS_BY_CHANCE, "holder")
    again = spec.every is not None or spec.times > 1
    if again or getattr(build_fault(spec), "target", None) not in by_chance or not strike.hosts:
        return spec
    return msgspec.structs.replace(spec, params={**spec.params, "target": ",".join(strike.hosts)})


def _after(delay: float) -> str:
    return f"{delay:g} s after " if delay else "on "


def _rounded(ns: int) -> float:
    """Return seconds, to the millisecond; less than :data:`AT_ONCE` is 0."""
    seconds = round(ns / SECOND, 3)
    return 0.0 if seconds < AT_ONCE else seconds
