"""A stored run as typed view data: what the templates and the plots show, and nothing they must compute.

:func:`load` reads a run folder. What is missing or malformed is one :class:`ReportError`; a history that was cut off by
a crash is not an error: what there is of it is shown, and :attr:`RunView.interrupted` says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from harness.history import History, HistoryError
from harness.history.lock_keys import KEYS, KeyState, read_keys
from reports import words
from reports.document import Node, ReportError, plain, read_object

__all__ = ["CheckerView", "EvidenceView", "FaultView", "InvolvedView", "LogView", "ReportError", "RunView", "load"]

SCHEMA: Final = 1
LOG_BYTES: Final = 32_768
Judgement = Literal["valid", "invalid", "unknown"]
JUDGEMENTS: Final[dict[bool | None, Judgement]] = {True: "valid", False: "invalid", None: "unknown"}
Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class InvolvedView:
    """A hold or a call that a checker names as evidence; times in ns as in the history."""

    f: str
    """``hold``, or what was called."""
    client: str
    process: int | None
    start: int | None
    end: int | None
    lease_end: int | None
    fence: str
    outcome: str
    """How a hold ended, or what came of a call."""
    indices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EvidenceView:
    """One thing a checker found. ``number`` is its place among the violations on the timeline, from 1."""

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
    explanation: str
    evidence: tuple[EvidenceView, ...]
    stats: Pairs
    found: int
    """How many violations it counted; the evidence is some of them."""


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


@dataclass(frozen=True, slots=True)
class LogView:
    name: str
    text: str
    omitted: int
    """Bytes at the beginning of the file that are not shown."""


@dataclass(frozen=True, slots=True)
class RunView:
    """Everything a report shows of one run."""

    judgement: Judgement
    verdict: str
    summary: str
    unknown_because: tuple[str, ...]
    interrupted: str
    lock: str
    title: str
    safety: str
    seed: str
    started_at: str
    command: str
    replay: str
    backend: str
    cluster: Pairs
    servers: tuple[str, ...]
    clients: tuple[str, ...]
    plan: Pairs
    plan_toml: str
    checkers: tuple[CheckerView, ...]
    faults: tuple[FaultView, ...]
    fencing_note: str
    stats: Node
    versions: Pairs
    logs: tuple[LogView, ...]
    history: History
    keys: tuple[KeyState, ...]
    """What servers had under the locks' keys; empty where nobody looked."""
    keys_trouble: str = ""
    """Why those are not all; empty if they are."""
    steps: Pairs = ()
    """The story of what broke, if a hunt told one: when each step was, and what happened."""
    ending: str = ""
    """What is broken after the last step."""

    @property
    def evidence(self) -> list[EvidenceView]:
        """What the checkers found that has a place on the timeline, in the order of its numbers."""
        found = [found for checker in self.checkers for found in checker.evidence if found.number is not None]
        return sorted(found, key=lambda found: found.number or 0)

    @property
    def found(self) -> int:
        """How many violations the checkers counted that have evidence on the timeline."""
        named = [checker for checker in self.checkers if any(found.number for found in checker.evidence)]
        return sum(checker.found for checker in named)


def _cluster(cluster: Node) -> Pairs:
    """What there is of it, beside servers and clients. The hosts that look after servers are sentinels with Redis."""
    watchers = "sentinels" if cluster.text("kind").startswith("redis") else "manager"
    named = {name: plain(value) for name, value in cluster.data.items() if name not in ("servers", "clients")}
    return tuple((watchers if name == "sentinels" else name, text) for name, text in named.items() if text)


def load(folder: Path) -> RunView:
    """Read a run folder; raises :class:`ReportError`."""
    if not folder.is_dir():
        raise ReportError(f"{folder}: expected a run folder (with results.json and history.jsonl), there is none")
    results = read_object(folder / "results.json")
    _check_schema(results)
    history, cut = load_history(folder)
    keys, keys_trouble = read_keys(folder / KEYS)
    cluster = results.node("cluster")
    valid = results.truth("valid")
    return RunView(
        judgement=JUDGEMENTS[valid],
        verdict=results.text("verdict"),
        summary=results.text("summary"),
        unknown_because=results.texts("unknown_because"),
        interrupted=cut or _how_it_stopped(history),
        lock=results.text("lock", "unnamed lock"),
        title=results.text("lock_title") or results.text("lock", "unnamed lock"),
        safety=results.text("lock_safety"),
        seed=plain(results.data.get("seed", "–")),
        started_at=results.text("started_at"),
        command=results.text("command"),
        replay=results.text("replay"),
        backend=cluster.text("backend"),
        cluster=_cluster(cluster),
        servers=cluster.texts("servers"),
        clients=cluster.texts("clients"),
        plan=tuple(pair for pair in results.flat("plan") if pair[0] != "faults"),
        plan_toml=_optional_text(folder / "plan.toml"),
        checkers=_checkers(results),
        faults=tuple(_fault(node) for node in results.nodes("faults")),
        fencing_note=results.text("fencing_note"),
        stats=results.node("stats"),
        versions=results.flat("versions"),
        logs=_logs(folder / "logs"),
        history=history,
        keys=tuple(keys),
        keys_trouble=keys_trouble,
        steps=tuple(_step(node) for node in results.node("story").nodes("steps")),
        ending=results.node("story").text("ending"),
    )


