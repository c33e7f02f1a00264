"""Operations of the helper, without processes and containers."""

from __future__ import annotations

import pytest

from harness.clusters.docker.helper import clocks, processes, vdso
from harness.clusters.docker.helper.arguments import Arguments
from harness.clusters.docker.helper.operations import OperationError, Operations


def test_a_process_that_is_forked_while_clocks_are_moved_is_moved_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    before_fork, after_fork = [7, 9], [7, 8, 9, 10]
    listings = [before_fork, after_fork]
    moved: list[int] = []
    monkeypatch.setattr(processes, "members", lambda _: listings.pop(0))
    monkeypatch.setattr(processes, "runs", lambda _: True)
    monkeypatch.setattr(vdso, "move", lambda pid, offset_ns, rate: moved.append(pid))
    found = Operations().table["clock"](Arguments({"pids": [1], "offset_ns": 5, "rate": 0.0}))
    assert moved == [7, 9, 8, 10]
    assert found == {1: moved}


def moved_when_memory_is_gone(monkeypatch: pytest.MonkeyPatch, runs: list[bool], gone: int) -> object:
    """Set the clock of process 7, whose memory is gone ``gone`` times; ``runs`` says each time whether it runs."""
    answers = iter(runs)
    refusals = iter([True] * gone)
    monkeypatch.setattr(processes, "members", lambda _: [7])
    monkeypatch.setattr(processes, "runs", lambda _: next(answers))

    def move(pid: int, offset_ns: int, rate: float) -> None:
        if next(refusals, False):
            raise vdso.MemoryGone(f"process {pid} has ended or never existed")

    monkeypatch.setattr(vdso, "move", move)
    return Operations().table["clock"](Arguments({"pids": [1], "offset_ns": 5, "rate": 0.0}))


def test_a_process_whose_program_is_replaced_is_moved_in_its_new_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    assert moved_when_memory_is_gone(monkeypatch, [True, True, True], 2) == {1: [7]}


def test_a_process_that_loses_its_memory_before_it_has_ended_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Redis server forks a process that saves its data and ends soon."""
    assert moved_when_memory_is_gone(monkeypatch, [True, True, False], 2) == {1: []}


def test_a_running_process_that_never_gets_memory_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "PATIENCE", 0.0)
    with pytest.raises(OperationError, match="process 7: process 7 has ended"):
        moved_when_memory_is_gone(monkeypatch, [True] * 100, 100)
