"""Translate the simulator's late messages into faults that real clusters can inject."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from harness.clusters.base import role_of
from harness.clusters.kinds import KINDS, own_kinds
from harness.faults.link import DelayedRequest
from harness.faults.pause import ClientPause
from harness.history import SECOND, History, Op
from harness.plan import Delay, FaultSpec, Plan
from harness.run.tapping import Command

from .strikes import after, named, steps, trigger

NOTICED: Final = 0.05
"""Delays shorter than this (s) are usual on a real network."""
LEAD: Final = 0.02
"""Catching a request starts this long (s) before it is expected, if it comes later than this after the entry."""
CAUGHT: Final = (0.25, 1.0)
"""Times (s) to wait for a request that follows its entry at once, and for one that comes later.

They are short, since every event of a lock during a fault is attributed to the fault.
"""
RESOURCE: Final = "resource"
UNDELAYED_ANSWERS: Final = ", since real answers cannot be held back"
ACCESSES: Final = ("read", "write", "take", "mark", "cas")
"""Calls that send exactly one message to the resource."""


def hold_back(plan: Plan, history: History, begun: Op, request: Command, by: float, wait: float) -> FaultSpec:
    """Return a fault that delays a request by ``by`` seconds; it comes ``wait`` seconds after the entry ``begun``."""
    name = request.name.lower() if KINDS.find(plan.kind).lower_case else request.name
    params = {"client": request.client, "server": request.server, "containing": name, "delay": by}
    later = wait > LEAD
    delay = round(wait - LEAD, 3) if later else 0.0
    return FaultSpec(
        DelayedRequest.name,
        delay=delay,
        for_=CAUGHT[later],
        params=params,
        **trigger(history, begun),
    )


def as_faults(plan: Plan, history: History, commands: Sequence[Command]) -> tuple[list[FaultSpec], list[str]]:
    """Return faults that have the effect of the plan's delays, and notes about them."""
    faults: list[FaultSpec] = []
    notes: list[str] = []
    short = [delay for delay in plan.delays if delay.by < NOTICED]
    if short:
        longest = max(delay.by for delay in short) * 1000
        notes.append(f"{len(short)} of the late messages are left out: they are late by at most {longest:.0f} ms")
    for delay in plan.delays:
        if delay.by >= NOTICED:
            fault, note = _as_fault(plan, history, commands, delay)
            faults += [fault] if fault else []
            notes.append(f"the message from {delay.source} to {delay.target} that comes {delay.by:g} s late {note}")
    return faults, notes


def _as_fault(plan: Plan, history: History, commands: Sequence[Command], delay: Delay) -> tuple[FaultSpec | None, str]:
    """Return the fault for one delay, and a note on what happens to the message."""
    if delay.target == RESOURCE:
        return _to_resource(history, delay)
    if delay.source == RESOURCE or {role_of(delay.source), role_of(delay.target)} != {"client", "server"}:
        return None, "is left out: real messages can only be held back on their way from a client"
    if not KINDS.find(plan.kind).one_command_per_message:
        services = dict.fromkeys(kind.service for kind in own_kinds() if kind.one_command_per_message)
        return None, f"is left out: single messages can be recognised only with {' and '.join(services)}"
    request = role_of(delay.source) == "client"
    command = _message(commands, delay, "request" if request else "reply")
    begun = None if command is None else _last(history, command)
    if command is None or begun is None:
        return None, "is left out: it was never sent on the simulator"
    if request:
        wait = (command.time - begun.time) / SECOND
        held = hold_back(plan, history, begun, command, delay.by, wait)
        return held, f"is held back: the {command.name} after {named(history, begun)}"
    return _instead_of_reply(plan, history, commands, delay, command, begun)


def _to_resource(history: History, delay: Delay) -> tuple[FaultSpec | None, str]:
    accesses = [op for op in steps(history) if op.node == delay.source and op.f in ACCESSES and op.type == "invoke"]
    if len(accesses) < delay.nth:
        return None, "is left out: it was never sent on the simulator"
    begun = accesses[delay.nth - 1]
    params = {"client": delay.source, "server": RESOURCE, "delay": delay.by}
    held = FaultSpec(DelayedRequest.name, for_=CAUGHT[False], params=params, **trigger(history, begun))
    return held, f"is held back: the message of {named(history, begun)}"


def _instead_of_reply(
    plan: Plan, history: History, commands: Sequence[Command], delay: Delay, command: Command, begun: Op
) -> tuple[FaultSpec, str]:
    """Return a fault with the effect of a late reply.

    The client waits for the reply, so delay its next request instead; if the call sends none, pause the client after
    the call.
    """
    ended = after(history, begun.index, delay.target)
    rest = (c for c in commands if c.phase == "request" and c.client == command.client and c.time > command.time)
    following = next((c for c in rest if ended is None or c.time <= ended.time), None)
    if following is None and ended is not None:
        pause = FaultSpec(ClientPause.name, for_=delay.by, **trigger(history, ended))
        return pause, f"is replaced by a pause of {delay.target} after {named(history, ended)}{UNDELAYED_ANSWERS}"
    where = command if following is None else following
    held = hold_back(plan, history, begun, where, delay.by, wait=(command.time - begun.time) / SECOND)
    return (
        held,
        f"is replaced by a late {where.name} of {delay.target} after that{UNDELAYED_ANSWERS}",
    )


def _message(commands: Sequence[Command], delay: Delay, phase: str) -> Command | None:
    """Return the delayed message; commands of the same moment on one link are one message."""
    ends = {delay.source, delay.target}
    on_link = [command for command in commands if command.phase == phase and {command.client, command.server} == ends]
    messages = [next(same) for _, same in groupby(on_link, key=lambda command: command.time)]
    return messages[delay.nth - 1] if len(messages) >= delay.nth else None


def _last(history: History, command: Command) -> Op | None:
    """Return the client's last entry before the command."""
    earlier = [op for op in steps(history) if op.node == command.client and op.time <= command.time]
    return earlier[-1] if earlier else None
