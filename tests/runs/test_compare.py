"""Comparisons: the state of a run, the contents of cells, properties and costs, and refused requests."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec.structs import replace as with_
from rich.console import Console

from harness.checkers.base import Verdict
from harness.cli import compare as compare_cli
from harness.cli.compare import tell_matrix
from harness.cli.main import main
from harness.documents import ComparisonDocument, RunDocument, convert
from harness.documents.comparison import ComparedCost
from harness.errors import UsageError
from harness.plan import FaultSpec, Plan
from harness.run.verdicts.judging import Result
from harness.studies.compare import cells, exit_status
from harness.studies.compare.cells import WORST_FIRST, RunFindings, lapse, state_of
from harness.studies.compare.document import assemble, relative
from harness.studies.compare.plans import (
    NEMESES,
    SETTINGS,
    ColumnSettings,
    ComparisonJob,
    ComparisonRequest,
    cell,
    chosen,
    command,
    jobs,
)
from harness.studies.compare.trials import JobOutcome, died, run_job
from harness.worker.client_program import find_lock
from tests.checkers.story import Story

from .deciding import decided

SAFE = dict.fromkeys(
    ("deadlock", "fairness", "faults", "fencing", "liveness", "mutual-exclusion", "ownership", "reentrancy", "resource",
     "try-lock"), True,
)  # fmt: skip


FENCED = Plan(lock="", fencing="on")


def verdicts(**changes: bool | None) -> Mapping[str, Verdict]:
    said = {**SAFE, **{name.replace("_", "-"): valid for name, valid in changes.items()}}
    return {name: Verdict(valid, name) for name, valid in said.items()}


# The state of a run.


@pytest.mark.parametrize(
    ("said", "fencing", "state"),
    [
        ({}, "off", "safe"),
        ({"mutual_exclusion": False}, "off", "unsafe"),  # though it caused no violation in this run
        ({"mutual_exclusion": False}, "on", "fenced"),
        ({"mutual_exclusion": False, "ownership": False}, "on", "fenced"),
        ({"mutual_exclusion": False, "resource": False}, "on", "unsafe"),
        ({"mutual_exclusion": False, "fencing": False}, "on", "unsafe"),
        ({"resource": False}, "off", "unsafe"),
        ({"ownership": False}, "off", "unsafe"),
        ({"deadlock": False}, "off", "unavailable"),
        ({"liveness": False}, "on", "unavailable"),
        ({"liveness": False, "mutual_exclusion": False}, "on", "unavailable"),
        ({"liveness": False, "mutual_exclusion": False}, "off", "unsafe"),
        ({"faults": None}, "off", "unknown"),
        ({"faults": None, "mutual_exclusion": False}, "off", "unsafe"),
        ({"faults": None, "mutual_exclusion": False}, "on", "unknown"),
        ({"faults": None, "deadlock": False}, "off", "unavailable"),
        ({"mutual_exclusion": None}, "off", "unknown"),
        ({"liveness": None}, "off", "unknown"),
        ({"fairness": False}, "off", "safe"),  # promises that do not depend on faults
        ({"reentrancy": None}, "off", "safe"),
    ],
)
def test_verdicts_determine_the_state_of_a_run(said: dict[str, bool | None], fencing: Any, state: str) -> None:
    assert state_of(decided(verdicts(**said), Plan(lock="", fencing=fencing))) == state


def test_a_lock_that_is_never_granted_again_is_unavailable() -> None:
    assert state_of(decided(verdicts()), lapsed=True) == "unavailable"
    assert state_of(decided(verdicts(mutual_exclusion=False), FENCED), lapsed=True) == "unavailable"
    assert state_of(decided(verdicts(mutual_exclusion=False)), lapsed=True) == "unsafe"


def test_a_fault_that_never_struck_makes_a_safe_run_unknown() -> None:
    assert state_of(decided(verdicts()), struck=False) == "unknown"
    assert state_of(decided(verdicts(mutual_exclusion=False), FENCED), struck=False) == "unknown"
    assert state_of(decided(verdicts(mutual_exclusion=False)), struck=False) == "unsafe"


def story(last_asked: float = 29.0, granted_again: float | None = None, healed: float = 5.0) -> Story:
    told = Story().acquire("c0", 1.0, 1.1).release("c0", 1.5).fault(0, "kill-amnesia", ["n1"], 5.0, healed)
    if granted_again is not None:
        told.acquire("c1", granted_again - 0.1, granted_again).release("c1", granted_again + 0.2)
    return told.acquire("c2", last_asked, last_asked + 0.5, "info")


def test_a_lapse_needs_requests_without_a_grant_until_the_end() -> None:
    plan = Plan(lock="etcd-mutex", time_limit=30.0)
    assert lapse(plan, story().history()) == (
        "No client was granted the lock after 1.100 s, although clients requested it until the end at 30 s."
    )
    assert (
        lapse(plan, story(granted_again=28.0).history()) == ""
    )  # a waiter with a shorter timeout than some leases keeps waiting
    assert lapse(plan, story(granted_again=25.0).history()) == "", "two leases and a hold are not over yet"
    assert lapse(plan, story(last_asked=4.0).history()) == "", "nobody wanted it any more"
    assert lapse(plan, story(healed=16.0).history()) == "", "what was sent at 16 s may still come at 27 s"


@pytest.mark.parametrize(
    ("said", "fencing", "struck", "why"),
    [
        ({"fairness": None, "faults": None}, "off", True, "faults: faults"),  # fairness was not requested
        ({"faults": None}, "off", False, cells.NEVER),
        ({"mutual_exclusion": False}, "off", False, "Two held it."),  # no fault
        ({"mutual_exclusion": False, "liveness": False}, "on", True, "liveness"),
        ({"mutual_exclusion": False}, "on", True, "Two held it."),
    ],
)
def test_a_cell_gives_the_reason_for_its_state(
    said: dict[str, bool | None], fencing: Any, struck: bool, why: str
) -> None:
    told = Story(ttl=2.0, slack=1.0, hold=0.5).acquire("c0", 1.0, 1.1).release("c0", 1.5)
    if struck:
        told.fault(0, "client-pause", ["c0"], 2.0, 3.0)
    plan = Plan(lock="redis-fenced", fencing=fencing, faults=(FaultSpec("client-pause"),))
    document = RunDocument(schema=2, valid=None, reason="Two held it.", summary="Two held it. c0 was paused.")
    found = dict(verdicts(**said))
    run = Result(plan, told.history(), found, decided(found, plan), document, None)
    assert cells.findings_of(run).why == why


@pytest.mark.parametrize(("valid", "state"), [(None, "unknown"), (False, "unavailable")])
def test_a_lock_that_was_never_granted_is_not_safe(valid: bool | None, state: str) -> None:
    told = Story(ttl=2.0, slack=1.0, hold=0.5)
    for second in range(1, 30):
        told.call(
            "c0", "acquire", second, second + 0.1, "info", asked={"timeout": 1.0}, error="Indeterminate: ValueError"
        )
    found_by = dict(verdicts(liveness=valid))
    run = Result(
        Plan(lock="redis-token"),
        told.history(),
        found_by,
        decided(found_by),
        RunDocument(schema=2, valid=valid),
        None,
    )
    found = cells.findings_of(run)
    assert found.state == state
    assert (found.why == "29 of 29 acquires ended with Indeterminate: ValueError.") == (valid is None)


def test_a_cell_shows_the_first_of_its_worst_runs() -> None:
    runs = [
        RunFindings("safe", "all is well"),
        RunFindings("fenced", "late", two_holders=True),
        RunFindings("unknown", "not seen"),
    ]
    plan = Plan(lock="redis-fenced", kind="redis-single", fencing="on", seed=2)
    found = cells.cell(runs, plan, "client-pause", "harness run ...", "store/it")
    assert (found.state, found.why, found.runs, found.seed) == ("unknown", "not seen", 3, 2)
    assert found.counts == {"unknown": 1, "fenced": 1, "safe": 1}
    assert (found.two_holders, found.tokens_fell, found.run) == (True, False, "store/it")
    for number, state in enumerate(WORST_FIRST):
        mixed = [RunFindings(other, "") for other in (*reversed(WORST_FIRST[number:]), state)]
        assert (mixed[cells.worst(mixed)].state, cells.worst(mixed)) == (state, len(mixed) - 2)


# The runs of a comparison.


def test_only_failover_has_settings_of_its_own() -> None:
    assert list(SETTINGS) == ["failover"]
    assert SETTINGS["failover"].words().startswith("ttl 10 s, holds of 4 s: ")
    assert ColumnSettings().words() == "ttl 2 s, holds of 100 ms"


ASKED = ComparisonRequest(locks=("redis-token",), nemeses=("client-pause", "failover"), seed=7, runs=2)


def test_a_cell_runs_on_servers_that_the_fault_can_affect() -> None:
    def of(lock: str, nemesis: str) -> tuple[str, str, float]:
        found = cell(ASKED, lock, nemesis)
        assert isinstance(found, ComparisonJob), found
        assert [plan.seed for plan in found.plans] == [7, 8]
        return found.plans[0].kind, found.fault, found.plans[0].ttl

    assert of("redis-token", "client-pause") == ("redis-single", "client-pause", 2.0)
    assert of("redis-token", "failover") == ("redis-sentinel", "failover", 10.0)
    assert of("mysql-ttl", "failover") == ("mysql-replicated", "failover", 10.0)
    assert of("etcd-mutex", "failover") == ("etcd", "leader-loss", 10.0)
    assert (
        cell(ASKED, "memcached-token", "failover") == "no fault could transfer the lock: a memcached, without a standby"
    )
    assert "memcached" not in str(cell(ASKED, "redis-token", "disk-stall"))
    assert "disk-stall" in str(cell(ASKED, "redis-token", "disk-stall"))


@pytest.mark.parametrize(("cluster", "cluster_too"), [("sim", False), ("docker", True)])
def test_the_loss_of_a_server_is_tried_on_the_kinds_of_this_cluster(
    cluster: Literal["sim", "docker"], cluster_too: bool
) -> None:
    found = jobs(ComparisonRequest(locks=("redis-token",), cluster=cluster))
    kinds = [plan.kind for job in found if job.name == "no-single-point" for plan in job.plans]
    assert kinds == ["redis-single", "redis-sentinel", *["redis-cluster"] * cluster_too]


def test_fencing_is_on_exactly_for_locks_with_fences() -> None:
    both = ComparisonRequest(locks=("redis-token", "redis-fenced"), nemeses=("client-pause",))
    fencing = {(job.lock, plan.fencing) for job in jobs(both) if job.part != "cost" for plan in job.plans}
    assert fencing == {("redis-token", "off"), ("redis-fenced", "on")}


def test_commands_contain_only_options_that_differ_from_defaults() -> None:
    found = cell(ASKED, "redis-fenced", "failover")
    assert isinstance(found, ComparisonJob)
    assert command(found.plans[1], found.fault) == (
        "harness run redis-fenced --cluster sim --nemesis failover --topology sentinel --fencing on --seed 8 --ttl 10s "
        "--hold 4s"
    )
    alone = next(job for job in jobs(ASKED) if job.name == "alone").plans[0]
    assert command(alone) == (
        "harness run redis-token --cluster sim --clients 1 --seed 7 --hold 0.01s --time-limit 10s"
    )


def test_plans_of_property_runs_have_a_title() -> None:
    titles = {(job.part, job.name): {plan.title for plan in job.plans} for job in jobs(ASKED)}
    assert titles["property", "reentrant"] == {"Can its holder acquire it again? (part of a comparison)"}
    assert {part for (part, _), found in titles.items() if found == {""}} == {"cell"}
    assert len(titles) == 2 + 3 + 2


def test_locks_are_chosen_by_family_name_or_all() -> None:
    memcached = ("memcached-add", "memcached-token", "sherlock-memcached", "tooz-memcached")
    in_php = ("symfony-memcached", "it is a lock for PHP: --cluster docker")
    assert chosen("memcached, etcd-mutex", "sim") == ((*memcached, "etcd-mutex"), (in_php,))
    everything, left_out = chosen("all", "sim")
    assert dict(left_out)["redisson-lock"] == "it is a lock for Java: --cluster docker"
    assert find_lock(everything[0]).info.kinds[0].startswith("redis")
    assert len(everything) == len(set(everything)) > 25
    assert dict(left_out)["hazelcast-fenced"].endswith("--cluster docker")
    assert "chubby" in chosen("all", "docker")[0]


@pytest.mark.parametrize(
    ("locks", "said"),
    [
        ("redis-tokn", "did you mean redis-token"),
        ("", "locks: expected a name from 'harness list locks'"),
        (" , ", "locks: expected a name"),
        ("nosuchthing", "'nosuchthing': known: all, chubby, consul, etcd, [a-z, ]+, and those of 'harness list locks'"),
        ("chuby", r"did you mean chubby or chubby-etcd\?$"),
        ("rediss", "unknown lock or family 'rediss'"),
        ("hazelcast", "none of the locks can be run on sim: hazelcast-fenced"),
        ("no.such:Lock", "no.such"),
    ],
)
def test_unknown_locks_are_refused(locks: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        chosen(locks, "sim")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"locks": ("redis-token", "redis-token")}, "redis-token is given more than once"),
        ({"locks": ("hazelcast-fenced",)}, "--cluster docker"),
        ({"nemeses": ("client-paus",)}, "did you mean client-pause"),
        ({"nemeses": ("none", "none")}, "none is given more than once"),
        ({"nemeses": ()}, "nemeses: expected a name"),
        ({"clients": 1}, "clients must be at least 2"),
        ({"runs": 0}, "runs must be at least 1"),
        ({"cluster": "moon"}, "cluster must be one of"),
        ({"time_limit": 0.0}, "time_limit must be more than 0"),
        ({"locks": ("etcd-mutex",), "time_limit": 12.0}, "12 s is too short, leader-loss on etcd-mutex would never"),
    ],
)
def test_invalid_comparison_requests_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        jobs(with_(ASKED, **changes))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--workers", "-1"], "workers must not be negative"),
        (["--cluster", "moon"], "cluster must be one of auto, sim, docker"),
        (["--cluster", "sim", "--time-limit", "soon"], "time-limit: expected a duration"),
    ],
)
def test_an_invalid_option_is_one_line_and_creates_no_folder(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["compare", "--out", str(tmp_path / "store"), *arguments])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "store").exists()


# Runs of a cell.


@pytest.mark.slow
def test_a_run_whose_fault_did_not_test_the_lock_is_replaced_by_one_with_the_next_seed(tmp_path: Path) -> None:
    """With seed 1 the partitions begin while nobody holds the lock, or nobody else wants it."""
    asked = ComparisonRequest(locks=("redis-fenced",), nemeses=("partition-node",), runs=1, seed=1)
    found = run_job(tmp_path, "harness compare", jobs(asked)[0]).cell
    assert found is not None
    assert (found.state, found.runs, found.counts) == ("safe", 1, {"safe": 1})
    assert found.seed == 2
    assert str(found.command).endswith("--seed 2")


@pytest.mark.slow
def test_as_many_runs_as_a_cell_has_are_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seeds: list[int] = []

    def unexposed(result: Result) -> RunFindings:
        seeds.append(result.plan.seed)
        return RunFindings("unknown", "not exposed", exposed=False)

    monkeypatch.setattr("harness.studies.compare.trials.cells.findings_of", unexposed)
    asked = ComparisonRequest(locks=("redis-token",), nemeses=("client-pause",), runs=2, seed=5, time_limit=10.0)
    found = run_job(tmp_path, "harness compare", jobs(asked)[0]).cell
    assert found is not None
    assert seeds == [5, 7, 8, 6]
    assert (found.state, found.runs, found.seed) == ("unknown", 2, 8)


# The document.


def dead(asked: ComparisonRequest) -> dict[tuple[str, str, str], JobOutcome]:
    """Return the outcomes of a comparison in which every job killed its workers."""
    return {(job.lock, job.part, job.name): died(job, "3 processes died") for job in jobs(asked)}


def comparison_document(found: dict[str, Any]) -> ComparisonDocument:
    return convert({"schema": 1, "nemeses": [], **found}, ComparisonDocument, "the comparison")


def test_jobs_not_played_or_given_up_are_unknown() -> None:
    played = {what: outcome for what, outcome in dead(ASKED).items() if what[-1] == "client-pause"}
    document = assemble(ASKED, played)
    (lock,) = document.locks
    assert {name: it.state for name, it in lock.cells.items()} == {"client-pause": "unknown", "failover": "unknown"}
    assert "died" in lock.cells["client-pause"].why
    assert [it.runs for it in lock.cells.values()] == [1, 0]
    assert "interrupted" in lock.cells["failover"].why
    assert {it.measured for it in lock.properties.values()} == {None}
    assert [it.name for it in lock.costs] == ["alone", "contended", "client-pause"]
    assert document.ranking.measures == ()
    assert [exit_status(with_(document, interrupted=interrupted)) for interrupted in (True, False)] == [3, 3]


def test_only_unknown_cells_and_interruptions_exit_with_3() -> None:
    def of(*states: str, interrupted: bool = False) -> int:
        found = {str(number): {"state": state} for number, state in enumerate(states)}
        return exit_status(comparison_document({"locks": [{"name": "it", "cells": found}], "interrupted": interrupted}))

    assert of("safe", "unsafe", "unavailable", "fenced", "not-run") == 0
    assert of("safe", "unknown") == 3
    assert of("safe", interrupted=True) == 3


@pytest.mark.parametrize(("width", "cells"), [(120, ["? unknown", "? unknown"]), (30, ["?", "?"])])
def test_the_matrix_uses_signs_on_a_narrow_terminal_and_words_on_a_wide_one(width: int, cells: list[str]) -> None:
    console = Console(width=width, file=io.StringIO())
    tell_matrix(assemble(ASKED, dead(ASKED)), console)
    said = console.file.getvalue()  # type: ignore[attr-defined]
    (line,) = [line for line in said.splitlines() if line.startswith("redis-token")]
    assert re.split(r"\s{2,}", line.strip()) == ["redis-token", *cells]
    assert "? unknown: the runs were not conclusive (2)" in said
    assert "…" not in said


def test_an_interrupted_comparison_prints_the_number_of_unreached_cells() -> None:
    console = Console(width=120, file=io.StringIO())
    tell_matrix(with_(assemble(ASKED, {}), interrupted=True), console)
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert "interrupted: 2 of 2 cells not reached" in said
    assert "means nothing" not in said


def test_each_finished_job_prints_a_line_without_a_terminal() -> None:
    console = Console(width=40, file=io.StringIO())
    watch = compare_cli._JobProgress(lambda share, words: None, console)
    todo = jobs(ASKED)
    watch.todo(len(todo))
    for job in todo:
        watch.begun(job)
        watch.done(job, died(job, "3 processes died"))
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert [line.partition(":")[0] for line in lines] == [f"{done} of 7" for done in range(1, 8)]
    assert lines[0].endswith("redis-token, client-pause: unknown")
    assert lines[3].endswith("redis-token, reentrant: 3 processes died")
    assert lines[6].endswith("redis-token, cost contended: not measured")
    cost = JobOutcome(cost=ComparedCost(name="contended", acquires_per_second=79.13))
    assert compare_cli._job_line(todo[6], cost) == "cost contended: 79.13 grants a second"


def test_a_missing_engine_selects_the_simulator_or_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compare_cli, "no_engine", lambda: "no Docker engine here")
    assert compare_cli.backend("auto") == ("sim", "no Docker engine here")
    with pytest.raises(SystemExit) as ended:
        main(["compare", "--cluster", "docker"])
    assert ended.value.code == 4
    assert "--cluster sim needs none" in capsys.readouterr().err
    monkeypatch.setattr(compare_cli, "no_engine", lambda: "")
    assert compare_cli.backend("auto")[0] == "docker"


def test_failover_becomes_leader_loss_for_quorum_services() -> None:
    both = ComparisonRequest(locks=("redis-token", "etcd-mutex"), nemeses=("failover",))
    (column,) = assemble(both, dead(both)).nemeses
    assert column.role == {"etcd": "leader-loss"}
    assert column.settings == SETTINGS["failover"].words()


def test_run_folders_are_relative_to_the_document(tmp_path: Path) -> None:
    shown, not_run = {"name": "alone", "run": str(tmp_path / "redlock" / "x")}, {"name": "contended", "run": None}
    lock = {
        "name": "redlock",
        "cells": {"none": {"state": "safe", **shown}},
        "fault_free": {"state": "safe", **shown},
        "properties": {"released": shown, "fence": not_run},
        "costs": [shown, not_run],
        "recovery": shown,
    }
    (told,) = relative(comparison_document({"locks": [lock]}), tmp_path / "comparisons" / "y").locks
    found = [told.cells["none"], told.fault_free, told.properties["released"], told.costs[0], told.recovery]
    assert {it.run for it in found} == {"../../redlock/x"}  # type: ignore[union-attr]
    assert (told.properties["fence"].run, told.costs[1].run) == (None, None)


def test_the_default_comparison_has_six_faults_and_one_job_per_cell() -> None:
    assert len(NEMESES) == 6
    found = jobs(ComparisonRequest(locks=("redis-token", "memcached-add")))
    assert sum(job.part == "cell" for job in found) == 11  # memcached has no replica to fail over to
    assert sum(job.part == "property" for job in found) == 6
    assert len({(job.lock, job.part, job.name) for job in found}) == len(found)
    assert replace(found[0], name="x").where[:2] == ("redis-single", "0")
    assert with_(ASKED, runs=1).check()
    with pytest.raises(UsageError, match="runs must be"):
        with_(ASKED, runs=0).check()
