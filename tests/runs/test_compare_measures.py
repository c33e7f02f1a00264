"""Comparisons: measures of a lock beside its cells (properties, recovery, costs, and the ranking of services)."""

from __future__ import annotations

from pathlib import Path

from harness.checkers.base import Verdict
from harness.documents import RunDocument
from harness.documents.comparison import CellState, ComparedCell, ComparedCost
from harness.lock_impls import catalogue
from harness.plan import Plan
from harness.run.verdicts.judging import Result
from harness.studies.compare.costs import quantile
from harness.studies.compare.plans import ComparisonRequest, jobs
from harness.studies.compare.properties import (
    claims,
    fence,
    mutual_exclusion,
    outage,
    recovery_s,
    reentrant,
    released,
)
from harness.studies.compare.ranking import CLAIMED, agrees, ranking
from harness.studies.compare.trials import _Runs
from tests.checkers.story import Story

from .deciding import decided

NOTHING = RunDocument(schema=1, valid=None)


def test_claims_come_from_the_catalogue() -> None:
    def of(lock: str) -> list[bool | None]:
        return [claimed for claimed, _ in claims(catalogue.find(lock).info).values()]

    assert of("redis-token") == [False, True, False, False, False]
    assert of("mysql-unique") == [False, False, False, False, False]
    assert of("zookeeper-sequential") == [True, True, False, True, True]
    assert of("mysql-get-lock") == [None, True, True, False, False]


def a_cell(state: CellState, tokens_fell: bool = False) -> ComparedCell:
    folder = None if state == "not-run" else f"runs/{state}"
    return ComparedCell(state=state, two_holders=state == "fenced", tokens_fell=tokens_fell, run=folder)


def test_mutual_exclusion_is_measured_by_the_cells_with_fencing_on() -> None:
    info = catalogue.find("redis-fenced").info
    found = mutual_exclusion(info, {"a": a_cell("safe"), "b": a_cell("fenced"), "c": a_cell("not-run")})
    assert (found.measured, found.run) == (True, "runs/fenced")
    assert found.found == "two holders under b, but the fencing token stopped the late one"
    found = mutual_exclusion(info, {"a": a_cell("unsafe"), "b": a_cell("fenced"), "c": a_cell("unsafe")})
    assert (found.measured, found.run) == (False, "runs/unsafe")
    assert found.found.startswith("broken under a and c; two holders under b")
    assert mutual_exclusion(info, {"a": a_cell("safe")}).found == "never two holders"
    assert mutual_exclusion(info, {"a": a_cell("unknown"), "b": a_cell("not-run")}).measured is None


def test_a_fence_must_grow_under_every_fault() -> None:
    info = catalogue.find("redis-fenced").info
    grew = Verdict(True, "in order", stats={"tokens": 12})
    assert fence(info, grew, {"a": a_cell("safe")}, "runs/1").found == "the tokens of 12 grants increased"
    fell = fence(info, grew, {"a": a_cell("safe"), "b": a_cell("unsafe", tokens_fell=True)}, "runs/1")
    assert (fell.measured, fell.run) == (False, "runs/unsafe")
    assert fence(info, Verdict(True, "", stats={"tokens": 0}), {}, "runs/1").measured is False
    assert fence(info, None, {}, None).measured is None


def test_recovery_lasts_from_the_death_to_the_next_grant() -> None:
    told = Story().acquire("c0", 1.0, 1.1)
    told.nemesis(1.2, "crash", "info", {"host": "c0"})
    assert recovery_s(told.history()) is None
    assert recovery_s(told.acquire("c1", 1.3, 3.45).history()) == 2.25
    assert recovery_s(Story().acquire("c0", 1.0, 1.1).history()) is None


def test_release_after_death_is_unmeasured_if_no_holder_died_in_time() -> None:
    def of(told: Story, limit: float) -> tuple[bool | None, float | None, bool]:
        found, recovery = released(
            Result(
                Plan(lock="", time_limit=limit),
                told.history(),
                {"deadlock": Verdict(True, "")},
                decided({}),
                NOTHING,
                None,
            ),
            "run",
        )
        return found.measured, recovery.seconds, recovery.run is not None

    told = Story().acquire("c0", 1.0, 1.1)
    assert of(told, 30.0) == (None, None, False), "nobody died"
    told.nemesis(1.2, "crash", "info", {"host": "c0"})
    assert of(told, 4.0) == (None, None, False), "ttl and slack are not over yet"
    assert of(told, 30.0) == (False, None, True)
    assert of(told.acquire("c1", 1.3, 3.45), 4.0) == (True, 2.25, True)


