"""Operations of the helper, without processes and containers."""

from __future__ import annotations

import pytest

from harness.clusters.docker.helper import processes, vdso
from harness.clusters.docker.helper.arguments import Arguments
from harness.clusters.docker.helper.operations import Operations


def test_a_process_that_is_forked_while_clocks_are_moved_is_moved_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    before_fork, after_fork = [7, 9], [7, 8, 9, 10]
    listings = [before_fork, after_fork]
    moved: list[int] = []
    monkeypatch.setattr(processes, "members", lambda _: listings.pop(0))
    monkeypatch.setattr(vdso, "move", lambda pid, offset_ns, rate: moved.append(pid))
    found = Operations().table["clock"](Arguments({"pids": [1], "offset_ns": 5, "rate": 0.0}))
    assert moved == [7, 9, 8, 10]
    assert found == {1: moved}
