"""A round finds existing failures, reports its near misses otherwise, and is reproducible."""

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
from harness.history import SECOND
from harness.plan import Delay, FaultSpec, Plan, dump
from harness.search import rounds, trials
from harness.search import shrink as shrinking
from harness.search.request import HuntRequest
from harness.search.rounds import Round, RoundResult, search
from harness.search.shrink import CLEAR_S, STEPS, shrink
from harness.search.space import HOLDS
from harness.search.trials import FailureKind, Trial, run_trial
from harness.search.vocabulary import learn_vocabulary
from harness.sim.kernel import TooManyEvents


def round_of(request: HuntRequest, number: int = 1) -> Round:
    request = request.completed()
    return Round(request=request, number=number, vocabulary=learn_vocabulary(request))


JUMPS = HuntRequest(lock="redlock", faults=("clock-jump",), clients=2, stop_at_first=True)


@pytest.mark.slow
def test_a_failure_by_a_clock_jump_is_found_and_shrunk() -> None:
    found = search(round_of(JUMPS))
    (failure,) = found.failures
    assert failure.broken[0] == "mutual-exclusion"
    assert 1 <= failure.schedule <= found.schedules
    plan = failure.plan
    assert (plan.clients, len(plan.faults), plan.keys, plan.sections) == (2, 1, 1, 1)
    assert (plan.delays, plan.shuffle, plan.seed, plan.holds) == ((), 0, 0, {})
    trial = run_trial(plan)
    assert trial.broken()[0] == "mutual-exclusion"
    (overlap,) = trial.verdicts["mutual-exclusion"].evidence
    assert overlap.until_ns - overlap.from_ns >= CLEAR_S * SECOND, "long enough for real clusters"
    assert found.best >= 2


@pytest.mark.slow
def test_the_same_round_gives_the_same_result() -> None:
    request = HuntRequest(lock="redis-token", faults=("client-pause",), schedules=5)
    assert msgspec.json.encode(search(round_of(request))) == msgspec.json.encode(search(round_of(request)))
    assert search(round_of(request, 1)).coverage != search(round_of(request, 2)).coverage


ELSEWHERE = """
import sys, msgspec
{imports}
from harness.search.rounds import Round, search
job = msgspec.json.decode(sys.stdin.read(), type=Round)
sys.stdout.buffer.write(msgspec.json.encode(search(job), order="sorted"))
"""


@pytest.mark.slow
def test_a_round_does_not_depend_on_imported_modules() -> None:
    """Hypothesis draws numbers that it reads in the source of imported modules."""
    job = msgspec.json.encode(
        round_of(HuntRequest(lock="redis-token", faults=("client-pause", "clock-jump"), schedules=25))
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", ELSEWHERE.format(imports=imports)], input=job, capture_output=True, check=True
        ).stdout
        for imports in ("", "import harness.reports.run_report, harness.cli.main, tests.checkers.golden_stories")
    ]
    assert json.loads(said[0])["schedules"] > 0
    assert said[0] == said[1]


@pytest.mark.slow
def test_a_round_without_failures_reports_its_coverage() -> None:
    request = HuntRequest(
        lock="redis-fenced", faults=("client-pause",), fencing="on", look_for=("resource",), schedules=12
    )
    told: list[tuple[int, int, float]] = []
    found = search(round_of(request), lambda *news: told.append(news))
    assert found.failures == ()
    assert found.schedules == 12 == told[-1][0]
    assert told[-1][1] == len(found.coverage.states) > 5
    assert ("client-pause", "client-pause") in found.coverage.pairs
    assert found.errors == {}


@pytest.mark.slow
def test_an_error_of_the_simulation_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[Plan] = []

    def broken(plan: Plan) -> Trial:
        plans.append(plan)
        if len(plans) % 2 == 0:
            raise RuntimeError("the simulation broke")
        return run_trial(plan)

    monkeypatch.setattr(rounds, "run_trial", broken)
    request = HuntRequest(lock="redis-fenced", faults=("kill",), fencing="on", look_for=("resource",), schedules=6)
    found = search(round_of(request))
    assert found.errors == {"RuntimeError: the simulation broke": 3}
    assert found.schedules == 6


