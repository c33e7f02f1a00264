"""The leader of a quorum is lost and another is elected, on simulated and on real ensembles; a fault without effect
is reported."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from harness.clusters.abilities import leader_of
from harness.clusters.base import names
from harness.faults.base import Observation
from harness.faults.catalogue import fault_class
from tests.clusters.bench import AnyCluster, Bench, fault, scene, until_healed

KINDS = ("zookeeper", "etcd")
HOWS = ("kill", "pause", "isolate")
METHODS = {"kill": "kill", "pause": "pause", "isolate": "cut"}


def _lose_leader(cluster: AnyCluster, how: str, patience: float = 20.0) -> tuple[Observation, Observation, str | None]:
    """Return the observations of the fault and of its heal, and the last leader."""
    damage = fault("leader-loss", how=how, patience=patience).inject(scene(cluster))
    seen = damage.observe()
    damage.heal()
    return seen, until_healed(damage.healed), leader_of(cluster)


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("kind", KINDS)
def test_another_leader_is_elected_and_the_old_one_comes_back(kind: str, how: str, bench: Bench) -> None:
    seen, healed, leader = bench.on(kind, partial(_lose_leader, how=how))
    assert seen.effective, seen
    assert seen.facts["primary_after"] != seen.facts["primary_before"]
    assert healed.effective, healed
    assert leader is not None


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_without_effect_is_reported(kind: str, how: str, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def struck(cluster: AnyCluster) -> Observation:
        with monkeypatch.context() as patch:
            patch.setattr(cluster, METHODS[how], _nothing)
            return _lose_leader(cluster, how, patience=1.0)[0]

    seen = bench.on(kind, struck)
    assert not seen.effective
    assert seen.facts["primary_after"] == seen.facts["primary_before"]


def _nothing(*args: Any, **kwargs: Any) -> None: ...


@pytest.mark.parametrize("kind", KINDS)
def test_leader_loss_uses_only_its_declared_needs(kind: str, bench: Bench) -> None:
    assert fault_class("leader-loss").needs <= bench.abilities(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_follower_is_no_leader(kind: str, bench: Bench) -> None:
    """Control: after the loss of a follower, the leader stays."""

    def led(cluster: AnyCluster) -> list[str | None]:
        before = leader_of(cluster)
        follower = next(name for name in names(cluster.hosts, "server") if name != before)
        damage = fault("kill", target=follower).inject(scene(cluster))
        assert damage.observe().effective
        meanwhile = leader_of(cluster)
        damage.heal()
        until_healed(damage.healed)
        return [before, meanwhile, leader_of(cluster)]

    before, *later = bench.on(kind, led)
    assert before is not None
    assert later == [before, before]
