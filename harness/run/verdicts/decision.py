"""Decision of a run: the state of each property, which of them are required, and the verdict that follows.

Every part of the harness that says whether a run was safe decides it here: runs, hunts, studies and reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from harness.checkers.base import Verdict, Violation
from harness.checkers.holds import holds
from harness.documents.lock import LockFacts
from harness.documents.run import PropertyState, RunWord
from harness.faults.base import Fault
from harness.faults.catalogue import FAULTS, fault_of
from harness.faults.records import FaultRecord
from harness.history import History
from harness.lock_impls.base import Limit
from harness.plan import Plan
from harness.wording import counted

FENCED: Final = frozenset({"mutual-exclusion", "ownership", "linearizability"})
"""Properties of the lock alone. If the resource refuses every late access by its token, breaking them does no harm."""
AFTER_OVERLAP: Final = frozenset({"resource", "fencing"})
"""Properties of the resource: where two clients hold the lock for a documented reason, they break for that reason."""
ALWAYS: Final = frozenset({"faults", "exposure"})
"""Properties that are always required: a run whose faults did not take effect, or struck while no client held what
another one wanted, has not tested what the plan says."""


@dataclass(frozen=True, slots=True)
class Property:
    """Result of a run for one property, named as its checker.

    ``required``: the verdict depends on it. ``limits``: the documented limits of the lock that explain every violation,
    if the state is ``known-limit``. ``violation``: the one to tell, which is the first that no documented limit
    explains, or else the first; None if the property is not broken, or the checker names none.
    """

    state: PropertyState
    required: bool
    limits: tuple[Limit, ...] = ()
    violation: Violation | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What a run shows about a lock.

    ``fenced``: the lock was broken at the lock's own level only, and the resource refused every late access by its
    token. ``accepts_limits``: known limits do not make the run a violation.
    """

    properties: dict[str, Property]
    fenced: bool = False
    accepts_limits: bool = False

    @property
    def decisive(self) -> tuple[str, ...]:
        """Return the properties that make the run a violation, in the order of the checkers."""
        wrong = {"broken"} if self.accepts_limits else {"broken", "known-limit"}
        return tuple(name for name, it in self.properties.items() if it.required and it.state in wrong)

    @property
    def untested(self) -> tuple[str, ...]:
        """Return the required properties that were not tested."""
        return tuple(name for name, it in self.properties.items() if it.required and it.state == "not-tested")

    @property
    def limits(self) -> tuple[str, ...]:
        """Return the properties that are broken within documented limits of the lock."""
        return self.named("known-limit")

    @property
    def valid(self) -> bool | None:
        """Return False for a violation of a required property, None if one was not tested or none was kept."""
        if self.decisive:
            return False
        if self.untested:
            return None
        kept = any(it.required and it.state == "kept" for name, it in self.properties.items() if name not in ALWAYS)
        return True if kept or self.limits or self.fenced else None

    @property
    def word(self) -> RunWord:
        """Return the verdict in words."""
        if self.valid is not True:
            return "unknown" if self.valid is None else "violation found"
        if self.fenced:
            return "safe with fencing"
        accepted = any(self.properties[name].required for name in self.limits)
        return "valid except for known limits" if accepted else "valid"

    def named(self, state: PropertyState) -> tuple[str, ...]:
        """Return the properties in this state."""
        return tuple(name for name, it in self.properties.items() if it.state == state)


def with_promised_tokens(
    plan: Plan, lock: LockFacts, verdicts: Mapping[str, Verdict], history: History
) -> dict[str, Verdict]:
    """Return the verdicts, with that of ``fencing`` for a lock that issued no token although it was to: broken if the
    lock promises tokens, unknown if only the resource checks them."""
    found = dict(verdicts)
    fencing = found.get("fencing")
    if fencing is None or fencing.applies or fencing.valid is False or not verdicts["mutual-exclusion"].applies:
        return found
    granted = holds(history)
    if lock.fence and granted:
        why = (
            f"{lock.name} promises a fencing token with each grant, and none of its {counted(len(granted), 'grant')} "
            "had one"
        )
        first = granted[0]
        evidence = Violation(
            "no-token", first.key, why, first.start_ns, first.end_ns, (first.to_json(),), "service", harm=why
        )
        found["fencing"] = replace(fencing, valid=False, explanation=why, evidence=(evidence,), applies=True)
    elif plan.fencing != "off":
        why = "the resource was to check fencing tokens, and the lock issued none"
        found["fencing"] = replace(fencing, valid=None, explanation=why, applies=True)
    return found


