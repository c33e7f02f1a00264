"""The page of a partial linearization: one HTML file that needs neither a network nor a server.

It has a row for each client, a bar for each call, and the order that was found as numbered points on a path, after the
visualisation of Porcupine (https://github.com/anishathalye/porcupine). The axis shows entries, evenly spaced: what
matters is which call returned before which other was invoked, not how long before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import ceil
from operator import attrgetter
from pathlib import Path
from typing import Final, Literal

from harness.checkers.linearizability.picture import Bar, Picture
from harness.files import write_file
from harness.history.calls import NEVER

from . import page

Fate = Literal["placed", "wrong", "unknown", "later"]
FATES: Final[dict[Fate, str]] = {
    "wrong": "could not be placed: no order explains all calls up to its return",
    "unknown": "outcome unknown; this order does not need it",
    "later": "not reached: it returned after the point where the order ends",
}
"""Reasons why a call has no place in the order."""
TOP, ROW, BAR, GAP, STATE = 62, 44, 16, 8, 30
"""Heights, px: of the space above the rows, a row, a bar, the space between clients, the states."""
EDGE: Final = 34
NARROW, WIDE, FULL = 16.0, 64.0, 980.0
"""The least and greatest width of an entry, and the width that a short history fills, px."""
LEAST: Final = 520.0
"""The least width of the drawing, px: the text at the line must fit beside it."""
POINTS_APART: Final = 44.0
TICKS_APART: Final = 110
LETTER: Final = 6.9
"""The width of a letter, px, slightly overestimated."""
LONGEST_NAME: Final = 14


@dataclass(frozen=True, slots=True)
class CallView:
    """A call to draw, px; ``mark`` is the place of its number, or of the sign that it has none."""

    bar: Bar
    fate: Fate
    x: float
    y: float
    width: float
    mark: float
    label: str
    when: str
    details: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """An item with a text that begins at ``x``: a client's rows (at ``y``, ``size`` high), a tick, or a state."""

    x: float
    y: float
    size: float
    text: str
    more: str = ""


@dataclass(frozen=True, slots=True)
class Drawing:
    """Everything that the template draws, px.

    ``calls`` are in the order of their marks, ``path`` has those of the order. ``stuck`` is the place after which no
    order exists (None: there is none). ``alike``: no call is emphasised.
    """

    width: float
    height: float
    gutter: float
    calls: tuple[CallView, ...]
    path: tuple[CallView, ...]
    lanes: tuple[Span, ...]
    ticks: tuple[Span, ...]
    states: tuple[Span, ...]
    stuck: float | None
    alike: bool


