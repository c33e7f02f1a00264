"""Messages that the simulator lets come late, as faults that real clusters know."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from ..clusters.base import role_of
from ..clusters.kinds import KINDS
from ..history import SECOND, History, Op
from ..plan import Delay, FaultSpec, Plan
from .simulated import Command
from .strikes import after, named, steps, trigger

NOTICED: Final = 0.05
"""Seconds: a message that comes less late is as any on a real network."""
LEAD: Final = 0.02
"""A request that comes this long (s) after a client's entry, or later, is waited for from a little before it on."""
CAUGHT: Final = (0.25, 1.0)
"""Seconds that are waited for a request to come by: one that follows its entry at once, and one that comes later. No
longer, since what becomes of a lock while a server is under a fault is put down to that."""
RESOURCE: Final = "resource"
COUNTED: Final = ("redis", "memcached")
"""Where each message between a client and a server is a command or its answer."""
ACCESSES: Final = ("read", "write", "take", "mark", "cas")
"""The calls that are one message to the resource each."""


def hold_back(plan: Plan, history: History, begun: Op, request: Command, by: float, wait: float) -> FaultSpec:
    """A fault that holds back a request for ``by`` seconds, which comes ``wait`` seconds after the client's entry
    ``begun``."""
    # What memcached's clients send is in small letters.
    name = request.name.lower() if KINDS[plan.kind].family == "memcached" else request.name
    params = {"client": request.client, "server": request.server, "containing": name, "delay": by}
    later = wait > LEAD
    delay = round(wait - LEAD, 3) if later else 0.0
    return FaultSpec(
        "delayed-request",
        delay=delay,
        for_=CAUGHT[later],
        params=params,
        **trigger(history, begun),
    )


def as_faults(plan: Plan, history: History, commands: Sequence[Command]) -> tuple[list[FaultSpec], list[str]]:
    """The faults that come to the same as the plan's delays, and what is to be said of all of them."""
    faults: list[FaultSpec] = []
    notes: list[str] = []
    short = [delay for delay in plan.delays if delay.by < NOTICED]
    if short:
        longest = max(delay.by for delay in short) * 1000
        notes.append(f"{len(short)} of the messages that come late are left out: by at most {longest:.0f} ms")
    for delay in plan.delays:
        if delay.by >= NOTICED:
            fault, note = _as_fault(plan, history, commands, delay)
            faults += [fault] if fault else []
            notes.append(f"the message from {delay.source} to {delay.target} that comes {delay.by:g} s late {note}")
    return faults, notes


def _as_fault(plan: Plan, history: History, commands: Sequence[Command], delay: Delay) -> tuple[FaultSpec | None, str]:
    """One fault, and what becomes of the message."""
    if delay.target == RESOURCE:
        return _to_resource(history, delay)
    if delay.source == RESOURCE or {role_of(delay.source), role_of(delay.target)} != {"client", "server"}:
        return None, "is left out: real ones can only be held back on their way from a client"
    if KINDS[plan.kind].family not in COUNTED:
        return None, f"is left out: which one it is can only be told of {' and '.join(COUNTED)}"
    request = role_of(delay.source) == "client"
    said = _message(commands, delay, "request" if request else "reply")
    begun = None if said is None else _last(history, said)
    if said is None or begun is None:
        return None, "is left out: it never came on the simulator"
    if request:
        wait = (said.time - begun.time) / SECOND
        held = hold_back(plan, history, begun, said, delay.by, wait)
        return held, f"is held back: the {said.name} after {named(history, begun)}"
    return _instead_of_reply(plan, history, commands, delay, said, begun)


def _to_resource(history: History, delay: Delay) -> tuple[FaultSpec | None, str]:
    accesses = [op for op in steps(history) if op.node == delay.source and op.f in ACCESSES and op.type == "invoke"]
    if len(accesses) < delay.nth:
        return None, "is left out: it never came on the simulator"
    begun = accesses[delay.nth - 1]
    params = {"client": delay.source, "server": RESOURCE, "delay": delay.by}
    held = FaultSpec("delayed-request", for_=CAUGHT[False], params=params, **trigger(history, begun))
    return held, f"is held back: that of {named(history, begun)}"


def _instead_of_reply(
    plan: Plan, history: History, commands: Sequence[Command], delay: Delay, said: Command, begun: Op
) -> tuple[FaultSpec, str]:
    """A client whose answer comes late does not go on before: its next request comes as late, or, if the call has none
    any more, what it does after the call."""
    ended = after(history, begun.index, delay.target)
    rest = (c for c in commands if c.phase == "request" and c.client == said.client and c.time > said.time)
    following = next((c for c in rest if ended is None or c.time <= ended.time), None)
    if following is None and ended is not None:
        pause = FaultSpec("client-pause", for_=delay.by, **trigger(history, ended))
        return pause, f"is a pause of {delay.target} after {named(history, ended)}: real answers cannot be held back"
    where = said if following is None else following
    held = hold_back(plan, history, begun, where, delay.by, wait=(said.time - begun.time) / SECOND)
    return held, f"is a late {where.name} of {delay.target} after that: real answers cannot be held back"


def _message(commands: Sequence[Command], delay: Delay, phase: str) -> Command | None:
    """The delayed message: commands of one moment on one link are one message."""
    ends = {delay.source, delay.target}
    on_link = [said for said in commands if said.phase == phase and {said.client, said.server} == ends]
    messages = [next(same) for _, same in groupby(on_link, key=lambda said: said.time)]
    return messages[delay.nth - 1] if len(messages) >= delay.nth else None


def _last(history: History, said: Command) -> Op | None:
    """The client's last entry before it was said."""
    earlier = [op for op in steps(history) if op.node == said.client and op.time <= said.time]
    return earlier[-1] if earlier else None
