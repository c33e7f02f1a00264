"""What is prepared before a simulated failure is tried on a real cluster, and what is said of each try."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from checkers.base import Verdict

from ..completion import complete
from ..history import History
from ..plan import Delay, Plan
from .by_triggers import LATES, by_triggers
from .parting import Parting, parted
from .simulated import Simulated, simulate
from .turns import LENGTHS, in_turn

APART: Final = (0.2, 0.08)
"""Seconds between the starts of clients that real scheduling does not turn round; the second hardly ever."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """``plan`` is completed for real clusters, and ``notes`` say in plain words how it differs from the one that was
    found. ``simulated`` is its own run on the simulator (if the failure does not come there any more: the run of the
    one that was found), and ``expected`` names the checkers that must find the failure again."""

    plan: Plan
    notes: tuple[str, ...]
    simulated: Simulated
    expected: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Attempt:
    """``reproduced`` is None if nobody can tell: a fault was not seen to take effect, or a checker did not see enough.
    ``parting`` is None if it was reproduced, and if it was not though nothing differs."""

    reproduced: bool | None
    violated: tuple[str, ...]
    parting: Parting | None

    @property
    def where(self) -> str:
        """Where it parted, as a sentence without an end."""
        if self.parting is not None:
            return self.parting.sentence
        return "every step up to the violation was as on the simulator, and yet it was not found"


def expected_of(simulated: Simulated) -> tuple[str, ...]:
    """The checkers that must find the failure again: those that the plan names, else those that found it on the
    simulator; none if it did not happen there."""
    violated = simulated.violated()
    expect = simulated.plan.expect
    if expect is None:
        return violated
    return expect.invalid if not expect.safe and set(expect.invalid) <= set(violated) else ()


def prepared(simulated: Simulated) -> Prepared:
    """The plan by triggers, rehearsed on the simulator. Raises UsageError if real clusters cannot do it."""
    expected = expected_of(simulated)
    for plan, notes in _candidates(simulated, expected):
        complete(plan)
        rehearsed = simulate(plan)
        if set(expected) <= set(rehearsed.violated()):
            return Prepared(complete(plan), notes, rehearsed, expected)
    plan, notes = by_triggers(simulated.plan, simulated.history, simulated.commands)
    doubt = "by these triggers alone the failure does not come on the simulator: it may not come here"
    return Prepared(complete(plan), (*notes, doubt), simulated, expected)


def firmer(ready: Prepared) -> Prepared:
    """The same with nobody to race with for what others are granted, if that still shows the failure and if it makes a
    difference: for the tries after the first."""
    rehearsed = ready.simulated
    if rehearsed.plan.faults != ready.plan.faults:  # it failed its rehearsal
        return ready
    for least in LENGTHS:
        plan, notes = in_turn(ready.plan, rehearsed.history, rehearsed.until_ns(ready.expected), least)
        again = simulate(plan) if notes else rehearsed
        if notes and set(ready.expected) <= set(again.violated()):
            return Prepared(complete(plan), (*ready.notes, *notes), again, ready.expected)
    return ready


def _candidates(simulated: Simulated, expected: tuple[str, ...]) -> Iterator[tuple[Plan, tuple[str, ...]]]:
    """Plans by triggers, and what is said of them, the best first: such that they do not hang on who is quicker by a
    few milliseconds."""
    for plan, note in (*_apart(simulated.plan), *_in_turn(simulated)):
        again = simulate(plan)
        if set(expected) <= set(again.violated()):
            yield from ((real, (*notes, note)) for real, notes in _translations(again))
    yield from _translations(simulated)


def _apart(plan: Plan) -> Iterator[tuple[Plan, str]]:
    for apart in APART:
        if plan.clients > 1 and plan.stagger < apart:
            note = f"clients start {apart:g} s apart, not {plan.stagger:g} s: that decides who comes first"
            yield msgspec.structs.replace(plan, stagger=apart), note


def _in_turn(simulated: Simulated) -> Iterator[tuple[Plan, str]]:
    """If it was not c0 that came first on the simulator: with the first requests of those before it held back."""
    plan, history = simulated.plan, simulated.history
    granted = (call.done for call in history.calls("acquire") if call.done is not None and call.outcome == "ok")
    first = min(granted, key=lambda done: done.index, default=None)
    number = 0 if first is None else int(str(first.node).removeprefix("c"))
    if number == 0 or plan.stagger * number >= APART[0]:
        return
    late = [_first_request(simulated, f"c{client}") for client in range(number)]
    links = [(delay.source, delay.target, delay.nth) for delay in late if delay is not None]
    others = tuple(delay for delay in plan.delays if (delay.source, delay.target, delay.nth) not in links)
    delays = (*others, *(delay for delay in late if delay is not None))
    yield msgspec.structs.replace(plan, delays=delays), f"that decides that c{number} comes first"


def _first_request(simulated: Simulated, client: str) -> Delay | None:
    """Held back for long enough that others, whatever real scheduling does, come first."""
    requests = (said for said in simulated.commands if said.phase == "request" and said.client == client)
    return next((Delay(client, said.server, 1, 2 * APART[0]) for said in requests), None)


def _translations(simulated: Simulated) -> list[tuple[Plan, tuple[str, ...]]]:
    found = [by_triggers(simulated.plan, simulated.history, simulated.commands, late=late) for late in LATES]
    return found if found[0] != found[1] else found[:1]


def judged(prepared: Prepared, history: History, verdicts: Mapping[str, Verdict]) -> Attempt:
    """What is said of a real run of the prepared plan."""
    violated = tuple(name for name, verdict in verdicts.items() if verdict.valid is False)
    if set(prepared.expected) <= set(violated):
        return Attempt(True, violated, None)
    said = [verdicts[name].valid for name in prepared.expected]
    told = verdicts["faults"].valid is True and None not in said
    reference = prepared.simulated
    # Of a plan that failed its rehearsal the reference knows nothing of what holds requests back.
    aside = {spec.fault for spec in prepared.plan.faults} - {spec.fault for spec in reference.plan.faults}
    parting = parted(reference.history, history, reference.until_ns(prepared.expected), aside=aside)
    return Attempt(False if told else None, violated, parting)
