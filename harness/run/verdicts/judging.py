"""Judgement of a recorded history: run the checkers, and make and store the document of the results.

A stored run is judged from its files alone. No code that they name is imported: not the lock, and no checker.
"""

from __future__ import annotations

import contextlib
import platform
import shlex
import subprocess
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from harness.checkers import catalogue as checker_catalogue
from harness.checkers.base import Verdict, Violation
from harness.checkers.keys import KeysChecker
from harness.checkers.malformed import flaw
from harness.checkers.running import run_all
from harness.clusters.kinds import KINDS
from harness.documents import DocumentError, RunDocument, convert, load_run, plain, present
from harness.documents.lock import LockFacts
from harness.documents.run import SCHEMA, CheckerResult, InjectedFault, RunCluster, RunPlan, RunStats, ScenarioResult
from harness.errors import UNKNOWN, VALID, VIOLATION, UsageError
from harness.faults.base import Fault
from harness.faults.catalogue import fault_of
from harness.faults.records import FaultRecord
from harness.history import History, HistoryError
from harness.history.lock_keys import KEYS, attach_stored_keys
from harness.history.run_history import read_run_history
from harness.plan import Plan, allowing, load
from harness.run.plans.lock_facts import stored_facts
from harness.run.store import HISTORY, PLAN, RESULTS, write_results

from . import summary
from .decision import Decision, Property, decide, with_promised_tokens
from .expectation import judge as judge_expectation
from .fault_records import fault_records

INCOMPLETE_TAIL_NS: Final = 100_000_000
"""Entries of real clients are recorded within this time, so the last entries of a killed run may be incomplete."""


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a run. ``results`` is the document in ``results.json``; ``folder`` is None if nothing was stored."""

    plan: Plan
    history: History
    verdicts: dict[str, Verdict]
    decision: Decision
    results: RunDocument
    folder: Path | None

    @property
    def document(self) -> dict[str, Any]:
        """``results`` as plain data."""
        return plain(self.results)

    @property
    def valid(self) -> bool | None:
        return self.decision.valid

    @property
    def reason(self) -> str:
        """Reason for the verdict in one sentence."""
        return self.results.reason

    @property
    def interrupted(self) -> bool:
        """True if Ctrl-C or SIGTERM ended the run early."""
        return any(op.value["reason"] == "interrupted" for op in self.history.nemesis("stop"))

    @property
    def exit_status(self) -> int:
        return {True: VALID, False: VIOLATION, None: UNKNOWN}[self.valid]


@dataclass(frozen=True, slots=True)
class About:
    """Facts about a run that its history does not have: about the ``cluster``, the real time that it took (s), the
    versions of what its worker imported, and the number of lines of ``keys.jsonl`` (None if unknown)."""

    cluster: dict[str, Any] = field(default_factory=dict)
    started_at: str = ""
    command: str = ""
    real_seconds: float | UnsetType = UNSET
    versions: dict[str, str] = field(default_factory=dict)
    key_states: int | None = None


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded history with all that its judgement needs beside it. ``folder`` is None if nothing is stored."""

    plan: Plan
    lock: LockFacts
    history: History
    folder: Path | None = None
    about: About = field(default_factory=About)


def judge(recorded: Recorded, found: Mapping[str, Verdict]) -> Result:
    """Return the result that follows from the verdicts ``found`` by the checkers, and store it in the folder."""
    plan, history, folder = recorded.plan, recorded.history, recorded.folder
    complete = with_promised_tokens(plan, recorded.lock, found, history)
    judged = {name: _storable(name, it) for name, it in complete.items()}
    verdicts = {name: verdict for name, (verdict, _) in judged.items()}
    decision = decide(plan, recorded.lock, verdicts, fault_records(history))
    results = _document(recorded, verdicts, decision, {name: stored for name, (_, stored) in judged.items()})
    if folder is not None:
        command = ["harness", "replay", str(folder), *allowing(plan)]
        results = msgspec.structs.replace(results, replay=shlex.join(command))
        write_results(folder, results)
    return Result(plan, history, verdicts, decision, results, folder)


