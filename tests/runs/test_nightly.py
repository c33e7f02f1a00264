"""The nightly suite is as expected by default, and names the failure when a fault, a checker or a lock is broken."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness import documents
from harness.checkers.base import Verdict
from harness.checkers.ownership import OwnershipChecker
from harness.clusters.sim.cluster import SimCluster
from harness.documents.nightly import ScenarioOutcome
from harness.errors import UsageError
from harness.faults.base import Damage, InjectionContext, Observation
from harness.faults.pause import ClientPause
from harness.history import History
from harness.lock_impls.redis_token import RedisTokenLock
from harness.plan import Expect, Plan
from harness.run.verdicts.decision import Decision
from harness.run.verdicts.expectation import judge, status_of
from harness.scenarios import catalogue
from harness.studies.nightly import nightly
from harness.studies.nightly_cases import Case, cases
from tests.reports import nights

NAMES = ("del-foreign", "del-foreign.safe", "ttl-pause-write", "ttl-pause-write.safe")


def night(tmp_path: Path, *names: str, workers: int = 1) -> dict[str, Any]:
    """Run a small suite in one process, so that mutants apply."""
    chosen = [catalogue.find(name) for name in names or NAMES]
    return documents.plain(nightly("smoke", "sim", store=tmp_path, scenarios=chosen, workers=workers))


def states(document: dict[str, Any]) -> dict[str, str]:
    return {outcome["scenario"]: outcome["state"] for outcome in document["outcomes"]}


def test_every_outcome_of_the_suite_is_as_expected(tmp_path: Path) -> None:
    document = night(tmp_path)
    assert states(document) == dict.fromkeys(NAMES, "as-expected")
    assert document["status"] == 0
    found = {outcome["scenario"]: outcome["found_s"] for outcome in document["outcomes"]}
    assert found["del-foreign"] > 2
    assert not list(tmp_path.iterdir()), "what is as expected is not kept"


@pytest.mark.slow
def test_worker_processes_give_the_same_outcomes(tmp_path: Path) -> None:
    def told(document: dict[str, Any]) -> list[dict[str, Any]]:
        return [{key: value for key, value in outcome.items() if key != "real_seconds"}
                for outcome in document["outcomes"]]  # fmt: skip

    assert told(night(tmp_path, workers=2)) == told(night(tmp_path))


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_a_fault_without_effect_makes_outcomes_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause that pauses nothing is observed to have no effect, so the outcome is unknown."""
    monkeypatch.setattr(SimCluster, "pause", lambda cluster, host: None)
    monkeypatch.setattr(SimCluster, "resume", lambda cluster, host: None)
    document = night(tmp_path)
    assert states(document) == {
        "del-foreign": "as-expected",
        "del-foreign.safe": "as-expected",
        "ttl-pause-write": "unknown",
        "ttl-pause-write.safe": "unknown",
    }
    assert document["status"] == 3
    (why, _) = [outcome["why"] for outcome in document["outcomes"] if outcome["state"] == "unknown"]
    assert "client-pause" in why


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_a_fault_that_falsely_claims_an_effect_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause that pauses nothing reports an effect, so the suite misses the expected failure."""
    fine = Observation({"c0": True}, {}, "nothing")

    def inject(fault: ClientPause, scene: InjectionContext) -> Damage:
        return Damage(["c0"], lambda: fine, lambda: None, lambda: fine)

    monkeypatch.setattr(ClientPause, "inject", inject)
    document = night(tmp_path)
    assert states(document)["ttl-pause-write"] == "missed"
    assert states(document)["del-foreign"] == "as-expected"
    assert document["status"] == 1


def test_a_checker_that_always_passes_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OwnershipChecker, "check", lambda checker, history: Verdict(True, "all is well"))
    document = night(tmp_path)
    assert states(document) == {**dict.fromkeys(NAMES, "as-expected"), "del-foreign": "missed"}
    (why,) = [outcome["why"] for outcome in document["outcomes"] if outcome["state"] == "missed"]
    assert "ownership" in why
    assert document["status"] == 1
    assert list(tmp_path.glob("redis-set-ex/*/report.html")), "what is not as expected is kept, with its report"


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_a_broken_safe_lock_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutated redis-token deletes the key of any holder, so it no longer cures del-foreign."""
    monkeypatch.setattr(RedisTokenLock, "unlock", lambda lock: bool(lock.client.delete(lock.key)))
    document = night(tmp_path)
    assert states(document)["del-foreign.safe"] == "violated"
    assert states(document)["ttl-pause-write"] == "as-expected"
    assert document["status"] == 1


