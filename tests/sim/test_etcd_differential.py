"""Random requests through etcd3 get the same answers from the simulated etcd and from a real one.

Responses, refusals, revisions and the events in each response of a watch are compared.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.clusters.real import servers
from tests.sim.etcd_random import EtcdRequestGenerator, EtcdRequestRunner, Operation
from tests.sim.etcd_world import EtcdWorld, client

SEEDS = range(int(os.environ.get("HARNESS_ETCD_SEEDS", "6")))
LENGTH = 200
Real = tuple[tuple[str, int], int]
"""Address of a real member, and the number of members."""


def simulate_requests(operations: list[Operation], nodes: int, *, alone: bool) -> list[str]:
    world = EtcdWorld(nodes)
    results: list[str] = world.run(lambda: EtcdRequestRunner(client("n1", timeout=20), alone=alone).run(operations))[0]
    return results


def compare(seed: int, real: Real) -> int:
    """Compare with a real server and return the number of operations."""
    (host, port), nodes = real
    operations = EtcdRequestGenerator(seed).sequence(LENGTH)
    with client(host, timeout=20, port=port) as etcd:
        expected = EtcdRequestRunner(etcd, alone=nodes == 1).run(operations)
    got = simulate_requests(operations, nodes, alone=nodes == 1)
    for number, (want, have) in enumerate(zip(expected, got, strict=True)):
        assert have == want, (seed, number, operations[number : number + 1])
    return len(operations)


@pytest.fixture(scope="module", params=[1, 3])
def real_etcd(request: pytest.FixtureRequest) -> Iterator[Real]:
    """Start a real cluster; yield one member's address and the number of members."""
    with servers("etcd", request.param) as cluster:
        yield cluster.endpoints().addresses[0], request.param


@pytest.mark.docker
@pytest.mark.parametrize("seed", SEEDS)
def test_random_requests(seed: int, real_etcd: Real) -> None:
    assert compare(seed, real_etcd) == LENGTH


def test_random_requests_get_the_same_answers_twice_and_from_one_or_three_members() -> None:
    operations = EtcdRequestGenerator(1).sequence(LENGTH)
    assert simulate_requests(operations, 1, alone=False) == simulate_requests(operations, 3, alone=False)
    assert simulate_requests(operations, 3, alone=False) == simulate_requests(operations, 3, alone=False)


def test_random_requests_cover_most_answers() -> None:
    """Requests that are always or never refused would make the comparison worthless."""
    results = [
        line
        for seed in range(4)
        for line in simulate_requests(EtcdRequestGenerator(seed).sequence(LENGTH), 1, alone=True)
    ]
    refusals = {line for line in results if "etcdserver:" in line}
    assert len(refusals) >= 10
    assert sum("succeeded: true" in line for line in results) > 50
    assert sum("prev_kv" in line for line in results if line.startswith("watch")) >= 3
    assert sum(line.startswith("header { revision") for line in results) > 400
