"""The timeline's data: columns of whole numbers that the page searches and draws, small enough for 100,000 calls.

Times are microseconds since the first entry. Columns that only grow (``start``, ``invoked``) are differences.
``reports/templates/js/data.js`` reads what this writes; the two change together.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from checkers.clocks import readings
from harness.history import Call, History, HistoryError, Op
from reports.document import ReportError, compact
from reports.holds import Hold, find_holds
from reports.model import EvidenceView, FaultView, InvolvedView, RunView

OUTCOMES: Final = {"ok": 0, "fail": 1, "info": 2}
NONE: Final = -1
MOST_LEVELS: Final = 3
Data = dict[str, Any]


@dataclass(slots=True)
class Names:
    """Numbers texts in the order they are first seen; -1 is no text."""

    texts: list[str] = field(default_factory=list)
    codes: dict[str, int] = field(default_factory=dict)

    def code(self, text: str | None) -> int:
        if not text:
            return NONE
        if text not in self.codes:
            self.codes[text] = len(self.texts)
            self.texts.append(text)
        return self.codes[text]


@dataclass(slots=True)
class _Builder:
    run: RunView
    origin: int
    last: int
    lanes: Names = field(default_factory=Names)
    texts: Names = field(default_factory=Names)

    def us(self, ns: int) -> int:
        return round((ns - self.origin) / 1000)

    def maybe_us(self, ns: int | None) -> int | None:
        return None if ns is None else self.us(ns)


def build(run: RunView) -> Data:
    """What the page needs to draw ``run``."""
    history = run.history
    builder = _Builder(run, history.origin, _last(run))
    for client in run.clients:
        builder.lanes.code(client)
    calls = _calls(builder, history)
    holds = _holds(builder, find_holds(history))
    violations = [_violation(builder, found) for found in run.evidence]
    return {
        "end": builder.us(builder.last),
        "recorded": builder.us(history.time[-1]) if len(history) else 0,
        "calls": calls,
        "holds": holds,
        "faults": [_fault(builder, fault) for fault in run.faults],
        "offsets": clock_offsets(builder, history),
        "violations": violations,
        "crashes": [[builder.lanes.code(op.node), builder.us(op.time)] for op in history.nemesis("crash") if op.node],
        "clients": builder.lanes.texts,
        "servers": list(run.servers),
        "texts": builder.texts.texts,
    }


def _last(run: RunView) -> int:
    """The end of the timeline: of the history or, where it was cut off, of what is known to have come later."""
    if not len(run.history):
        return run.history.origin
    later = [fault.healed for fault in run.faults] + [found.end for found in run.evidence]
    return max(run.history.time[-1], *(time for time in later if time is not None), run.history.origin)


def _calls(builder: _Builder, history: History) -> Data:
    columns: dict[str, list[int]] = {name: [] for name in _CALL_COLUMNS}
    try:
        calls = history.calls()
    except HistoryError as error:
        raise ReportError(f"history.jsonl: {error}") from error
    base = history.wall[0] - history.time[0] if len(history) else 0
    for call in calls:
        for name, value in zip(_CALL_COLUMNS, _call(builder, call, base), strict=True):
            columns[name].append(value)
    return columns | {"start": differences(columns["start"]), "invoked": differences(columns["invoked"])}


_CALL_COLUMNS: Final = (
    "lane", "f", "outcome", "start", "took", "process", "key", "invoked", "done", "asked", "got", "error", "wall",
)  # fmt: skip


def _call(builder: _Builder, call: Call, base: int) -> tuple[int, ...]:
    """One row; ``done`` counts entries from the invocation, ``wall`` is how many ms the client's wall clock was off."""
    begun, done, code = call.invoke, call.done, builder.texts.code
    start = builder.us(begun.time)
    return (
        builder.lanes.code(begun.node or f"process {begun.process}"),
        code(begun.f),
        OUTCOMES[call.outcome],
        start,
        NONE if done is None else builder.us(done.time) - start,
        begun.process,
        code(begun.key),
        begun.index,
        NONE if done is None else done.index - begun.index,
        code(_value(begun)),
        NONE if done is None else code(_value(done)),
        NONE if done is None else code(done.error),
        round((begun.wall - begun.time - base) / 1_000_000),
    )


def _value(op: Op) -> str | None:
    return None if op.value is None else compact(op.value)


