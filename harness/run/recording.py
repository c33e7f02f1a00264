"""Recording of one run, simulated in a worker or in real time; its files grow in the run's folder meanwhile."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.clusters.abilities import LOCK_KEYS, WIRE
from harness.clusters.base import Cluster
from harness.clusters.kinds import KINDS
from harness.clusters.wire import WireRecording
from harness.documents.lock import LockFacts
from harness.documents.messages import TraceMode
from harness.errors import HarnessError
from harness.files import write_file
from harness.history import History, HistoryWriter
from harness.history.lock_keys import KEYS, KeyCollector, KeyWriter, attach_keys, attach_stored_keys
from harness.plan import Plan, dump
from harness.trace.log import LoggedMessages
from harness.trace.storing import may_keep

from .processes.signals import FORCED_EXIT_INTERRUPTS, interrupts_handled
from .progress import ProgressReporter
from .runner import Runner
from .store import HISTORY, PLAN, new_run, write_logs, write_wire
from .supervised import Destination, SupervisedRun
from .violation_watch import ViolationWatch

if TYPE_CHECKING:
    from harness.clusters.servers.cluster import DirectCluster
    from harness.clusters.ssh.cluster import SshCluster


@dataclass(frozen=True, slots=True)
class RunStart:
    """What a run begins with. ``plan`` is completed. ``folder`` is made under ``store``, if there is one. With
    ``record_wire`` it gets what the servers receive and send, where the cluster can record that. ``trace`` says which
    messages are kept decoded."""

    plan: Plan
    lock: LockFacts
    store: Path | None
    started: datetime
    progress: ProgressReporter | None
    record_wire: bool = False
    trace: TraceMode = "violations"

    def make_folder(self) -> Path | None:
        """Make the folder of the run with its plan, if it is stored."""
        if self.store is None:
            return None
        folder = new_run(self.store, self.plan.lock, self.plan.seed, self.started)
        write_file(folder / PLAN, dump(self.plan))
        return folder

    def report(self, line: str) -> None:
        if self.progress is not None:
            self.progress.cluster(line)


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded run: its history, in the order of time, and facts about its cluster and libraries.

    ``messages`` are those of a simulation. ``wire`` are recordings of servers by host, ``sockets`` the logs of clients'
    sockets (see :mod:`harness.history.socket_entries`), and ``hosts`` their names by address. ``key_states`` is the
    number of lines of ``keys.jsonl``, None where it was not written."""

    history: History
    folder: Path | None
    cluster: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    messages: LoggedMessages | None = None
    sockets: dict[str, list[list[Any]]] = field(default_factory=dict)
    wire: dict[str, WireRecording] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)
    key_states: int | None = None


def simulate(start: RunStart, interpreter: str) -> Recording:
    """Run a simulated plan in a worker with the Python at the path ``interpreter``, or else with this one.

    The changes of keys are recorded whether or not the run is stored, since its verdict must be the same."""
    folder = start.make_folder()
    collected = KeyCollector()
    messages = None if folder is None or start.trace == "off" else LoggedMessages()
    writer = None if folder is None else HistoryWriter(folder / HISTORY)
    with contextlib.ExitStack() as stack:
        keys = None if folder is None else stack.enter_context(KeyWriter(folder / KEYS))
        destination = Destination(writer, keys or collected, start.progress, messages=messages)
        run = SupervisedRun(start.plan, start.lock, destination)
        with _history_named(folder):
            try:
                versions = run.run(interpreter=interpreter, packages=KINDS.find(start.plan.kind).packages)
            except Exception:
                if folder is not None:
                    with contextlib.suppress(HarnessError):
                        write_logs(folder, run.logs)
                raise
    history = _stored(run.recorder.history, folder, run.logs)
    if folder is not None:
        attach_stored_keys(history, folder / KEYS)
    else:
        attach_keys(history, collected.states)
    key_states = None if keys is None else keys.written
    return Recording(history, folder, versions=versions, messages=messages, key_states=key_states)


