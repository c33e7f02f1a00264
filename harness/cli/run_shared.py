"""Execution of one run, or of many seeds, for a command: progress goes to stderr, the verdict to stdout."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console

from harness.checkers.base import badness
from harness.documents import RunsDocument, SeedRun
from harness.documents import runs as runs_schema
from harness.documents.messages import TraceMode
from harness.errors import UNKNOWN, VALID, VIOLATION, UsageError
from harness.plan import BACKENDS, SERVERS, SSH, Plan
from harness.run.plans.completion import choose, complete
from harness.run.processes.interpreter import interpreter_of
from harness.run.progress import Progress
from harness.run.runs import run
from harness.run.store import writable
from harness.run.verdicts.judging import Result
from harness.run.with_report import with_report
from harness.wording import certainty, counted

from .annotations import annotate_result
from .options import environment_progress, printed, progress_bar
from .terminal import SeedResult, print_document, print_result, print_tally, tally
from .verdicts import print_status

AUTO: Final = "auto"


def refuse_unknown_cluster(cluster: str) -> None:
    """Raise UsageError unless ``cluster`` is sim, docker or auto."""
    if cluster not in (AUTO, *BACKENDS):
        raise UsageError(f"cluster must be one of {', '.join([AUTO, *BACKENDS])}, got {cluster!r}")


def complete_for(plan: Plan, cluster: str) -> tuple[Plan, str]:
    """Return the plan completed for ``cluster`` (sim, docker or auto), and why ``auto`` chose that cluster."""
    if not (plan.servers and cluster == SERVERS) and not (plan.hosts and cluster == SSH):
        refuse_unknown_cluster(cluster)
        plan = msgspec.structs.replace(
            plan, servers=(), hooks={}, hosts=(), client_hosts=(), client_python="", host_setup="", ssh_config=""
        )
    if cluster == AUTO:
        return choose(plan)
    plan = msgspec.structs.replace(plan, cluster=cluster)
    interpreter_of(plan, environment_progress)
    return complete(plan), ""


def run_and_print(
    plan: Plan,
    out: Path,
    command: str,
    reason: str,
    *,
    json: bool,
    quiet: bool,
    silent: bool = False,
    record_wire: bool = False,
    trace: TraceMode = "violations",
    remote_servers: bool = False,
) -> Result:
    """Run a completed plan, store it with its report, and print its verdict.

    ``reason`` says why this cluster was chosen. With ``silent`` the caller prints the verdict. ``remote_servers``
    allows servers of the user's on other machines."""
    writable(out)
    console = Console(stderr=True, quiet=json or quiet, highlight=False)
    because = f" ({reason})" if reason else ""
    console.print(f"cluster: {plan.cluster}, {plan.kind}, {counted(plan.nodes, 'node')}{because}", soft_wrap=True)
    # Output of a lock must not get into the result document on stdout.
    with contextlib.redirect_stdout(sys.stderr), progress_bar(console, plan.lock) as progress:
        result = run(
            plan,
            store=out,
            command=command,
            reason=reason,
            progress=progress,
            record_wire=record_wire,
            trace=trace,
            remote_servers=remote_servers,
        )
        progress(1.0, "writing: the report")
        from harness.reports import run_report  # loads the plotting library, which no run should wait for

        assert result.folder is not None
        run_report.write(result.folder)
    if json or not silent:
        printed(lambda: print_result(result, json=json, quiet=quiet))
    return result


def run_seeds_and_print(
    plan: Plan,
    runs: int,
    out: Path,
    command: str,
    reason: str,
    *,
    json: bool,
    quiet: bool = False,
    trace: TraceMode = "violations",
    remote_servers: bool = False,
) -> int:
    """Run a completed plan with consecutive seeds, print a table of the verdicts, and return the exit status.

    Runs that are not valid are stored with a report. Runs in real time are not reproducible, so all of them are
    stored."""
    writable(out)
    store = None if plan.cluster == "sim" else out
    console = Console(stderr=True, quiet=json or quiet, highlight=False)
    outcomes: list[SeedResult] = []
    documents: list[SeedRun] = []
    with contextlib.redirect_stdout(sys.stderr), progress_bar(console, plan.lock) as progress:
        for number in range(runs):
            seeded = msgspec.structs.replace(plan, seed=plan.seed + number)
            within = _run_progress(progress, number, runs, tally(outcomes))
            result = run(
                seeded, store=store, command=command, reason=reason, progress=within, trace=trace,
                remote_servers=remote_servers,
            )  # fmt: skip
            if result.interrupted:
                break
            if result.valid is not True:
                within(1.0, "writing: the report")
                result = with_report(result, out, command, reason, trace=trace)
                annotate_result(result)
            outcomes.append(SeedResult.of(result))
            if json:
                documents.append(seed_run(result))
    worst = max((badness(outcome.valid) for outcome in outcomes), default=badness(None))
    status = UNKNOWN if worst == 0 and len(outcomes) < runs else (VALID, UNKNOWN, VIOLATION)[worst]
    if json:
        printed(lambda: print_document(runs_document(documents, runs, status)))
    else:
        printed(lambda: print_status(status) if quiet else print_tally(outcomes, runs))
    return status


def seed_run(result: Result) -> SeedRun:
    """Return a run as a part of the document of its command."""
    return SeedRun(folder=str(result.folder or ""), results=result.results)


def runs_document(runs: Sequence[SeedRun], planned: int, status: int) -> RunsDocument:
    """Return the document of a command that made ``runs``, of ``planned`` ones."""
    sure = certainty(len(runs)) if runs and all(run.results.valid for run in runs) else ""
    return RunsDocument(schema=runs_schema.SCHEMA, planned=planned, status=status, certainty=sure, runs=tuple(runs))


def _run_progress(progress: Progress, number: int, runs: int, found: str) -> Progress:
    """Return the progress callback for run ``number`` (from 0) of ``runs``; ``found`` sums up the runs before it."""
    so_far = f"run {number + 1} of {runs} · " + (f"{found} · " if found else "")

    def report(fraction: float, text: str) -> None:
        phase, _, more = text.partition(": ")
        progress((number + fraction) / runs, f"{phase}: {so_far}{more}")

    return report