def write(picture: Picture, path: Path) -> Path:
    """Write the page to ``path``; raises OSError if it cannot be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, render(picture))
    return path


def render(picture: Picture) -> str:
    """Return the page; the same picture gives the same bytes."""
    shown = draw(picture)
    return page.render(
        "linearization.html",
        {"px": lambda value: f"{value:.1f}".removesuffix(".0")},
        picture=picture,
        drawing=shown,
        core=[call for call in sorted(shown.calls, key=lambda one: one.bar.invoked) if call.bar.core],
        placeless=[call for call in shown.calls if call.fate != "placed"],
        first=next((call for call in shown.calls if call.fate == "wrong"), shown.calls[0] if shown.calls else None),
        fates={call.fate: FATES.get(call.fate, "") for call in shown.calls},
        unanswered=any(call.bar.open for call in shown.calls),
        style=page.source("style.css") + page.source("linearization.css"),
        script=page.source("js/linearization.js"),
    )


def draw(picture: Picture) -> Drawing:
    """Compute the place of each item."""
    return _Layout(picture).drawing()


def spread(windows: Sequence[tuple[float, float]], apart: float) -> list[float]:
    """Return a point for each call, for calls in the order in which they take effect.

    The points rise, each is inside the window (begin, end) of its call, and each is ``apart`` from the one before where
    there is room.

    A point is one step beyond its base, which is the later of the point before it and the begin of its window. The step
    is ``apart``, or less if later points need the room. For each deadline ahead (the least end of the windows from some
    point on), the distance to it is shared evenly by the points that must come before it, with one share left over. If
    the order is a linearization at all, no window ends before an earlier call's window begins. So at the first point
    the distance to every deadline is positive, and it stays positive: a step of at most the share of each deadline
    leaves at least one share for each later point. Hence all points are inside their windows. If the order contradicts
    the windows, points still rise, by a hundredth.
    """
    ends = list(accumulate((end for _, end in reversed(windows)), min))[::-1]
    points: list[float] = []
    for k, (begin, _) in enumerate(windows):
        base = max(begin, points[-1]) if points else begin
        shares = ((end - base) / (count + 2) for count, end in enumerate(ends[k:]))
        step = min(apart, *shares)
        points.append(base + (step if step > 0 else 0.01))
    return points


class _Layout:
    """The layout of a picture.

    ``rank`` numbers the entries that are shown, from 0. Bars, windows and points are in ranks until they are drawn,
    with ``step`` px each.
    """

    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        self.bars = sorted(picture.bars, key=attrgetter("invoked"))
        entries = sorted({entry for bar in self.bars for entry in (bar.invoked, bar.returned)} - {NEVER})
        self.rank = {entry: float(rank) for rank, entry in enumerate(entries)}
        self.last = float(max(1, len(entries)))
        self.rank[NEVER] = self.last
        self.stuck = min((bar.returned for bar in self.bars if bar.stuck), default=NEVER)
        self.clients = list(dict.fromkeys(sorted((bar.client for bar in self.bars), key=_natural)))
        self.step = _step(self.bars, self.rank, self.clients)
        self.points = self._points()
        self.digits = 3 if 2 * _duration(self.bars) >= 1_000_000 * self.last else 6

    def _points(self) -> dict[Bar, float]:
        """Return a point for each call. A call before the place where no order is left is drawn before it, even if it
        returned later."""
        order = sorted((bar for bar in self.bars if bar.place), key=attrgetter("place"))
        windows = [(self.rank[bar.invoked], self._deadline(bar)) for bar in order]
        return dict(zip(order, spread(windows, max(0.5, POINTS_APART / self.step)), strict=True))

    def _deadline(self, bar: Bar) -> float:
        return self.rank[min(bar.returned, self.stuck) if bar.invoked < self.stuck else bar.returned]

    def x(self, rank: float) -> float:
        return EDGE + rank * self.step

    def drawing(self) -> Drawing:
        rows, lanes = self._rows()
        calls = tuple(sorted(self._calls(rows), key=attrgetter("mark")))
        path = tuple(sorted((call for call in calls if call.bar.place), key=attrgetter("bar.place")))
        bottom = lanes[-1].y + lanes[-1].size + GAP if lanes else TOP
        return Drawing(
            width=max([LEAST, self.x(self.last) + 24, *(call.x + _length(call.label) + 8 for call in calls)]),
            height=bottom + STATE + GAP,
            gutter=24 + LETTER * max([5, *(len(lane.text) for lane in lanes)]),
            calls=calls,
            path=path,
            lanes=lanes,
            ticks=tuple(self._ticks()),
            states=tuple(self._states(path, bottom)),
            stuck=None if self.stuck == NEVER else self.x(self.rank[self.stuck]),
            alike=not any(bar.core for bar in self.bars),
        )

    def _end(self, bar: Bar) -> float:
        """Return the end of the bar. A bar without an answer is short, or ends after its place in the order, and has an
        arrow."""
        if not bar.open:
            return self.rank[bar.returned]
        return max(self.rank[bar.invoked] + 1.5, self.points.get(bar, 0.0) + 0.75)

    def _rows(self) -> tuple[dict[Bar, tuple[float, float]], tuple[Span, ...]]:
        """Return, for each bar, its top (px) and the rank at which the next bar in its row begins.

        A client continues with other calls after a call without an answer, so it may need an additional row.
        """
        rows: dict[Bar, tuple[float, float]] = {}
        lanes: list[Span] = []
        y = float(TOP)
        for client in self.clients:
            lines: list[list[Bar]] = []
            for bar in (bar for bar in self.bars if bar.client == client):
                line = next((line for line in lines if self._end(line[-1]) < self.rank[bar.invoked]), None)
                lines.append([bar]) if line is None else line.append(bar)
            for number, line in enumerate(lines):
                begins = [*(self.rank[bar.invoked] for bar in line[1:]), self.last + 200 / self.step]
                rows |= {bar: (y + number * ROW, begin) for bar, begin in zip(line, begins, strict=True)}
            lanes.append(Span(0, y, len(lines) * ROW, _cut(client, LONGEST_NAME)))
            y += len(lines) * ROW + GAP
        return rows, tuple(lanes)

    def _calls(self, rows: dict[Bar, tuple[float, float]]) -> Iterable[CallView]:
        for bar in self.bars:
            begin, end = self.rank[bar.invoked], self._end(bar)
            top, until = rows[bar]
            room = (until - begin) * self.step - 8
            yield CallView(
                bar=bar,
                fate=_fate(bar, self.stuck),
                x=self.x(begin),
                y=top + ROW - BAR - 5,
                width=(end - begin) * self.step,
                mark=self.x(self.points.get(bar, (begin + end) / 2)),
                label=_cut(bar.label, int(room / LETTER)),
                when=self._when(bar),
                details=tuple(self._details(bar)),
            )

    def _details(self, bar: Bar) -> Iterable[str]:
        yield f"{bar.client}: {bar.label}"
        fate = _fate(bar, self.stuck)
        if fate == "placed":
            yield f"step {bar.place}, and then: {bar.state}"
        else:
            yield FATES[fate]
        if bar.place and not bar.known:
            yield "outcome unknown; this order assumes that it happened"
        yield self._when(bar)
        if bar.core:
            yield "belongs to the smallest set of calls that contradict each other"

    def _when(self, bar: Bar) -> str:
        if bar.open:
            return f"entry {bar.invoked}{self._moment(', ', bar.began)}, no answer"
        times = self._moment(", ", bar.began) + self._moment(" to ", bar.ended)
        return f"entries {bar.invoked} to {bar.returned}{times}"

    def _moment(self, before: str, ns: int) -> str:
        return "" if ns < 0 or ns == NEVER else f"{before}{ns / 1e9:,.{self.digits}f} s"

    def _ticks(self) -> Iterable[Span]:
        times = {bar.invoked: bar.began for bar in self.bars} | {bar.returned: bar.ended for bar in self.bars}
        every, bad = ceil(TICKS_APART / self.step), self.rank[self.stuck]
        for entry, rank in self.rank.items():
            near = self.stuck != NEVER and abs(rank - bad) * self.step < TICKS_APART
            if entry != NEVER and (rank == bad if near else rank % every == 0):
                yield Span(self.x(rank), TOP - 8, 0, str(entry), self._moment("", times[entry]))

    def _states(self, path: Sequence[CallView], y: float) -> Iterable[Span]:
        """Return the state between each two points, from the initial one to the place where no order is left."""
        end = self.last if self.stuck == NEVER else self.rank[self.stuck]
        edges = [0.0, *(call.mark for call in path), max(self.x(end), path[-1].mark if path else 0.0)]
        states = [("At the start", self.picture.initial)]
        states += [(f"After step {call.bar.place}", call.bar.state) for call in path]
        for (begin, until), (when, state) in zip(pairwise(edges), states, strict=True):
            yield Span(begin, y, until - begin, _cut(state, int((until - begin - 8) / LETTER)), f"{when}: {state}")


def _fate(bar: Bar, stuck: int) -> Fate:
    if bar.place:
        return "placed"
    if bar.stuck or (bar.known and bar.returned <= stuck):
        return "wrong"
    return "later" if bar.known else "unknown"


def _step(bars: Sequence[Bar], rank: dict[int, float], clients: Sequence[str]) -> float:
    """Return the width of an entry, px, within bounds: enough for four of five labels before the client's next bar."""
    needs = []
    for client in clients:
        own = [bar for bar in bars if bar.client == client]
        needs += [(_length(a.label) + 8) / (rank[b.invoked] - rank[a.invoked]) for a, b in pairwise(own)]
    need = sorted(needs)[len(needs) * 4 // 5] if needs else NARROW
    return min(WIDE, max(NARROW, need, FULL / max(1, len(rank))))


def _natural(client: str) -> tuple[str, int, str]:
    """Sort key by which ``c10`` comes after ``c9``."""
    head = client.rstrip("0123456789")
    return head, int(client[len(head) :] or -1), client


def _duration(bars: Sequence[Bar]) -> int:
    times = [bar.began for bar in bars if bar.began >= 0]
    return max(times) - min(times) if times else 0


def _length(text: str) -> float:
    return len(text) * LETTER


def _cut(text: str, letters: int) -> str:
    """Return ``text``, shortened to fit; empty if hardly any of it would be left."""
    if len(text) <= letters:
        return text
    return f"{text[: letters - 1].rstrip()}…" if letters > 3 else ""