def _holds(builder: _Builder, holds: list[Hold]) -> Data:
    columns: dict[str, list[int]] = {name: [] for name in _HOLD_COLUMNS}
    busy: dict[str, list[int]] = {}
    for hold in holds:
        row = _hold(builder, hold, _level(busy.setdefault(hold.client, []), hold))
        for name, value in zip(_HOLD_COLUMNS, row, strict=True):
            columns[name].append(value)
    return columns | {"start": differences(columns["start"]), "acquired": differences(columns["acquired"])}


_HOLD_COLUMNS: Final = (
    "lane", "level", "start", "took", "lease", "from", "until", "key", "fence", "acquired",
)  # fmt: skip


def _hold(builder: _Builder, hold: Hold, level: int) -> tuple[int, ...]:
    """One row; durations count from the hold's start, -1 is none (nothing ended it, no lease, no access)."""

    def after(ns: int | None) -> int:
        return NONE if ns is None else builder.us(ns) - start

    start = builder.us(hold.start)
    return (
        builder.lanes.code(hold.client),
        level,
        start,
        after(hold.end),
        after(hold.lease_end),
        after(hold.access_from),
        after(hold.access_until),
        builder.texts.code(hold.key),
        builder.texts.code(hold.fence),
        hold.acquire_index,
    )


def _level(busy: list[int], hold: Hold) -> int:
    """The first row of the lane that is free when ``hold`` begins: a client may hold several keys."""
    end = 2**63 if hold.end is None else hold.end
    for level, until in enumerate(busy):
        if until <= hold.start:
            busy[level] = end
            return level
    busy.append(end)
    return min(len(busy), MOST_LEVELS) - 1


def _fault(builder: _Builder, fault: FaultView) -> Data:
    return {
        "name": fault.fault,
        "hosts": list(fault.hosts),
        "from": builder.maybe_us(fault.injected),
        "until": builder.maybe_us(fault.healed),
        "seen": fault.seen,
        "observed": fault.observed,
    }


def _violation(builder: _Builder, found: EvidenceView) -> Data:
    start = found.start if found.start is not None else builder.origin
    return {
        "number": found.number,
        "from": builder.us(start),
        "until": builder.us(found.end if found.end is not None else builder.last),
        "sentence": found.sentence,
        "kind": found.kind,
        "checker": found.checker,
        "blame": found.blame,
        "involved": [_offender(builder, one) for one in found.involved if one.start is not None],
    }


def _offender(builder: _Builder, one: InvolvedView) -> Data:
    return {
        "f": one.f,
        "lane": builder.lanes.code(one.client),
        "from": builder.maybe_us(one.start),
        "until": builder.maybe_us(one.end),
    }


def clock_offsets(builder: _Builder, history: History) -> dict[str, list[list[int]]]:
    """Per host, the steps [µs, offset in µs] of its wall clock; without hosts whose clock was never off."""
    steps: dict[str, list[list[int]]] = {}
    for op in history.nemesis("clocks", "inject", "heal"):
        for host, offset in readings(op):
            told = steps.setdefault(host, [])
            value = round(offset / 1000)
            if not told or told[-1][1] != value:
                told.append([builder.us(op.time), value])
    return {host: told for host, told in sorted(steps.items()) if any(value for _, value in told)}


def differences(values: list[int]) -> list[int]:
    """Each value less the one before it: small numbers take few digits."""
    return [value - before for before, value in zip([0, *values], values, strict=False)]


@dataclass(slots=True)
class Activity:
    """What one client did, for readers of the page who do not see the canvas."""

    client: str
    holds: int = 0
    longest: int = 0
    """ns"""
    outcomes: list[int] = field(default_factory=lambda: [0, 0, 0])


def activity(data: Data) -> list[Activity]:
    """One line a client, from the columns that :func:`build` made."""
    told = [Activity(client) for client in data["clients"]]
    holds, calls = data["holds"], data["calls"]
    for lane, took in zip(holds["lane"], holds["took"], strict=True):
        told[lane].holds += 1
        told[lane].longest = max(told[lane].longest, took * 1000)
    acquire = data["texts"].index("acquire") if "acquire" in data["texts"] else NONE
    for lane, f, outcome in zip(calls["lane"], calls["f"], calls["outcome"], strict=True):
        if f == acquire:
            told[lane].outcomes[outcome] += 1
    return told
