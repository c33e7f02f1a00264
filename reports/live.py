"""View data of a run in progress, from its growing history; there are no results yet.

The history is read as it grows, and only its latest part is kept: see :class:`harness.history.tail.Tail`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO, Final

import msgspec
import numpy as np

from harness.checkers.run_watch import RunWatch
from harness.documents import DocumentError
from harness.documents.run import RunStats
from harness.history import SECOND, History, Op
from harness.history.ongoing import Ongoing, OngoingFault
from harness.history.tail import Tail

from . import timeline, words
from .columns import NONE, Column, compress
from .model import FaultView, RunView

WINDOW_S: Final = 60
"""Seconds of the run that the timeline shows."""
ROLLING_S: Final = 10
"""Seconds over which rates and latencies are computed."""
KEYS_SHOWN: Final = 12
AT_ONCE: Final = 8 << 20
"""Bytes of a history that are read at a time; a page opened late in a long run shows the reading progress."""
_DAMAGED: Final = (msgspec.MsgspecError, KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True)
class Key:
    """A requested key: its current holders (none, one, or too many), each with the start of its hold.

    The start is in seconds after the run began. ``shared``: all of them share the key.
    """

    key: str
    holders: tuple[tuple[str, float], ...]
    shared: bool = False


@dataclass(frozen=True, slots=True)
class UnhealedFault:
    """A fault that has not been healed.

    ``since`` is in seconds after the run began; ``seen`` is None as long as its effect was not checked.
    """

    fault: str
    hosts: tuple[str, ...]
    since: float
    seen: bool | None
    observed: str


@dataclass(frozen=True, slots=True)
class LiveViolation:
    """The first violation of mutual exclusion of a run in progress; ``since`` is in seconds after the run began."""

    sentence: str
    since: float


@dataclass(frozen=True, slots=True)
class LiveState:
    """The present state of a run.

    Times are seconds after it began, and rates are per second over the last :data:`ROLLING_S`. The quantiles are the
    latencies of granted acquires in that time (s; None: there were none).
    """

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
    """Number of keys that are not in ``keys``."""
    faults: tuple[UnhealedFault, ...]
    violation: LiveViolation | None
    watched: bool
    """False if mutual exclusion is judged at the end of the run only."""
    cut: bool
    """True if the timeline shows only the last :data:`WINDOW_S`."""
    trouble: str
    """Reason why the rest of the history cannot be read; empty if it can be read."""


class GrowingHistory:
    """A history that is read as it grows. Not thread-safe.

    ``in_order`` says whether the entries of all clients come in the order of time, as those of the simulator do.
    """

    def __init__(self, *, in_order: bool = False) -> None:
        self._in_order = in_order
        self.read = 0
        """Bytes of whole lines that have been read."""
        self._decoder = msgspec.json.Decoder(Op)
        self._begin()

    def _begin(self) -> None:
        self.read = 0
        self.ongoing = Ongoing()
        self.trouble = ""
        tail = self._tail = Tail(WINDOW_S * SECOND)
        self._watch = RunWatch(lambda: tail.history()[0], in_order=self._in_order)
        self._invocations: dict[int, int] = {}
        self._keys: set[str] = set()
        self._calls: deque[int] = deque()
        self._granted: deque[tuple[int, int]] = deque()

    def take(self, file: BinaryIO) -> bool:
        """Read on up to the last whole line; return whether there was anything new.

        A file that has become shorter is another file: it is read from its beginning.
        """
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
        self._watch.add(op)
        if op.process < 0:
            return
        if op.f == "acquire" and op.key is not None:
            self._keys.add(op.key)
        if op.type == "invoke":
            self._invocations[op.process] = op.time
            return
        requested_ns = self._invocations.pop(op.process, op.time)
        self._calls.append(op.time)
        if op.f == "acquire" and op.type == "ok":
            self._granted.append((op.time, op.time - requested_ns))
        self._forget(self.ongoing.now - ROLLING_S * SECOND)

    def _forget(self, before: int) -> None:
        while self._calls and self._calls[0] < before:
            self._calls.popleft()
        while self._granted and self._granted[0][0] < before:
            self._granted.popleft()

    def moment(self) -> LiveState:
        """Return the current state of the run."""
        now, origin = self.ongoing.now, self.ongoing.origin
        took = [latency for _, latency in self._granted]
        seconds = min(ROLLING_S, (now - origin) / SECOND)
        return LiveState(
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
            violation=self._violation(),
            watched=not self._watch.gave_up,
            cut=self._tail.cut,
            trouble=self.trouble,
        )

    def _violation(self) -> LiveViolation | None:
        found = self._watch.violation
        if found is None:
            return None
        return LiveViolation(found.sentence, (found.from_ns - self.ongoing.origin) / SECOND)

    def _held(self) -> Iterator[Key]:
        holders, since = self.ongoing.holders(), self.ongoing.held_since
        for key in sorted(self._keys)[:KEYS_SHOWN]:
            holders_of_key = holders.get(key, ())
            holders_since = tuple(
                (client, (since(key, client) - self.ongoing.origin) / SECOND) for client in holders_of_key
            )
            yield Key(
                key,
                holders_since,
                bool(holders_of_key) and all(self.ongoing.shared(key, client) for client in holders_of_key),
            )

    def timeline(self) -> str | None:
        """Return the last seconds as compressed data for the page's ``readRun``; times count from the beginning of the
        run. None if there is nothing to draw."""
        if not self.ongoing.settings or self.trouble:
            return None
        history, numbers = self._tail.history()
        try:
            data = timeline.build(_view(history, self.ongoing))
        except (DocumentError, *_DAMAGED) as error:
            self.trouble = f"the history cannot be drawn: {error}"
            return None
        if self._tail.cut:
            _renumber(data, np.array(numbers, dtype=np.int64))
        if not self.ongoing.ended:  # a call that has not returned may still return: its outcome is not unknown
            calls = data["calls"]
            calls["outcome"] = np.where(calls["done"] == NONE, timeline.OUTCOMES["ok"], calls["outcome"])
        return compress(data | {"live": not self.ongoing.ended})


def _quantile(values: list[int], share: float) -> float | None:
    """Return a quantile in seconds."""
    return float(np.quantile(values, share)) / SECOND if values else None


def _in_force(force: OngoingFault, origin: int) -> UnhealedFault:
    observed = force.error or words.observed(force.observed)
    return UnhealedFault(force.fault, force.hosts, (force.since - origin) / SECOND, force.seen, observed)


def _renumber(data: timeline.Data, numbers: Column) -> None:
    """Give the entries their numbers in the file."""
    calls, holds = data["calls"], data["holds"]
    invoked, acquired = calls["invoked"].cumsum(), holds["acquired"].cumsum()
    done = np.where(calls["done"] == NONE, 0, calls["done"])
    calls["done"] = np.where(calls["done"] == NONE, NONE, numbers[invoked + done] - numbers[invoked])
    calls["invoked"] = np.diff(numbers[invoked], prepend=0)
    holds["acquired"] = np.diff(numbers[acquired], prepend=0)


def _view(history: History, ongoing: Ongoing) -> RunView:
    """Return the part of a run's view that a timeline shows; verdict and server states do not exist yet."""
    settings = ongoing.settings
    return RunView(
        judgement="unknown",
        verdict="",
        summary="",
        unknown_because=(),
        interrupted="",
        lock="",
        title="",
        what_runs="",
        safety="",
        seed="",
        started_at="",
        command="",
        replay="",
        backend="",
        cluster=(),
        frozen=None,
        servers=tuple(str(host) for host in settings.get("servers") or ()),
        clients=tuple(str(host) for host in settings.get("clients") or ()),
        plan=(),
        plan_toml="",
        checkers=(),
        faults=tuple(_faults(history)),
        fencing_note="",
        stats=RunStats(),
        versions=(),
        logs=(),
        history=history,
        keys=(),
    )


def _faults(history: History) -> Iterable[FaultView]:
    """Yield the faults that have struck so far."""
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
