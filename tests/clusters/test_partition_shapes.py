"""Links that each kind of partition cuts."""

from __future__ import annotations

from random import Random

import pytest

from harness.faults.partition import bridge, halves, links_between, ring
from tests.clusters.bench import fault as build
from tests.clusters.bench import make, on, scene


def test_between_cuts_both_ways() -> None:
    assert links_between(["a"], ["b", "c"]) == [("a", "b"), ("b", "a"), ("a", "c"), ("c", "a")]


@pytest.mark.parametrize("count", range(2, 9))
def test_halves_differ_by_at_most_one_host_and_contain_all(count: int) -> None:
    hosts = [f"n{n}" for n in range(count)]
    left, right = halves(hosts, Random(count))
    assert sorted(left + right) == hosts
    assert len(right) - len(left) in (0, 1)


@pytest.mark.parametrize("count", [5, 7, 9])
def test_on_a_ring_everybody_sees_a_majority_and_no_two_the_same(count: int) -> None:
    hosts = [f"n{n}" for n in range(count)]
    cut = set(ring(hosts))
    views = [tuple(b for b in hosts if a == b or (a, b) not in cut) for a in hosts]
    assert all(len(view) > count / 2 for view in views)
    assert all(len(view) < count for view in views)
    assert len(set(views)) == count
    assert all((b, a) in cut for a, b in cut)


@pytest.mark.parametrize("count", [3, 5, 6])
def test_over_a_bridge_the_halves_meet_in_one_host_only(count: int) -> None:
    hosts = [f"n{n}" for n in range(count)]
    cut = set(bridge(hosts))
    middle = [a for a in hosts if not any(a in pair for pair in cut)]
    assert middle == [hosts[count // 2]]


@pytest.mark.parametrize(
    ("params", "links"),
    [
        ({"left": "n1", "right": "n2,c0"}, links_between(["n1"], ["n2", "c0"])),
        ({"left": "n1,c0"}, links_between(["n1", "c0"], ["n2", "n3", "n4", "n5", "c1", "c2"])),
    ],
)
def test_halves_of_certain_hosts(params: dict[str, str], links: list[tuple[str, str]]) -> None:
    """Without ``right``, the second half is all other hosts. A host in neither half reaches both."""
    cluster = make("redis-independent")

    def main() -> list[str]:
        damage = build("partition-halves", **params).inject(scene(cluster))
        seen = damage.observe()
        damage.heal()
        assert seen.effective, seen
        assert damage.healed().effective
        return list(seen.facts["cut"])

    assert sorted(on(cluster, main)) == sorted(f"{a}>{b}" for a, b in links)
