"""A round finds what is there, says how near it came where nothing is, and is the same each time."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

import msgspec
import pytest
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.hunting import rounds, shrinking, trials
from harness.hunting.asked import Asked
from harness.hunting.rounds import Round, Searched, search
from harness.hunting.shrinking import STEPS, smallest
from harness.hunting.space import HOLDS
from harness.hunting.trials import Trial, play
from harness.hunting.vocabulary import learnt
from harness.plan import Delay, FaultSpec, Plan, dump
from harness.sim.kernel import Endless


def round_of(asked: Asked, number: int = 1) -> Round:
    asked = asked.completed()
    return Round(asked=asked, number=number, vocabulary=learnt(asked))


JUMPS = Asked(lock="redlock", faults=("clock-jump",), clients=2)


def test_a_clock_that_jumps_is_found_and_made_small() -> None:
    found = search(round_of(JUMPS))
    (failure,) = found.failures
    assert failure.broken[0] == "mutual-exclusion"
    assert 1 <= failure.schedule <= found.schedules
    plan = failure.plan
    assert (plan.clients, len(plan.faults), plan.keys, plan.ttl) == (2, 1, 1, 2.0)
    assert 1 <= plan.sections <= 2
    assert (plan.delays, plan.shuffle, plan.seed, plan.holds) == ((), 0, 0, {})
    assert play(plan).broken()[0] == "mutual-exclusion"
    assert found.best >= 2


@pytest.mark.slow
def test_the_same_round_finds_the_same() -> None:
    asked = Asked(lock="redis-token", faults=("client-pause",), schedules=5)
    assert msgspec.json.encode(search(round_of(asked))) == msgspec.json.encode(search(round_of(asked)))
    assert search(round_of(asked, 1)).coverage != search(round_of(asked, 2)).coverage


ELSEWHERE = """
import sys, msgspec
{imports}
from harness.hunting.rounds import Round, search
job = msgspec.json.decode(sys.stdin.read(), type=Round)
sys.stdout.buffer.write(msgspec.json.encode(search(job), order="sorted"))
"""


@pytest.mark.slow
def test_it_does_not_matter_what_else_a_process_has_loaded() -> None:
    """Hypothesis reads numbers to try in the source of whatever has been imported."""
    job = msgspec.json.encode(round_of(Asked(lock="redis-token", faults=("client-pause", "clock-jump"), schedules=25)))
    said = [
        subprocess.run(
            [sys.executable, "-c", ELSEWHERE.format(imports=imports)], input=job, capture_output=True, check=True
        ).stdout
        for imports in ("", "import reports.run_report, harness.cli, tests.checkers.golden_stories")
    ]
    assert json.loads(said[0])["schedules"] > 0
    assert said[0] == said[1]


@pytest.mark.slow
def test_where_nothing_fails_it_says_what_was_seen() -> None:
    asked = Asked(lock="redis-fenced", faults=("client-pause",), fencing="on", look_for=("resource",), schedules=12)
    told: list[tuple[int, int, float]] = []
    found = search(round_of(asked), lambda *news: told.append(news))
    assert found.failures == ()
    assert found.schedules == 12 == told[-1][0]
    assert told[-1][1] == len(found.coverage.states) > 5
    assert ("client-pause", "client-pause") in found.coverage.pairs
    assert found.errors == {}


@pytest.mark.slow
def test_a_schedule_that_breaks_the_simulation_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    plays: list[Plan] = []

    def broken(plan: Plan) -> Trial:
        plays.append(plan)
        if len(plays) % 2 == 0:
            raise RuntimeError("the simulation broke")
        return play(plan)

    monkeypatch.setattr(rounds, "play", broken)
    asked = Asked(lock="redis-fenced", faults=("kill",), fencing="on", look_for=("resource",), schedules=6)
    found = search(round_of(asked))
    assert found.errors == {"RuntimeError: the simulation broke": 3}
    assert found.schedules == 6


@pytest.mark.slow
def test_only_what_is_looked_for_counts() -> None:
    asked = Asked(lock="redis-setnx", faults=("client-crash",), clients=2)
    assert [failure.broken[0] for failure in search(round_of(asked, 2)).failures] == ["deadlock"]
    other = msgspec.structs.replace(asked, look_for=("fencing",))
    assert search(round_of(other, 2)).failures == ()


@pytest.mark.slow
def test_a_thorough_round_finds_one_failure_of_each_kind() -> None:
    asked = Asked(lock="redis-setnx", faults=("client-crash", "kill-amnesia"), thorough=True)
    kinds = [failure.broken[0] for number in range(1, 5) for failure in search(round_of(asked, number)).failures]
    assert {"mutual-exclusion", "deadlock"} <= set(kinds)


def test_two_holders_are_no_failure_where_the_resource_checks_fences() -> None:
    pause = FaultSpec("client-pause", on="read", client=0, for_=3.0)
    plan = Plan(lock="redis-fenced", clients=2, stagger=0.1, sections=1, time_limit=8.0, faults=(pause,))
    assert play(plan).broken() == ("mutual-exclusion", "resource", "fencing")
    fenced = play(msgspec.structs.replace(plan, fencing="on"))
    assert fenced.verdicts["mutual-exclusion"].valid is False
    assert fenced.broken() == ()
    assert fenced.broken(("mutual-exclusion",)) == ("mutual-exclusion",)


def test_a_fault_that_did_not_strike_proves_nothing() -> None:
    plan = Plan(lock="redis-token", clients=2, hold=3.0, wait=4.0, sections=1, time_limit=12.0)
    assert play(plan).broken()[0] == "mutual-exclusion"
    late = FaultSpec("client-pause", on="acquire", client=0, nth=9, for_=3.0)
    assert play(msgspec.structs.replace(plan, faults=(late,))).broken() == ()


def test_a_fault_that_did_not_strike_hides_no_failure_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """The resource knows no GETSET: that fault does nothing, and the other one does it all."""
    idle = FaultSpec("delayed-request", at=0.0, for_=0.5, params={"server": "resource", "containing": "GETSET"})
    jump = FaultSpec("clock-jump", on="acquire", client=0, params={"by": 3.0})
    plan = Plan(lock="redis-token", clients=2, hold=1.0, stagger=0.1, time_limit=4.0, faults=(idle, jump))
    assert play(plan).broken() == ()
    monkeypatch.setattr(rounds, "schedules", lambda _asked, _vocabulary: st.just(plan))
    (failure,) = search(round_of(Asked(lock="redis-token", faults=("clock-jump", "delayed-request")))).failures
    assert failure.broken[0] == "mutual-exclusion"
    assert [spec.fault for spec in failure.plan.faults] == ["clock-jump"]


# Made small.

PADDED = Plan(
    lock="redis-token",
    clients=3,
    keys=2,
    hold=0.7,
    stagger=0.3,
    wait=4.0,
    seed=5,
    shuffle=2,
    time_limit=13.0,
    holds={"c2": 0.3},
    delays=(Delay("c1", "n1", 7, 0.01), Delay("n1", "c2", 3, 0.05)),
    faults=(
        FaultSpec("latency", at=0.0, for_=1.0, params={"delay": 0.05, "jitter": 0.0}),
        FaultSpec("client-pause", on="read", client=1, nth=2, for_=6.0),
    ),
)


def test_what_is_not_needed_goes() -> None:
    assert play(PADDED).broken()[0] == "mutual-exclusion"
    small = smallest(PADDED, "mutual-exclusion", Asked(lock="redis-token").completed())
    plan = small.plan
    assert small.broken == play(plan).broken()
    assert [spec.fault for spec in plan.faults] == ["client-pause"]
    assert (plan.clients, plan.keys, plan.seed, plan.shuffle, plan.delays, plan.holds) == (2, 1, 0, 0, (), {})
    assert small.plays <= 150
    for usual in ("seed", "shuffle", "keys", "wait", "delay", "nth"):
        assert usual not in dump(plan), "what is so anyway is not said"


def test_what_does_not_fail_cannot_be_made_small() -> None:
    with pytest.raises(UsageError, match="does not do the same twice"):
        smallest(Plan(lock="redis-token", clients=2, time_limit=4.0), "mutual-exclusion", JUMPS.completed())


@pytest.mark.parametrize("ttl", [0.3, 0.5, 0.75, 1.0, 2.0, 8.0])
def test_work_within_the_lease_stays_within_it(ttl: float) -> None:
    """Or a failure by a fault becomes one without: work that takes longer than the lease."""
    asked = Asked(lock="redis-token").completed()
    for share in HOLDS:
        plan = Plan(lock="redis-token", ttl=ttl, hold=round(share * ttl, 3), stagger=0.2)
        assert all(simpler.hold < simpler.ttl for step in STEPS for simpler in step(plan, asked))
    overrun = Plan(lock="redis-token", ttl=ttl, hold=2.5 * ttl + 0.017)
    assert any(simpler.hold != overrun.hold for step in STEPS for simpler in step(overrun, asked))


def test_a_candidate_that_breaks_the_simulation_is_no_step_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    def fragile(plan: Plan) -> Trial:
        if plan.clients < 3:
            raise RuntimeError("a bug of the simulator's")
        return play(plan)

    monkeypatch.setattr(shrinking, "play", fragile)
    monkeypatch.setattr(shrinking, "MOST_PLAYS", 8)
    assert smallest(PADDED, "mutual-exclusion", Asked(lock="redis-token").completed()).plan.clients == 3


def test_another_seed_has_other_rounds() -> None:
    asked = Asked(lock="redis-token", faults=("client-pause",), schedules=3)
    first, second = (search(round_of(msgspec.structs.replace(asked, seed=seed), 2 - seed)) for seed in (0, 1))
    assert first.coverage != second.coverage


@pytest.mark.slow
def test_the_result_of_a_round_travels() -> None:
    found = search(round_of(JUMPS))
    assert msgspec.json.decode(msgspec.json.encode(found), type=Searched) == found


class AsksWithoutAPause:
    """A mutant: its client floods the server as long as it waits for the lock."""

    def __init__(self, redis: Any, key: str) -> None:
        self.redis, self.key = redis, key

    def acquire(self, timeout: float) -> bool:
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            pipeline = self.redis.pipeline(transaction=False)
            for _ in range(100):
                pipeline.execute_command("PING")
            pipeline.execute()
        return False

    def release(self) -> None: ...


def test_a_schedule_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "MOST_EVENTS", 500)
    lock = f"{__name__}:{AsksWithoutAPause.__name__}"
    with pytest.raises(Endless, match="more than 500 events"):
        play(Plan(lock=lock, clients=2, time_limit=8.0))


def test_to_say_nothing_of_a_parameter_is_no_value_of_it() -> None:
    """TOML has no null: a delay that is as usual goes unsaid."""
    held = FaultSpec("delayed-request", on="read", client=0, for_=0.5, params={"server": "resource", "delay": 5.2})
    plan = Plan(lock="redis-token", clients=2, stagger=0.1, time_limit=12.0, faults=(held,))
    assert "resource" in play(plan).broken()
    small = smallest(plan, "resource", Asked(lock="redis-token", faults=("delayed-request",)).completed()).plan
    assert [set(spec.params) for spec in small.faults] == [{"server"}]
    assert "resource" in dump(small)
