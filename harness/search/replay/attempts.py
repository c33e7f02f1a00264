"""Prepare a simulated failure for a real cluster, and judge each attempt to reproduce it there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from harness.checkers.base import Verdict
from harness.clusters.kinds import KINDS
from harness.clusters.server_options import completed
from harness.errors import UsageError
from harness.history import History
from harness.plan import SERVERS, Delay, Hook, Plan
from harness.plan.hooks import hooks_of
from harness.run.plans.completion import complete
from harness.wording import counted

from .by_triggers import LATES, by_triggers
from .divergence import Divergence, first_divergence
from .simulated import Simulated, simulate
from .turns import LENGTHS, pause_rivals

APART: Final = (0.2, 0.08)
"""Seconds between the starts of clients, such that real scheduling never (first) or rarely (second) swaps them."""


OnRealCluster = Callable[[Plan], Plan]
"""Completes a plan for a real cluster."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan for a real cluster.

    ``plan`` is completed; ``notes`` say how it differs from the original plan. ``simulated`` is its run on the
    simulator, or the run of the original plan if the new one does not fail there. ``expected`` names the checkers that
    must find the failure again.
    """

    plan: Plan
    notes: tuple[str, ...]
    simulated: Simulated
    expected: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Attempt:
    """Result of one run on a real cluster.

    ``reproduced`` is None if unknown: a fault was not confirmed, or a checker could not tell. ``divergence`` is None if
    the failure was reproduced, or if it was not but no step differs.
    """

    reproduced: bool | None
    violated: tuple[str, ...]
    divergence: Divergence | None

    @property
    def where(self) -> str:
        """Return the first difference as a sentence without a full stop."""
        if self.divergence is not None:
            return self.divergence.sentence
        return "every step up to the violation was as on the simulator, but no violation was found"


def expected_of(simulated: Simulated) -> tuple[str, ...]:
    """Return the checkers that must find the failure again.

    These are the checkers that the plan names, else those that found a violation on the simulator. The result is empty
    if the failure did not happen there.
    """
    violated = simulated.violated()
    expect = simulated.plan.expect
    if expect is None:
        return violated
    return expect.invalid if not expect.safe and set(expect.invalid) <= set(violated) else ()


def on_servers(addresses: Sequence[str], hooks: Mapping[str, Hook]) -> OnRealCluster:
    """Return a function that completes a simulated plan for servers that the user runs, and whose faults ``hooks``
    do."""

    def complete_for_servers(plan: Plan) -> Plan:
        if len(addresses) != plan.nodes:
            there = counted(len(addresses), "server")
            raise UsageError(f"the failure was found with {counted(plan.nodes, 'server')}, and {there} are given")
        usual = completed(KINDS.find(plan.kind).options, {}, "sim")
        changed = {name: value for name, value in plan.server_options.items() if usual.get(name) != value}
        own = {
            "cluster": SERVERS,
            "servers": tuple(addresses),
            "server_options": changed,
            "hooks": hooks_of(hooks, plan.faults),
        }
        return complete(msgspec.structs.replace(plan, **own).check())

    return complete_for_servers


def prepare(simulated: Simulated, on_real: OnRealCluster = complete) -> Prepared:
    """Return the plan with triggers, tried on the simulator. ``on_real`` completes it for the real cluster, by default
    for containers. Raises UsageError if that cannot execute it."""
    expected = expected_of(simulated)
    for plan, notes in _candidates(simulated, expected):
        real = on_real(plan)
        rehearsed = simulate(plan)
        if set(expected) <= set(rehearsed.violated()):
            return Prepared(real, notes, rehearsed, expected)
    plan, notes = by_triggers(simulated.plan, simulated.history, simulated.commands)
    doubt = "with these triggers the failure does not happen on the simulator, so it may not happen here"
    return Prepared(on_real(plan), (*notes, doubt), simulated, expected)


def without_races(ready: Prepared) -> Prepared:
    """Return a plan in which rivals are paused around each grant, for the attempts after the first.

    Return ``ready`` itself if there are no races, or if the failure does not happen with the pauses.
    """
    rehearsed = ready.simulated
    if rehearsed.plan.faults != ready.plan.faults:  # the plan did not fail on the simulator
        return ready
    for least in LENGTHS:
        plan, notes = pause_rivals(ready.plan, rehearsed.history, rehearsed.until_ns(ready.expected), least)
        again = simulate(plan) if notes else rehearsed
        if notes and set(ready.expected) <= set(again.violated()):
            return Prepared(complete(plan), (*ready.notes, *notes), again, ready.expected)
    return ready


def _candidates(simulated: Simulated, expected: tuple[str, ...]) -> Iterator[tuple[Plan, tuple[str, ...]]]:
    """Yield plans with triggers and their notes. Plans that do not depend on races of a few milliseconds come first."""
    for plan, note in (*_apart(simulated.plan), *_in_turn(simulated)):
        again = simulate(plan)
        if set(expected) <= set(again.violated()):
            yield from ((real, (*notes, note)) for real, notes in _translations(again))
    yield from _translations(simulated)


def _apart(plan: Plan) -> Iterator[tuple[Plan, str]]:
    for apart in APART:
        if plan.clients > 1 and plan.stagger < apart:
            note = f"clients start {apart:g} s apart, not {plan.stagger:g} s, so that they start in a fixed order"
            yield msgspec.structs.replace(plan, stagger=apart), note


def _in_turn(simulated: Simulated) -> Iterator[tuple[Plan, str]]:
    """If another client than c0 was granted first on the simulator, hold back the first requests of those before it."""
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
    yield (
        msgspec.structs.replace(plan, delays=delays),
        f"the first requests of the clients before c{number} are delayed, so that c{number} is granted first",
    )


def _first_request(simulated: Simulated, client: str) -> Delay | None:
    """Return a delay of the client's first request that is longer than any effect of real scheduling."""
    requests = (command for command in simulated.commands if command.phase == "request" and command.client == client)
    return next((Delay(client, command.server, 1, 2 * APART[0]) for command in requests), None)


def _translations(simulated: Simulated) -> list[tuple[Plan, tuple[str, ...]]]:
    found = [by_triggers(simulated.plan, simulated.history, simulated.commands, late=late) for late in LATES]
    return found if found[0] != found[1] else found[:1]


def judge(ready: Prepared, history: History, verdicts: Mapping[str, Verdict]) -> Attempt:
    """Judge a real run of the prepared plan."""
    violated = tuple(name for name, verdict in verdicts.items() if verdict.valid is False)
    if set(ready.expected) <= set(violated):
        return Attempt(True, violated, None)
    command = [verdicts[name].valid for name in ready.expected]
    told = verdicts["faults"].valid is True and None not in command
    reference = ready.simulated
    # If the plan did not fail on the simulator, the reference run lacks the faults that hold requests back.
    aside = {spec.fault for spec in ready.plan.faults} - {spec.fault for spec in reference.plan.faults}
    divergence = first_divergence(reference.history, history, reference.until_ns(ready.expected), aside=aside)
    return Attempt(False if told else None, violated, divergence)
