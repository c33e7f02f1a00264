"""A run that is cut short: no thread injects a fault, sends a request or connects while the cluster is being
removed."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.clusters.base import ClusterEndpoints
from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.gate import NetworkGate, NetworkRemoved
from harness.clusters.real_cluster import RealCluster
from harness.clusters.servers.cluster import DirectCluster
from harness.clusters.ssh.cluster import SshCluster
from harness.history import History
from harness.plan import FaultSpec, Plan, dump
from harness.run.nemesis import Nemesis
from harness.run.opening import open_simulated
from harness.run.plans.completion import complete
from harness.run.plans.lock_facts import find_facts
from harness.run.processes.signals import FORCED_EXIT_INTERRUPTS
from harness.run.recording import _interrupts
from harness.run.runner import Runner, Stopped
from harness.run.store import HISTORY, PLAN
from harness.run.verdicts.judging import rejudge


def test_shutting_a_gate_waits_for_threads_outside_and_refuses_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.clusters.gate.PATIENCE", 60.0)
    gate = NetworkGate()
    came_back = threading.Event()
    out = threading.Event()

    def dial() -> None:
        with gate.open():
            out.set()
            time.sleep(0.1)
            came_back.set()

    threading.Thread(target=dial).start()
    assert out.wait(60)
    gate.shut()
    assert came_back.is_set()
    with pytest.raises(NetworkRemoved), gate.open():
        pass


def test_shutting_a_gate_stops_waiting_after_its_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.clusters.gate.PATIENCE", 0.05)
    gate = NetworkGate()
    with gate.open():
        gate.shut()


class _Containers(DockerCluster):
    """Has no containers."""

    def __init__(self) -> None:
        RealCluster.__init__(self)
        self._names = []
        self._hosts = {}
        self._sound, self._route, self._processors = False, None, None
        self._report = lambda line: None

    def start_all(self) -> None:
        pass


class _OwnServers(DirectCluster):
    """Has no servers and no clients."""

    def __init__(self) -> None:
        RealCluster.__init__(self)
        self._servers, self._clients, self._addresses = {}, {}, []
        self._report = lambda line: None

    def _start(self) -> None:
        pass


class _OwnMachines(SshCluster):
    """Has no machines."""

    def __init__(self) -> None:
        RealCluster.__init__(self)
        self._hosts = {}
        self._report = lambda line: None

    def _start(self) -> None:
        pass


@pytest.mark.parametrize("made", [_Containers, _OwnServers, _OwnMachines])
@pytest.mark.parametrize("signals", [1, FORCED_EXIT_INTERRUPTS - 1, FORCED_EXIT_INTERRUPTS])
def test_only_a_third_interrupt_cuts_the_removal_short(made: type[RealCluster], signals: int) -> None:
    """Also if the run has ended before its time limit, here at a violation."""
    cluster: Any = made()
    removed: list[str] = []

    def remove() -> None:
        for _ in range(signals):
            signal.raise_signal(signal.SIGINT)
        removed.append("containers")

    def main() -> None:
        cluster._closing.callback(remove)
        raise Stopped

    forced = signals == FORCED_EXIT_INTERRUPTS
    with _interrupts(cluster), pytest.raises(KeyboardInterrupt if forced else Stopped):
        cluster.run(main)
    assert removed == ([] if forced else ["containers"])


class _Broken:
    """A cluster whose clients cannot be launched."""

    backend = "docker"
    kind = "redis-single"
    hosts = ()

    @property
    def parts(self) -> tuple[object, ...]:
        return (self,)

    def run(self, main: object) -> None:
        assert callable(main)
        main()

    def clock(self) -> tuple[int, int]:
        return time.monotonic_ns(), time.time_ns()

    def tap(self, tap: object) -> None:
        raise RuntimeError("broken on purpose")


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_the_nemesis_ends_with_a_run_that_is_cut_short(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would inject faults for ever, at addresses that no longer belong to the cluster."""

    def cut_short(self: Nemesis) -> None:
        raise error

    monkeypatch.setattr(Nemesis, "stop", cut_short)
    plan = Plan(lock="redis-token", time_limit=0.3, settle=0.1, faults=(FaultSpec("kill", every=100.0, for_=1.0),))
    runner = Runner(plan, find_facts("redis-token"), _Broken())  # type: ignore[arg-type]
    if error is KeyboardInterrupt:
        runner.run()
    else:
        with pytest.raises(error):
            runner.run()
    deadline = time.monotonic() + 60
    while any(thread.name == "nemesis" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


class _Exiting:
    """A cluster whose client begins to exit as soon as it runs. Its process is gone when the cluster is being
    removed."""

    backend = "servers"
    kind = "redis-single"
    hosts = (SimpleNamespace(name="c0", role="client", address=""),)

    def __init__(self) -> None:
        self.gone = False
        self.broken = False
        self.asked = threading.Event()
        self.started: list[str] = []

    @property
    def parts(self) -> tuple[object, ...]:
        return (self,)

    def run(self, main: Callable[[], None]) -> None:
        try:
            main()
        finally:
            self.gone = True
            while not self.started and any(thread.name == "exits" for thread in threading.enumerate()):
                time.sleep(0.01)

    def clock(self) -> tuple[int, int]:
        return time.monotonic_ns(), time.time_ns()

    def endpoints(self) -> ClusterEndpoints:
        return ClusterEndpoints(self.kind, ())

    def resource(self) -> tuple[str, int]:
        return "", 0

    def launch(self, client: str, job: object, record: Callable[..., None]) -> Callable[[float], bool]:
        del job
        mono, wall = self.clock()
        record(time=mono, wall=wall, process=0, type_="info", f="exit", node=client)
        return lambda timeout: self.asked.wait(60)

    def incarnation(self, host: str) -> int | None:
        del host
        self.asked.set()
        if self.broken:
            raise RuntimeError("broken on purpose")
        return None if self.gone else 1

    def start(self, host: str, *, wiped: bool) -> None:
        del wiped
        self.started.append(host)

    def pause(self, host: str) -> None: ...

    def resume(self, host: str) -> None: ...

    def kill(self, host: str, *, for_good: bool = False) -> None: ...

    def state(self, host: str) -> str:
        del host
        return "running"

    def key_count(self, host: str) -> int | None: ...


def _run_exiting(cluster: _Exiting, *, stopped: bool = False) -> None:
    plan = complete(Plan(lock="redis-token", workload="exit", time_limit=0.02, settle=0.01))
    runner = Runner(plan, find_facts("redis-token"), cluster)  # type: ignore[arg-type]
    runner.ends = lambda: stopped
    runner.run()


def test_a_process_that_exits_is_not_started_again_while_the_cluster_is_removed() -> None:
    """Nothing would end the new one."""
    cluster = _Exiting()
    _run_exiting(cluster, stopped=True)
    assert cluster.started == []


def test_an_error_of_the_cluster_while_processes_exit_ends_the_run() -> None:
    """Otherwise processes that have ended would stay away, which would look like a fault of the lock."""
    cluster = _Exiting()
    cluster.broken = True
    with pytest.raises(RuntimeError, match="broken on purpose"):
        _run_exiting(cluster)


def _entry(seconds: float, process: int, f: str, type_: str = "info", value: Any = None) -> dict[str, Any]:
    client = {} if process < 0 else {"key": "k0", "node": f"c{process}"}
    time_ns = int(seconds * 1e9)
    return {"time": time_ns, "wall": time_ns, "process": process, "type": type_, "f": f, "value": value, **client}


def test_a_killed_run_is_judged_up_to_the_last_entry_of_every_client(tmp_path: Path) -> None:
    """c0's release was not written before the kill, but the next grant was. This is no violation."""
    settings = {"clients": ["c0", "c1"], "discipline": "trusting", "ttl": 2.0, "hold": 0.1, "slack": 1.0}
    grant = {"fence": 1, "valid_for": 2.0}
    told = [
        _entry(1.0, -1, "start", value=settings),
        _entry(1.2, 1, "acquire", "invoke"),
        _entry(1.1, 0, "acquire", "invoke"),  # this entry arrived a little later
        _entry(1.3, 0, "acquire", "ok", grant),
        _entry(1.4, 1, "acquire", "ok", grant),
        _entry(1.45, 1, "read", "invoke"),
    ]
    lines = [json.dumps({"index": index, **entry}) + "\n" for index, entry in enumerate(told)]
    (tmp_path / HISTORY).write_text("".join(lines))
    (tmp_path / PLAN).write_text(dump(complete(Plan(lock="redis-token", cluster="docker", clients=2))))
    assert rejudge(tmp_path).verdicts["mutual-exclusion"].valid is None
    assert [op.time for op in History.load(tmp_path / HISTORY)] == sorted(entry["time"] for entry in told)
    (tmp_path / PLAN).write_text(dump(complete(Plan(lock="redis-token", clients=2))))
    assert rejudge(tmp_path).verdicts["mutual-exclusion"].valid is False, "a simulated run is written as it happens"


def test_the_end_of_a_run_excludes_the_removal_of_its_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """The removal records no client entries. A gap there would look like an unavailable lock."""
    now = [1_000_000_000, 5_000_000_000]
    plan = complete(Plan(lock="redis-token", time_limit=1.0))
    runner = Runner(plan, find_facts("redis-token"), open_simulated(plan))

    def cluster_run(main: Any) -> None:
        with pytest.raises(KeyboardInterrupt):
            main()
        now[0] += 9_000_000_000  # the removal
        raise KeyboardInterrupt

    def execute() -> None:
        runner.recorder.nemesis("start", {})
        now[0] += 500_000_000
        raise KeyboardInterrupt

    cluster = runner._cluster
    monkeypatch.setattr(cluster, "run", cluster_run)
    monkeypatch.setattr(cluster, "clock", lambda: (now[0], now[1]))
    monkeypatch.setattr(runner.recorder, "_clock", lambda: (now[0], now[1]))
    monkeypatch.setattr(runner, "_execute", execute)
    runner.run()
    assert [op.time for op in runner.recorder.history] == [1_000_000_000, 1_500_000_000]
