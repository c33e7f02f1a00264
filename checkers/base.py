"""What every checker takes and gives: a history in, a :class:`Verdict` out.

Verdicts are ordered valid < unknown < invalid and the worst wins, as in jepsen's ``checker.clj``. A verdict must be
able to fail: a checker that crashed, or that saw too little to tell, says unknown and why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from harness.history import History

Blame = Literal["service", "clock", "client"]
Json = dict[str, Any]

CAP = 20
"""How many violations a verdict shows at most; ``stats`` counts them all."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that went wrong, in a sentence for engineers and as data for reports.

    ``from_ns`` and ``until_ns`` are ``CLOCK_MONOTONIC`` nanoseconds, as in the history. ``involved`` describes the
    holds or calls as plain data, each with ``client`` (host name), ``process`` and ``indices`` into the history.
    ``blame`` is "service" if the lock granted what it had promised to someone else, "clock" if it did so because the
    promise was over by a server's clock, which was wrong, "client" if a client acted after its lease.
    """

    kind: str
    key: str | None
    sentence: str
    from_ns: int
    until_ns: int
    involved: tuple[Json, ...] = ()
    blame: Blame | None = None

    def to_json(self) -> Json:
        return {
            "kind": self.kind,
            "key": self.key,
            "sentence": self.sentence,
            "from_ns": self.from_ns,
            "until_ns": self.until_ns,
            "blame": self.blame,
            "involved": list(self.involved),
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """``valid`` is None when nobody can tell; ``explanation`` says why in any case."""

    valid: bool | None
    explanation: str
    evidence: tuple[Violation, ...] = ()
    stats: Json = field(default_factory=dict)

    def to_json(self) -> Json:
        """Plain data for ``results.json``."""
        return {
            "valid": self.valid,
            "explanation": self.explanation,
            "evidence": [violation.to_json() for violation in self.evidence],
            "stats": self.stats,
        }


class Checker(Protocol):
    """A pure function of a history, under the name that users type."""

    name: str

    def check(self, history: History) -> Verdict: ...


def badness(valid: bool | None) -> int:
    """0 valid, 1 unknown, 2 invalid."""
    return 1 if valid is None else 0 if valid else 2


def merge(verdicts: Mapping[str, Verdict]) -> Verdict:
    """One verdict for a run: the worst of ``verdicts`` (by checker), all evidence; unknown if there are none."""
    if not verdicts:
        return Verdict(None, "nothing was checked")
    worst = max(badness(verdict.valid) for verdict in verdicts.values())
    guilty = {name: verdict for name, verdict in verdicts.items() if badness(verdict.valid) == worst}
    if worst == 0:
        explanation = "all valid: " + ", ".join(guilty)
    else:
        explanation = "; ".join(f"{name}: {verdict.explanation}" for name, verdict in guilty.items())
    evidence = tuple(violation for verdict in verdicts.values() for violation in verdict.evidence)
    stats = {name: verdict.valid for name, verdict in verdicts.items()}
    return Verdict((True, None, False)[worst], explanation, evidence, stats)


def run_all(history: History, checkers: Iterable[Checker]) -> dict[str, Verdict]:
    """The verdict of each checker by name; one that raises is unknown, and its explanation holds the error."""
    return {checker.name: _run(history, checker) for checker in checkers}


def _run(history: History, checker: Checker) -> Verdict:
    try:
        return checker.check(history)
    except Exception as error:  # noqa: BLE001 - a broken checker must not hide what the others found
        return Verdict(None, f"the checker failed: {type(error).__name__}: {error}")


def conclude(
    history: History,
    violations: list[Violation],
    *,
    fine: str,
    doubts: Iterable[str | None] = (),
    stats: Json | None = None,
    count: int | None = None,
) -> Verdict:
    """The verdict that follows from ``violations`` (sorted by time, cut to :data:`CAP`).

    Violations make it invalid whatever else is true; otherwise the first of ``doubts`` that is not None, or a run
    that did not end by itself, makes it unknown; otherwise it is valid, for the reason ``fine``. ``count`` is the
    number of violations if it is not the length of the list.
    """
    found = len(violations) if count is None else count
    stats = {**(stats or {}), "violations": found}
    if found:
        shown = tuple(sorted(violations, key=lambda violation: violation.from_ns)[:CAP])
        more = f" (and {found - 1} more)" if found > 1 else ""
        return Verdict(False, shown[0].sentence + more, shown, stats)
    doubt = next((doubt for doubt in (*doubts, cut_short(history)) if doubt), None)
    return Verdict(True, fine, (), stats) if doubt is None else Verdict(None, doubt, (), stats)


def no_lock_taken(history: History) -> Verdict | None:
    """What checkers of locks say of a workload without one (``locks`` of the start entry is false), else None."""
    starts = history.nemesis("start")
    if not starts or (starts[0].value or {}).get("locks", True) or "acquire" in history.f:
        return None
    return conclude(history, [], fine="not applicable: the workload takes no lock")


def cut_short(history: History) -> str | None:
    """Why the run is not a whole one, or None if it ended as planned."""
    stops = history.nemesis("stop")
    if not stops:
        return "the history has no stop entry: the run was cut short"
    reason = (stops[-1].value or {}).get("reason")
    return None if reason in ("time limit", "done") else f"the run was cut short: {reason}"
