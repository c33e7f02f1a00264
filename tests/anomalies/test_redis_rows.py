"""Every documented failure of a Redis lock is found by the checker that is named for it, and its cure passes."""

from __future__ import annotations

import msgspec
import pytest

from harness.runs import Result, run
from tests.anomalies.rows import ROWS, Row


def explained(result: Result) -> str:
    return "\n".join(f"{name}: {verdict.valid} {verdict.explanation}" for name, verdict in result.verdicts.items())


def check_faults_seen(result: Result) -> None:
    assert result.verdicts["faults"].valid is True, explained(result)
    assert len(result.document["faults"]) >= len(result.plan.faults), "every fault of the story struck"


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_the_failure_is_found(row: Row, seed: int) -> None:
    result = run(msgspec.structs.replace(row.broken, seed=seed))
    check_faults_seen(result)
    for checker, valid in {row.checker: False, **row.also}.items():
        assert result.verdicts[checker].valid is valid, explained(result)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_the_cure_passes(row: Row, seed: int) -> None:
    result = run(msgspec.structs.replace(row.fixed, seed=seed))
    check_faults_seen(result)
    assert result.verdicts[row.checker].valid is True, explained(result)
