"""A stored run as typed view data: the values that templates and plots show, already computed.

:func:`load` reads a run folder, and raises :class:`DocumentError` if something is missing or malformed. A history that
a crash has truncated is not an error: the view has its readable part, and :attr:`RunView.interrupted` says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from harness import documents
from harness.documents import DocumentError, MessageTrace, RunDocument, load_run, present
from harness.documents.run import (
    Evidence,
    FrozenCluster,
    InjectedFault,
    Involved,
    PropertyState,
    RunCluster,
    RunStats,
)  # fmt: skip
from harness.documents.story import Story
from harness.history import History, HistoryError
from harness.history.lock_keys import KEYS, KeyState, read_keys
from harness.history.run_history import read_run_history
from harness.trace.reading import load_trace
from harness.wording import PROPERTY_STATES, as_sentence

from . import words
from .document import pairs, plain
from .story import story_addresses, story_steps

__all__ = ["CheckerView", "DocumentError", "EvidenceView", "FaultView", "InvolvedView", "LogView", "RunView", "load"]

LOG_BYTES: Final = 32_768
Judgement = Literal["valid", "invalid", "unknown", "none"]
JUDGEMENTS: Final[dict[bool | None, Judgement]] = {True: "valid", False: "invalid", None: "unknown"}
SIGNS: Final[dict[PropertyState, Judgement]] = {
    "kept": "valid", "broken": "invalid", "known-limit": "invalid", "not-tested": "unknown", "not-applicable": "none",
}  # fmt: skip
"""Signs and colours of the states of properties."""
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class InvolvedView:
    """A hold or a call that a checker names as evidence; times in ns as in the history."""

    f: str
    """``hold``, or the function of the call."""
    client: str
    process: int | None
    start: int | None
    end: int | None
    lease_end: int | None
    fence: str
    outcome: str
    """End of a hold, or the outcome of a call."""
    indices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EvidenceView:
    """One violation that a checker found. ``number`` is its number on the timeline, from 1."""

    checker: str
    kind: str
    key: str
    sentence: str
    start: int | None
    end: int | None
    blame: str
    involved: tuple[InvolvedView, ...]
    indices: tuple[int, ...]
    number: int | None


@dataclass(frozen=True, slots=True)
class CheckerView:
    name: str
    judgement: Judgement
    """Sign and colour of its state."""
    state: str
    """State of the property in words."""
    required: bool
    explanation: str
    evidence: tuple[EvidenceView, ...]
    stats: Pairs
    found: int
    """Number of violations that it counted; the evidence shows some of them."""


@dataclass(frozen=True, slots=True)
class FaultView:
    id: str
    fault: str
    hosts: tuple[str, ...]
    params: Pairs
    injected: int | None
    healed: int | None
    seen: bool | None
    observed: str
    error: str
    words: str = ""
    """Its effect, as a clause; empty if it was not observed."""


@dataclass(frozen=True, slots=True)
class LogView:
    name: str
    text: str
    omitted: int
    """Number of bytes at the beginning of the file that are not shown."""


@dataclass(frozen=True, slots=True)
class RunView:
    """All data that the report of one run shows."""

    judgement: Judgement
    verdict: str
    summary: str
    unknown_because: tuple[str, ...]
    interrupted: str
    lock: str
    title: str
    what_runs: str
    """The lock is of the catalogue, a library or a model of one, in a sentence; empty if it does not say."""
    safety: str
    seed: str
    started_at: str
    command: str
    replay: str
    backend: str
    cluster: Pairs
    frozen: FrozenCluster | None
    """Containers that were left frozen for inspection."""
    servers: tuple[str, ...]
    clients: tuple[str, ...]
    plan: Pairs
    plan_toml: str
    checkers: tuple[CheckerView, ...]
    faults: tuple[FaultView, ...]
    fencing_note: str
    stats: RunStats
    versions: Pairs
    logs: tuple[LogView, ...]
    history: History
    keys: tuple[KeyState, ...]
    """Values of the locks' keys on the servers; empty if they were not observed."""
    keys_trouble: str = ""
    """Reason why the states are incomplete; empty if they are complete."""
    steps: Pairs = ()
    """The story of the violation, if a hunt wrote one: the time and text of each step."""
    ending: str = ""
    """The harm after the last step."""
    moments: tuple[int | None, ...] = ()
    """The time (ns) of each step of the story."""
    addresses: tuple[str, ...] = ()
    """The fragment that opens each step of the story among the messages."""
    trace: MessageTrace | None = None
    """The messages between clients and servers, if they are kept."""
    trace_trouble: str = ""
    """Reason why the trace cannot be read; empty if it can, or if there is none."""

    @property
    def evidence(self) -> list[EvidenceView]:
        """Return the evidence that has a place on the timeline, in the order of its numbers."""
        found = [found for checker in self.checkers for found in checker.evidence if found.number is not None]
        return sorted(found, key=lambda found: found.number or 0)

    @property
    def found(self) -> int:
        """Return how many violations the checkers with evidence on the timeline counted."""
        named = [checker for checker in self.checkers if any(found.number for found in checker.evidence)]
        return sum(checker.found for checker in named)


