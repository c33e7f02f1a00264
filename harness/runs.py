"""One run, from plan to verdict."""

from __future__ import annotations

import contextlib
import platform
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

import checkers.catalogue
from checkers.base import Verdict, merge, run_all
from lock_impls.base import LockInfo

from . import client_program, story
from .client_program import find_lock, find_workload
from .clusters import kinds
from .clusters.base import Cluster
from .clusters.sim import SimCluster
from .completion import complete
from .errors import UNKNOWN, VALID, VIOLATION, UsageError
from .expectation import judge
from .fault_specs import needs
from .history import History, HistoryError, HistoryWriter
from .history.lock_keys import KEYS, KeyWriter
from .plan import Plan, dump, load
from .progress import Progress, Telling
from .runner import Runner
from .store import HISTORY, PLAN, new_run, write_logs, write_results
from .workloads.resource import Resource

if TYPE_CHECKING:  # it takes the SDK along
    from .clusters.docker_site import Sites

SCHEMA: Final = 1
INSISTS: Final = 3
"""Interrupts after which a run does not even clean up."""
UNHEARD_NS: Final = 100_000_000
"""What a client tells is recorded within so much time."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a run found. ``document`` is ``results.json``; ``folder`` is None if nothing was stored."""

    plan: Plan
    history: History
    verdicts: dict[str, Verdict]
    verdict: Verdict
    document: dict[str, Any]
    folder: Path | None

    @property
    def valid(self) -> bool | None:
        return self.verdict.valid

    @property
    def interrupted(self) -> bool:
        """Was the run ended by Ctrl-C or SIGTERM?"""
        return any(op.value["reason"] == "interrupted" for op in self.history.nemesis("stop"))

    @property
    def exit_status(self) -> int:
        return {True: VALID, False: VIOLATION, None: UNKNOWN}[self.valid]


def _nobody(line: str) -> None:
    """Is told, and tells nobody."""


def open_cluster(
    plan: Plan,
    report: Callable[[str], None] = _nobody,
    *,
    sites: Sites | None = None,
) -> Cluster:
    """The cluster a completed plan asks for; ``report`` is told what its start is at. ``sites`` are where a real one
    gets its containers from: none are kept if it is None."""
    stock = find_workload(plan.workload).stock(plan, plan.time_limit)
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
        cluster.hold_up(delay.source, delay.target, delay.nth, delay.by)
    return cluster


