"""Random statements over a few connections have the same outcome on the simulated MariaDB and on a real one.

Rows, affected rows, ids, errors and waits are compared. With waits there are only two connections: on a real server the
order of two statements that are unblocked together is random.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial

import pytest

from tests.clusters.real import servers
from tests.conftest import Address
from tests.sim.mysql_random import SETUP, StatementGenerator
from tests.sim.mysql_runner import StepResults, connect_to, run_steps, run_steps_simulated

SEEDS = range(int(os.environ.get("HARNESS_MYSQL_SEEDS", "6")))
LENGTH = 80
PATIENCE_S = {False: 20.0, True: 0.6}
"""Seconds after which a statement on a real server is considered to wait, by whether statements wait for locks."""


def generator(seed: int, *, blocking: bool) -> StatementGenerator:
    return StatementGenerator(seed, 2 if blocking else 3, blocking=blocking)


def simulate_steps(seed: int, *, blocking: bool) -> StepResults:
    return run_steps_simulated(SETUP, generator(seed, blocking=blocking).steps(LENGTH))


def compare(seed: int, address: Address, *, blocking: bool) -> int:
    """Compare with a real server and return the number of statements."""
    steps = generator(seed, blocking=blocking).steps(LENGTH)
    expected = run_steps(partial(connect_to, *address), SETUP, steps, PATIENCE_S[blocking])
    got = simulate_steps(seed, blocking=blocking)
    for number, (want, have) in enumerate(zip(expected, got, strict=False)):
        assert have == want, (seed, number, expected[max(0, number - 12) : number])
    assert len(got) == len(expected)
    return len(got)


@pytest.fixture(scope="module")
def real_mysql() -> Iterator[Address]:
    """Start a real server and yield its address."""
    with servers("mysql-single", 1) as cluster:
        yield cluster.endpoints().addresses[0]


@pytest.mark.docker
@pytest.mark.parametrize("blocking", [False, True], ids=["fail", "wait"])
@pytest.mark.parametrize("seed", SEEDS)
def test_random_statements(seed: int, blocking: bool, real_mysql: Address) -> None:
    assert compare(seed, real_mysql, blocking=blocking) >= LENGTH / 2


@pytest.mark.parametrize("blocking", [False, True], ids=["fail", "wait"])
def test_random_statements_get_the_same_answers_twice(blocking: bool) -> None:
    results = simulate_steps(1, blocking=blocking)
    assert results == simulate_steps(1, blocking=blocking)
    assert any(waited for _, _, waited, _ in results) == blocking
    assert {outcome[0] for _, _, _, outcome in results} == {"rows", "ok", "error"}
