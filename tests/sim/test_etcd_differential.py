"""The same random requests through etcd3 to the simulated etcd and to a real one: the same responses and refusals, the
same revisions, the same events in the same responses of each watch."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.clusters.real import servers
from tests.sim.etcd_random import Generator, Operation, Runner
from tests.sim.etcd_world import EtcdWorld, client

SEEDS = range(int(os.environ.get("HARNESS_ETCD_SEEDS", "6")))
LENGTH = 200
Real = tuple[tuple[str, int], int]
"""Where a real member is, and how many there are."""


def simulated(operations: list[Operation], nodes: int, *, alone: bool) -> list[str]:
    world = EtcdWorld(nodes)
    results: list[str] = world.run(lambda: Runner(client("n1", timeout=20), alone=alone).run(operations))[0]
    return results


def compare(seed: int, real: Real) -> int:
    """Returns how many operations were compared."""
    (host, port), nodes = real
    operations = Generator(seed).sequence(LENGTH)
    with client(host, timeout=20, port=port) as etcd:
        expected = Runner(etcd, alone=nodes == 1).run(operations)
    got = simulated(operations, nodes, alone=nodes == 1)
    for number, (want, have) in enumerate(zip(expected, got, strict=True)):
        assert have == want, (seed, number, operations[number : number + 1])
    return len(operations)


@pytest.fixture(scope="module", params=[1, 3])
def real_etcd(request: pytest.FixtureRequest) -> Iterator[Real]:
    """One member of a cluster of that many."""
    with servers("etcd", request.param) as cluster:
        yield cluster.endpoints().addresses[0], request.param


@pytest.mark.docker
@pytest.mark.parametrize("seed", SEEDS)
def test_random_requests(seed: int, real_etcd: Real) -> None:
    assert compare(seed, real_etcd) == LENGTH


def test_random_requests_are_answered_the_same_twice_and_by_one_member_as_by_three() -> None:
    operations = Generator(1).sequence(LENGTH)
    assert simulated(operations, 1, alone=False) == simulated(operations, 3, alone=False)
    assert simulated(operations, 3, alone=False) == simulated(operations, 3, alone=False)


def test_the_requests_meet_most_of_what_etcd_can_answer() -> None:
    """A generator that only ever met refusals, or never one, would compare nothing."""
    results = [line for seed in range(4) for line in simulated(Generator(seed).sequence(LENGTH), 1, alone=True)]
    refusals = {line for line in results if "etcdserver:" in line}
    assert len(refusals) >= 10
    assert sum("succeeded: true" in line for line in results) > 50
    assert sum("prev_kv" in line for line in results if line.startswith("watch")) >= 3
    assert sum(line.startswith("header { revision") for line in results) > 400
