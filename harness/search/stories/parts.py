"""Collect what may have contributed to a violation: acts of clients, faults, and late messages; each may be a step."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final

import msgspec

from harness.checkers.base import Violation
from harness.faults.catalogue import build_fault, fault_of
from harness.faults.records import FaultRecord, Moment
from harness.history import Call, History, Op
from harness.plan import Delay, FaultSpec, Plan
from harness.run.verdicts.fault_records import fault_records
from harness.search.trials import Trial

from .drops import Dies, Drops, Ends, Rest, WithoutDelay, WithoutFault, brought_along
from .keys import Keys

DONE_AT_ONCE: Final = {"overlap", "oversold", "processed-twice", "freed-by-nested-release", "out-of-order"}
"""Kinds of violations that are complete as soon as they begin; the others are complete when they end."""
EFFECTS: Final = ("write", "cas", "take", "mark", "add")
"""Calls that change the protected resource."""
NEAR_NS: Final = 1_000_000
DYING: Final = 1.0
"""Seconds needed to confirm that a client has died."""


@dataclass(frozen=True, slots=True)
class Part:
    """A possible step at ``at`` (ns), over with the history entry ``index``; ``drop`` removes it from the plan."""

    at: int
    index: int
    drop: Drops


@dataclass(frozen=True, slots=True)
class CallPart(Part):
    """A call of a client, or a series of failed acquires."""

    client: str
    calls: tuple[Call, ...]
    vital: bool
    """True if the act is part of the checker's evidence."""

    @property
    def call(self) -> Call:
        return self.calls[0]

    @property
    def granted(self) -> bool:
        return self.call.invoke.f == "acquire" and self.call.outcome == "ok"

    @property
    def until(self) -> int:
        """Return when (ns) the last call returned, or began if it never returned."""
        last = self.calls[-1]
        return (last.done or last.invoke).time


@dataclass(frozen=True, slots=True)
class FaultPart(Part):
    """A fault: its last strike before the violation, and the number of strikes."""

    spec: FaultSpec
    record: FaultRecord
    times: int


@dataclass(frozen=True, slots=True)
class LateMessagePart(Part):
    """A delayed message."""

    delay: Delay