def _cluster(cluster: RunCluster) -> Pairs:
    """Return the parts of the cluster besides servers and clients. With Redis, the hosts that monitor servers are
    sentinels."""
    watchers = "sentinels" if cluster.kind.startswith("redis") else "manager"
    data = documents.plain(cluster)
    named = {name: plain(value) for name, value in data.items() if name not in ("servers", "clients", "frozen")}
    return tuple((watchers if name == "sentinels" else name, text) for name, text in named.items() if text)


def _trace(folder: Path, history: History) -> tuple[MessageTrace | None, str]:
    try:
        return load_trace(folder, history), ""
    except DocumentError as error:
        return None, str(error)


def load(folder: Path) -> RunView:
    """Read a run folder; raises :class:`DocumentError`."""
    if not folder.is_dir():
        raise DocumentError(f"{folder}: expected a run folder (with results.json and history.jsonl), there is none")
    results = load_run(folder / "results.json")
    history, cut = load_history(folder)
    keys, keys_trouble = read_keys(folder / KEYS, present(results.stats.key_states))
    story = present(results.story) or Story()
    trace, trace_trouble = _trace(folder, history)
    return RunView(
        judgement=JUDGEMENTS[results.valid],
        verdict=results.verdict,
        summary=results.summary,
        unknown_because=results.unknown_because,
        interrupted=cut or _stop_reason(history),
        lock=results.lock,
        title=results.lock_title or results.lock,
        what_runs=_what_runs(results),
        safety=results.lock_safety,
        seed="–" if results.seed is None else str(results.seed),
        started_at=results.started_at,
        command=results.command,
        replay=present(results.replay) or "",
        backend=results.cluster.backend,
        cluster=_cluster(results.cluster),
        frozen=present(results.cluster.frozen),
        servers=results.cluster.servers,
        clients=results.cluster.clients,
        plan=_settings(results),
        plan_toml=_optional_text(folder / "plan.toml"),
        checkers=_checkers(results),
        faults=tuple(_fault(fault) for fault in results.faults),
        fencing_note=results.fencing_note,
        stats=results.stats,
        versions=pairs(results.versions),
        logs=_logs(folder / "logs"),
        history=history,
        keys=tuple(keys),
        keys_trouble=keys_trouble,
        steps=story_steps(story),
        ending=story.ending,
        moments=tuple(None if step.at is None else history.origin + round(step.at * 1e9) for step in story.steps),
        addresses=story_addresses(story),
        trace=trace,
        trace_trouble=trace_trouble,
    )


def _what_runs(results: RunDocument) -> str:
    facts = present(results.lock_facts)
    return "" if facts is None or facts.origin is None else as_sentence(facts.origin.sentence)


def _settings(results: RunDocument) -> Pairs:
    plan = present(results.plan)
    return () if plan is None else tuple(pair for pair in pairs(documents.plain(plan)) if pair[0] != "faults")