def _docker_cluster(plan: Plan, stock: dict[str, Any], report: Callable[[str], None], sites: Sites | None) -> Cluster:
    from .clusters.docker import Clients, DockerCluster
    from .containers.requirements import requirements_of

    asked = [requirements_of(name) for name in (plan.lock, plan.workload)]
    folders = {folder for _, folder in asked if folder is not None}
    if len(folders) > 1:
        raise UsageError(f"lock and workload must come from one folder, got {' and '.join(sorted(map(str, folders)))}")
    runtime = find_lock(plan.lock).info.runtime
    return DockerCluster(
        kind=plan.kind,
        nodes=plan.nodes,
        clients=Clients(
            plan.clients,
            tuple(sorted({name for names, _ in asked for name in names})),
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
    """Run a plan, check its history, and store both under ``store`` (nothing is stored without one).

    ``command`` and ``reason`` (why this cluster) are noted in the results; ``open_cluster`` may be that of
    :class:`harness.kept.Kept`. Raises UsageError before anything starts if
    the plan cannot be run.
    """
    plan = complete(plan.check())
    telling = None if progress is None else Telling(progress)
    report = _nobody if telling is None else telling.cluster
    report(f"{plan.kind} on {plan.cluster}")
    cluster = open_cluster(plan, report)
    started = datetime.now(UTC)
    folder = None if store is None else new_run(store, plan.lock, plan.seed, started)
    if folder is not None:
        (folder / PLAN).write_text(dump(plan), encoding="utf-8")
    writer = None if folder is None else HistoryWriter(folder / HISTORY)
    runner = Runner(plan, cluster, writer=writer, progress=telling)
    real = time.monotonic()
    try:
        with _interrupts(cluster, runner), _keys_watched(plan, cluster, folder):
            runner.run()
    except Exception as error:
        if folder is not None:
            write_logs(folder, cluster.logs(runner.recorder.history.origin))
            error.add_note(f"what was recorded is in {folder}")
        raise
    real = time.monotonic() - real
    recorded = runner.recorder.history
    history = recorded.in_order()
    if folder is not None:
        if history is not recorded:
            history.save(folder / HISTORY)
        write_logs(folder, cluster.logs(history.origin))
    about = {
        "cluster": {**cluster.about(), "reason": reason},
        "started_at": f"{started:%Y-%m-%dT%H:%M:%SZ}",
        "command": command,
        "real_seconds": round(real, 3),
    }
    return _judge(plan, history, folder, about, telling)


@contextlib.contextmanager
def _keys_watched(plan: Plan, cluster: Cluster, folder: Path | None) -> Iterator[None]:
    """What servers have under the locks' keys goes into the folder, if there is one."""
    if folder is None:
        yield
        return
    with KeyWriter(folder / KEYS) as writer:
        cluster.watch_keys([f"k{number}" for number in range(plan.keys)], writer.write)
        yield


def rejudge(folder: Path) -> Result:
    """Check the history of a stored run again, also of one that was killed before it could; rewrites its results."""
    try:
        recorded, _ = History.salvage(folder / HISTORY)
    except HistoryError as error:
        raise UsageError(str(error)) from error
    plan, history = complete(load(folder / PLAN)), recorded.in_order()
    if history is not recorded:  # evidence names entries by their numbers
        history.save(folder / f"ordered-{HISTORY}")
        (folder / f"ordered-{HISTORY}").replace(folder / HISTORY)
    return _judge(plan, _heard(plan, history), folder, {})


def _heard(plan: Plan, history: History) -> History:
    """As much of a history as was heard of all clients: when a real run was killed, one's release could be on its way
    and the next one's grant be written already."""
    if plan.cluster == "sim" or not len(history) or history.nemesis("stop"):
        return history
    return History(op for op in history if op.time <= history.time[-1] - UNHEARD_NS)


def _judge(
    plan: Plan, history: History, folder: Path | None, about: dict[str, Any], telling: Telling | None = None
) -> Result:
    every = checkers.catalogue.all()
    verdicts = run_all(history, every if telling is None else telling.checking(every))
    document = _document(plan, history, verdicts)
    cluster = {**document["cluster"], **about.get("cluster", {})}
    document = {**document, **about, "cluster": cluster, "stats": _stats(history)}
    if folder is not None:
        document["replay"] = shlex.join(["harness", "replay", str(folder)])
        write_results(folder, document)
    return Result(plan, history, verdicts, merge(verdicts), document, folder)


@contextlib.contextmanager
def _interrupts(cluster: Cluster, runner: Runner) -> Iterator[None]:
    """SIGINT and SIGTERM end the run early instead of the process; the history and a report remain.

    On real servers containers are being removed after the first: only a third one leaves the rest of them behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked = 0

    def handler(*_: Any) -> None:
        nonlocal asked
        asked += 1
        removing = not isinstance(cluster, SimCluster) and (asked > 1 or runner.over)
        if removing and asked < INSISTS:
            return
        if asked > 1:  # a lock that computes without end never gives way: the second time it is interrupted itself
            raise KeyboardInterrupt
        cluster.interrupt()

    old = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, before in old.items():
            signal.signal(number, before)


def _document(plan: Plan, history: History, verdicts: dict[str, Verdict]) -> dict[str, Any]:
    info = find_lock(plan.lock).info
    verdict = merge(verdicts)
    return {
        "schema": SCHEMA,
        "valid": verdict.valid,
        "verdict": {True: "valid", False: "violation found", None: "unknown"}[verdict.valid],
        "summary": story.tell(plan, history, verdicts) + story.unpromised(verdicts, info),
        "unknown_because": [f"{name}: {v.explanation}" for name, v in verdicts.items() if v.valid is None],
        "lock": plan.lock,
        "lock_title": info.title,
        "lock_safety": info.safety,
        "seed": plan.seed,
        "cluster": {"backend": plan.cluster, "kind": plan.kind, **_hosts(history)},
        "plan": {**_titled(plan), **{f: getattr(plan, f) for f in _SHOWN}, "faults": msgspec.to_builtins(plan.faults)},
        "checkers": {name: verdict.to_json() for name, verdict in verdicts.items()},
        "faults": [msgspec.to_builtins(fault) for fault in story.fault_records(history)],
        "fencing_note": story.fencing_note(plan, history, info.fence),
        "versions": {**versions(kinds.KINDS[plan.kind].family), **_published(info)},
        **_as_expected(plan, history, verdicts),
    }


def _as_expected(plan: Plan, history: History, verdicts: dict[str, Verdict]) -> dict[str, Any]:
    """Of a scenario: its story, and whether the run came out as it says."""
    if plan.expect is None:
        return {}
    judgement = judge(plan.expect, verdicts, history.origin)
    told = {"title": plan.title, "source": plan.source, "about": plan.about}
    return {"scenario": {**told, "expect": msgspec.to_builtins(plan.expect), **asdict(judgement)}}


def _titled(plan: Plan) -> dict[str, str]:
    """What the run is for, where its plan says so: of scenarios, and of what a comparison asks beside its cells."""
    return {"title": plan.title} if plan.title else {}


_SHOWN: Final = (
    "workload", "clients", "nodes", "keys", "ttl", "hold", "discipline", "fencing", "time_limit"
)  # fmt: skip


def _hosts(history: History) -> dict[str, Any]:
    start: dict[str, Any] = next((op.value for op in history.nemesis("start")), {})
    return {role: start.get(role, []) for role in ("servers", "sentinels", "clients")}


def _stats(history: History) -> dict[str, Any]:
    acquires = [call.outcome for call in history.calls("acquire")]
    duration = (history.time[-1] - history.origin) / 1e9 if len(history) else 0.0
    return {
        "operations": len(history.calls()),
        **{f"acquires_{outcome}": acquires.count(outcome) for outcome in ("ok", "fail", "info")},
        "seconds": round(duration, 3),
    }


_CLIENTS: Final = {
    "redis": ("redis", "lupa"),
    "mysql": ("PyMySQL",),
    "memcached": ("pymemcache",),
    "zookeeper": ("kazoo",),
    "etcd": ("etcd3", "grpcio"),
    "hazelcast": ("hazelcast-python-client",),
}
"""What a run depends on beside the harness, by family: the client library, and what runs Lua scripts on sim."""


def _published(info: LockInfo) -> dict[str, str]:
    """The library that a lock is of, where this machine may not have it: it is in its clients' image."""
    name, _, number = info.library.rpartition(" ")
    return {name: number} if info.runtime and name else {}


@cache
def versions(family: str = "") -> dict[str, str]:
    """Versions of what decides a run's outcome; the harness with its commit where it runs from a checkout."""
    found = {"python": platform.python_version()}
    for package in ("lock-harness", "greenlet", *_CLIENTS.get(family, ())):
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    git = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    with contextlib.suppress(OSError):
        said = subprocess.run(git, capture_output=True, text=True, check=False)
        if said.returncode == 0:
            found["commit"] = said.stdout.strip()
    return found
