"""Explain why a history is not linearizable: as a sentence, as evidence, and as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from harness.checkers.base import Json, Violation
from harness.checkers.models import ACQUIRE, Inconsistent, Model, Operation, worded
from harness.history.calls import NEVER, REFUSED, Calls

from .core import Core
from .picture import Bar, Picture
from .problem import MUST, KeyProblem, SearchAnswer

SHOWN: Final = 120
"""The most calls in a picture, besides those of the smallest wrong part."""
LISTED: Final = 8
"""The most calls that a sentence lists."""


@dataclass(frozen=True, slots=True)
class KeyFailure:
    """A key that is not linearizable: the search's answer, and the smallest wrong part if it was looked for."""

    key: int
    problem: KeyProblem
    answer: SearchAnswer
    core: Core | None = None

    @property
    def calls(self) -> tuple[int, ...]:
        """Return the calls to show: those of the smallest part, or the call whose return no order reaches."""
        return self.core.calls if self.core else (self.answer.unplaced,)


def violation(calls: Calls, model: Model, finding: KeyFailure) -> Violation:
    """Return the evidence for a key; ``involved`` are the calls of the smallest wrong part."""
    rows = [int(finding.problem.rows[call]) for call in finding.calls]
    stuck = int(finding.problem.rows[finding.answer.unplaced])
    return Violation(
        "not-linearizable",
        calls.keys[finding.key] or None,
        sentence(calls, model, finding),
        int(calls.began[rows].min()),
        int(calls.ended[stuck]),
        tuple(_json(calls, row) for row in rows),
    )


def sentence(calls: Calls, model: Model, finding: KeyFailure) -> str:
    """Say at which call every order ends and why, and which calls cannot all have happened."""
    part, answer = finding.problem, finding.answer
    name = calls.keys[finding.key]
    on = f" on {name}" if name else ""
    last = _call(calls, part, answer.unplaced)
    end = f"No order of the calls{on} gets past entry {answer.stuck}, where {last} returned"
    why = _why(model, part, answer)
    end += f": {why}" if why else ""
    if finding.core is None:
        return end
    return f"{end}. {_together(calls, finding.core, part)}"


def _together(calls: Calls, found: Core, part: KeyProblem) -> str:
    count = len(found.calls)
    if count == 1:
        return "No effect of the other calls allows this result"
    listed = [f"{_call(calls, part, call)} ({_entries(part, call)})" for call in found.calls[:LISTED]]
    if count > LISTED:
        listed.append(f"and {count - LISTED} more")
    fewest = "; no smaller set of calls up to there is contradictory" if found.smallest else ""
    both = "both" if count == 2 else "all"
    return f"These {count} calls cannot {both} have happened, whatever the others did: {'; '.join(listed)}{fewest}"


def _why(model: Model, part: KeyProblem, answer: SearchAnswer) -> str:
    """Return the model's reason against the call at which the longest order is stuck; empty if no order was
    searched."""
    if not answer.tried:
        return ""
    state = answer.states[-1] if answer.states else model.initial
    found = model.step(state, part.operations[part.operation[answer.unplaced]])
    return found.why if isinstance(found, Inconsistent) else ""


def _call(calls: Calls, part: KeyProblem, call: int) -> str:
    row = int(part.rows[call])
    return f"{calls.clients[calls.client[row]]}'s {label(part.operations[part.operation[call]])}"


def _entries(part: KeyProblem, call: int) -> str:
    begin, end = int(part.invoked[call]), int(part.returned[call])
    return f"from entry {begin} on" if end == NEVER else f"entries {begin} to {end}"


RETURNING: Final = frozenset({"read", "get", "dequeue", "pop"})
"""Functions of which only the returned value matters."""


def label(operation: Operation) -> str:
    """Return what a call did, in a few words: ``acquire → token 7``, ``cas [0 3]``, ``read → 2``."""
    argument = _value(operation.argument) if operation.f.removeprefix(REFUSED) not in ACQUIRE | RETURNING else ""
    result = _value(operation.result) if operation.f != "write" else ""
    if operation.f in RETURNING and operation.known and not result:
        result = "nil"
    done = f" → {result}" if result and result != argument else ""
    return operation.f + (f" {argument}" if argument else "") + (done if operation.known else ", outcome unknown")


WORDS: Final = {"fence": "token", "valid_for": "valid for", "good": "held"}


def _number(value: Any) -> str:
    return f"{value:.3f} s" if isinstance(value, float) else worded(value)


def _value(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, Mapping):
        return worded(value)
    if "value" in value:
        return worded(value["value"])
    return ", ".join(f"{WORDS.get(key, key)} {_number(item)}" for key, item in value.items() if item is not None)


def _json(calls: Calls, row: int) -> Json:
    known, f = bool(calls.known[row]), calls.fs[calls.f[row]]
    ended = int(calls.ended[row])
    return {
        "f": f.removeprefix(REFUSED),
        "key": calls.keys[calls.key[row]] or None,
        "client": calls.clients[calls.client[row]],
        "process": int(calls.process[row]),
        "indices": [int(calls.invoked[row])] + ([int(calls.returned[row])] if known else []),
        "outcome": "fail" if f.startswith(REFUSED) else "ok" if known else "info",
        "from_ns": int(calls.began[row]),
        "until_ns": None if ended == NEVER else ended,
        "invoked": calls.argument_of(row),
        "returned": calls.result_of(row) if known else None,
    }


def picture(calls: Calls, model: Model, name: str, finding: KeyFailure, file: str = "") -> Picture:
    """Return a picture of the calls that led to the return that no order reaches.

    If there are many, it has the last ones and those of the smallest part. Of calls that never returned, it has only
    those in the order.
    """
    part, answer = finding.problem, finding.answer
    place = {call: number for number, call in enumerate(answer.order, 1)}
    open_ended = (part.returned == NEVER) & ~np.isin(np.arange(len(part)), [*place, *finding.calls])
    before = np.flatnonzero((part.invoked < answer.stuck) & ~open_ended).tolist()
    before.sort(key=lambda call: min(int(part.returned[call]), answer.stuck))
    shown = sorted({*before[-SHOWN:], *finding.calls})
    first = min((place[call] for call in shown if call in place), default=1)
    initial = model.initial if first == 1 else answer.states[first - 2]
    bars = tuple(_bar(calls, model, finding, call, place.get(call, 0)) for call in shown)
    key = calls.keys[finding.key]
    text = sentence(calls, model, finding)
    left_out = int(((calls.key == finding.key) & (calls.invoked < answer.stuck)).sum()) - len(shown)
    smallest = finding.core is not None and finding.core.smallest
    return Picture(file, name, key, text, model.describe(initial), bars, left_out, smallest)


def _bar(calls: Calls, model: Model, finding: KeyFailure, call: int, place: int) -> Bar:
    part, answer = finding.problem, finding.answer
    row = int(part.rows[call])
    return Bar(
        client=calls.clients[calls.client[row]],
        label=label(part.operations[part.operation[call]]),
        invoked=int(part.invoked[call]),
        returned=int(part.returned[call]),
        began=int(calls.began[row]) - calls.origin,
        ended=NEVER if calls.ended[row] == NEVER else int(calls.ended[row]) - calls.origin,
        known=bool(part.kind[call] == MUST),
        place=place,
        state=model.describe(answer.states[place - 1]) if place else "",
        core=finding.core is not None and call in finding.core.calls,
        stuck=call == answer.unplaced,
    )
