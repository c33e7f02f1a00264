"""A fault, and its heal, count as effective only if they took effect on every host and link that they are meant for."""

from __future__ import annotations

import dataclasses
import threading
import time
from random import Random
from typing import Any, cast

import msgspec
import pytest

from harness.checkers.faults_seen import FaultsChecker
from harness.clusters.abilities import Ability
from harness.clusters.base import Cluster
from harness.faults import calls, link, membership, pause, starvation
from harness.faults.base import Damage, InjectionContext, Observation, once
from harness.faults.catalogue import fault_class, fault_names
from harness.history import History, Op
from tests.faults.fakes import Deaf, FakeCluster, scene

SEVERAL: dict[str, dict[str, Any]] = {
    "bit-flip": {"target": "servers"},
    "client-crash": {"target": "clients", "restart": True},
    "client-hang": {"target": "clients"},
    "client-pause": {"target": "clients"},
    "clock-drift": {"target": "servers"},
    "clock-jump": {"target": "servers"},
    "clock-skew": {"target": "servers"},
    "clock-strobe": {"target": "servers"},
    "connection-reset": {"target": "clients"},
    "cpu-starvation": {"target": "clients"},
    "disk-full": {"target": "servers"},
    "disk-stall": {"target": "servers"},
    "eviction": {"target": "servers"},
    "file-truncation": {"target": "servers"},
    "kill": {"target": "servers"},
    "kill-amnesia": {"target": "servers"},
    "power-loss": {"target": "servers"},
    "server-pause": {"target": "servers"},
    "task-cancel": {"target": "clients"},
    "thread-interrupt": {"target": "clients"},
}
"""Parameters with which a fault strikes several hosts; the others do by default."""
ONE_HOST = {"failover", "leader-loss", "membership-change"}
"""Faults of one host."""
ONE_MESSAGE = {"lost-reply", "delayed-request"}
"""Faults that catch one message, on whichever link it comes first."""
BY_CHANCE = {"packet-loss"}
"""The effect is counted over all links together."""
FAULTS = [name for name in fault_names() if name != "none"]
ON_SEVERAL = [name for name in FAULTS if name not in ONE_HOST | ONE_MESSAGE | BY_CHANCE]
LEAVES_NOTHING = {
    "client-hang", "connection-reset", "rolling-upgrade", "task-cancel", "thread-interrupt", *ONE_MESSAGE
}  # fmt: skip
"""Faults whose heal has nothing to undo on the hosts that they struck."""


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pause, "PATIENCE", 0.0)
    monkeypatch.setattr(calls, "PATIENCE_S", 0.0)
    monkeypatch.setattr(starvation, "PERIODS", 0.1)
    monkeypatch.setattr(membership, "SERVES_WITHIN_S", 0.0)
    monkeypatch.setattr(link, "CATCH_WITHIN_S", 0.0)


def inject(name: str, cluster: FakeCluster) -> Damage:
    fault = msgspec.convert(SEVERAL.get(name, {}), fault_class(name))
    return fault.inject(scene(cluster))


def inject_and_observe(name: str, deaf: Deaf) -> Observation:
    return inject(name, FakeCluster(deaf=deaf)).observe()


def inject_and_heal(name: str, stubborn: Deaf) -> Observation:
    damage = inject(name, FakeCluster(stubborn=stubborn))
    assert damage.observe().effective
    damage.heal()
    return damage.healed()


@pytest.mark.parametrize("name", [name for name in FAULTS if name not in BY_CHANCE])
def test_a_fault_on_every_host_and_link_takes_effect(name: str) -> None:
    assert inject_and_observe(name, "none").error("inject") is None


@pytest.mark.parametrize("name", [name for name in FAULTS if name not in BY_CHANCE])
def test_a_fault_on_no_host_or_link_has_no_effect(name: str) -> None:
    error = inject_and_observe(name, "all").error("inject")
    assert error is not None
    assert error.startswith("no effect seen; expected ")


