"""The same random statements over a few connections to the simulated MariaDB and to a real one: the same rows, rows
affected, ids, errors and waits.

Where statements wait for each other there are two connections: who of two that were freed together comes first is
chance on a real server.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial

import pytest

from tests.clusters.real import servers
from tests.conftest import Address
from tests.sim.mysql_play import Told, connect_to, play, play_simulated
from tests.sim.mysql_random import SETUP, Generator

SEEDS = range(int(os.environ.get("HARNESS_MYSQL_SEEDS", "6")))
LENGTH = 80
PATIENCE = {False: 20.0, True: 0.6}
"""Seconds after which a real server's statement is taken to wait, where none should and where some do."""


def generator(seed: int, *, blocking: bool) -> Generator:
    return Generator(seed, 2 if blocking else 3, blocking=blocking)


def simulated(seed: int, *, blocking: bool) -> Told:
    return play_simulated(SETUP, generator(seed, blocking=blocking).steps(LENGTH))


def compare(seed: int, address: Address, *, blocking: bool) -> int:
    """Returns how many statements were compared."""
    steps = generator(seed, blocking=blocking).steps(LENGTH)
    expected = play(partial(connect_to, *address), SETUP, steps, PATIENCE[blocking])
    got = simulated(seed, blocking=blocking)
    for number, (want, have) in enumerate(zip(expected, got, strict=False)):
        assert have == want, (seed, number, expected[max(0, number - 12) : number])
    assert len(got) == len(expected)
    return len(got)


@pytest.fixture(scope="module")
def real_mysql() -> Iterator[Address]:
    """Where a real server listens."""
    with servers("mysql-single", 1) as cluster:
        yield cluster.endpoints().addresses[0]


@pytest.mark.docker
@pytest.mark.parametrize("blocking", [False, True], ids=["fail", "wait"])
@pytest.mark.parametrize("seed", SEEDS)
def test_random_statements(seed: int, blocking: bool, real_mysql: Address) -> None:
    assert compare(seed, real_mysql, blocking=blocking) >= LENGTH / 2


@pytest.mark.parametrize("blocking", [False, True], ids=["fail", "wait"])
def test_random_statements_are_answered_the_same_twice(blocking: bool) -> None:
    told = simulated(1, blocking=blocking)
    assert told == simulated(1, blocking=blocking)
    assert any(waited for _, _, waited, _ in told) == blocking
    assert {outcome[0] for _, _, _, outcome in told} == {"rows", "ok", "error"}
