"""One run from its plan to its verdict: open the cluster, record the history, check it, and store the results."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from harness.checkers import catalogue as checker_catalogue
from harness.checkers.running import run_all
from harness.clusters.abilities import LOCK_KEYS
from harness.clusters.base import Cluster
from harness.clusters.sim.cluster import SimCluster
from harness.errors import HarnessError, UsageError
from harness.faults.catalogue import needs
from harness.files import write_file
from harness.history import HistoryWriter
from harness.history.lock_keys import KEYS, KeyWriter
from harness.lock_impls.catalogue import LOCKS
from harness.plan import Plan, dump
from harness.worker import client_program
from harness.worker.client_program import WORKLOADS, stock_of
from harness.worker.resource import Resource

from .completion import complete
from .judging import About, Recorded, Result, judge
from .lock_facts import find_facts
from .progress import Progress, ProgressReporter
from .runner import Runner
from .store import HISTORY, PLAN, new_run, writable, write_logs

if TYPE_CHECKING:  # importing it loads the Docker SDK
    from harness.clusters.docker.site import SiteSource

FORCED_EXIT_INTERRUPTS: Final = 3
"""Number of interrupts after which a run ends without removing its containers."""


def _no_report(line: str) -> None:
    """No-op progress callback."""


def open_cluster(
    plan: Plan,
    report: Callable[[str], None] = _no_report,
    *,
    sites: SiteSource | None = None,
) -> Cluster:
    """Open the cluster of a completed plan. ``report`` is called with each step of its start. A real cluster takes its
    containers from ``sites``; with None it starts and removes its own."""
    stock = stock_of(plan)
    if plan.cluster == "docker":
        return _docker_cluster(plan, stock, report, sites)
    cluster = SimCluster(
        kind=plan.kind,
        nodes=plan.nodes,
        clients=plan.clients,
        seed=plan.seed,
        resource=Resource(plan.fencing, stock).answer,
        options=plan.server_options,
        program=client_program.run,
        shuffle=plan.shuffle,
    )
    for delay in plan.delays:
        cluster.delay_message(delay.source, delay.target, delay.nth, delay.by)
    return cluster


def _docker_cluster(
    plan: Plan, stock: dict[str, Any], report: Callable[[str], None], sites: SiteSource | None
) -> Cluster:
    from harness.clusters.docker.cluster import Clients, DockerCluster
    from harness.clusters.docker.images.requirements import requirements_of

    requirements = [requirements_of(name) for name in (LOCKS.source(plan.lock), WORKLOADS.source(plan.workload))]
    folders = {folder for _, folder in requirements if folder is not None}
    if len(folders) > 1:
        raise UsageError(f"lock and workload must come from one folder, got {' and '.join(sorted(map(str, folders)))}")
    runtime = find_facts(plan.lock).runtime
    return DockerCluster(
        kind=plan.kind,
        nodes=plan.nodes,
        clients=Clients(
            plan.clients,
            tuple(sorted({name for names, _ in requirements for name in names})),
            next(iter(folders), None),
            runtime,
            {"name": plan.lock, "ttl": plan.ttl, "options": plan.lock_options} if runtime else None,
        ),
        seed=plan.seed,
        resource=msgspec.json.encode({"fencing": plan.fencing, "stock": stock}).decode(),
        options=plan.server_options,
        needs=frozenset(need for spec in plan.faults for need in needs(spec)),
        image=plan.image,
        report=report,
        sites=sites,
    )


def run(
    plan: Plan,
    *,
    store: Path | None = None,
    command: str = "",
    reason: str = "",
    progress: Progress | None = None,
    open_cluster: Callable[[Plan, Callable[[str], None]], Cluster] = open_cluster,
) -> Result:
    """Run a plan, check its history, and store both under ``store``; without a store nothing is stored.

    ``command`` and ``reason`` (why this cluster was chosen) are noted in the results. ``open_cluster`` may be the
    method of a :class:`harness.run.cluster_pool.ClusterPool`. Raises UsageError before anything starts if the plan
    cannot be run.
    """
    lock = find_facts(plan.check().lock)
    plan = complete(plan, lock)
    reporter = None if progress is None else ProgressReporter(progress)
    report = _no_report if reporter is None else reporter.cluster
    report(f"{plan.kind} on {plan.cluster}")
    if store is not None:
        writable(store)
    cluster = open_cluster(plan, report)
    started = datetime.now(UTC)
    folder = None if store is None else new_run(store, plan.lock, plan.seed, started)
    if folder is not None:
        write_file(folder / PLAN, dump(plan))
    writer = None if folder is None else HistoryWriter(folder / HISTORY)
    runner = Runner(plan, cluster, writer=writer, progress=reporter)
    if isinstance(cluster, SimCluster):
        runner.recorder.on_failure = cluster.interrupt
    real = time.monotonic()
    try:
        with _interrupts(cluster, runner), _keys_watched(plan, cluster, folder):
            runner.run()
        if runner.recorder.failure is not None:
            raise runner.recorder.failure
    except Exception as error:
        if folder is not None:
            with contextlib.suppress(HarnessError):
                write_logs(folder, cluster.logs(runner.recorder.history.origin))
            error.add_note(f"the history recorded until then is in {folder}")
        raise
    real = time.monotonic() - real
    recorded = runner.recorder.history
    history = recorded.in_order()
    if folder is not None:
        if history is not recorded:
            history.save(folder / HISTORY)
        write_logs(folder, cluster.logs(history.origin))
    about = About({**cluster.about(), "reason": reason}, f"{started:%Y-%m-%dT%H:%M:%SZ}", command, round(real, 3))
    checkers = checker_catalogue.chosen(plan.checkers)
    found = run_all(history, checkers if reporter is None else reporter.checking(checkers))
    return judge(Recorded(plan, lock, history, folder, about), found)


@contextlib.contextmanager
def _keys_watched(plan: Plan, cluster: Cluster, folder: Path | None) -> Iterator[None]:
    """Record the servers' values of the locks' keys in the folder, if there is one."""
    watch = LOCK_KEYS.find(cluster)
    if folder is None or watch is None:
        yield
        return
    with KeyWriter(folder / KEYS) as writer:
        watch.watch_keys([f"k{number}" for number in range(plan.keys)], writer.write)
        yield


@contextlib.contextmanager
def _interrupts(cluster: Cluster, runner: Runner) -> Iterator[None]:
    """Make SIGINT and SIGTERM end the run early instead of the process, so that the history and a report remain.

    After the first signal a real cluster removes its containers. Only a third signal stops that as well."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signals = 0

    def handler(*_: Any) -> None:
        nonlocal signals
        signals += 1
        removing = not isinstance(cluster, SimCluster) and (signals > 1 or runner.over)
        if removing and signals < FORCED_EXIT_INTERRUPTS:
            return
        if signals > 1:  # code of a lock in an endless loop never yields, so the second signal interrupts it directly
            raise KeyboardInterrupt
        cluster.interrupt()

    old = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, before in old.items():
            signal.signal(number, before)
