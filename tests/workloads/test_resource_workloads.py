"""Workloads that end in the resource: a correct lock causes no violation, and a broken one causes violations that are
reported."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from harness.checkers.resource import ResourceChecker
from harness.history import History
from harness.plan import FaultSpec, Plan
from harness.run.runs import run
from harness.run.verdicts.judging import Result
from harness.worker import resource
from harness.worker.resource import CHANGED, Request, Resource, ResourceReply
from harness.worker.workloads.red_packet import decide
from tests.runs.verdicts import explanations

NAMES = ("order", "red-packet", "counter", "optimistic")
WITH_LOCK = NAMES[:3]
LATE = FaultSpec("client-pause", on="read", for_=3.0)
"""Longer than the ttl, and after the look at what is to be changed."""
TRANSACTIONS = "harness.scenarios.locks.mysql_transactions"


def run_workload(workload: str, lock: str = "redis-token", **more: Any) -> Result:
    return run(Plan(lock=lock, workload=workload, **{"time_limit": 4.0, **more}))


def accepted_calls(history: History, f: str) -> list[Any]:
    return [call for call in history.calls(f) if call.outcome == "ok"]


@pytest.mark.few(1)
@pytest.mark.parametrize("clients", [2, 5])
@pytest.mark.parametrize("workload", NAMES)
def test_a_correct_lock_gives_a_valid_run(workload: str, clients: int) -> None:
    for seed in range(2):
        result = run_workload(workload, clients=clients, seed=seed)
        assert result.valid is True, explanations(result)
        assert result.verdicts["resource"].stats["accepted"] > 50
        assert result.verdicts["resource"].stats["sections"] > 20


@pytest.mark.parametrize("workload", ["inventory", pytest.param("queue", marks=pytest.mark.slow)])
def test_critical_sections_of_a_correct_lock_are_in_order(workload: str) -> None:
    result = run_workload(workload)
    assert result.verdicts["resource"].valid is True, explanations(result)
    assert result.verdicts["resource"].stats["sections"] > 10


def test_sales_of_a_late_client_are_out_of_order_although_nothing_is_oversold() -> None:
    """The stock is judged as if each item had more units than anybody can buy."""
    start, *others = run_workload("inventory", faults=(LATE,), time_limit=7.0).history
    plenty = replace(start, value={**start.value, "stock": dict.fromkeys(start.value["stock"], 1_000)})
    verdict = ResourceChecker().check(History([plenty, *others]))
    assert {violation.kind for violation in verdict.evidence} == {"interleaved"}
    assert "sold a unit of i" in verdict.explanation


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("workload", "kinds", "words"),
    [
        ("order", {"processed-twice"}, "o0 was processed twice: by c"),
        ("red-packet", {"money-made"}, "were created: it had"),
        ("counter", {"lost-update", "interleaved"}, "had been accepted in between"),
    ],
)
def test_a_late_client_damages_the_resource(workload: str, kinds: set[str], words: str) -> None:
    for seed in range(2):
        result = run_workload(workload, faults=(LATE,), time_limit=7.0, seed=seed)
        verdict = result.verdicts["resource"]
        assert verdict.valid is False, explanations(result)
        assert {violation.kind for violation in verdict.evidence} <= kinds
        assert words in verdict.explanation


@pytest.mark.slow
@pytest.mark.parametrize("workload", WITH_LOCK)
def test_a_fencing_resource_stays_valid(workload: str) -> None:
    result = run_workload(workload, "redis-fenced", faults=(LATE,), time_limit=7.0, fencing="on")
    assert result.verdicts["resource"].valid is True, explanations(result)
    assert result.verdicts["resource"].stats["rejected"] > 0
    assert result.verdicts["mutual-exclusion"].valid is False


def test_each_order_is_processed_once() -> None:
    history = run_workload("order", clients=2).history
    marked = [call.invoke.key for call in accepted_calls(history, "mark")]
    assert marked == [f"o{number}" for number in range(len(marked))]
    assert {call.invoke.node for call in accepted_calls(history, "mark")} == {"c0", "c1"}


def test_an_emptied_packet_credits_exactly_its_amount() -> None:
    history = run_workload("red-packet").history
    credited: dict[str, int] = {}
    left: dict[str, dict[str, int]] = {}
    for call in accepted_calls(history, "write"):
        packet, _, client = call.invoke.key.partition("/")
        if client:
            credited[call.invoke.key] = call.invoke.value["value"]
        else:
            left[packet] = call.invoke.value["value"]
    empty = [packet for packet, rest in left.items() if rest == {"cents": 0, "shares": 0}]
    assert len(empty) > 4
    for packet in empty:
        assert sum(cents for key, cents in credited.items() if key.startswith(f"{packet}/")) == 1000


def test_a_share_leaves_one_cent_for_each_remaining_share() -> None:
    rng = Random(7)
    for cents, shares in [(5, 5), (6, 5), (1000, 5), (2, 2), (1000, 1)]:
        drawn = {decide(rng, cents, shares) for _ in range(300)}
        assert min(drawn) >= 1
        assert max(drawn) <= cents - (shares - 1)
        assert shares > 1 or drawn == {cents}


# Counters in the lock's own service.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("broken", "cured"), [("StaleRead", "FreshRead"), ("UnlocksBeforeCommit", "CommitsBeforeUnlock")]
)
def test_a_correct_lock_around_a_wrong_transaction_loses_updates(broken: str, cured: str) -> None:
    for seed in range(2):
        bad = run_workload("counter", f"{TRANSACTIONS}:{broken}", seed=seed, time_limit=4.0)
        assert [name for name, verdict in bad.verdicts.items() if verdict.valid is not True] == ["resource"], (
            explanations(bad)
        )
        assert "saw" in bad.verdicts["resource"].explanation
        assert bad.document["summary"].count(bad.verdicts["resource"].evidence[0].sentence) == 1
        good = run_workload("counter", f"{TRANSACTIONS}:{cured}", seed=seed, time_limit=4.0)
        assert good.valid is True, explanations(good)
        written = sorted(call.done.value["written"] for call in accepted_calls(good.history, "add"))
        assert written == list(range(1, len(written) + 1))
        assert len(written) > 20


@pytest.mark.slow
def test_a_transaction_with_an_unknown_outcome_is_no_violation() -> None:
    """Connections break during open transactions. The additions are rolled back, and no client was told otherwise."""
    cut = FaultSpec("connection-reset", on="add", nth=5, times=5, every=1.0)
    result = run_workload("counter", f"{TRANSACTIONS}:CommitsBeforeUnlock", faults=(cut,), time_limit=8.0)
    releases = [call.outcome for call in result.history.calls("release")]
    assert "info" in releases
    assert result.verdicts["resource"].valid is True, explanations(result)


# Workloads without a lock.


def test_optimistic_clients_take_no_lock_and_lose_nothing() -> None:
    result = run_workload("optimistic", faults=(LATE,), time_limit=7.0)
    assert result.valid is True, explanations(result)
    assert not result.history.calls("acquire")
    assert result.verdicts["mutual-exclusion"].explanation == "not applicable: the workload takes no lock"
    refused = [call.done.error for call in result.history.calls("cas") if call.done and call.outcome == "fail"]
    assert set(refused) == {CHANGED}
    swapped = [call.invoke.value["value"] for call in accepted_calls(result.history, "cas")]
    assert swapped == list(range(1, len(swapped) + 1))


@pytest.mark.usefixtures("in_this_process")
def test_a_store_that_does_not_compare_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Resource, "_refusal", lambda self, request: None)
    result = run_workload("optimistic")
    assert result.verdicts["resource"].valid is False, explanations(result)
    assert "lost-update" in {violation.kind for violation in result.verdicts["resource"].evidence}


@pytest.mark.usefixtures("in_this_process")
def test_a_store_that_never_changes_its_version_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutant: it compares versions, but writes do not change them."""
    right = Resource.apply

    def forgetful(self: Resource, request: Request) -> ResourceReply:
        self._versions.clear()
        return right(self, request)

    monkeypatch.setattr(resource.Resource, "apply", forgetful)
    assert run_workload("optimistic").verdicts["resource"].valid is False


@pytest.mark.slow
def test_the_same_seed_gives_the_same_history() -> None:
    for workload in ("red-packet", "optimistic"):
        assert list(run_workload(workload, seed=3).history) == list(run_workload(workload, seed=3).history)
        assert list(run_workload(workload, seed=3).history) != list(run_workload(workload, seed=4).history)
