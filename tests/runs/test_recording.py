"""The end of a recorded history: no entry after it was closed, and one last entry at the right time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from harness.checkers.base import doubt_of
from harness.checkers.catalogue import chosen
from harness.checkers.running import run_all
from harness.clusters.base import Cluster
from harness.errors import HarnessError
from harness.history import History, HistoryWriter, Op
from harness.plan import Plan
from harness.run.plans.completion import complete
from harness.run.plans.lock_facts import find_facts
from harness.run.recorder import Recorder
from harness.run.runner import Runner


def record(recorder: Recorder, at: int) -> None:
    """An entry of a client."""
    recorder.record(time=at, wall=at + 1000, process=0, type_="invoke", f="acquire", key="k0", node="c0")


@pytest.mark.parametrize("stored", [True, False])
def test_entries_after_the_history_is_closed_are_ignored(stored: bool, tmp_path: Path) -> None:
    """A client may call during teardown, but its history, file and listeners end before that."""
    path = tmp_path / "history.jsonl"
    recorder = Recorder(HistoryWriter(path) if stored else None, lambda: (7, 1007))
    heard: list[Op] = []
    recorder.listeners.append(heard.append)
    record(recorder, 1)
    recorder.close()
    record(recorder, 2)
    recorder.nemesis("crash", {"host": "c0"})
    assert [op.time for op in recorder.history] == [1]
    assert [op.time for op in heard] == [1]
    if stored:
        assert [op.time for op in History.load(path)] == [1]


class _ScriptedCluster:
    """Has no clients. Its clocks stand at ``ended`` until it is removed, which takes a second."""

    backend = "sim"
    hosts = ()

    @property
    def parts(self) -> tuple[object, ...]:
        return (self,)

    def __init__(self, ended: tuple[int, int], at_the_end: Callable[[], None]) -> None:
        self.now = ended
        self._at_the_end = at_the_end

    def run(self, main: Callable[[], None]) -> None:
        main()
        self.now = self.now[0] + 10**9, self.now[1] + 10**9

    def clock(self) -> tuple[int, int]:
        return self.now

    def tap(self, tap: object) -> None:
        self._at_the_end()


@pytest.mark.parametrize(
    ("last", "stop"),
    [(130, (130, 5030)), (100, (100, 5000)), (99, (100, 5000)), (None, (100, 5000))],
    ids=["an entry after the end", "one at the end", "one before it", "no other entry"],
)
def test_the_stop_entry_is_at_the_end_of_the_run_or_the_last_client_entry(
    last: int | None, stop: tuple[int, int]
) -> None:
    """The run ends at (100, 5000) by the two clocks. A later client entry moves the stop entry; both clocks advance
    alike.

    The removal of the cluster is not part of the run. It records no client entries, which must not look like an
    unavailable lock."""

    def at_the_end() -> None:
        runner.recorder.history = (
            History()
        )  # drops the entry that starts the run, which would be at the end as well here
        if last is not None:
            record(runner.recorder, last)

    cluster = _ScriptedCluster((100, 5000), at_the_end)
    plan = complete(Plan(lock="redis-token", time_limit=0.02, settle=0.01))
    runner = Runner(plan, find_facts("redis-token"), cast(Cluster, cluster))
    runner.run()
    (*_, ended) = runner.recorder.history
    assert (ended.f, ended.value) == ("stop", {"reason": "time limit"})
    assert (ended.time, ended.wall) == stop


class _ShrinkingCluster(_ScriptedCluster):
    """Loses a machine ``after_s`` its start, and is not removed before that."""

    def __init__(self, after_s: float) -> None:
        super().__init__((100, 5000), lambda: None)
        self._until = time.monotonic() + after_s

    def run(self, main: Callable[[], None]) -> None:
        try:
            super().run(main)
        finally:
            time.sleep(max(0.0, self._until - time.monotonic()))

    def lost(self) -> str:
        return "the host h1 was lost" if time.monotonic() >= self._until else ""


@pytest.mark.parametrize(
    ("time_limit", "reason"), [(600.0, "crashed"), (0.02, "time limit")], ids=["in the middle", "while it is removed"]
)
def test_the_loss_of_a_machine_ends_the_run_with_doubt(time_limit: float, reason: str) -> None:
    """The last entries of a machine that is lost while the cluster is removed may be missing, too."""
    plan = complete(Plan(lock="redis-token", time_limit=time_limit, settle=0.01))
    runner = Runner(plan, find_facts("redis-token"), cast(Cluster, _ShrinkingCluster(0.2)))
    began = time.monotonic()
    runner.run()
    assert time.monotonic() - began < 10
    (*_, ended) = runner.recorder.history
    assert ended.value == {"reason": reason, "doubt": "the host h1 was lost"}
    assert doubt_of(runner.recorder.history) == "the run proves nothing: the host h1 was lost"


class _DeafClients(_ScriptedCluster):
    """Two of its clients do not answer at the end."""

    def unheard(self) -> list[str]:
        return ["c0", "c2"]


def test_a_run_proves_nothing_if_last_entries_may_be_missing() -> None:
    """A release that is missing looks like an overlap."""
    plan = complete(Plan(lock="redis-token", time_limit=0.02, settle=0.01))
    runner = Runner(plan, find_facts("redis-token"), cast(Cluster, _DeafClients((100, 5000), lambda: None)))
    runner.run()
    verdicts = run_all(runner.recorder.history, chosen(()))
    why = "c0 and c2 did not answer when the run ended, so that last entries may be missing"
    assert {(verdict.valid, verdict.explanation) for verdict in verdicts.values()} == {
        (None, f"the run proves nothing: {why}")
    }


class _FullDisk:
    """Has room for the first entry of a history only."""

    def write(self, op: Op) -> None:
        if op.index > 0:
            raise HarnessError("no space left")

    def close(self) -> None:
        pass


class _RecordingCluster(_ScriptedCluster):
    """Its thread records an entry of a client, as real clusters do."""

    def __init__(self, record: Callable[[], None]) -> None:
        super().__init__((100, 5000), lambda: None)
        self._record = record

    def run(self, main: Callable[[], None]) -> None:
        threading.Thread(target=self._record, daemon=True).start()
        super().run(main)


def test_a_run_whose_history_cannot_be_written_ends_early() -> None:
    """The write that fails happens in another thread than the one that waits for the time limit."""
    plan = complete(Plan(lock="redis-token", time_limit=60.0, settle=0.01))

    def record_one() -> None:
        while not len(runner.recorder.history):  # the entry that starts the run is the first
            time.sleep(0.001)
        record(runner.recorder, 130)

    cluster = cast(Cluster, _RecordingCluster(record_one))
    runner = Runner(plan, find_facts("redis-token"), cluster, writer=_FullDisk())
    with pytest.raises(HarnessError, match=r"^no space left$"):
        runner.run()