@pytest.mark.parametrize("name", ON_SEVERAL)
def test_a_fault_on_all_hosts_or_links_but_one_is_a_partial_effect(name: str) -> None:
    seen = inject_and_observe(name, "first")
    total = len(seen.effects)
    assert total > 1
    assert not seen.effective
    error = seen.error("inject")
    assert error is not None
    assert f"took effect on {sum(seen.effects.values())} of {total} " in error
    assert 0 < sum(seen.effects.values()) < total


@pytest.mark.parametrize("name", sorted(ONE_MESSAGE))
def test_one_caught_message_is_the_whole_effect(name: str) -> None:
    assert inject_and_observe(name, "first").effective


@pytest.mark.parametrize("name", [name for name in FAULTS if name not in LEAVES_NOTHING | BY_CHANCE])
def test_a_heal_on_every_host_and_link_is_effective(name: str) -> None:
    assert inject_and_heal(name, "none").error("heal") is None


@pytest.mark.parametrize("name", [name for name in FAULTS if name not in LEAVES_NOTHING | BY_CHANCE])
def test_a_heal_on_no_host_or_link_is_reported(name: str) -> None:
    error = inject_and_heal(name, "all").error("heal")
    assert error is not None
    assert error.startswith("not undone; expected ")


@pytest.mark.parametrize("name", [name for name in ON_SEVERAL if name not in LEAVES_NOTHING])
def test_a_heal_on_all_hosts_or_links_but_one_is_partial(name: str) -> None:
    seen = inject_and_heal(name, "first")
    error = seen.error("heal")
    assert error is not None
    assert f"undone on {sum(seen.effects.values())} of {len(seen.effects)} " in error


@pytest.mark.parametrize("name", [name for name in FAULTS if name != "none"])
def test_a_second_heal_undoes_nothing_more(name: str) -> None:
    """A cluster counts what is undone: one call too many would undo another fault."""
    counted = {"pause", "kill", "power", "cut", "stall", "flood", "starve", "slow", "fill", "packets", "member"}
    cluster = FakeCluster()
    damage = inject(name, cluster)
    damage.heal()
    first = {what: cluster.undone[what] for what in counted}
    damage.heal()
    assert {what: cluster.undone[what] for what in counted} == first


def test_a_hang_that_comes_a_little_late_on_one_host_takes_effect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pause, "PATIENCE", 5.0)
    cluster = FakeCluster(deaf="first")
    damage = inject("client-hang", cluster)
    threading.Timer(0.05, cluster.damage["hang"].add, ["c0"]).start()
    assert damage.observe().effective


@pytest.mark.parametrize("name", ["black-hole", "lost-reply"])
def test_the_first_message_ends_the_wait_for_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "CATCH_WITHIN_S", 60.0)
    cluster = FakeCluster(deaf="first")
    place = InjectionContext(cast(Cluster, cluster), Random(1), 2.0, "c0", threading.Event())
    damage = fault_class(name)().inject(place)
    began = time.monotonic()
    damage.observe()
    assert time.monotonic() - began < 30.0


def test_a_clock_that_moved_to_a_wrong_time_shows_no_effect() -> None:
    cluster = FakeCluster()
    damage = inject("clock-jump", cluster)
    cluster.set_clock("n2", 1.0)
    assert damage.observe().effects == {"n1": True, "n2": False, "n3": True, "n4": True, "n5": True}


def test_a_clock_that_another_fault_has_put_back_shows_no_effect() -> None:
    cluster = FakeCluster()
    place = scene(cluster)
    forward = msgspec.convert({"target": "n1,n2", "seconds": 3.0}, fault_class("clock-jump")).inject(place)
    other = dataclasses.replace(place, schedule="another")
    msgspec.convert({"target": "n2", "seconds": -3.0}, fault_class("clock-jump")).inject(other)
    assert forward.observe().effects == {"n1": True, "n2": False}


