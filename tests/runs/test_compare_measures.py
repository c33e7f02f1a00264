"""Comparisons: what is said of a lock beside its cells: properties, recovery, costs, the ranking of services."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from checkers.base import Verdict
from harness.comparing.costs import quantile
from harness.comparing.plans import Asked, jobs
from harness.comparing.play import _Runs
from harness.comparing.properties import claims, fence, mutual_exclusion, outage, recovery_s, reentrant, released
from harness.comparing.ranking import CLAIMED, agrees, ranking
from harness.plan import Plan
from harness.runs import Result
from lock_impls import catalogue
from tests.checkers.story import Story


def test_claims_are_those_of_the_catalogue() -> None:
    def of(lock: str) -> list[bool | None]:
        return [claim["claimed"] for claim in claims(catalogue.find(lock).info).values()]

    assert of("redis-token") == [False, True, False, False, False]
    assert of("mysql-unique") == [False, False, False, False, False]
    assert of("zookeeper-sequential") == [True, True, False, True, True]
    assert of("mysql-get-lock") == [None, True, True, False, False]


def a_cell(state: str, **more: Any) -> dict[str, Any]:
    return {"state": state, "two_holders": state == "fenced", "tokens_fell": False, "run": f"runs/{state}", **more}


def test_mutual_exclusion_is_what_the_cells_show_with_the_fence_on() -> None:
    info = catalogue.find("redis-fenced").info
    found = mutual_exclusion(info, {"a": a_cell("safe"), "b": a_cell("fenced"), "c": a_cell("not-run", run=None)})
    assert (found["measured"], found["run"]) == (True, "runs/fenced")
    assert found["found"] == "two holders under b, and the fence refused the late one"
    found = mutual_exclusion(info, {"a": a_cell("unsafe"), "b": a_cell("fenced"), "c": a_cell("unsafe")})
    assert (found["measured"], found["run"]) == (False, "runs/unsafe")
    assert found["found"].startswith("broken under a and c; two holders under b")
    assert mutual_exclusion(info, {"a": a_cell("safe")})["found"] == "never two holders"
    assert mutual_exclusion(info, {"a": a_cell("unknown"), "b": a_cell("not-run")})["measured"] is None


def test_a_fence_must_grow_under_every_fault() -> None:
    info = catalogue.find("redis-fenced").info
    grew = Verdict(True, "in order", stats={"tokens": 12})
    assert fence(info, grew, {"a": a_cell("safe")}, "runs/1")["found"] == "the tokens of 12 grants grew"
    fell = fence(info, grew, {"a": a_cell("safe"), "b": a_cell("unsafe", tokens_fell=True)}, "runs/1")
    assert (fell["measured"], fell["run"]) == (False, "runs/unsafe")
    assert fence(info, Verdict(True, "", stats={"tokens": 0}), {}, "runs/1")["measured"] is False
    assert fence(info, None, {}, None)["measured"] is None


def test_recovery_is_from_the_death_to_the_next_grant() -> None:
    told = Story().acquire("c0", 1.0, 1.1)
    told.nemesis(1.2, "crash", "info", {"host": "c0"})
    assert recovery_s(told.told()) is None
    assert recovery_s(told.acquire("c1", 1.3, 3.45).told()) == 2.25
    assert recovery_s(Story().acquire("c0", 1.0, 1.1).told()) is None


def test_a_holder_that_never_died_or_died_too_late_says_nothing_against_a_lock() -> None:
    def of(told: Story, limit: float) -> tuple[bool | None, float | None, bool]:
        found, recovery = released(
            Result(
                Plan(lock="", time_limit=limit),
                told.told(),
                {"deadlock": Verdict(True, "")},
                Verdict(True, ""),
                {},
                None,
            ),
            "run",
        )
        return found["measured"], recovery["seconds"], recovery["run"] is not None

    told = Story().acquire("c0", 1.0, 1.1)
    assert of(told, 30.0) == (None, None, False), "nobody died"
    told.nemesis(1.2, "crash", "info", {"host": "c0"})
    assert of(told, 4.0) == (None, None, False), "ttl and slack are not over yet"
    assert of(told, 30.0) == (False, None, True)
    assert of(told.acquire("c1", 1.3, 3.45), 4.0) == (True, 2.25, True)


def test_only_the_comparison_repeats_what_no_other_command_can_ask_for(tmp_path: Path) -> None:
    def of(part: str, name: str) -> str:
        job = next(job for job in jobs(Asked(locks=("redis-token",), seed=7)) if (job.part, job.name) == (part, name))
        return _Runs(tmp_path, "harness compare", job, {}).command(job.plans[0])

    assert of("cost", "contended") == of("property", "no-single-point") == "harness compare"
    assert of("cell", "client-pause") == "harness run redis-token --cluster sim --nemesis client-pause --seed 7"


def test_who_may_ask_again_and_is_refused_has_no_reentrant_lock() -> None:
    def of(valid: bool | None, nested: int, granted: int) -> bool | None:
        stats = {"nested": nested, "granted": granted}
        return reentrant(Verdict(valid, "", stats=stats), None)["measured"]  # type: ignore[no-any-return]

    assert [of(True, 3, 3), of(True, 3, 0), of(False, 3, 3), of(True, 0, 0), of(None, 3, 3)] == [
        True, False, False, None, None,
    ]  # fmt: skip


def test_an_outage_is_judged_while_the_server_is_gone() -> None:
    def of(told: Story) -> tuple[bool | None, str]:
        return outage(Result(Plan(lock=""), told.told(), {}, Verdict(True, ""), {}, None))

    gone = Story().acquire("c0", 1.0, 1.1).release("c0", 1.2).fault(0, "kill", ["n1"], 5.0, 26.0)
    assert of(gone.acquire("c1", 25.0, 26.1)) == (False, "nobody got it in the 21 s without n1")
    # A real server takes time to come back, and serves before it is seen to be there.
    late = Story().fault(0, "kill", ["n1"], 5.0, 26.4).acquire("c1", 25.0, 26.2)
    assert of(late) == (False, "nobody got it in the 21 s without n1")
    assert of(gone.acquire("c2", 6.0, 6.5)) == (
        True, "granted again 1.50 s after n1 had been lost, 1 grant without it",
    )  # fmt: skip
    assert of(Story())[0] is None


def test_quantiles_are_values_that_were_seen() -> None:
    assert quantile([], 0.5) is None
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([float(number) for number in range(1, 101)], 0.99) == 99.0


def costs(ms: float | None, rate: float | None) -> list[dict[str, Any]]:
    half = None if ms is None else ms / 2000
    names = {"acquire_p50_s": half, "release_p50_s": half, "acquires_per_second": rate}
    return [{"name": "alone", **names}, {"name": "contended", **names}]


def test_the_articles_order_is_held_against_what_was_measured() -> None:
    locks = {"redis-token": costs(0.5, 80), "etcd-mutex": costs(1.5, 60), "mysql-unique": costs(0.4, 20)}
    quick, many = ranking(locks)["measures"]
    assert (quick["order"], quick["agrees"], quick["better"]) == (["mysql", "redis", "etcd"], False, "low")
    assert (many["order"], many["agrees"], many["better"]) == (["redis", "etcd", "mysql"], True, "high")
    assert quick["values"] == {"redis": 0.5, "etcd": 1.5, "mysql": 0.4}
    assert quick["locks"]["redis"] == "redis-token"
    assert ranking({"redis-token": costs(0.5, 80), "etcd-mutex": costs(None, None)})["measures"] == []
    assert ranking({})["claimed"] == list(CLAIMED)


def test_a_tie_contradicts_nobody() -> None:
    assert agrees({"redis": 0.50, "etcd": 0.49}, low=True)
    assert not agrees({"redis": 0.50, "etcd": 0.40}, low=True)
    assert agrees({"redis": 100, "mysql": 104}, low=False)
    assert not agrees({"redis": 100, "mysql": 120}, low=False)