def rejudge(folder: Path, *, checkers: Collection[str] = ()) -> Result:
    """Check the history of a stored run again and rewrite its results, also if the run was killed before it had any.

    A user's own checker is run only if ``checkers`` names it; :func:`not_run` lists the others. Their stored verdicts
    are kept. Raises UsageError if the history cannot be read.
    """
    try:
        recorded, _ = read_run_history(folder / HISTORY)
    except HistoryError as error:
        raise UsageError(str(error)) from error
    plan, history = _stored_plan(folder), recorded.in_order()
    if history is not recorded:  # evidence names entries by their numbers
        history.save(folder / HISTORY)
    results = load_run(folder / RESULTS) if (folder / RESULTS).exists() else None
    history = _without_incomplete_tail(plan, history)
    keys_flaw = _attach_keys(history, folder, results) if plan.cluster == "sim" else ""
    skipped = not_run(plan, checkers)
    named = [name for name in (*plan.checkers, *checkers) if name not in skipped]
    found = run_all(history, checker_catalogue.chosen(named))
    if keys_flaw:  # a simulated run records every change, so a damaged record must not count as none
        found[KeysChecker.name] = Verdict(None, f"the record of the servers' keys is damaged: {keys_flaw}")
    found.update({name: _stored_verdict(name, results) for name in skipped})
    lock = stored_facts(plan.lock, results)
    return judge(Recorded(plan, lock, history, folder, _stored_about(results)), found)


def _attach_keys(history: History, folder: Path, results: RunDocument | None) -> str:
    """Give the history of a stored run its record of keys, if that is complete. Otherwise return what is wrong with it:
    the last lines of a run that was killed were never written."""
    if results is None and not history.nemesis("stop"):
        return f"the run was killed before {KEYS} was complete"
    return attach_stored_keys(history, folder / KEYS, None if results is None else present(results.stats.key_states))


def not_run(plan: Plan, checkers: Collection[str] = ()) -> tuple[str, ...]:
    """Return the checkers of a stored plan that are code of a user's (``module:Class``) and not in ``checkers``."""
    return tuple(dict.fromkeys(name for name in plan.checkers if ":" in name and name not in checkers))


def _stored_plan(folder: Path) -> Plan:
    plan = load(folder / PLAN)
    if not KINDS.has(plan.kind):
        raise UsageError(f"{folder / PLAN}: kind: there is no cluster of kind {plan.kind!r}")
    return plan


def _stored_verdict(name: str, results: RunDocument | None) -> Verdict:
    """Return the stored verdict of a checker that is not run again."""
    stored = None if results is None else results.checkers.get(name)
    if stored is None:
        return Verdict(None, f"not checked: {name} is code that the stored plan names; --checker {name} runs it")
    evidence = tuple(_violation(plain(violation)) for violation in stored.evidence)
    applies = stored.state != "not-applicable"
    verdict = Verdict(stored.valid, stored.explanation, evidence, stored.stats, applies)
    found = flaw(verdict)
    return Verdict(None, f"the stored verdict is malformed: {found}") if found else verdict


def _violation(stored: dict[str, Any]) -> Violation:
    from_ns = stored["from_ns"] or 0
    return Violation(
        stored["kind"],
        stored["key"],
        stored["sentence"],
        from_ns,
        stored["until_ns"] or from_ns,
        tuple(stored["involved"]),
        stored["blame"],
        stored["harm"],
        stored["cause"],
    )


def _stored_about(results: RunDocument | None) -> About:
    if results is None:
        return About()
    hosts = ("backend", "kind", "servers", "sentinels", "clients")
    cluster = {name: value for name, value in plain(results.cluster).items() if name not in hosts}
    key_states = present(results.stats.key_states)
    return About(cluster, results.started_at, results.command, results.real_seconds, key_states=key_states)


def _without_incomplete_tail(plan: Plan, history: History) -> History:
    """Drop the last entries of a real run that was killed. Entries of some clients may be missing there: one client's
    release may have been on its way while the next client's grant was recorded already."""
    if plan.cluster == "sim" or not len(history) or history.nemesis("stop"):
        return history
    return History(op for op in history if op.time <= history.time[-1] - INCOMPLETE_TAIL_NS)


def _storable(name: str, verdict: Verdict) -> tuple[Verdict, CheckerResult]:
    """Return the verdict and its form in the document; unknown if a document cannot hold it, as may happen with a
    user's own checker."""
    try:
        stored = _checker_result(name, verdict)
        msgspec.json.encode(stored)
    except (DocumentError, TypeError, ValueError, AttributeError, RecursionError) as error:
        verdict = Verdict(None, f"the checker failed: its verdict cannot be stored: {error}")
        return verdict, _checker_result(name, verdict)
    return verdict, stored


def _checker_result(name: str, verdict: Verdict) -> CheckerResult:
    return convert(verdict.to_json(), CheckerResult, name)


def _with_state(stored: CheckerResult, found: Property) -> CheckerResult:
    return msgspec.structs.replace(stored, state=found.state, required=found.required, limits=found.limits)