def test_costs_and_outages_are_repeated_by_the_compare_command(tmp_path: Path) -> None:
    def of(part: str, name: str) -> str:
        job = next(
            job
            for job in jobs(ComparisonRequest(locks=("redis-token",), seed=7))
            if (job.part, job.name) == (part, name)
        )
        return _Runs(tmp_path, "harness compare", job, {}).command(job.plans[0])

    assert of("cost", "contended") == of("property", "no-single-point") == "harness compare"
    assert of("cell", "client-pause") == "harness run redis-token --cluster sim --nemesis client-pause --seed 7"


def test_a_lock_that_refuses_nested_acquires_is_not_reentrant() -> None:
    def of(valid: bool | None, nested: int, granted: int) -> bool | None:
        stats = {"nested": nested, "granted": granted}
        return reentrant(Verdict(valid, "", stats=stats), None).measured

    assert [of(True, 3, 3), of(True, 3, 0), of(False, 3, 3), of(True, 0, 0), of(None, 3, 3)] == [
        True, False, False, None, None,
    ]  # fmt: skip


def test_an_outage_is_judged_while_the_server_is_gone() -> None:
    def of(told: Story) -> tuple[bool | None, str]:
        return outage(Result(Plan(lock=""), told.history(), {}, decided({}), NOTHING, None))

    gone = Story().acquire("c0", 1.0, 1.1).release("c0", 1.2).fault(0, "kill", ["n1"], 5.0, 26.0)
    assert of(gone.acquire("c1", 25.0, 26.1)) == (False, "no client acquired it in the 21 s without n1")
    # A real server takes time to come back, and may serve before it is observed to be up.
    late = Story().fault(0, "kill", ["n1"], 5.0, 26.4).acquire("c1", 25.0, 26.2)
    assert of(late) == (False, "no client acquired it in the 21 s without n1")
    assert of(gone.acquire("c2", 6.0, 6.5)) == (
        True, "granted again 1.50 s after the loss of n1, 1 grant without it",
    )  # fmt: skip
    assert of(Story())[0] is None


def test_quantiles_are_observed_values() -> None:
    assert quantile([], 0.5) is None
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([float(number) for number in range(1, 101)], 0.99) == 99.0


def costs(ms: float | None, rate: float | None) -> list[ComparedCost]:
    half = None if ms is None else ms / 2000
    return [
        ComparedCost(name=name, acquire_p50_s=half, release_p50_s=half, acquires_per_second=rate)
        for name in ("alone", "contended")
    ]


def test_the_ranking_compares_the_articles_order_with_the_measures() -> None:
    locks = {"redis-token": costs(0.5, 80), "etcd-mutex": costs(1.5, 60), "mysql-unique": costs(0.4, 20)}
    quick, many = ranking(locks).measures
    assert (quick.order, quick.agrees, quick.better) == (("mysql", "redis", "etcd"), False, "low")
    assert (many.order, many.agrees, many.better) == (("redis", "etcd", "mysql"), True, "high")
    assert quick.values == {"redis": 0.5, "etcd": 1.5, "mysql": 0.4}
    assert quick.locks["redis"] == "redis-token"
    assert ranking({"redis-token": costs(0.5, 80), "etcd-mutex": costs(None, None)}).measures == ()
    assert ranking({}).claimed == CLAIMED


def test_services_that_the_articles_do_not_rank_are_ranked_by_their_measures_only() -> None:
    locks = {"consul-session": costs(0.1, 90), "redis-token": costs(0.5, 80), "etcd-mutex": costs(1.5, 60)}
    quick, many = ranking(locks).measures
    assert (quick.order, quick.agrees) == (("consul", "redis", "etcd"), True)
    assert (many.order, many.agrees) == (("consul", "redis", "etcd"), True)


def test_a_tie_agrees_with_every_order() -> None:
    assert agrees({"redis": 0.50, "etcd": 0.49}, low=True)
    assert not agrees({"redis": 0.50, "etcd": 0.40}, low=True)
    assert agrees({"redis": 100, "mysql": 104}, low=False)
    assert not agrees({"redis": 100, "mysql": 120}, low=False)
