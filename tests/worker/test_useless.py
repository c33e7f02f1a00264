"""Useless locks: none may be called valid, and the checker that names the fault says invalid."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import run
from harness.faults.catalogue import default_specs
from harness.history.lock_keys import KEYS
from harness.plan import FaultSpec, Plan
from harness.run.store import HISTORY, RESULTS
from harness.run.verdicts.judging import Result, rejudge
from harness.worker.client_program import WORKLOADS

MODULE = f"{__package__}.useless_locks"
BROKEN = {
    "ReleaseNeverReturns": ("release", "it never returned"),
    "ReleaseRaises": ("release", "it raised: Indeterminate: ConnectionError: no route to the lock"),
    "ReleaseIgnored": ("release", "had released it, so it should have been available by"),
    "BelongsToTheFirst": ("handover", "which was granted"),
    "AcquireHangs": ("answers", "'s acquire of k0 was not answered for 3"),
}


UPDATING = [
    name
    for name, kind in WORKLOADS.own.items()
    if getattr(kind, "updates", False)
    and name != "reentrant"
    and not (getattr(kind, "methods", ()) or getattr(kind, "shared", False) or getattr(kind, "threads", 1) > 1)
]
"""The workloads whose critical sections change the resource, and that a lock without optional methods can run. In
``reentrant`` the exception strikes the nested acquire instead."""


def run_useless(lock: str, **settings: object) -> Result:
    return run(Plan(lock=f"{MODULE}:{lock}", **settings))  # type: ignore[arg-type]


def check_broken(lock: str, result: Result) -> None:
    name, sentence = BROKEN[lock]
    assert result.verdicts[name].valid is False, result.verdicts[name].explanation
    assert sentence in result.verdicts[name].explanation
    assert result.valid is False


@pytest.mark.few(1)
@pytest.mark.parametrize("lock", list(BROKEN))
def test_a_useless_lock_is_broken_and_the_checker_says_how(lock: str) -> None:
    check_broken(lock, run_useless(lock))


@pytest.mark.docker
@pytest.mark.parametrize("lock", list(BROKEN))
def test_a_useless_lock_is_broken_on_containers(lock: str) -> None:
    check_broken(lock, run_useless(lock, cluster="docker"))


@pytest.mark.slow
def test_a_lock_without_tokens_is_not_tested_where_the_resource_checks_them() -> None:
    result = run_useless("Token", fencing="on", time_limit=8.0)
    assert result.valid is None
    assert "the resource was to check fencing tokens, and the lock issued none" in result.reason


def test_a_release_that_never_returns_is_not_answered() -> None:
    verdict = run_useless("ReleaseNeverReturns").verdicts["answers"]
    assert verdict.valid is False
    assert len(verdict.evidence) == 5
    assert all("'s release of k0 was not answered for" in violation.sentence for violation in verdict.evidence)


def test_a_lease_in_the_wrong_unit_is_no_known_limit() -> None:
    result = run_useless("SecondsAsMilliseconds", time_limit=4.0, accept=("known-limits",))
    assert result.valid is False
    assert result.decision.properties["mutual-exclusion"].state == "broken"
    assert ", but its key was written for 0.00" in result.verdicts["mutual-exclusion"].explanation


@pytest.mark.slow
def test_a_lock_that_belongs_to_the_first_for_a_short_time_is_not_tested() -> None:
    result = run_useless("BelongsToTheFirst", time_limit=8.0)
    assert result.valid is None
    assert "5 clients requested k0 and only c" in result.verdicts["handover"].explanation


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize(("lock", "valid"), [(f"{MODULE}:NeedsAllServers", False), ("redlock", True)])
def test_a_lock_that_says_it_survives_the_loss_of_a_server_is_held_to_it(lock: str, valid: bool) -> None:
    outage = FaultSpec("kill", at=2.0, for_=16.0)
    verdict = run(Plan(lock=lock, time_limit=24.0, faults=(outage,))).verdicts["liveness"]
    assert verdict.valid is valid, verdict.explanation
    assert valid or "No client got k0" in verdict.explanation


@pytest.mark.slow
def test_a_key_that_stays_after_a_refusal_is_reported(tmp_path: Path) -> None:
    result = run(Plan(lock=f"{MODULE}:KeepsTheKey", time_limit=8.0), store=tmp_path)
    found = result.verdicts["keys"]
    assert found.valid is False
    assert {violation.kind for violation in found.evidence} == {"ghost-hold"}
    assert "kept k0 for 2.0" in found.explanation
    assert result.folder is not None
    assert rejudge(result.folder).verdicts["keys"] == found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workload", "updates"),
    [
        ("mutex", True),
        *(pytest.param(name, True, marks=pytest.mark.slow) for name in UPDATING if name != "mutex"),
        (f"{MODULE}:ReleaseAnyway", False),
    ],
)
def test_a_lock_that_interrupts_each_critical_section_is_not_tested(workload: str, updates: bool) -> None:
    result = run_useless("InterruptsSections", workload=workload, time_limit=5.0)
    found = result.verdicts["resource"]
    assert found.applies is updates
    if updates:
        assert result.valid is not True, "queue finds a violation besides"
        assert re.fullmatch(
            r"0 of [\d,]+ critical sections ended on their own, too few .*: [\d,]+ interrupted.*", found.explanation
        )
    if workload == "mutex":
        assert (result.valid, found.explanation in result.reason) == (None, True)


def test_a_lock_under_which_no_client_reaches_the_resource_is_not_tested() -> None:
    result = run_useless("HidesTheResource", time_limit=5.0)
    assert result.valid is None
    assert "without an answer of the resource" in result.reason


def test_a_release_that_waits_for_the_next_acquire_is_reported(tmp_path: Path) -> None:
    result = run(Plan(lock=f"{MODULE}:ReleasesAtNextAcquire", time_limit=10.0), store=tmp_path)
    found = result.verdicts["release"]
    assert found.valid is False, found.explanation
    assert {violation.kind for violation in found.evidence} == {"deferred-release"}
    assert result.valid is False


def test_a_run_whose_record_of_keys_is_damaged_or_missing_is_unknown(tmp_path: Path) -> None:
    folder = run(Plan(lock="redis-token", time_limit=4.0), store=tmp_path).folder
    assert folder is not None
    assert rejudge(folder).valid is True
    with (folder / KEYS).open("a") as file:
        file.write("{")
    for flaw in ("keys.jsonl is truncated at line", "keys.jsonl is missing"):
        result = rejudge(folder)
        assert result.decision.properties["keys"].state == "not-tested"
        assert flaw in result.verdicts["keys"].explanation
        assert result.valid is None
        (folder / KEYS).unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("change", "flaw"),
    [
        (lambda lines: lines[: len(lines) // 2], r"keys\.jsonl is truncated after line \d+ of \d+$"),
        (lambda lines: [], r"keys\.jsonl is truncated after line 0 of \d+$"),
        (lambda lines: [*lines, lines[-1]], r"keys\.jsonl has \d+ lines, but the run wrote \d+$"),
    ],
    ids=["half", "empty", "longer"],
)
def test_a_record_of_keys_with_other_lines_than_the_run_wrote_is_damaged(
    change: Callable[[list[bytes]], list[bytes]], flaw: str, tmp_path: Path
) -> None:
    found = run(Plan(lock="redis-token", time_limit=4.0), store=tmp_path)
    assert found.folder is not None
    path = found.folder / KEYS
    lines = path.read_bytes().splitlines(keepends=True)
    assert found.results.stats.key_states == len(lines)
    path.write_bytes(b"".join(change(lines)))
    for _ in range(2):  # the results that the first one writes state the number, too
        result = rejudge(found.folder)
        assert re.search(flaw, result.verdicts["keys"].explanation)
        assert result.valid is None


def test_the_record_of_keys_of_a_killed_run_is_incomplete(tmp_path: Path) -> None:
    """Lines are collected before they are written, so the last ones are not in the file."""
    folder = run(Plan(lock="redis-token", time_limit=4.0), store=tmp_path).folder
    assert folder is not None
    (folder / RESULTS).unlink()
    assert rejudge(folder).verdicts["keys"].valid is True, "it was killed after the recording"
    (folder / RESULTS).unlink()
    entries = (folder / HISTORY).read_bytes().splitlines(keepends=True)
    (folder / HISTORY).write_bytes(b"".join(entries[: len(entries) // 2]))
    found = rejudge(folder).verdicts["keys"]
    assert found.valid is None
    assert "the run was killed before keys.jsonl was complete" in found.explanation


def test_a_confirmed_release_by_a_client_without_the_lock_is_broken() -> None:
    result = run_useless("ConfirmsEveryRelease", workload=f"{MODULE}:ReleaseAnyway", time_limit=5.0)
    assert result.verdicts["release"].valid is False
    assert "returned ok, although c" in result.verdicts["release"].explanation
    assert result.verdicts["mutual-exclusion"].valid is True


def test_a_refused_release_by_a_client_without_the_lock_is_correct() -> None:
    result = run_useless("Token", workload=f"{MODULE}:ReleaseAnyway", time_limit=5.0)
    assert result.valid is True, result.results.reason


def test_a_sound_lock_beside_them_is_valid() -> None:
    result = run_useless("PatientToken", time_limit=10.0)
    assert result.valid is True, result.results.reason


@pytest.mark.slow
def test_a_lock_that_does_not_wait_is_not_tested() -> None:
    result = run_useless("Token", time_limit=10.0)
    assert result.valid is None
    assert "so waiting was not tested" in result.reason


@pytest.mark.few(1)
@pytest.mark.parametrize("lock", ["redis-token", "mysql-ttl", "zookeeper-sequential"])
def test_one_client_tests_no_handover(lock: str) -> None:
    result = run(Plan(lock=lock, clients=1, time_limit=5.0))
    assert result.valid is None
    assert result.verdicts["handover"].explanation.startswith("no key was requested by more than one client")


@pytest.mark.slow
def test_properties_of_two_clients_are_not_tested_if_only_one_sent_commands() -> None:
    result = run_useless("OneClientOnly", time_limit=5.0)
    assert result.history.nemesis("stop")[-1].value == {"reason": "time limit", "contacted": ["c0"]}
    found = result.verdicts["mutual-exclusion"]
    assert (found.valid, found.explanation) == (None, "only c0 sent commands to a server, and this needs two clients")
    assert result.decision.properties["mutual-exclusion"].state == "not-tested"
    assert result.verdicts["try-lock"].valid is True
    assert result.valid is None


@pytest.mark.slow
def test_one_optimistic_client_tests_nothing() -> None:
    result = run(Plan(lock="mysql-optimistic", workload="optimistic", clients=1, time_limit=5.0))
    assert result.valid is None
    assert result.verdicts["resource"].explanation == "only c0 accessed the resource, so it was not contended"
    assert run(Plan(lock="mysql-optimistic", workload="optimistic", time_limit=5.0)).valid is True


def test_a_confirmed_release_after_the_lease_is_blamed_on_the_late_client() -> None:
    plan = Plan(lock="redis-set-ex", time_limit=12.0, faults=tuple(default_specs("client-pause", 2.0)))
    found = run(plan).verdicts["release"].evidence
    assert found
    assert {(violation.kind, violation.blame) for violation in found} == {("late-release", "client")}