def _document(
    recorded: Recorded, verdicts: dict[str, Verdict], decision: Decision, stored: dict[str, CheckerResult]
) -> RunDocument:
    plan, lock, history, about = recorded.plan, recorded.lock, recorded.history, recorded.about
    text = summary.summarise(plan, lock, history, verdicts, decision)
    return RunDocument(
        schema=SCHEMA,
        valid=decision.valid,
        verdict=decision.word,
        reason=text.reason,
        summary=str(text),
        unknown_because=tuple(f"{name}: {verdicts[name].explanation}" for name in decision.untested)
        if decision.valid is None
        else (),
        lock=plan.lock,
        lock_title=lock.title,
        lock_safety=lock.safety,
        lock_facts=lock,
        seed=plan.seed,
        cluster=_cluster(plan, history, about),
        plan=_settings(plan),
        checkers={name: _with_state(found, decision.properties[name]) for name, found in stored.items()},
        faults=tuple(map(_injected, fault_records(history))),
        fencing_note=summary.fencing_note(plan, history, lock.fence),
        versions={**versions(_packages(plan)), **_library_in_image(lock), **about.versions},
        scenario=_as_expected(plan, history, verdicts, decision),
        started_at=about.started_at,
        command=about.command,
        real_seconds=about.real_seconds,
        stats=_stats(history, about),
    )


def _injected(record: FaultRecord) -> InjectedFault:
    kind = fault_of(record)
    words = "" if kind is Fault else kind.story(record, "")
    return msgspec.structs.replace(msgspec.convert(record, InjectedFault, from_attributes=True), words=words)


def _cluster(plan: Plan, history: History, about: About) -> RunCluster:
    start: dict[str, Any] = next((op.value for op in history.nemesis("start")), {})
    hosts = {role: start.get(role, []) for role in ("servers", "sentinels", "clients")}
    return convert({"backend": plan.cluster, "kind": plan.kind, **hosts, **about.cluster}, RunCluster, "the cluster")


def _settings(plan: Plan) -> RunPlan:
    return RunPlan(
        title=plan.title or UNSET,
        workload=plan.workload,
        clients=plan.clients,
        nodes=plan.nodes,
        keys=plan.keys,
        ttl=plan.ttl,
        hold=plan.hold,
        discipline=plan.discipline,
        fencing=plan.fencing,
        time_limit=plan.time_limit,
        faults=plan.faults,
    )


def _as_expected(
    plan: Plan, history: History, verdicts: dict[str, Verdict], decision: Decision
) -> ScenarioResult | UnsetType:
    """Return for a scenario what it documents and whether the run met its expectation."""
    if plan.expect is None:
        return UNSET
    judgement = judge_expectation(plan.expect, verdicts, history, decision)
    return ScenarioResult(
        title=plan.title,
        source=plan.source,
        about=plan.about,
        expect=plan.expect,
        state=judgement.state,
        why=judgement.why,
        found_s=judgement.found_s,
    )


def _stats(history: History, about: About) -> RunStats:
    acquires = [call.outcome for call in history.calls("acquire")]
    duration = (history.time[-1] - history.origin) / 1e9 if len(history) else 0.0
    return RunStats(
        operations=len(history.calls()),
        acquires_ok=acquires.count("ok"),
        acquires_fail=acquires.count("fail"),
        acquires_info=acquires.count("info"),
        seconds=round(duration, 3),
        key_states=UNSET if about.key_states is None else about.key_states,
    )


def _library_in_image(lock: LockFacts) -> dict[str, str]:
    """Return the library of a lock in another language: it is in the clients' image, not on this machine."""
    name, _, number = lock.library.rpartition(" ")
    return {name: number} if lock.runtime and name else {}


def _packages(plan: Plan) -> tuple[str, ...]:
    """Return the packages of the plan's kind of cluster. A stored plan may name a stranger's, which is not loaded."""
    kind = KINDS.known(plan.kind)
    return () if kind is None else kind.packages


@cache
def versions(packages: tuple[str, ...] = ()) -> dict[str, str]:
    """Return the versions of the packages that decide a run's outcome, ``packages`` (of the kind of cluster) among
    them, and the commit of a harness in a checkout."""
    found = {"python": platform.python_version()}
    for package in ("lock-harness", "greenlet", *packages):
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    with contextlib.suppress(OSError):
        described = subprocess.run(git, capture_output=True, text=True, check=False)
        if described.returncode == 0:
            found["commit"] = described.stdout.strip()
    return found