def load_history(folder: Path) -> tuple[History, str]:
    """Return the history, and why it is incomplete (empty if it is complete)."""
    path = folder / "history.jsonl"
    if not path.exists() and (folder / "history.jsonl.gz").exists():
        path = folder / "history.jsonl.gz"
    if not path.exists():
        raise DocumentError(f"{path}: expected the history of the run (JSON lines), there is no such file")
    try:
        history, cut = read_run_history(path)
    except HistoryError as error:
        raise DocumentError(str(error)) from error
    history = history.in_order()
    if not cut:
        return history, ""
    return history, f"the history is truncated at line {len(history) + 1:,}; what was recorded before it is shown"


def _stop_reason(history: History) -> str:
    stops = history.nemesis("stop")
    if not stops:
        return "the history has no stop entry: the run ended before its time"
    value = stops[-1].value
    reason = value.get("reason") if isinstance(value, dict) else None
    return f"the run was stopped: {reason}" if reason in ("interrupted", "crashed") else ""


def _checkers(results: RunDocument) -> tuple[CheckerView, ...]:
    numbers = _numbers(results)
    found = []
    for name, checker in results.checkers.items():
        evidence = tuple(_evidence(name, one, numbers.get((name, i))) for i, one in enumerate(checker.evidence))
        violations = checker.stats.get("violations")
        counted = max(violations if isinstance(violations, int) else 0, len(evidence))
        state: PropertyState = present(checker.state) or "not-tested"
        found.append(
            CheckerView(
                name=name,
                judgement=SIGNS[state],
                state=PROPERTY_STATES[state],
                required=checker.required,
                explanation=checker.explanation.removeprefix("not applicable: "),
                evidence=evidence,
                stats=pairs(checker.stats),
                found=counted,
            )
        )
    return tuple(found)


def _numbers(results: RunDocument) -> dict[tuple[str, int], int]:
    """Return the numbers of the timed evidence of violated checks, from 1 in the order of time, by checker and
    place."""
    starts = [
        (one.from_ns, name, i)
        for name, checker in results.checkers.items()
        if checker.valid is False
        for i, one in enumerate(checker.evidence)
        if one.from_ns is not None
    ]
    return {(name, i): number for number, (_, name, i) in enumerate(sorted(starts, key=lambda one: one[0]), 1)}


def _evidence(checker: str, one: Evidence, number: int | None) -> EvidenceView:
    involved = tuple(_involved(item) for item in one.involved or present(one.holds) or ())
    return EvidenceView(
        checker=checker,
        kind=one.kind,
        key=one.key or "",
        sentence=one.sentence,
        start=one.from_ns,
        end=one.until_ns,
        blame=one.blame or "",
        involved=involved,
        indices=present(one.indices) or tuple(sorted({i for item in involved for i in item.indices})),
        number=number,
    )


def _involved(one: Involved) -> InvolvedView:
    fence = present(one.fence)
    if fence is None and isinstance(invoked := present(one.invoked), dict):
        fence = invoked.get("fence")
    ends = present(one.acquire_index), present(one.release_index)
    start, end = present(one.from_ns), present(one.until_ns)
    return InvolvedView(
        f=one.f,
        client=one.client or f"process {plain(one.process)}",
        process=one.process,
        start=present(one.start_ns) if start is None else start,
        end=present(one.end_ns) if end is None else end,
        lease_end=present(one.lease_end_ns),
        fence="" if fence is None else plain(fence),
        outcome=present(one.ended) or present(one.outcome) or "",
        indices=tuple(i for i in present(one.indices) or ends if i is not None),
    )


def _fault(fault: InjectedFault) -> FaultView:
    return FaultView(
        id="" if fault.id is None else str(fault.id),
        fault=fault.fault,
        hosts=fault.hosts,
        params=tuple(pair for pair in pairs(fault.params) if pair[1]),
        injected=fault.injected_ns,
        healed=fault.healed_ns,
        seen=fault.seen,
        observed=words.observed(fault.observed),
        error=fault.error or "",
        words=fault.words,
    )


def _optional_text(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else ""


def _logs(folder: Path) -> tuple[LogView, ...]:
    files = sorted(path for path in folder.glob("*") if path.is_file()) if folder.is_dir() else []
    return tuple(_log(path) for path in files)


def _log(path: Path) -> LogView:
    """Return the end of a log: a server's last messages explain most."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - LOG_BYTES))
        data = file.read()
    return LogView(path.name, data.decode(errors="replace"), size - len(data))