def _step(node: Node) -> tuple[str, str]:
    at = node.number("at")
    return "" if at is None else f"{at:.3f} s", node.text("text")


def _check_schema(results: Node) -> None:
    if results.require("schema") != SCHEMA:
        raise ReportError(f"{results.place}: schema: expected {SCHEMA}, got {plain(results.data['schema'])}")
    results.require("valid")


def load_history(folder: Path) -> tuple[History, str]:
    """The history, and why it is not whole (empty if it is)."""
    path = folder / "history.jsonl"
    if not path.exists() and (folder / "history.jsonl.gz").exists():
        path = folder / "history.jsonl.gz"
    if not path.exists():
        raise ReportError(f"{path}: expected the history of the run (JSON lines), there is no such file")
    try:
        history, cut = History.salvage(path)
    except HistoryError as error:
        raise ReportError(str(error)) from error
    if not cut:
        return history, ""
    return history, f"the history is cut off at line {len(history) + 1:,}; what was recorded before it is shown"


def _how_it_stopped(history: History) -> str:
    stops = history.nemesis("stop")
    if not stops:
        return "the history has no stop entry: the run ended before its time"
    value = stops[-1].value
    reason = value.get("reason") if isinstance(value, dict) else None
    return f"the run was stopped: {reason}" if reason in ("interrupted", "crashed") else ""


def _checkers(results: Node) -> tuple[CheckerView, ...]:
    numbers = _numbers(results)
    found = []
    for name, checker in results.members("checkers"):
        evidence = tuple(_evidence(name, node, numbers.get(node.place)) for node in checker.nodes("evidence"))
        judgement = JUDGEMENTS[checker.truth("valid")]
        counted = max(checker.node("stats").whole("violations") or 0, len(evidence))
        said = checker.text("explanation"), evidence, checker.flat("stats")
        found.append(CheckerView(name, judgement, *said, counted))
    return tuple(found)


def _numbers(results: Node) -> dict[str, int]:
    """The evidence of violated checks that has a time, numbered from 1 in the order of time, by its place."""
    starts = [
        (start, node.place)
        for _, checker in results.members("checkers")
        if checker.truth("valid") is False
        for node in checker.nodes("evidence")
        if (start := node.whole("from_ns")) is not None
    ]
    return {place: number for number, (_, place) in enumerate(sorted(starts, key=lambda pair: pair[0]), 1)}


def _evidence(checker: str, node: Node, number: int | None) -> EvidenceView:
    start, end = node.whole("from_ns"), node.whole("until_ns")
    involved = tuple(_involved(one) for one in node.nodes("involved") or node.nodes("holds"))
    said = node.text("kind", "finding"), node.text("key"), node.text("sentence")
    return EvidenceView(checker, *said, start, end, node.text("blame"), involved, _indices(node, involved), number)


def _indices(node: Node, involved: tuple[InvolvedView, ...]) -> tuple[int, ...]:
    named = [i for i in node.data.get("indices") or () if isinstance(i, int)]
    return tuple(named or sorted({i for one in involved for i in one.indices}))


def _involved(node: Node) -> InvolvedView:
    fence = node.data.get("fence")
    if fence is None and isinstance(asked := node.data.get("invoked"), dict):
        fence = asked.get("fence")
    ends = [node.whole("acquire_index"), node.whole("release_index")]
    named = [i for i in node.data.get("indices") or ends if isinstance(i, int)]
    return InvolvedView(
        f=node.text("f", "hold"),
        client=node.text("client") or f"process {plain(node.data.get('process'))}",
        process=node.whole("process"),
        start=_either(node, "from_ns", "start_ns"),
        end=_either(node, "until_ns", "end_ns"),
        lease_end=node.whole("lease_end_ns"),
        fence="" if fence is None else plain(fence),
        outcome=node.text("ended") or node.text("outcome"),
        indices=tuple(named),
    )


def _either(node: Node, one: str, other: str) -> int | None:
    return node.whole(one if node.data.get(one) is not None else other)


def _fault(node: Node) -> FaultView:
    return FaultView(
        id=plain(node.data.get("id", "")),
        fault=node.text("fault", "fault"),
        hosts=node.texts("hosts"),
        params=tuple(pair for pair in node.flat("params") if pair[1]),
        injected=node.whole("injected_ns"),
        healed=node.whole("healed_ns"),
        seen=node.truth("seen"),
        observed=words.observed(node.node("observed").data),
        error=node.text("error"),
    )


def _optional_text(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else ""


def _logs(folder: Path) -> tuple[LogView, ...]:
    files = sorted(path for path in folder.glob("*") if path.is_file()) if folder.is_dir() else []
    return tuple(_log(path) for path in files)


def _log(path: Path) -> LogView:
    """The end of a log: what a server said last explains most."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - LOG_BYTES))
        data = file.read()
    return LogView(path.name, data.decode(errors="replace"), size - len(data))
