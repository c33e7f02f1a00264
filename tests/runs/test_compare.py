"""Comparisons: the jobs of a request, refused requests, the document, and what the terminal shows."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec.structs import replace as with_
from rich.console import Console

from harness.cli import compare as compare_cli
from harness.cli.compare import tell_matrix
from harness.cli.main import main
from harness.documents import ComparisonDocument, convert
from harness.documents.comparison import ComparedCost
from harness.errors import UsageError
from harness.studies.compare import exit_status
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
from harness.studies.compare.trials import JobOutcome, died
from harness.worker.client_program import find_lock

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
