"""What may have part in a violation: acts of clients, faults, messages that came late. Each may be a step."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

import msgspec

from checkers.base import Violation

from ..fault_specs import build_fault
from ..history import Call, History
from ..plan import Delay, FaultSpec, Plan
from ..story import FaultRecord, fault_records
from .stories_drops import Dies, Drops, Ends, Rest, WithoutDelay, WithoutFault, brought_along
from .stories_keys import Keys
from .trials import Trial

DONE_AT_ONCE: Final = {"overlap", "oversold", "processed-twice", "freed-by-nested-release", "out-of-order"}
"""Kinds of violations that are there as soon as they begin; the others when they end."""
EFFECTS: Final = ("write", "cas", "take", "mark", "add")
"""What clients do to what the lock protects."""
NEAR_NS: Final = 1_000_000
DYING: Final = 1.0
"""Seconds that there must be to see that a client has died."""


@dataclass(frozen=True, slots=True)
class Part:
    """``at`` in ns, ``index`` the entry of the history with which it was over, ``drop`` what leaving it out means."""

    at: int
    index: int
    drop: Drops


@dataclass(frozen=True, slots=True)
class Act(Part):
    """A client's call, or its asking in vain, again and again."""

    client: str
    calls: tuple[Call, ...]
    vital: bool
    """Is it part of the checker's evidence?"""

    @property
    def call(self) -> Call:
        return self.calls[0]

    @property
    def granted(self) -> bool:
        return self.call.invoke.f == "acquire" and self.call.outcome == "ok"

    @property
    def until(self) -> int:
        """When the (last) call came back, or the last sign of it, ns."""
        last = self.calls[-1]
        return (last.done or last.invoke).time


@dataclass(frozen=True, slots=True)
class Strike(Part):
    """A fault: what it did the last time that it struck before the violation, and how often it did."""

    spec: FaultSpec
    record: FaultRecord
    times: int


@dataclass(frozen=True, slots=True)
class Late(Part):
    """A message that took longer than others."""

    delay: Delay


