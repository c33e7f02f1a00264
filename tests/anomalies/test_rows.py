"""Every documented failure is found by the checker that is named for it, and its cure passes: on the simulator, and
on containers; a choice of them there in every CI run, and the others with ``-m long``."""

from __future__ import annotations

import importlib
import pkgutil

import msgspec
import pytest

import tests.anomalies
from harness.plan import Plan
from harness.runs import Result, run
from tests.anomalies.rows import Row

SEEDS = [0, pytest.param(1, marks=pytest.mark.slow)]


def _rows() -> list[Row]:
    """Of all modules beside this one whose name ends in ``rows``."""
    found = [name for _, name, _ in pkgutil.iter_modules(tests.anomalies.__path__) if name.endswith("rows")]
    modules = [importlib.import_module(f"tests.anomalies.{name}") for name in found if not name.startswith("test_")]
    return [row for module in modules for row in module.ROWS]


ROWS = _rows()
ON_SIM = [pytest.param(row, id=row.id) for row in ROWS if row.sim]
MARKS = {"ci": pytest.mark.docker, "long": pytest.mark.long}
REAL = [pytest.param(row, id=row.id, marks=MARKS[row.real]) for row in ROWS if row.real]


def on_docker(plan: Plan) -> Plan:
    return msgspec.structs.replace(plan, cluster="docker", time_limit=min(plan.time_limit, 30.0))


def explained(result: Result) -> str:
    return "\n".join(f"{name}: {verdict.valid} {verdict.explanation}" for name, verdict in result.verdicts.items())


def check_faults_seen(result: Result) -> None:
    assert result.verdicts["faults"].valid is True, explained(result)
    assert len(result.document["faults"]) >= len(result.plan.faults), "every fault of the story struck"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("row", ON_SIM)
def test_the_failure_is_found(row: Row, seed: int) -> None:
    result = run(msgspec.structs.replace(row.broken, seed=seed))
    check_faults_seen(result)
    for checker, valid in {row.checker: False, **row.also}.items():
        assert result.verdicts[checker].valid is valid, explained(result)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("row", ON_SIM)
def test_the_cure_passes(row: Row, seed: int) -> None:
    result = run(msgspec.structs.replace(row.fixed, seed=seed))
    check_faults_seen(result)
    assert result.verdicts[row.checker].valid is True, explained(result)


def test_no_row_is_there_twice() -> None:
    assert len({row.id for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", REAL)
def test_the_failure_is_found_on_containers(row: Row) -> None:
    result = run(on_docker(row.broken))
    check_faults_seen(result)
    for checker, valid in {row.checker: False, **row.also}.items():
        assert result.verdicts[checker].valid is valid, explained(result)


@pytest.mark.parametrize("row", REAL)
def test_the_cure_passes_on_containers(row: Row) -> None:
    result = run(on_docker(row.fixed))
    check_faults_seen(result)
    assert result.verdicts[row.checker].valid is True, explained(result)
