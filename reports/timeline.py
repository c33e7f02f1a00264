"""The data of the timeline: columns of whole numbers that the page searches and draws, compact enough for 100,000
calls.

Times are microseconds since the first entry. Columns that never fall (``start``, ``invoked``, ``time``) are stored as
differences. ``reports/columns.py`` compresses the data, and ``reports/templates/js/data.js`` reads it; the files must
change together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from typing import Any, Final

from harness.checkers.clocks import Clock, clocks
from harness.documents import DocumentError
from harness.history import Call, History, HistoryError, Op

from . import fences
from .columns import NONE, TextNumbers, columns
from .document import compact
from .holds import TimelineHold, find_holds
from .model import EvidenceView, FaultView, InvolvedView, RunView
from .timeline_servers import ENDS, Stay, end_record, find_stays, known_until

OUTCOMES: Final = {"ok": 0, "fail": 1, "info": 2}
DEATHS: Final = {"crash": "crashed", "exit": "exits"}
"""Entries at which a client's process dies or begins to end, and the words for them."""
MOST_LEVELS: Final = 3
Data = dict[str, Any]
"""JSON data that may contain columns of numbers."""


@dataclass(slots=True)
class _Builder:
    run: RunView
    origin: int
    last: int
    lanes: TextNumbers = field(default_factory=TextNumbers)
    texts: TextNumbers = field(default_factory=TextNumbers)

    def us(self, ns: int) -> int:
        return round((ns - self.origin) / 1000)

    def maybe_us(self, ns: int | None) -> int | None:
        return None if ns is None else self.us(ns)


@dataclass(frozen=True, slots=True)
class RunFacts:
    """The calls and holds of a run, and the owners of its keys on the servers."""

    calls: list[Call]
    holds: list[TimelineHold]
    stays: list[Stay]


def find_facts(run: RunView) -> RunFacts:
    """Return the facts of a run that its timeline and its messages show; raises :class:`DocumentError`."""
    calls, holds = _calls_of(run.history), find_holds(run.history)
    return RunFacts(calls, holds, find_stays(run.keys, calls, holds))


def build(run: RunView, facts: RunFacts | None = None) -> Data:
    """Return the data that the page needs to draw ``run``; ``columns.compress`` converts it to the text that the page's
    script reads."""
    history = run.history
    facts = facts or find_facts(run)
    calls, holds, stays = facts.calls, facts.holds, facts.stays
    builder = _Builder(run, history.origin, _last(run))
    for client in run.clients:
        builder.lanes.code(client)
        builder.texts.code(client)
    recorded = history.time[-1] if len(history) else history.origin
    known = known_until(run.keys, holds, recorded, whole=not run.keys_trouble and bool(history.nemesis("stop")))
    if known < recorded:
        stays = end_record(stays, known, product(run.servers, _keys(holds, stays)))
    return {
        "end": builder.us(builder.last),
        "recorded": builder.us(recorded),
        "known": builder.us(known),
        "told": any(state.by is not None for state in run.keys),
        "calls": _calls(builder, calls),
        "holds": _holds(builder, holds),
        "keys": _keys(holds, stays),
        "stays": _stays(builder, holds, stays),
        "tokens": _tokens(builder, holds, calls),
        "faults": [_fault(builder, fault) for fault in run.faults],
        "offsets": clock_offsets(builder, history),
        "violations": [_violation(builder, found) for found in run.evidence],
        "found": run.found,
        "deaths": [
            [builder.lanes.code(op.node), builder.us(op.time), word]
            for f, word in DEATHS.items()
            for op in history.nemesis(f)
            if op.node
        ],
        "clients": builder.lanes.texts,
        "servers": list(run.servers),
        "texts": builder.texts.texts,
    }


def _last(run: RunView) -> int:
    """Return the end of the timeline: the end of the history or, if that was truncated, the last known later time."""
    if not len(run.history):
        return run.history.origin
    later = [fault.healed for fault in run.faults] + [found.end for found in run.evidence]
    return max(run.history.time[-1], *(time for time in later if time is not None), run.history.origin)


def _calls_of(history: History) -> list[Call]:
    try:
        return history.calls()
    except HistoryError as error:
        raise DocumentError(f"history.jsonl: {error}") from error


def _calls(builder: _Builder, calls: Sequence[Call]) -> Data:
    history = builder.run.history
    base = history.wall[0] - history.time[0] if len(history) else 0
    rows = (_call(builder, call, base) for call in calls)
    return dict(columns(_CALL_COLUMNS, rows, rising=("start", "invoked")))


_CALL_COLUMNS: Final = (
    "lane", "f", "outcome", "start", "took", "process", "key", "invoked", "done", "asked", "got", "error", "wall",
)  # fmt: skip


def _call(builder: _Builder, call: Call, base: int) -> tuple[int, ...]:
    """Return one row; ``done`` counts entries from the invocation, ``wall`` is the error of the client's wall clock,
    ms."""
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


def _holds(builder: _Builder, holds: Sequence[TimelineHold]) -> Data:
    busy: dict[str, list[int]] = {}
    rows = (_hold(builder, hold, _level(busy.setdefault(hold.client, []), hold)) for hold in holds)
    table: Data = dict(columns(_HOLD_COLUMNS, rows, rising=("start", "acquired")))
    if any(hold.shared for hold in holds):  # most runs have no shared hold
        table |= columns(("shared",), ((int(hold.shared),) for hold in holds))
    return table


