"""One run from its plan to its verdict: record the history, check it, and store the results."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from harness.checkers import catalogue as checker_catalogue
from harness.checkers.running import run_all
from harness.clusters.base import Cluster
from harness.documents.messages import TraceMode
from harness.plan import SERVERS, SSH, Plan

from .opening import open_containers, open_servers, open_ssh
from .plans.completion import complete
from .plans.lock_facts import find_facts
from .plans.servers import refuse_remote_servers
from .processes.interpreter import interpreter_of
from .progress import Progress, ProgressReporter
from .recording import Recording, RunStart, record_on_containers, record_on_own_machines, simulate
from .store import writable
from .tracing import store_trace
from .verdicts.judging import About, Recorded, Result, judge


def run(
    plan: Plan,
    *,
    store: Path | None = None,
    command: str = "",
    reason: str = "",
    progress: Progress | None = None,
    open_cluster: Callable[[Plan, Callable[[str], None]], Cluster] = open_containers,
    record_wire: bool = False,
    trace: TraceMode = "violations",
    remote_servers: bool = False,
) -> Result:
    """Run a plan, check its history, and store both under ``store``; without a store nothing is stored.

    ``command`` and ``reason`` (why this cluster was chosen) are noted in the results. A simulated run happens in a
    process of its own, with the Python and the libraries that the plan requires. A run on containers opens its cluster
    with ``open_cluster``, which may be the method of a :class:`harness.run.containers.cluster_pool.ClusterPool`; with
    ``record_wire`` it also stores what the servers receive and send. ``trace`` says which messages between clients and
    servers are stored decoded: all of them (``on``), none (``off``), or those around violations and all of a short run,
    where the cluster can record them. A plan whose servers the user runs may name servers on other machines only with
    ``remote_servers``. Raises UsageError before anything starts if the plan cannot be run.
    """
    reporter = None if progress is None else ProgressReporter(progress)
    interpreter = interpreter_of(plan.check(), None if reporter is None else reporter.cluster)
    lock = find_facts(plan.lock, interpreter)
    plan = complete(plan, lock)
    if not remote_servers:
        refuse_remote_servers(plan)
    start = RunStart(plan, lock, store, datetime.now(UTC), reporter, record_wire, trace)
    start.report(f"{plan.kind} on {plan.cluster}")
    if store is not None:
        writable(store)
    began = time.monotonic()
    recording = _recorded(start, interpreter, open_cluster)
    took_s = round(time.monotonic() - began, 3)
    about = About(
        {**recording.cluster, "reason": reason},
        f"{start.started:%Y-%m-%dT%H:%M:%SZ}",
        command,
        took_s,
        recording.versions,
        recording.key_states,
    )
    return _judged(start, recording, about)


def _recorded(
    start: RunStart, interpreter: str, open_cluster: Callable[[Plan, Callable[[str], None]], Cluster]
) -> Recording:
    if start.plan.cluster == "sim":
        return simulate(start, interpreter)
    if start.plan.cluster == SERVERS:
        return record_on_own_machines(start, open_servers(start.plan, start.report))
    if start.plan.cluster == SSH:
        return record_on_own_machines(start, open_ssh(start.plan, start.report))
    return record_on_containers(start, open_cluster)


def _judged(start: RunStart, recording: Recording, about: About) -> Result:
    """Check the history of a run, and store the results with it."""
    checkers = checker_catalogue.chosen(start.plan.checkers)
    found = run_all(recording.history, checkers if start.progress is None else start.progress.checking(checkers))
    store_trace(recording, start, found.values())
    return judge(Recorded(start.plan, start.lock, recording.history, recording.folder, about), found)
