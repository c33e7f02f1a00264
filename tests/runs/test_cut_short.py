"""A run that is cut short: nobody goes on to fault, ask or dial what is being removed."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from harness.clusters import sim_kinds
from harness.completion import complete
from harness.containers.gate import Gate, Shut
from harness.history import History
from harness.nemesis import Nemesis
from harness.plan import FaultSpec, Plan, dump
from harness.runner import Runner
from harness.runs import open_cluster, rejudge
from harness.store import HISTORY, PLAN


def test_nobody_passes_a_gate_that_is_shut_and_who_is_outside_is_waited_for() -> None:
    gate = Gate()
    came_back = threading.Event()
    out = threading.Event()

    def dial() -> None:
        with gate.open():
            out.set()
            time.sleep(0.1)
            came_back.set()

    threading.Thread(target=dial).start()
    assert out.wait(5)
    gate.shut()
    assert came_back.is_set()
    with pytest.raises(Shut), gate.open():
        pass


def test_who_never_comes_back_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.containers.gate.PATIENCE", 0.05)
    gate = Gate()
    with gate.open():
        gate.shut()


class _Broken:
    """A cluster whose clients cannot be launched."""

    backend = "docker"
    kind = "redis-single"
    abilities = sim_kinds.abilities("redis-single")
    hosts = ()

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
    """It would strike for ever, at addresses that are not the cluster's any more."""

    def cut_short(self: Nemesis) -> None:
        raise error

    monkeypatch.setattr(Nemesis, "stop", cut_short)
    plan = Plan(lock="redis-token", time_limit=0.3, settle=0.1, faults=(FaultSpec("kill", every=100.0, for_=1.0),))
    runner = Runner(plan, _Broken(), writer=None, progress=None)  # type: ignore[arg-type]
    if error is KeyboardInterrupt:
        runner.run()
    else:
        with pytest.raises(error):
            runner.run()
    deadline = time.monotonic() + 5
    while any(thread.name == "nemesis" for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _entry(seconds: float, process: int, f: str, type_: str = "info", value: Any = None) -> dict[str, Any]:
    client = {} if process < 0 else {"key": "k0", "node": f"c{process}"}
    time_ns = int(seconds * 1e9)
    return {"time": time_ns, "wall": time_ns, "process": process, "type": type_, "f": f, "value": value, **client}


def test_a_killed_run_is_judged_by_what_was_heard_of_all_clients(tmp_path: Path) -> None:
    """c0 has released its lock, which was not written any more; the next grant was. Nobody is to blame."""
    settings = {"clients": ["c0", "c1"], "discipline": "trusting", "ttl": 2.0, "hold": 0.1, "slack": 1.0}
    grant = {"fence": 1, "valid_for": 2.0}
    told = [
        _entry(1.0, -1, "start", value=settings),
        _entry(1.2, 1, "acquire", "invoke"),
        _entry(1.1, 0, "acquire", "invoke"),  # heard a little later
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


def test_a_run_ends_when_it_ends_and_not_when_its_cluster_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """In between nobody is heard: a gap there would look as if nobody had got the lock."""
    now = [1_000_000_000, 5_000_000_000]
    plan = complete(Plan(lock="redis-token", time_limit=1.0))
    runner = Runner(plan, open_cluster(plan), writer=None, progress=None)

    def cluster_run(main: Any) -> None:
        with pytest.raises(KeyboardInterrupt):
            main()
        now[0] += 9_000_000_000  # the removal
        raise KeyboardInterrupt

    def play() -> None:
        runner.recorder.nemesis("start", {})
        now[0] += 500_000_000
        raise KeyboardInterrupt

    cluster = runner._cluster
    monkeypatch.setattr(cluster, "run", cluster_run)
    monkeypatch.setattr(cluster, "clock", lambda: (now[0], now[1]))
    monkeypatch.setattr(runner.recorder, "_clock", lambda: (now[0], now[1]))
    monkeypatch.setattr(runner, "_play", play)
    runner.run()
    assert [op.time for op in runner.recorder.history] == [1_000_000_000, 1_500_000_000]
