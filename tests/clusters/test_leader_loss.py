"""The leader of a quorum is lost and another is elected: on simulated and on real ensembles, and seen not to happen
where nothing was done."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from harness.clusters.base import Cluster, names
from harness.faults.base import Seen
from harness.nemesis import fault_class
from tests.clusters.bench import Bench, fault, scene, until_healed

KINDS = ("zookeeper", "etcd")
HOWS = ("kill", "pause", "isolate")
METHODS = {"kill": "kill", "pause": "pause", "isolate": "cut"}


def _lost(cluster: Cluster, how: str, patience: float = 20.0) -> tuple[Seen, Seen, str | None]:
    """What was seen of the fault and of its heal, and who leads in the end."""
    damage = fault("leader-loss", how=how, patience=patience).inject(scene(cluster))
    seen = damage.observe()
    damage.heal()
    return seen, until_healed(damage.healed), cluster.primary()


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("kind", KINDS)
def test_another_is_elected_and_the_old_one_comes_back(kind: str, how: str, bench: Bench) -> None:
    seen, healed, leader = bench.on(kind, partial(_lost, how=how))
    assert seen.effective, seen
    assert seen.facts["primary_after"] != seen.facts["primary_before"]
    assert healed.effective, healed
    assert leader is not None


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("kind", KINDS)
def test_one_that_does_nothing_is_seen_to(kind: str, how: str, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def struck(cluster: Cluster) -> Seen:
        with monkeypatch.context() as patch:
            patch.setattr(cluster, METHODS[how], _nothing)
            return _lost(cluster, how, patience=1.0)[0]

    seen = bench.on(kind, struck)
    assert not seen.effective
    assert seen.facts["primary_after"] == seen.facts["primary_before"]


def _nothing(*args: Any, **kwargs: Any) -> None: ...


@pytest.mark.parametrize("kind", KINDS)
def test_it_needs_only_what_it_says(kind: str, bench: Bench) -> None:
    assert fault_class("leader-loss").needs <= bench.abilities(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_follower_is_no_leader(kind: str, bench: Bench) -> None:
    """The control of this file: with a follower gone, the same one leads."""

    def led(cluster: Cluster) -> list[str | None]:
        before = cluster.primary()
        follower = next(name for name in names(cluster.hosts, "server") if name != before)
        damage = fault("kill", target=follower).inject(scene(cluster))
        assert damage.observe().effective
        meanwhile = cluster.primary()
        damage.heal()
        until_healed(damage.healed)
        return [before, meanwhile, cluster.primary()]

    before, *later = bench.on(kind, led)
    assert before is not None
    assert later == [before, before]