@dataclass(slots=True)
class StoryContext:
    """A trial with the violation that its story explains."""

    trial: Trial
    violation: Violation
    calls: list[Call] = field(init=False)
    keys: Keys = field(init=False)
    faults: list[FaultRecord] = field(init=False)

    def __post_init__(self) -> None:
        self.calls = self.history.calls()
        self.keys = Keys(self.trial.keys, self.violation.key)
        self.faults = fault_records(self.history)

    @property
    def history(self) -> History:
        return self.trial.history

    @property
    def moment(self) -> int:
        """Return when (ns) everything that the violation needs had happened."""
        at_once = self.violation.kind in DONE_AT_ONCE
        return self.violation.from_ns if at_once else max(self.violation.from_ns, self.violation.until_ns)

    def at(self, ns: int) -> str:
        """Return a time as seconds since the start of the run: ``0.205 s``."""
        return Moment(self.moment, self.history.origin).seconds(ns)

    def parts(self) -> list[Part]:
        """Return the possible steps: messages and faults, then acts that are not evidence, then those that are."""
        acts = self._acts()
        others = [act for act in acts if not act.vital]
        return [*self._late(), *self._strikes(), *others, *(act for act in acts if act.vital)]

    # Faults.

    def _strikes(self) -> Iterator[FaultPart]:
        plan = self.trial.plan
        for number, records in sorted(self._struck().items()):
            last = records[-1]
            index = bisect_left(self.history.time, last.injected_ns)
            entry = next(
                op.index
                for op in self.history[index:]
                if op.f == "inject" and op.value["id"] == last.id and op.time == last.injected_ns
            )
            yield FaultPart(_effect(last), entry, WithoutFault(number), plan.faults[number], last, len(records))

    def _struck(self) -> dict[int, list[FaultRecord]]:
        """Return the strikes of each of the plan's faults, by its number, before the violation."""
        struck: dict[int, list[FaultRecord]] = {}
        for record in self.faults:
            if _effect(record) <= self.moment:
                struck.setdefault(_spec_of(self.trial.plan, record, self.history.origin), []).append(record)
        return struck

    def _late(self) -> Iterator[LateMessagePart]:
        """Yield the delays. Their times are found later, by comparison with a history without the delay."""
        for number, delay in enumerate(self.trial.plan.delays):
            yield LateMessagePart(self.history.origin, 0, WithoutDelay(number), delay)

    # Acts.

    def _acts(self) -> list[CallPart]:
        vital = {call.invoke.index for call in self._evidence()}
        chosen = vital | {call.invoke.index for call in self._suspects()}
        acts: dict[int, CallPart] = {}
        for index in sorted(chosen):
            act = self._act(next(call for call in self.calls if call.invoke.index == index), index in vital)
            first = act.call.invoke.index
            acts[first] = act if first not in acts or act.vital else acts[first]
        return [acts[first] for first in sorted(acts)]

    def _evidence(self) -> Iterator[Call]:
        """Yield the calls that the checker names, and the acquires that protected them."""
        begun = {call.invoke.index: call for call in self.calls}
        for item in self.violation.involved:
            call = begun.get(item["indices"][0])
            if call is None:  # the exit of a process
                yield from self.section(self._last_before(item))[:1]
                continue
            if call.invoke.f == "acquire":
                yield call
                continue
            if call.invoke.f != "read" or self.violation.kind in ("stale-read", "stale-accepted"):
                yield call
            yield from self.section(call)[:1]

    def _last_before(self, item: dict[str, Any]) -> Call:
        mine = (one for one in reversed(self.calls) if client_of(one) == item["client"])
        return next(one for one in mine if one.invoke.index < item["indices"][0])

    def _suspects(self) -> Iterator[Call]:
        """Yield other calls that may matter.

        These are the last acquire of each client (and its last change of the resource, if that was harmed), calls with
        an unknown outcome, and calls that took another client's key away.
        """
        last: dict[str, Call] = {}
        harmed = self.violation.involved and self.violation.involved[0]["f"] not in ("hold", "exit")
        for call in self.calls:
            if call.invoke.time > self.moment:
                break
            if call.invoke.f == "acquire":
                last[client_of(call)] = call
            unsure = call.invoke.f in ("acquire", "release") and call.outcome == "info"
            if unsure or self.takes_key(call) or (harmed and call.invoke.f in EFFECTS and self._is_last(call)):
                yield call
        yield from last.values()

    def _is_last(self, call: Call) -> bool:
        """Return whether it is the client's last call of its kind before the violation."""
        same = [
            other
            for other in self.calls
            if client_of(other) == client_of(call)
            and other.invoke.f == call.invoke.f
            and other.invoke.time <= self.moment
        ]
        return same[-1] is call

    def takes_key(self, call: Call) -> bool:
        """Return whether the call took away another client's key before it expired."""
        if call.invoke.f not in ("acquire", "release"):
            return False
        client, until = client_of(call), (call.done or call.invoke).time
        return any(
            change.by == client and change.old is not None and change.old.client not in ("", client)
            and not change.expired
            for change in self.keys.changes
            if call.invoke.time <= change.time <= until
        )  # fmt: skip

    def section(self, call: Call) -> list[Call]:
        """Return the client's calls from its last grant before ``call`` up to that one; none without a grant."""
        mine = [one for one in self.calls if client_of(one) == client_of(call) and one.invoke.index < call.invoke.index]
        grants = [n for n, one in enumerate(mine) if one.invoke.f == "acquire" and one.outcome == "ok"]
        return mine[grants[-1] :] if grants else []

    def release_of(self, grant: Call) -> Call | None:
        """Return the client's first release after its grant."""
        return next(
            (
                call
                for call in self.calls
                if client_of(call) == client_of(grant)
                and call.invoke.index > grant.invoke.index
                and call.invoke.f == "release"
                and call.invoke.key == grant.invoke.key
            ),
            None,
        )

    def exit_after(self, grant: Call) -> Op | None:
        """Return the exit of the client's process, if the process ended before another call of the lock."""
        later = (op for op in self.history[grant.invoke.index + 1 :] if op.node == grant.invoke.node)
        first = next((op for op in later if op.f == "exit" or (op.f == "release" and op.type == "invoke")), None)
        return first if first is not None and first.f == "exit" and first.time <= self.moment else None

    def _act(self, call: Call, vital: bool) -> CallPart:
        calls = self._run(call) if call.invoke.f == "acquire" and call.outcome != "ok" else (call,)
        first = calls[0]
        silent = first.invoke.index if self.made_key(first) else len(self.history)
        last = silent if calls[-1].done is None else calls[-1].done.index
        at = first.done.time if first.done is not None and first.outcome == "ok" else first.invoke.time
        if first.outcome == "fail" and calls[-1].done is not None and calls[-1].done.time > self.violation.from_ns:
            at = max(at, self.violation.from_ns)  # it began earlier, but matters only now
        return CallPart(at, last, self._drop(first), client_of(first), calls, vital)

    def _run(self, call: Call) -> tuple[Call, ...]:
        """Return all acquires of the client with the same outcome and no grant in between, up to the violation."""
        mine = [
            one
            for one in self.calls
            if one.invoke.f == "acquire"
            and client_of(one) == client_of(call)
            and one.invoke.key == call.invoke.key
            and one.invoke.time <= self.moment
        ]
        for _, group in groupby(mine, key=self._kind_of):
            run = tuple(group)
            if any(one.invoke.index == call.invoke.index for one in run):
                return run
        return (call,)

    def _kind_of(self, call: Call) -> str:
        """Return the group of an acquire by its outcome. One that made a key without a reply is a group of its own."""
        made = call.outcome == "info" and self.made_key(call)
        return f"{call.outcome} {call.invoke.index if made else ''}"

    def made_key(self, call: Call) -> list[str]:
        """Return the servers on which the client became the owner during this acquire."""
        until = self.moment if call.done is None else call.done.time
        return sorted({
            change.host
            for change in self.keys.changes
            if change.new is not None and change.new.client == client_of(call)
            and call.invoke.time <= change.time <= until
        })  # fmt: skip

    def _drop(self, call: Call) -> Drops:
        """Return how to remove a call: end a client that holds nothing before its request; kill a client that holds a
        lock."""
        client, f = client_of(call), call.invoke.f
        mine = [one for one in self.calls if client_of(one) == client and one.invoke.index < call.invoke.index]
        before = [one for one in mine if one.invoke.f == f]
        if f == "acquire" and not self._holding(mine) and not self._restarted(client, call.invoke.index):
            return Ends(client, len(before))
        plan = self.trial.plan
        quiet = plan.time_limit - plan.settle_time
        at = (call.invoke.time - self.history.origin) / 1e9
        return Dies(client, f, len(before) + 1, max(0.0, at + DYING - quiet))

    def rest(self) -> Rest | None:
        """Return the removal of the acquires and faults after the violation; None if there are none."""
        plan = self.trial.plan
        acquires = [call for call in self.calls if call.invoke.f == "acquire"]
        acquire_counts = Counter(client_of(call) for call in acquires)
        needed = Counter(client_of(call) for call in acquires if call.invoke.time <= self.moment)
        after = {client: needed[client] for client in sorted(acquire_counts) if needed[client] < acquire_counts[client]}
        if self.history.nemesis("crash") or all(plan.ends.get(client) == count for client, count in after.items()):
            after = {}  # calls of a client that died are counted anew, and a nested hold has no end of its own
        struck = self._struck()
        spare = brought_along(plan)
        late = tuple(n for n, spec in enumerate(plan.faults) if n not in struck and spec.fault not in spare)
        return Rest(after, late) if after or late else None

    def nested(self, grant: Call) -> bool:
        """Return whether the client already held the lock."""
        client, index = client_of(grant), grant.invoke.index
        born = max((op.index for op in self._deaths(client, index)), default=0)
        return self._holding(
            [one for one in self.calls if client_of(one) == client and born <= one.invoke.index < index]
        )

    def _holding(self, calls: list[Call]) -> bool:
        granted = [one for one in calls if one.invoke.f == "acquire" and one.outcome == "ok"]
        return len(granted) > sum(one.invoke.f == "release" for one in calls)

    def _restarted(self, client: str, index: int) -> bool:
        """Return whether the client died earlier, so that its calls are counted anew."""
        return bool(self._deaths(client, index))

    def _deaths(self, client: str, index: int) -> list[Op]:
        """Return the entries before ``index`` at which the client's process died or began to end."""
        deaths = self.history.nemesis("crash", "exit")
        return [op for op in deaths if op.value.get("host") == client and op.index < index]


def client_of(call: Call) -> str:
    """Return the name of the host that made the call."""
    return call.invoke.node or f"process {call.invoke.process}"


def _effect(record: FaultRecord) -> int:
    return fault_of(record).effect_ns(record)


def _spec_of(plan: Plan, record: FaultRecord, origin: int) -> int:
    """Return the number of the plan's fault with this name and parameters; of several, the one due at that time."""
    alike = [
        number
        for number, spec in enumerate(plan.faults)
        if spec.fault == record.fault and msgspec.to_builtins(build_fault(spec)) == record.params
    ]
    timed = [
        number
        for number in alike
        if (at := plan.faults[number].at) is not None and abs(origin + int(at * 1e9) - record.injected_ns) < NEAR_NS
    ]
    return (timed or [n for n in alike if plan.faults[n].at is None] or alike)[0]
