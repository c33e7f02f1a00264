"""The interface of checkers: a history in, a :class:`Verdict` out.

Verdicts are ordered valid < unknown < invalid, and the worst one counts, as in Jepsen's ``checker.clj``. A checker that
crashed, or that saw too little to decide, returns unknown with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Protocol

from harness.history import History

Blame = Literal["service", "clock", "client"]
Json = dict[str, Any]

SERVICE: Final = frozenset(
    {"liveness", "deadlock", "fairness", "reentrancy", "try-lock", "answers", "release", "handover", "exit"}
)
"""Names of the checkers that judge how well a lock serves; all others judge safety."""
NEED_TWO_CLIENTS: Final = frozenset(
    {
        "mutual-exclusion",
        "linearizability",
        "ownership",
        "extend",
        "resource",
        "fencing",
        "leadership",
        "handover",
        "deadlock",
        "liveness",
        "fairness",
    }
)
"""Names of the checkers of properties that one client alone cannot violate, so that it does not test them."""
CAP = 20
"""The most violations that a verdict shows; ``stats`` counts all of them."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One violation, as a sentence for engineers and as data for reports.

    ``from_ns`` and ``until_ns`` are ``CLOCK_MONOTONIC`` nanoseconds, as in the history. ``involved`` describes the
    holds or calls as plain data, each with ``client`` (host name), ``process`` and ``indices`` into the history.
    ``blame`` is "service" if the lock granted what it had promised to another client, "clock" if it did so because the
    promise had ended by a server's clock, which was wrong, and "client" if a client acted after the end of its lease.
    ``harm`` and ``cause`` are the two parts of the sentence that begin a run's summary, where it can be split: what
    happened, without its details, and a clause that says why.
    """

    kind: str
    key: str | None
    sentence: str
    from_ns: int
    until_ns: int
    involved: tuple[Json, ...] = ()
    blame: Blame | None = None
    harm: str = ""
    cause: str = ""

    def to_json(self) -> Json:
        return {
            "kind": self.kind,
            "key": self.key,
            "sentence": self.sentence,
            "from_ns": self.from_ns,
            "until_ns": self.until_ns,
            "blame": self.blame,
            "harm": self.harm,
            "cause": self.cause,
            "involved": list(self.involved),
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a check. ``valid`` is None if it is unknown; ``explanation`` always says why.

    ``applies`` is False if the run has nothing that the checker could judge, such as tokens of a lock without any.
    """

    valid: bool | None
    explanation: str
    evidence: tuple[Violation, ...] = ()
    stats: Json = field(default_factory=dict)
    applies: bool = True

    def to_json(self) -> Json:
        """Return the verdict as plain data for ``results.json``."""
        return {
            "valid": self.valid,
            "explanation": self.explanation,
            "evidence": [violation.to_json() for violation in self.evidence],
            "stats": self.stats,
        }


class MissingField(ValueError):
    """An entry of the history lacks what a checker needs; the message names the entry and the field."""


class Checker(Protocol):
    """A checker: a pure function of a history, with the name that users type."""

    name: str

    def check(self, history: History) -> Verdict: ...


def badness(valid: bool | None) -> int:
    """Return 0 for valid, 1 for unknown, 2 for invalid."""
    return 1 if valid is None else 0 if valid else 2


def conclude(
    history: History,
    violations: list[Violation],
    *,
    fine: str,
    doubts: Iterable[str | None] = (),
    stats: Json | None = None,
    count: int | None = None,
) -> Verdict:
    """Return the verdict that follows from ``violations`` (sorted by time, at most :data:`CAP` are shown).

    Any violation makes it invalid. Otherwise it is unknown, for the first of ``doubts`` that is not None, or because
    the run was interrupted. Otherwise it is valid, with the reason ``fine``. ``count`` is the number of violations if
    it differs from the length of the list.
    """
    found = len(violations) if count is None else count
    stats = {**(stats or {}), "violations": found}
    if found:
        shown = tuple(sorted(violations, key=lambda violation: violation.from_ns)[:CAP])
        more = f" (and {found - 1} more)" if found > 1 else ""
        return Verdict(False, shown[0].sentence + more, shown, stats)
    doubt = next((doubt for doubt in (*doubts, cut_short(history)) if doubt), None)
    return Verdict(True, fine, (), stats) if doubt is None else Verdict(None, doubt, (), stats)


def not_applicable(history: History, why: str, *, stats: Json | None = None) -> Verdict:
    """Return the verdict of a checker that has nothing to judge, with the reason; unknown if the run was cut short."""
    return replace(conclude(history, [], fine=f"not applicable: {why}", stats=stats), applies=False)


def no_lock_taken(history: History) -> Verdict | None:
    """Return the verdict for a workload without locks (``locks`` of the start entry is false), else None."""
    starts = history.nemesis("start")
    if not starts or (starts[0].value or {}).get("locks", True) or "acquire" in history.f:
        return None
    return not_applicable(history, "the workload takes no lock")


def doubt_of(history: History) -> str | None:
    """Return why the run proves nothing about the lock, neither that it is safe nor that it is not, or None.

    The stop entry says so if the lock's process ended itself or hung, if no server was contacted, if clients shared a
    file, if the simulator lacks what the lock called, or if entries of a client may be missing."""
    stops = history.nemesis("stop")
    doubt = (stops[-1].value or {}).get("doubt") if stops else None
    return None if doubt is None else f"the run proves nothing: {doubt}"


def alone(history: History) -> str | None:
    """Return why the run tested no property of two clients, or None: only one client's commands reached a server.

    The stop entry names that client if the run had several, which requested the lock too."""
    stops, starts = history.nemesis("stop"), history.nemesis("start")
    contacted = (stops[-1].value or {}).get("contacted") if stops else None
    if contacted:
        return f"only {contacted[0]} sent commands to a server, and this needs two clients"
    clients = (starts[0].value or {}).get("clients") if starts else None
    return f"the run had one client, {clients[0]}, and this needs two" if clients and len(clients) == 1 else None


def cut_short(history: History) -> str | None:
    """Return why the run is incomplete, or None if it ended as planned."""
    stops = history.nemesis("stop")
    if not stops:
        return "the history has no stop entry: the run was cut short"
    reason = (stops[-1].value or {}).get("reason")
    return None if reason in ("time limit", "done") else f"the run was cut short: {reason}"