@dataclass(slots=True)
class Scene:
    """A trial, and what there is to say of the violation that is told of."""

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
        """When all that the violation needs had happened, ns."""
        at_once = self.violation.kind in DONE_AT_ONCE
        return self.violation.from_ns if at_once else max(self.violation.from_ns, self.violation.until_ns)

    def parts(self) -> list[Part]:
        """What may be a step: messages and faults first, then acts that are no evidence, then those that are."""
        acts = self._acts()
        others = [act for act in acts if not act.vital]
        return [*self._late(), *self._strikes(), *others, *(act for act in acts if act.vital)]

    # Faults.

    def _strikes(self) -> Iterator[Strike]:
        plan = self.trial.plan
        for number, records in sorted(self._struck().items()):
            last = records[-1]
            index = bisect_left(self.history.time, last.injected_ns)
            entry = next(
                op.index
                for op in self.history[index:]
                if op.f == "inject" and op.value["id"] == last.id and op.time == last.injected_ns
            )
            yield Strike(last.injected_ns, entry, WithoutFault(number), plan.faults[number], last, len(records))

    def _struck(self) -> dict[int, list[FaultRecord]]:
        """What each of the plan's faults, by its number, did before the violation, if anything."""
        struck: dict[int, list[FaultRecord]] = {}
        for record in self.faults:
            if record.injected_ns <= self.moment:
                struck.setdefault(_spec_of(self.trial.plan, record, self.history.origin), []).append(record)
        return struck

    def _late(self) -> Iterator[Late]:
        """When they came is not in a history: whoever leaves them out sees it."""
        for number, delay in enumerate(self.trial.plan.delays):
            yield Late(self.history.origin, 0, WithoutDelay(number), delay)

    # Acts.

    def _acts(self) -> list[Act]:
        vital = {call.invoke.index for call in self._evidence()}
        chosen = vital | {call.invoke.index for call in self._suspects()}
        acts: dict[int, Act] = {}
        for index in sorted(chosen):
            act = self._act(next(call for call in self.calls if call.invoke.index == index), index in vital)
            first = act.call.invoke.index
            acts[first] = act if first not in acts or act.vital else acts[first]
        return [acts[first] for first in sorted(acts)]

    def _evidence(self) -> Iterator[Call]:
        """The calls that the checker names, and the acquires under whose protection they were made."""
        begun = {call.invoke.index: call for call in self.calls}
        for item in self.violation.involved:
            call = begun[item["indices"][0]]
            if call.invoke.f == "acquire":
                yield call
                continue
            if call.invoke.f != "read" or self.violation.kind in ("stale-read", "stale-accepted"):
                yield call
            yield from self.section(call)[:1]

    def _suspects(self) -> Iterator[Call]:
        """What else may have mattered: the last acquire of each client (and, where the resource came to harm, what it
        did to it), calls with an unknown outcome, and calls that took somebody else's key away."""
        last: dict[str, Call] = {}
        harmed = self.violation.involved and self.violation.involved[0]["f"] != "hold"
        for call in self.calls:
            if call.invoke.time > self.moment:
                break
            if call.invoke.f == "acquire":
                last[client_of(call)] = call
            unsure = call.invoke.f in ("acquire", "release") and call.outcome == "info"
            if unsure or self.robs(call) or (harmed and call.invoke.f in EFFECTS and self._is_last(call)):
                yield call
        yield from last.values()

    def _is_last(self, call: Call) -> bool:
        """Is it the last of its kind that the client did before the violation?"""
        same = [
            other
            for other in self.calls
            if client_of(other) == client_of(call)
            and other.invoke.f == call.invoke.f
            and other.invoke.time <= self.moment
        ]
        return same[-1] is call

    def robs(self, call: Call) -> bool:
        """Did it take away a key that another client had, and whose time was not over?"""
        if call.invoke.f not in ("acquire", "release"):
            return False
        client, until = client_of(call), (call.done or call.invoke).time
        return any(
            change.by == client and change.old is not None and change.old.client not in ("", client)
            and not change.ran_out
            for change in self.keys.changes
            if call.invoke.time <= change.time <= until
        )  # fmt: skip

    def section(self, call: Call) -> list[Call]:
        """The calls of the client from its last grant before ``call`` up to that one; none without a grant."""
        mine = [one for one in self.calls if client_of(one) == client_of(call) and one.invoke.index < call.invoke.index]
        grants = [n for n, one in enumerate(mine) if one.invoke.f == "acquire" and one.outcome == "ok"]
        return mine[grants[-1] :] if grants else []

    def release_of(self, grant: Call) -> Call | None:
        """The first release of the client after its grant."""
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

    def _act(self, call: Call, vital: bool) -> Act:
        calls = self._run(call) if call.invoke.f == "acquire" and call.outcome != "ok" else (call,)
        first = calls[0]
        silent = first.invoke.index if self.made_key(first) else len(self.history)
        last = silent if calls[-1].done is None else calls[-1].done.index
        at = first.done.time if first.done is not None and first.outcome == "ok" else first.invoke.time
        if first.outcome == "fail" and calls[-1].done is not None and calls[-1].done.time > self.violation.from_ns:
            at = max(at, self.violation.from_ns)  # it had begun before, but it is in vain only now
        return Act(at, last, self._drop(first), client_of(first), calls, vital)

    def _run(self, call: Call) -> tuple[Call, ...]:
        """All acquires of the client that ended as this one did, with no grant in between, up to the violation."""
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
        """What came of an acquire; each that made a key and did not hear of it is one of its own."""
        made = call.outcome == "info" and self.made_key(call)
        return f"{call.outcome} {call.invoke.index if made else ''}"

    def made_key(self, call: Call) -> list[str]:
        """The servers on which the key became the client's while it asked."""
        until = self.moment if call.done is None else call.done.time
        return sorted({
            change.host
            for change in self.keys.changes
            if change.new is not None and change.new.client == client_of(call)
            and call.invoke.time <= change.time <= until
        })  # fmt: skip

    def _drop(self, call: Call) -> Drops:
        """A client that holds nothing ends in good order before it asks; in the middle of its work it dies."""
        client, f = client_of(call), call.invoke.f
        mine = [one for one in self.calls if client_of(one) == client and one.invoke.index < call.invoke.index]
        before = [one for one in mine if one.invoke.f == f]
        if f == "acquire" and not self._holding(mine) and not self._reborn(client, call.invoke.index):
            return Ends(client, len(before))
        plan = self.trial.plan
        quiet = plan.time_limit - plan.settle_time
        at = (call.invoke.time - self.history.origin) / 1e9
        return Dies(client, f, len(before) + 1, max(0.0, at + DYING - quiet))

    def rest(self) -> Rest | None:
        """What comes after the violation: acquires, and faults that had not struck before. None if nothing does."""
        plan = self.trial.plan
        acquires = [call for call in self.calls if call.invoke.f == "acquire"]
        asked = Counter(client_of(call) for call in acquires)
        needed = Counter(client_of(call) for call in acquires if call.invoke.time <= self.moment)
        after = {client: needed[client] for client in sorted(asked) if needed[client] < asked[client]}
        if self.history.nemesis("crash") or all(plan.ends.get(client) == count for client, count in after.items()):
            after = {}  # one that dies counts anew, and what is nested has no end of its own
        struck = self._struck()
        spare = brought_along(plan)
        late = tuple(n for n, spec in enumerate(plan.faults) if n not in struck and spec.fault not in spare)
        return Rest(after, late) if after or late else None

    def nested(self, grant: Call) -> bool:
        """Did the client hold the lock already?"""
        client, index = client_of(grant), grant.invoke.index
        return self._holding([one for one in self.calls if client_of(one) == client and one.invoke.index < index])

    def _holding(self, calls: list[Call]) -> bool:
        granted = [one for one in calls if one.invoke.f == "acquire" and one.outcome == "ok"]
        return len(granted) > sum(one.invoke.f == "release" for one in calls)

    def _reborn(self, client: str, index: int) -> bool:
        """Did the client die before, so that it counts anew?"""
        return any(op.value.get("host") == client and op.index < index for op in self.history.nemesis("crash"))


def client_of(call: Call) -> str:
    """The name of the host on which it was made."""
    return call.invoke.node or f"process {call.invoke.process}"


def _spec_of(plan: Plan, record: FaultRecord, origin: int) -> int:
    """Which of the plan's faults it was: one of that name and those parameters; of several the one whose time it is."""
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