def test_a_server_that_stays_dead_after_a_power_loss_has_not_recovered() -> None:
    cluster = FakeCluster()
    damage = inject("power-loss", cluster)
    damage.heal()
    cluster.kill("n2")
    assert damage.healed().effects == {"n1": True, "n2": False, "n3": True, "n4": True, "n5": True}


def test_once_calls_what_it_wraps_once() -> None:
    calls: list[int] = []
    heal = once(lambda: calls.append(1))
    heal()
    heal()
    assert calls == [1]


@pytest.mark.parametrize(("loss", "deaf", "effective"), [(0.3, "none", True), (0.3, "all", False), (1.0, "none", True)])
def test_packet_loss_counts_late_probes(loss: float, deaf: Deaf, effective: bool) -> None:
    fault = msgspec.convert({"loss": loss}, fault_class("packet-loss"))
    cluster = FakeCluster(deaf=deaf)
    place = InjectionContext(cast(Cluster, cluster), Random(1), 2.0, "c0", threading.Event())
    assert fault.inject(place).observe().effective is effective


def test_packet_loss_on_a_few_links_only_has_too_few_late_probes() -> None:
    """One late probe of twenty would be enough if any of them counted."""
    fault = msgspec.convert({"loss": 0.5}, fault_class("packet-loss"))
    cluster = FakeCluster()
    damage = fault.inject(InjectionContext(cast(Cluster, cluster), Random(1), 2.0, "c0", threading.Event()))
    cluster.damage["shape"] = {("c0", "n1")}
    seen = damage.observe()
    assert seen.facts["late"] > 0
    assert not seen.effective


def test_a_clock_that_is_meant_to_stay_needs_no_effect() -> None:
    """The second bump puts every clock where it is already: nothing moves, and nothing shows an effect."""
    cluster = FakeCluster()
    place = scene(cluster)
    jump = msgspec.convert({"target": "servers", "seconds": 0.0}, fault_class("clock-jump"))
    seen = jump.inject(place).observe()
    assert (seen.effects, seen.effective) == ({}, False)


def test_a_partial_effect_makes_the_faults_verdict_unknown_and_says_how_many() -> None:
    seen = inject_and_observe("client-pause", "first")
    value = {"id": 0, "fault": "client-pause", "hosts": ["c0", "c1", "c2"], "observed": seen.facts}
    history = History()
    history.append(Op(0, 1, 1, -1, "invoke", "inject", None, value))
    history.append(Op(1, 2, 2, -1, "fail", "inject", None, value, seen.error("inject")))
    verdict = FaultsChecker().check(history)
    assert verdict.valid is None
    told = "client-pause on c0, c1, c2 took effect on 2 of 3 hosts, not on c0; expected all of them paused"
    assert told in verdict.explanation


@pytest.mark.parametrize(
    ("deaf", "states"),
    [("none", {"c0": "paused"}), ("all", {"c0": "running", "c1": "running", "c2": "running"})],
)
def test_a_host_that_answers_only_after_its_pause_was_paused(
    monkeypatch: pytest.MonkeyPatch, deaf: Deaf, states: dict[str, str]
) -> None:
    """A pause can be so short that the question after it is answered at its end, and others are not asked any more."""
    cluster = FakeCluster(deaf=deaf)
    damage = inject("client-pause", cluster)

    def answer(_cluster: FakeCluster, host: str) -> str:
        if host in cluster.damage["pause"]:
            damage.heal()
        return "running"

    monkeypatch.setattr(FakeCluster, "state", answer)
    assert damage.observe().facts == {"state": states}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_uses_no_ability_that_it_does_not_declare(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    used: set[Ability[Any]] = set()
    find = Ability.of

    def of(self: Ability[Any], cluster: Cluster) -> Any:
        used.add(self)
        return find(self, cluster)

    monkeypatch.setattr(Ability, "of", of)
    damage = inject(name, FakeCluster())
    damage.observe()
    damage.heal()
    damage.healed()
    assert used <= fault_class(name).needs
    assert used