@pytest.mark.slow
def test_only_failures_of_requested_checkers_count() -> None:
    request = HuntRequest(lock="redis-setnx", faults=("client-crash",), clients=2, stop_at_first=True)
    assert [failure.broken[0] for failure in search(round_of(request, 2)).failures] == ["deadlock"]
    other = msgspec.structs.replace(request, look_for=("fencing",))
    assert search(round_of(other, 2)).failures == ()


@pytest.mark.slow
def test_a_thorough_round_finds_one_failure_of_each_kind() -> None:
    request = HuntRequest(
        lock="redis-setnx", faults=("client-crash", "kill-amnesia"), thorough=True, stop_at_first=True
    )
    kinds = [failure.broken[0] for number in range(1, 5) for failure in search(round_of(request, number)).failures]
    assert {"mutual-exclusion", "deadlock"} <= set(kinds)


def test_an_overlap_is_no_failure_with_a_fencing_resource() -> None:
    pause = FaultSpec("client-pause", on="read", client=0, for_=3.0)
    plan = Plan(lock="redis-fenced", clients=2, stagger=0.1, sections=1, time_limit=8.0, faults=(pause,))
    assert run_trial(plan).broken() == ("mutual-exclusion", "resource", "fencing")
    fenced = run_trial(msgspec.structs.replace(plan, fencing="on"))
    assert fenced.verdicts["mutual-exclusion"].valid is False
    assert fenced.broken() == ()
    assert fenced.broken(("mutual-exclusion",)) == ("mutual-exclusion",)


def test_a_failure_does_not_count_if_its_only_fault_never_struck() -> None:
    plan = Plan(lock="redis-token", clients=2, hold=3.0, wait=4.0, sections=1, time_limit=12.0)
    assert run_trial(plan).broken()[0] == "mutual-exclusion"
    late = FaultSpec("client-pause", on="acquire", client=0, nth=9, for_=3.0)
    assert run_trial(msgspec.structs.replace(plan, faults=(late,))).broken() == ()


