"""The fault engine counts events, records what it did, and heals each fault once."""

from __future__ import annotations

import dataclasses
from random import Random
from typing import cast

import pytest

from harness.checkers.faults_seen import why_unconfirmed
from harness.clusters.base import Cluster
from harness.faults.catalogue import build_fault
from harness.history import Op
from harness.plan import FaultSpec
from harness.run.fault_engine import FaultEngine, FaultTrigger, InjectedStrike, first_strike_s
from harness.run.recorder import Recorder
from tests.faults.fakes import FakeCluster

PAUSE = FaultSpec("client-pause", on="acquire", params={"target": "clients"})


@dataclasses.dataclass
class Bench:
    """An engine on a fake cluster."""

    cluster: FakeCluster

    def __post_init__(self) -> None:
        self.recorder = Recorder(None, self.cluster.clock)
        self.engine = FaultEngine(cast(Cluster, self.cluster), self.recorder, 2.0)

    def strike(self, spec: FaultSpec = PAUSE) -> InjectedStrike:
        strike = self.engine.inject(spec, build_fault(spec), Random(1), client="c0", schedule=0)
        self.engine.activate(strike)
        return strike

    def entries(self) -> list[tuple[str, str, str | None]]:
        return [(op.f, op.type, op.error) for op in self.recorder.history]

    def last(self) -> Op:
        return self.recorder.history[len(self.recorder.history) - 1]


def fires(spec: FaultSpec, *events: tuple[str, str, str, float]) -> list[bool]:
    trigger = FaultTrigger(spec)
    return [trigger.fires(event, client, node, int(at * 1e9)) for event, client, node, at in events]


def test_a_trigger_fires_on_the_nth_event_and_as_often_as_it_may() -> None:
    spec = FaultSpec("client-pause", on="acquire", nth=2, times=2)
    assert fires(spec, *[("acquire", "c0", "c0", at) for at in range(5)]) == [False, True, True, False, False]


def test_a_trigger_rests_between_two_strikes() -> None:
    spec = FaultSpec("client-pause", on="acquire", times=3, every=1.0)
    assert fires(spec, *[("acquire", "c0", "c0", at) for at in (0.0, 0.9, 1.0)]) == [True, False, True]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (FaultSpec("kill", on="request:SET", times=9), [True, True, False]),
        (FaultSpec("kill", on="request:SET", client=1, times=9), [False, True, False]),
        (FaultSpec("kill", on="request:SET", node="n2", times=9), [False, True, False]),
    ],
)
def test_a_trigger_counts_only_the_event_client_and_server_that_it_names(spec: FaultSpec, expected: list[bool]) -> None:
    events = [("request:SET", "c0", "n1", 0.0), ("request:SET", "c1", "n2", 0.0), ("request:GET", "c1", "n2", 0.0)]
    assert fires(spec, *events) == expected


def test_a_fault_at_the_start_that_comes_again_strikes_first_at_the_start() -> None:
    assert first_strike_s(FaultSpec("kill", at=0.0, every=2.0)) == 0.0
    assert first_strike_s(FaultSpec("kill", every=2.0)) == 2.0


def test_a_full_effect_and_a_full_heal_are_recorded() -> None:
    bench = Bench(FakeCluster())
    strike = bench.strike()
    bench.engine.observe(strike)
    bench.engine.undo(strike)
    bench.engine.confirm_heal(strike, 0.0)
    assert bench.entries() == [("inject", "invoke", None), ("inject", "ok", None), ("heal", "ok", None)]
    assert bench.engine.active() == []


def test_a_partial_effect_is_recorded_as_a_failure_that_says_how_many() -> None:
    bench = Bench(FakeCluster(deaf="first"))
    bench.engine.observe(bench.strike())
    error = "took effect on 2 of 3 hosts, not on c0; expected all of them paused"
    assert bench.entries()[-1] == ("inject", "fail", error)


def test_a_partial_heal_is_recorded_as_a_failure_that_says_how_many() -> None:
    bench = Bench(FakeCluster(stubborn="first"))
    strike = bench.strike()
    bench.engine.undo(strike)
    bench.engine.confirm_heal(strike, 0.0)
    assert bench.entries()[-1] == ("heal", "fail", "undone on 2 of 3 hosts, not on c0; expected none of them paused")


def test_a_heal_that_another_fault_may_hide_is_checked_again() -> None:
    bench = Bench(FakeCluster(stubborn="all"))
    first, second = bench.strike(), bench.strike()
    bench.engine.undo(first)
    bench.engine.confirm_heal(first, 0.0)
    assert bench.last().type == "ok"
    assert bench.last().value["observed"]["at_work"] == ["client-pause"]
    bench.engine.undo(second)
    assert bench.engine.masked() == [first]
    assert bench.engine.masked() == []
    bench.engine.confirm_heal(first, 0.0, again=True)
    assert bench.entries()[-1] == ("heal", "fail", "not undone; expected none of them paused")


def test_a_fault_of_no_duration_is_healed_before_the_client_goes_on() -> None:
    bench = Bench(FakeCluster())
    bench.strike(FaultSpec("kill-amnesia", on="acquire", for_=0.0, params={"target": "n1"}))
    assert bench.cluster.damage["kill"] == set()


def test_an_abandoned_run_records_no_failed_observation() -> None:
    bench = Bench(FakeCluster(deaf="all"))
    strike = bench.strike()
    bench.engine.abandon()
    assert strike.over.is_set()
    bench.engine.observe(strike)
    assert bench.entries() == [("inject", "invoke", None)]


def test_a_fault_that_never_struck_is_recorded_with_its_event() -> None:
    bench = Bench(FakeCluster())
    bench.engine.record_absence(PAUSE)
    error = "never struck: its event 'acquire' (number 1) did not come in time"
    assert bench.entries() == [("inject", "fail", error)]
    doubt = "client-pause was never injected: its event 'acquire' (number 1) did not come in time"
    assert why_unconfirmed(bench.last()) == doubt