_HOLD_COLUMNS: Final = (
    "lane", "level", "start", "took", "lease", "from", "until", "key", "fence", "acquired", "released",
)  # fmt: skip


def _hold(builder: _Builder, hold: TimelineHold, level: int) -> tuple[int, ...]:
    """Return one row; durations count from the hold's start, and -1 means none (no end, no lease, no access)."""

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
        int(hold.released),
    )


def _level(busy: list[int], hold: TimelineHold) -> int:
    """Return the first free row of the client's lane when ``hold`` begins: a client may hold several keys."""
    end = 2**63 if hold.end is None else hold.end
    for level, until in enumerate(busy):
        if until <= hold.start:
            busy[level] = end
            return level
    busy.append(end)
    return min(len(busy), MOST_LEVELS) - 1


def _keys(holds: Sequence[TimelineHold], stays: Sequence[Stay]) -> list[str]:
    """Return the locks' keys, the one held most often first: the page shows that one until the user selects another."""
    held = Counter(hold.key for hold in holds)
    seen = dict.fromkeys([*held, *(stay.key for stay in stays)])
    return sorted(seen, key=lambda key: -held[key])


_STAY_COLUMNS: Final = ("lane", "start", "took", "until", "who", "ended", "renewed", "moved")


def _stays(builder: _Builder, holds: Sequence[TimelineHold], stays: Sequence[Stay]) -> Data:
    keys = _keys(holds, stays)
    lanes = {(host, key): i for i, (host, key) in enumerate(product(builder.run.servers, keys))}
    rows = (_stay(builder, stay, lanes[stay.host, stay.key]) for stay in stays if (stay.host, stay.key) in lanes)
    return dict(columns(_STAY_COLUMNS, rows, rising=("start",)))


def _stay(builder: _Builder, stay: Stay, lane: int) -> tuple[int, ...]:
    """Return one row; a lane is a server and a key, ``until`` counts from the start, ``who`` is -1 if there was no
    answer."""
    start = builder.us(stay.start)
    return (
        lane,
        start,
        NONE if stay.end is None else builder.us(stay.end) - start,
        NONE if stay.until is None else max(builder.us(stay.until) - start, 0),
        NONE if stay.owner is None else builder.texts.code(stay.who),
        ENDS.index(stay.ended),
        stay.renewed,
        stay.moved,
    )


_GRANT_COLUMNS: Final = ("lane", "time", "key", "token")
_ACCESS_COLUMNS: Final = ("lane", "time", "key", "token", "f", "verdict", "highest")


def _tokens(builder: _Builder, holds: Sequence[TimelineHold], calls: Sequence[Call]) -> Data | None:
    """Return the tokens of the grants, and the tokens that the resource received; None if there were none."""
    grants = [hold for hold in holds if hold.fence]
    tokens = [hold.fence for hold in grants] + [token for call in calls if (token := fences.shown(call))]
    if not tokens:
        return None
    on = fences.scale(tokens)
    lane, code = builder.lanes.code, builder.texts.code
    granted = ((lane(hold.client), builder.us(hold.start), code(hold.key), on.place(hold.fence)) for hold in grants)
    shown = (
        (lane(one.client), builder.us(one.time), code(one.key), one.token, code(one.f), one.verdict, one.highest)
        for one in fences.accesses(calls, on)
    )
    return {
        "grants": columns(_GRANT_COLUMNS, granted, rising=("time",)),
        "shown": columns(_ACCESS_COLUMNS, shown, rising=("time",)),
        "names": None if on.names is None else on.names.texts,
    }


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
        "key": found.key,
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


ClockSteps = dict[str, list[list[float]]]
"""By host, the changes of its wall clock: the time (µs), the offset from true time (µs), and for a clock that runs too
fast or too slow how many seconds it gains in one."""


def clock_offsets(builder: _Builder, history: History) -> ClockSteps:
    """Return the changes of wall clocks; hosts whose clock was always correct are left out."""
    found = clocks(history.nemesis("clocks", "inject", "heal"))
    return {host: _clock_steps(builder, clock) for host, clock in sorted(found.items()) if clock.wrong}


def _clock_steps(builder: _Builder, clock: Clock) -> list[list[float]]:
    first = clock.readings[0].offset_ns
    steps: list[list[float]] = [[0, round(first / 1000)]] if first else []
    for before, one in pairwise(clock.readings):
        begun = one.since_ns if one.rate and one.since_ns > before.read_ns else one.read_ns
        if one.rate != before.rate or abs(one.at(begun) - before.at(begun)) >= 1000:
            steps.append([builder.us(begun), round(one.at(begun) / 1000), *([one.rate] if one.rate else [])])
    return steps


def offset_before(steps: Sequence[Sequence[float]], number: int) -> int:
    """Return the offset (µs) of a clock just before the step with this number."""
    if not number:
        return 0
    at, offset, *rate = steps[number - 1]
    return round(offset + sum(rate) * (steps[number][0] - at))
