"""Digests of the histories of simulated runs, which must not change: the same plan and seed give the same bytes.

The digests were recorded before the code was moved into packages (commit 1606d80). After an intended change of what a
run records, record them again: ``python -m tests.runs.test_golden_histories``."""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path

import pytest

from harness.faults.catalogue import default_specs
from harness.plan import Plan
from harness.run.runs import run
from harness.run.store import HISTORY

DIGESTS = Path(__file__).with_name("golden_histories.txt")
ROWS = [tuple(line.split()) for line in DIGESTS.read_text(encoding="utf-8").splitlines()]
REPLICATED = {("redis-token", "failover"), ("redis-wait", "partition-replicas")}
TTL_S = 0.5


def digest(lock: str, nemesis: str, store: Path) -> str:
    """Return the SHA-256 of the history of five simulated seconds."""
    kind = "redis-sentinel" if (lock, nemesis) in REPLICATED else ""
    faults = tuple(default_specs(nemesis, TTL_S))
    plan = Plan(lock=lock, kind=kind, ttl=TTL_S, hold=0.05, time_limit=5.0, seed=7, faults=faults)
    folder = run(plan, store=store).folder
    assert folder is not None
    return hashlib.sha256((folder / HISTORY).read_bytes()).hexdigest()


@pytest.mark.few(2)
@pytest.mark.parametrize(("lock", "nemesis", "expected"), ROWS, ids=["-".join(row[:2]) for row in ROWS])
def test_history_has_the_recorded_digest(lock: str, nemesis: str, expected: str, tmp_path: Path) -> None:
    assert digest(lock, nemesis, tmp_path) == expected


def test_golden_histories_cover_thirty_pairs_and_a_dozen_third_party_locks() -> None:
    from harness.lock_impls import catalogue

    third_party = {lock for lock, _, _ in ROWS if catalogue.description(lock).library}
    assert len(ROWS) >= 30
    assert len(third_party) >= 12, third_party


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        lines = [f"{lock} {nemesis} {digest(lock, nemesis, Path(folder))}" for lock, nemesis, _ in ROWS]
    DIGESTS.write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.stdout.write(f"{len(lines)} digests written to {DIGESTS}\n")