@pytest.mark.slow
def test_a_fault_that_never_struck_does_not_hide_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The resource has no GETSET, so the first fault has no effect. The other one causes the failure."""
    idle = FaultSpec("delayed-request", at=0.0, for_=0.5, params={"server": "resource", "containing": "GETSET"})
    jump = FaultSpec("clock-jump", on="acquire", client=0, params={"by": 3.0})
    plan = Plan(lock="redis-token", clients=2, hold=1.0, stagger=0.1, time_limit=4.0, faults=(idle, jump))
    assert run_trial(plan).broken() == ()
    monkeypatch.setattr(rounds, "schedules", lambda _request, _vocabulary, _number: st.just(plan))
    request = HuntRequest(lock="redis-token", faults=("clock-jump", "delayed-request"), stop_at_first=True)
    (failure,) = search(round_of(request)).failures
    assert failure.broken[0] == "mutual-exclusion"
    assert [spec.fault for spec in failure.plan.faults] == ["clock-jump"]


# Shrinking.

LATE = FailureKind("mutual-exclusion", "late-client")
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


@pytest.mark.slow
def test_shrinking_removes_unneeded_parts() -> None:
    assert run_trial(PADDED).broken()[0] == "mutual-exclusion"
    small = shrink(PADDED, LATE, HuntRequest(lock="redis-token").completed())
    plan = small.plan
    assert small.kinds == run_trial(plan).kinds()
    assert [spec.fault for spec in plan.faults] == ["client-pause"]
    assert (plan.clients, plan.keys, plan.seed, plan.shuffle, plan.delays, plan.holds) == (2, 1, 0, 0, (), {})
    assert small.tried <= 150
    for usual in ("seed", "shuffle", "keys", "wait", "delay", "nth"):
        assert usual not in dump(plan), "what is so anyway is not said"


def test_shrinking_a_plan_without_a_failure_is_refused() -> None:
    with pytest.raises(UsageError, match="is not deterministic"):
        shrink(Plan(lock="redis-token", clients=2, time_limit=4.0), LATE, JUMPS.completed())


@pytest.mark.parametrize("ttl", [0.3, 0.5, 0.75, 1.0, 2.0, 8.0])
def test_shrinking_keeps_holds_within_the_lease(ttl: float) -> None:
    """Otherwise a failure by a fault becomes one without a fault, by work that outlasts the lease."""
    request = HuntRequest(lock="redis-token").completed()
    for share in HOLDS:
        plan = Plan(lock="redis-token", ttl=ttl, hold=round(share * ttl, 3), stagger=0.2)
        assert all(simpler.hold < simpler.ttl for step in STEPS for simpler in step(plan, request))
    overrun = Plan(lock="redis-token", ttl=ttl, hold=2.5 * ttl + 0.017)
    assert any(simpler.hold != overrun.hold for step in STEPS for simpler in step(overrun, request))


def test_shrinking_renumbers_the_ends_of_the_remaining_clients() -> None:
    plan = Plan(lock="redis-token", clients=3, sections=4, ends={"c1": 0, "c2": 5})
    request = HuntRequest(lock="redis-token").completed()
    fewer = [simpler for step in STEPS for simpler in step(plan, request) if simpler.clients == 2 and simpler.ends]
    assert [simpler.check().ends for simpler in fewer] == [{"c1": 0}, {"c1": 5}, {"c0": 0, "c1": 5}]


def test_shrinking_rejects_candidates_that_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    def fragile(plan: Plan) -> Trial:
        if plan.clients < 3:
            raise RuntimeError("a bug of the simulator's")
        return run_trial(plan)

    monkeypatch.setattr(shrinking, "run_trial", fragile)
    monkeypatch.setattr(shrinking, "MOST_TRIALS", 8)
    assert shrink(PADDED, LATE, HuntRequest(lock="redis-token").completed()).plan.clients == 3


@pytest.mark.slow
def test_another_seed_gives_other_rounds() -> None:
    request = HuntRequest(lock="redis-token", faults=("client-pause",), schedules=3)
    first, second = (search(round_of(msgspec.structs.replace(request, seed=seed), 2 - seed)) for seed in (0, 1))
    assert first.coverage != second.coverage


@pytest.mark.slow
def test_the_result_of_a_round_survives_serialisation() -> None:
    found = search(round_of(JUMPS))
    assert msgspec.json.decode(msgspec.json.encode(found), type=RoundResult) == found


class AsksWithoutAPause:
    """A mutant whose client floods the server as long as it waits for the lock."""

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


@pytest.mark.slow
def test_an_endless_schedule_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "MOST_EVENTS", 500)
    lock = f"{__name__}:{AsksWithoutAPause.__name__}"
    with pytest.raises(TooManyEvents, match="more than 500 events"):
        run_trial(Plan(lock=lock, clients=2, time_limit=8.0))


@pytest.mark.slow
def test_shrinking_drops_parameters_with_default_values() -> None:
    """TOML has no null, so a parameter with its default value is left out."""
    held = FaultSpec("delayed-request", on="read", client=0, for_=0.5, params={"server": "resource", "delay": 5.2})
    plan = Plan(lock="redis-token", clients=2, stagger=0.1, time_limit=12.0, faults=(held,))
    assert "resource" in run_trial(plan).broken()
    small = shrink(
        plan,
        FailureKind("resource", "late-client"),
        HuntRequest(lock="redis-token", faults=("delayed-request",)).completed(),
    ).plan
    assert [set(spec.params) for spec in small.faults] == [{"server"}]
    assert "resource" in dump(small)