def decide(
    plan: Plan, lock: LockFacts, verdicts: Mapping[str, Verdict], faults: Iterable[FaultRecord] = ()
) -> Decision:
    """Return the decision on a run, from the verdicts by checkers' names.

    Required are the plan's ``require``, or by default all properties, except those of the lock alone where the resource
    checks its tokens. ``faults`` are the injected faults of the history, which show whether a documented limit explains
    a violation.
    """
    limits = _Limits(lock, tuple(faults))
    found: dict[str, tuple[PropertyState, tuple[Limit, ...]]] = {}
    for name, verdict in verdicts.items():
        found[name] = _state(verdict), ()
        if verdict.valid is False and (explained := limits.of(name, verdict, verdicts)):
            found[name] = "known-limit", explained
    checked = plan.fencing != "off" and _issues_tokens(lock, verdicts)
    properties = {
        name: Property(
            _asked(plan, name, state),
            _required(plan, name, checked=checked),
            explained,
            limits.worst(name, verdicts) if verdicts[name].valid is False else None,
        )
        for name, (state, explained) in found.items()
    }
    fenced = checked and _fenced(verdicts)
    return Decision(properties, fenced, "known-limits" in plan.accept)


def _state(verdict: Verdict) -> PropertyState:
    if verdict.valid is False:
        return "broken"
    if not verdict.applies:
        return "not-applicable"
    return "not-tested" if verdict.valid is None else "kept"


def _asked(plan: Plan, name: str, state: PropertyState) -> PropertyState:
    """A property that the user requires by name counts as not tested where the run had nothing to judge."""
    return "not-tested" if state == "not-applicable" and name in plan.require else state


def _issues_tokens(lock: LockFacts, verdicts: Mapping[str, Verdict]) -> bool:
    fencing = verdicts.get("fencing")
    return bool(lock.fence) if fencing is None else fencing.applies and fencing.stats.get("tokens") != 0


def _fenced(verdicts: Mapping[str, Verdict]) -> bool:
    """Return whether the lock was broken, and the resource, which checks tokens, refused each late access."""
    broken = any(name in FENCED and verdict.valid is False for name, verdict in verdicts.items())
    harmed = "leadership" in verdicts and verdicts["leadership"].valid is False
    return broken and not harmed and all(_state(verdicts[it]) == "kept" for it in AFTER_OVERLAP if it in verdicts)


def _required(plan: Plan, name: str, *, checked: bool) -> bool:
    """``checked``: the resource checks the lock's tokens, so two holders alone do no harm."""
    if name == "exposure" and plan.expect is not None:  # the moment of a fault is part of a scenario's story
        return False
    if name in ALWAYS:
        return True
    if plan.require:
        return name in plan.require
    return not (checked and name in FENCED)


@dataclass(frozen=True, slots=True)
class _Limits:
    """The documented limits of a lock, and the faults of a run that they need."""

    lock: LockFacts
    faults: tuple[FaultRecord, ...]

    def of(self, name: str, verdict: Verdict, verdicts: Mapping[str, Verdict]) -> tuple[Limit, ...]:
        """Return the limits that explain all violations of a property; empty if one of them is not explained."""
        documented = self.lock.limits or ()
        if "always" in documented:
            return ("always",)
        if {"fairness": self.lock.queue, "reentrancy": self.lock.reentrant}.get(name) is False:
            return ("unpromised",)
        found: list[Limit] = []
        for violation in verdict.evidence:
            limit = self._limit(name, violation, verdicts)
            if limit is None or limit not in documented:
                return ()
            found.append(limit)
        return tuple(dict.fromkeys(found))

    def worst(self, name: str, verdicts: Mapping[str, Verdict]) -> Violation | None:
        """Return the first violation of a property that no documented limit explains, or else the first."""
        found = verdicts[name].evidence
        documented = self.lock.limits or ()
        unexplained = (one for one in found if self._limit(name, one, verdicts) not in documented)
        return next(unexplained, next(iter(found), None))

    def _limit(self, name: str, violation: Violation, verdicts: Mapping[str, Verdict]) -> Limit | None:
        if violation.blame == "client":
            return "late-client"
        if violation.blame == "clock":
            return "clock"
        if name in AFTER_OVERLAP and violation.blame is None:
            return self._of_overlap(verdicts)
        if name in ("deadlock", "liveness"):
            died = any(fault_of(fault).silences == "death" for fault in self._before(violation)) or any(
                one.get("ended") == "exited" for one in violation.involved
            )
            return "never-freed" if died else None
        return "server-fault" if any(self._on_servers(fault) for fault in self._before(violation)) else None

    def _of_overlap(self, verdicts: Mapping[str, Verdict]) -> Limit | None:
        """Return the limit behind a damaged resource: that of the first overlap of holds. Without any overlap, a client
        reached the resource after its hold."""
        overlaps = verdicts.get("mutual-exclusion")
        if overlaps is None or overlaps.valid is not False:
            return "late-client"
        return next(iter(self.of("mutual-exclusion", overlaps, verdicts)), None)

    def _before(self, violation: Violation) -> list[FaultRecord]:
        return [fault for fault in self.faults if fault.injected_ns <= violation.until_ns]

    def _on_servers(self, fault: FaultRecord) -> bool:
        kind = FAULTS.known(fault.fault) or Fault  # also if the record lacks what its description needs
        fails = kind.disturbs and not kind.only_delays
        return fails and any(not host.startswith("c") for host in fault.hosts)
