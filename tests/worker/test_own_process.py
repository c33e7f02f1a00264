"""A user's module is imported in workers alone, whatever command names it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.plan import FaultSpec, Plan
from harness.search.executions import repeat
from harness.search.exhaustive import exhaust
from harness.search.replay import prepare, simulate
from harness.search.scope import Scope
from harness.studies.compare.plans import ComparisonRequest, jobs

LOCK = '''
import os
from pathlib import Path

Path({pids!r}).open("a").write(f"{{os.getpid()}}\\n")


class NaiveLock:
    """A key without an owner, so that a client removes the key of another one."""

    def __init__(self, client, name, ttl):
        self.client, self.name, self.ttl = client, name, ttl

    def acquire(self, timeout):
        return bool(self.client.set(self.name, "taken", nx=True, px=int(self.ttl * 1000)))

    def release(self):
        self.client.delete(self.name)
'''


@pytest.fixture
def pids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the module ``naive``, which adds the id of each process that imports it to the file that is returned."""
    path = tmp_path / "pids"
    (tmp_path / "naive.py").write_text(LOCK.format(pids=str(path)))
    monkeypatch.chdir(tmp_path)
    return path


def imported_elsewhere(path: Path) -> bool:
    found = set(map(int, path.read_text().split()))
    return bool(found) and os.getpid() not in found


@pytest.mark.slow
def test_the_rehearsal_of_a_replay_imports_a_users_lock_in_workers(pids: Path) -> None:
    pause = FaultSpec("client-pause", on="acquire", client=0, for_=3.0, params={"target": "holder"})
    plan = Plan(lock="naive:NaiveLock", clients=2, time_limit=8.0, faults=(pause,), shared_files=True)
    simulated = simulate(plan)
    assert "mutual-exclusion" in simulated.violated()
    prepare(simulated)
    assert imported_elsewhere(pids)


def test_a_comparison_imports_a_users_lock_in_workers(pids: Path) -> None:
    found = jobs(ComparisonRequest(locks=("naive:NaiveLock",), nemeses=("client-pause",)))
    assert {job.lock for job in found} == {"naive:NaiveLock"}
    assert imported_elsewhere(pids)


@pytest.mark.slow
def test_an_exhaustive_search_and_its_repetition_import_a_users_lock_in_workers(pids: Path) -> None:
    scope = Scope(lock="naive:NaiveLock", access=False)
    found = exhaust(scope).violation
    assert found is not None
    first, second = repeat(scope, found.steps), repeat(scope, found.steps)
    assert first.broken() == second.broken() == found.broken
    assert list(first.history) == list(second.history)
    assert imported_elsewhere(pids)