def record_on_containers(start: RunStart, open_cluster: Callable[[Plan, Callable[[str], None]], Cluster]) -> Recording:
    """Run a plan on the cluster that ``open_cluster`` opens."""
    from .processes.client_contents import client_versions  # late: most runs are simulated

    versions = client_versions(start.plan, KINDS.find(start.plan.kind).packages)
    return _record_in_real_time(start, open_cluster(start.plan, start.report), lambda: versions)


def record_on_own_machines(start: RunStart, cluster: DirectCluster | SshCluster) -> Recording:
    """Run a plan on a cluster of servers that the user runs, or of the user's machines."""
    return _record_in_real_time(start, cluster, cluster.versions)


def _record_in_real_time(start: RunStart, cluster: Cluster, versions: Callable[[], dict[str, str]]) -> Recording:
    """Run a plan on a cluster. ``versions`` returns those of the clients' libraries after the run."""
    folder = start.make_folder()
    traced = may_keep(start.trace, KINDS.find(start.plan.kind).service)
    recorder = WIRE.find(cluster) if (start.record_wire or traced) and folder is not None else None
    if recorder is not None:
        recorder.record_wire(sockets=traced)
    writer = None if folder is None else HistoryWriter(folder / HISTORY)
    runner = Runner(start.plan, start.lock, cluster, writer=writer, progress=start.progress)
    if start.plan.stop_on_violation or start.plan.hold_on_violation:
        freeze = runner.freeze if start.plan.hold_on_violation else lambda: None
        watch = ViolationWatch(runner.recorder, in_order=False, on_found=freeze)
        runner.ends = lambda: watch.found
    with _history_named(folder):
        try:
            with _interrupts(cluster), _keys_watched(start.plan, cluster, folder) as keys:
                runner.run()
            if runner.recorder.failure is not None:
                raise runner.recorder.failure
        except Exception:
            if folder is not None:
                with contextlib.suppress(HarnessError):
                    write_logs(folder, cluster.logs(runner.recorder.history.origin))
            raise
    wire = {} if recorder is None else recorder.wire()
    if start.record_wire and folder is not None:
        write_wire(folder, wire)
    sockets = {} if recorder is None else recorder.socket_logs()
    hosts = {host.address: host.name for host in cluster.hosts}
    recorded = runner.recorder.history
    logs = {} if folder is None else cluster.logs(recorded.origin)
    history = _stored(recorded, folder, logs)
    return Recording(
        history, folder, dict(cluster.about()), versions(), sockets=sockets, wire=wire, hosts=hosts,
        key_states=None if keys is None else keys.written,
    )  # fmt: skip


@contextlib.contextmanager
def _history_named(folder: Path | None) -> Iterator[None]:
    """Say in each error where the history recorded until then is."""
    try:
        yield
    except Exception as error:
        if folder is not None:
            error.add_note(f"the history recorded until then is in {folder}")
        raise


def _stored(recorded: History, folder: Path | None, logs: dict[str, str]) -> History:
    """Return the history in the order of time; store it in that order, with the logs."""
    history = recorded.in_order()
    if folder is not None:
        if history is not recorded:
            history.save(folder / HISTORY)
        write_logs(folder, logs)
    return history


@contextlib.contextmanager
def _keys_watched(plan: Plan, cluster: Cluster, folder: Path | None) -> Iterator[KeyWriter | None]:
    """Record the servers' values of the locks' keys in the folder, if there is one."""
    watch = LOCK_KEYS.find(cluster)
    if folder is None or watch is None:
        yield None
        return
    with KeyWriter(folder / KEYS) as writer:
        watch.watch_keys([f"k{number}" for number in range(plan.keys)], writer.write)
        yield writer


def _interrupts(cluster: Cluster) -> contextlib.AbstractContextManager[None]:
    """Make SIGINT and SIGTERM end the run early instead of the process, so that the history and a report remain.

    After the first signal the cluster removes its containers, if it does not do so already. Only a third signal stops
    that as well."""
    signals = 0

    def handler(*_: Any) -> None:
        nonlocal signals
        signals += 1
        if signals >= FORCED_EXIT_INTERRUPTS:
            raise KeyboardInterrupt
        if signals == 1:
            cluster.interrupt()

    return interrupts_handled(handler)