def test_a_scenario_that_no_cluster_can_run_is_reported(tmp_path: Path) -> None:
    document = night(tmp_path, "hz-lock")
    (outcome,) = document["outcomes"]
    assert outcome["state"] == "not-run"
    assert outcome["why"]
    assert document["status"] == 3, "nothing was looked for"
    assert night(tmp_path, "hz-lock", "ttl-overrun")["status"] == 0


def test_a_suite_without_scenarios_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="none of the scenarios"):
        nightly("smoke", "docker", store=tmp_path, scenarios=[catalogue.find("ttl-overrun")])


def test_a_failure_whose_folder_cannot_be_written_still_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OwnershipChecker, "check", lambda checker, history: Verdict(True, "all is well"))
    full = tmp_path / "file"
    full.write_text("no folder")
    document = night(full, "del-foreign")
    (outcome,) = document["outcomes"]
    assert outcome["state"] == "missed"
    assert "no report" in outcome["why"]


@pytest.mark.slow
def test_a_worker_that_dies_loses_only_its_own_case(tmp_path: Path) -> None:
    """The lock of that case ends the process that runs it."""
    path = tmp_path / "deadly.toml"
    path.write_text('lock = "tests.runs.deadly:Deadly"\ntime_limit = "2s"\n[expect]\nsafe = true\n')
    names = ("ttl-overrun", "setnx-crash", "ttl-overrun.safe", "setnx-crash.safe")
    chosen = [catalogue.find(str(path)), *map(catalogue.find, names)]
    document = documents.plain(nightly("smoke", "sim", store=tmp_path, scenarios=chosen, workers=2))
    assert states(document) == {"deadly": "unknown", **dict.fromkeys(names, "as-expected")}
    assert document["status"] == 3


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_nightly_run_leaves_no_process_and_stores_nothing(number: int, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "harness", "nightly", "--suite", "full", "--workers", "2"]
    command += ["--only", "redis-*", "--out", str(tmp_path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("4 of"):
            break
    workers = children(process.pid)
    assert len(workers) >= 2
    process.send_signal(number)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 3
    assert "Traceback" not in errors
    deadline = time.monotonic() + 60
    while (left := [pid for pid in workers if Path(f"/proc/{pid}").exists()]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left
    assert not (tmp_path / "results.db").exists(), "half a night is not to be compared with"


def children(pid: int) -> list[int]:
    """Return the processes that any thread of a process has started."""
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for thread in threads for child in thread.read_text().split()]


def test_an_interrupted_nightly_run_knows_how_many_runs_were_planned(tmp_path: Path) -> None:
    def interrupt(outcome: ScenarioOutcome, number: int, of: int) -> None:
        raise KeyboardInterrupt

    scenarios = [catalogue.find("ttl-overrun")]
    night = nightly("full", "sim", store=tmp_path, scenarios=scenarios, workers=1, on_outcome=interrupt)
    assert (night.interrupted, len(night.outcomes), night.planned, night.status) == (True, 1, 5, 3)


def test_the_suite_determines_seeds_and_clusters() -> None:
    (scenario,) = [catalogue.find("ttl-overrun")]
    assert [case.plan.seed for case in cases("full", "sim", [scenario])] == [0, 1, 2, 3, 4]
    assert [case.cluster for case in cases("full", "both", [scenario])].count("docker") == 1
    with pytest.raises(UsageError, match="suite"):
        cases("tiny", "sim", [scenario])


def test_traffic_of_servers_that_are_upgraded_is_not_compared_with_the_simulated_ones() -> None:
    chosen = [catalogue.find(name) for name in ("redis-upgrade", "ttl-overrun")]
    assert [case.is_simulated for case in cases("full", "docker", chosen)] == [False, True]


# Verdicts of a run compared with the expected ones.

FAILURE = Expect(safe=False, invalid=("resource",), valid=("fencing",))
CURE = Expect(safe=True, invalid=("mutual-exclusion",), ignored=("liveness",))


def state(expect: Expect, **said: bool | None) -> str:
    names = ("mutual-exclusion", "resource", "fencing", "liveness", "faults")
    given = {name.replace("_", "-"): value for name, value in said.items()}
    return judge(expect, {name: Verdict(given.get(name, True), "") for name in names}, History(), Decision({})).state


def test_a_failure_must_be_found_by_the_named_checker() -> None:
    assert state(FAILURE, resource=False) == "as-expected"
    assert state(FAILURE, resource=False, mutual_exclusion=False) == "as-expected"
    assert state(FAILURE, mutual_exclusion=False) == "missed"
    assert state(FAILURE, resource=None) == "unknown"
    assert state(FAILURE, resource=False, faults=None) == "unknown", "was it the fault at all?"
    assert state(FAILURE, resource=False, fencing=False) == "violated"


def test_a_property_that_must_not_be_tested_is_neither_kept_nor_broken() -> None:
    idle = Expect(safe=False, untested=("resource", "faults"))
    assert state(idle, resource=None, faults=None) == "as-expected"
    assert state(idle, resource=None) == "missed", "the faults were tested"
    assert state(idle, resource=False, faults=None) == "missed"


def test_an_expectation_without_a_property_to_look_for_is_refused() -> None:
    with pytest.raises(UsageError, match="must name the checkers"):
        Expect(safe=False).check(Plan(lock="redis-token"))
    with pytest.raises(UsageError, match=r"untested needs safe = false"):
        Expect(safe=True, untested=("resource",)).check(Plan(lock="redis-token"))
    with pytest.raises(UsageError, match="more than once"):
        Expect(safe=False, invalid=("resource",), untested=("resource",)).check(Plan(lock="redis-token"))


def test_a_safe_plan_is_judged_by_every_checker() -> None:
    assert state(CURE, mutual_exclusion=False) == "as-expected"
    assert state(CURE, mutual_exclusion=False, liveness=False) == "as-expected"
    assert state(CURE) == "missed", "the overlap that the fence is there for"
    assert state(CURE, mutual_exclusion=False, resource=False) == "violated"
    assert state(CURE, mutual_exclusion=False, resource=None) == "unknown"


@pytest.mark.slow
def test_a_plan_that_accepts_known_limits_misses_its_failure_if_there_is_nothing_else(tmp_path: Path) -> None:
    scenario = catalogue.find("ttl-pause-write")
    accepting = replace(scenario, plan=msgspec.structs.replace(scenario.plan, accept=("known-limits",)))
    nights = [nightly("smoke", "sim", store=tmp_path, scenarios=[one], workers=1) for one in (scenario, accepting)]
    assert [outcome.state for night in nights for outcome in night.outcomes] == ["as-expected", "missed"]


def test_a_lock_that_stays_with_one_client_may_be_as_expected() -> None:
    names = ("mutual-exclusion", "faults", "handover")
    found = {name: Verdict(None if name == "handover" else True, "") for name in names}
    assert judge(Expect(safe=True), found, History(), Decision({})).state == "as-expected"
    assert judge(Expect(safe=False, invalid=("handover",)), found, History(), Decision({})).state == "unknown"
    needed = Expect(safe=False, invalid=("faults",), valid=("handover",))
    assert judge(needed, found, History(), Decision({})).state == "unknown"
    broken = found | {"handover": Verdict(False, "c1 was left out")}
    assert judge(Expect(safe=True), broken, History(), Decision({})).state == "violated"


@pytest.mark.parametrize(("state", "status"), [("impossible", 1), ("possible", 0), ("unknown", 0)])
def test_an_impossible_reply_of_a_real_server_turns_the_night_red(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, status: int
) -> None:
    def run_cases(todo: Sequence[Case], *_: object) -> Iterator[tuple[Case, ScenarioOutcome]]:
        traces = [nights.IMPOSSIBLE_REPLY | {"state": state}]
        yield todo[0], nights.read(nights.night(21, [nights.outcome(NAMES[0], traces=traces)])).outcomes[0]

    monkeypatch.setattr("harness.studies.nightly.run_cases", run_cases)
    assert night(tmp_path, NAMES[0])["status"] == status


def test_the_worst_state_decides_the_status() -> None:
    assert status_of(["as-expected", "not-run"]) == 0
    assert status_of(["as-expected", "error"]) == 3
    assert status_of(["unknown", "late"]) == 1
