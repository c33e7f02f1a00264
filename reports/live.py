"""A run in progress as typed view data, from a history that still grows; there are no results yet.

It is read as it grows, and only what was recorded last is kept: see :class:`harness.history.tail.Tail`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO, Final

import msgspec
import numpy as np

from harness.history import SECOND, History, Op
from harness.history.ongoing import Force, Ongoing
from harness.history.tail import Tail
from reports import timeline, words
from reports.columns import NONE, Column
from reports.document import Node, ReportError
from reports.model import FaultView, RunView

WINDOW_S: Final = 60
"""Seconds of the run that the timeline has."""
ROLLING_S: Final = 10
"""Seconds over which rates and latencies are taken."""
KEYS_SHOWN: Final = 12
AT_ONCE: Final = 8 << 20
"""Bytes that are read of a history at a time; whoever comes late to a long run sees it catch up."""
_DAMAGED: Final = (msgspec.MsgspecError, KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True)
class Key:
    """A key that has been asked for: its holders at this moment (none, one, or too many), each with the time since
    when, in seconds after the run began. ``shared``: each of them holds it together with the others."""

    key: str
    holders: tuple[tuple[str, float], ...]
    shared: bool = False


@dataclass(frozen=True, slots=True)
class InForce:
    """A fault that has not been healed; ``since`` is in seconds after the run began, ``seen`` None while nobody has
    looked."""

    fault: str
    hosts: tuple[str, ...]
    since: float
    seen: bool | None
    observed: str


@dataclass(frozen=True, slots=True)
class Moment:
    """A run at this moment. Times are seconds after it began, rates are per second over the last :data:`ROLLING_S`,
    the quantiles are how long acquires of that time took that were granted (s; None: there were none)."""

    elapsed: float
    granted: int
    refused: int
    unknown: int
    calls: int
    calls_per_second: float
    p50: float | None
    p99: float | None
    keys: tuple[Key, ...]
    more_keys: int
    """How many are not among ``keys``."""
    faults: tuple[InForce, ...]
    cut: bool
    """Are there only the last :data:`WINDOW_S` on the timeline?"""
    trouble: str
    """Why no more of the history can be understood; empty if it can."""


class Live:
    """A history that is read as it grows. Not for several threads at a time."""

    def __init__(self) -> None:
        self.read = 0
        """Bytes of whole lines that have been read."""
        self._decoder = msgspec.json.Decoder(Op)
        self._begin()

    def _begin(self) -> None:
        self.read = 0
        self.ongoing = Ongoing()
        self.trouble = ""
        self._tail = Tail(WINDOW_S * SECOND)
        self._asked: dict[int, int] = {}
        self._keys: set[str] = set()
        self._calls: deque[int] = deque()
        self._granted: deque[tuple[int, int]] = deque()

    def take(self, file: BinaryIO) -> bool:
        """Read on, so far as whole lines go; whether there was anything new. A file that has become shorter is another
        one: it is read from its beginning."""
        size = file.seek(0, 2)
        if size < self.read:
            self._begin()
        file.seek(self.read)
        text = file.read(AT_ONCE)
        whole = text.rfind(b"\n") + 1
        if not whole and len(text) == AT_ONCE:
            self.trouble = f"after {self.ongoing.calls:,} calls there is a line of more than {AT_ONCE:,} bytes"
        text = text[:whole]
        if not text or self.trouble:
            return False
        self.read += len(text)
        try:
            for line in text.splitlines():
                self._add(self._decoder.decode(line))
        except _DAMAGED as error:
            self.trouble = f"the history cannot be understood from {self.ongoing.calls:,} calls on: {error}"
        return True

    def _add(self, op: Op) -> None:
        self.ongoing.add(op)
        self._tail.add(op)
        if op.process < 0:
            return
        if op.f == "acquire" and op.key is not None:
            self._keys.add(op.key)
        if op.type == "invoke":
            self._asked[op.process] = op.time
            return
        asked = self._asked.pop(op.process, op.time)
        self._calls.append(op.time)
        if op.f == "acquire" and op.type == "ok":
            self._granted.append((op.time, op.time - asked))
        self._forget(self.ongoing.now - ROLLING_S * SECOND)

    def _forget(self, before: int) -> None:
        while self._calls and self._calls[0] < before:
            self._calls.popleft()
        while self._granted and self._granted[0][0] < before:
            self._granted.popleft()

    def moment(self) -> Moment:
        """What there is to be said of the run by now."""
        now, origin = self.ongoing.now, self.ongoing.origin
        took = [latency for _, latency in self._granted]
        seconds = min(ROLLING_S, (now - origin) / SECOND)
        return Moment(
            elapsed=(now - origin) / SECOND,
            granted=self.ongoing.granted,
            refused=self.ongoing.refused,
            unknown=self.ongoing.unknown,
            calls=self.ongoing.calls,
            calls_per_second=len(self._calls) / seconds if seconds else 0.0,
            p50=_quantile(took, 0.5),
            p99=_quantile(took, 0.99),
            keys=tuple(self._held()),
            more_keys=max(0, len(self._keys) - KEYS_SHOWN),
            faults=tuple(_in_force(force, origin) for force in self.ongoing.forces.values()),
            cut=self._tail.cut,
            trouble=self.trouble,
        )

    def _held(self) -> Iterator[Key]:
        holders, since = self.ongoing.holders(), self.ongoing.held_since
        for key in sorted(self._keys)[:KEYS_SHOWN]:
            its = holders.get(key, ())
            told = tuple((client, (since(key, client) - self.ongoing.origin) / SECOND) for client in its)
            yield Key(key, told, bool(its) and all(self.ongoing.shared(key, client) for client in its))

    def timeline(self) -> str:
        """The last seconds as the page's ``showRun`` takes them, JSON; times count from the beginning of the run.
        ``null`` if there is nothing to draw."""
        if not self.ongoing.settings or self.trouble:
            return "null"
        history, numbers = self._tail.history()
        try:
            data = timeline.build(_view(history, self.ongoing))
        except (ReportError, *_DAMAGED) as error:
            self.trouble = f"the history cannot be drawn: {error}"
            return "null"
        if self._tail.cut:
            _renumber(data, np.array(numbers, dtype=np.int64))
        if not self.ongoing.ended:  # what has not returned may still do so: it is no call of unknown outcome
            calls = data["calls"]
            calls["outcome"] = np.where(calls["done"] == NONE, timeline.OUTCOMES["ok"], calls["outcome"])
        return timeline.encode(data | {"live": not self.ongoing.ended})


def _quantile(values: list[int], share: float) -> float | None:
    """In seconds."""
    return float(np.quantile(values, share)) / SECOND if values else None


def _in_force(force: Force, origin: int) -> InForce:
    observed = force.error or words.observed(force.observed)
    return InForce(force.fault, force.hosts, (force.since - origin) / SECOND, force.seen, observed)


def _renumber(data: timeline.Data, numbers: Column) -> None:
    """Give entries the numbers that they have in the file."""
    calls, holds = data["calls"], data["holds"]
    invoked, acquired = calls["invoked"].cumsum(), holds["acquired"].cumsum()
    done = np.where(calls["done"] == NONE, 0, calls["done"])
    calls["done"] = np.where(calls["done"] == NONE, NONE, numbers[invoked + done] - numbers[invoked])
    calls["invoked"] = np.diff(numbers[invoked], prepend=0)
    holds["acquired"] = np.diff(numbers[acquired], prepend=0)


def _view(history: History, ongoing: Ongoing) -> RunView:
    """As much of a run's view as a timeline shows; there is no verdict, and nobody has said what servers have."""
    settings = Node(ongoing.settings, "history.jsonl")
    return RunView(
        judgement="unknown",
        verdict="",
        summary="",
        unknown_because=(),
        interrupted="",
        lock="",
        title="",
        safety="",
        seed="",
        started_at="",
        command="",
        replay="",
        backend="",
        cluster=(),
        servers=settings.texts("servers"),
        clients=settings.texts("clients"),
        plan=(),
        plan_toml="",
        checkers=(),
        faults=tuple(_faults(history)),
        fencing_note="",
        stats=Node({}, ""),
        versions=(),
        logs=(),
        history=history,
        keys=(),
    )


def _faults(history: History) -> Iterable[FaultView]:
    """The faults that have struck, as far as the history goes."""
    found: dict[int, FaultView] = {}
    for op in history.nemesis("inject", "heal"):
        number = op.value["id"]
        if op.f == "inject" and op.type == "invoke":
            found[number] = _struck(op)
        elif op.f == "inject" and number in found:
            observed, error = words.observed(op.value["observed"]), op.error or ""
            found[number] = replace(found[number], seen=op.type == "ok", observed=observed, error=error)
        elif op.f == "heal" and op.type == "ok" and number in found:
            found[number] = replace(found[number], healed=op.time)
    return found.values()


def _struck(op: Op) -> FaultView:
    hosts = tuple(op.value["hosts"])
    return FaultView(str(op.value["id"]), op.value["fault"], hosts, (), op.time, None, None, "", "")
