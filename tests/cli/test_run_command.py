"""``harness run``: exit statuses, verdicts of a user's locks, and the chosen cluster."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from harness.history import History
from harness.run.plans import completion

from .commands import harness, results_in


def test_a_violation_exits_with_1_and_the_report_names_holders_and_clocks(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("run", "redlock", "--nemesis", "clock-skew", "--cluster", "sim") == 1
    said = capsys.readouterr()
    assert "VIOLATION: redlock" in said.out
    assert "cluster: sim, redis-independent, 5 nodes" in said.err
    page = Path("store/latest/report.html").read_text()
    results = json.loads(Path("store/latest/results.json").read_text())
    holders = [hold["client"] for hold in results["checkers"]["mutual-exclusion"]["evidence"][0]["involved"]]
    assert len(set(holders)) == 2
    for holder in holders:
        assert holder in results["summary"]
    assert "wall clocks jumped at" in results["summary"]
    assert results["summary"][:40] in page.replace("&#39;", "'")


def test_a_valid_run_exits_with_0_and_json_is_alone_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("run", "redlock", "--nemesis", "none", "--time-limit", "5s", "--json") == 0
    said = capsys.readouterr()
    (run,) = json.loads(said.out)["runs"]
    document = run["results"]
    assert said.err == ""
    assert (document["schema"], document["valid"], document["seed"]) == (2, True, 0)
    assert json.loads((Path(run["folder"]) / "results.json").read_text()) == document
    assert set(document["checkers"]) >= {"mutual-exclusion", "resource", "fencing", "ownership", "deadlock", "liveness"}
    assert document["versions"]["redis"]


@pytest.mark.slow
def test_the_report_describes_the_setting_in_the_terms_of_the_service(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("run", "mysql-unique", "--topology", "replicated", "--time-limit", "2s", "--clients", "2") in (0, 3)
    capsys.readouterr()
    versions = json.loads(Path("store/latest/results.json").read_text())["versions"]
    assert "PyMySQL" in versions
    assert "redis" not in versions
    setting = Path("store/latest/report.html").read_text().partition('id="setting"')[2]
    assert "manager" in setting
    assert "sentinel" not in setting.partition("Server logs")[0]


@pytest.mark.slow
@pytest.mark.usefixtures("in_this_process")
def test_a_watcher_of_a_lost_member_leaves_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    """python-etcd3 does not stop its watcher when its client is closed."""
    ended: list[type[BaseException]] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: ended.append(args.exc_type))
    assert harness("run", "etcd3-lock", "--nemesis", "partition-node", "--time-limit", "15s", "--quiet") == 0
    assert set(ended) == {SystemExit}, "which threading takes for an end like any other"


def test_a_run_without_contention_exits_with_3_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("run", "redis-token", "--clients", "1", "--time-limit", "5s") == 3
    said = capsys.readouterr().out
    assert (
        "Nothing was proved: deadlock, linearizability, liveness, ownership and resource: the run had one client, c0"
        in said
    )
    assert "handover: no key was requested by more than one client (k0 by one)" in said


def test_the_simulator_is_the_default_even_if_an_engine_answers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completion, "no_engine", lambda: "")
    assert harness("run", "redis-token", "--time-limit", "3s") == 0
    assert "cluster: sim, redis-single, 1 node\n" in capsys.readouterr().err


@pytest.mark.slow
def test_auto_reports_the_chosen_cluster_and_the_reason(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completion, "no_engine", lambda: "no Docker engine here")
    assert harness("run", "redis-token", "--time-limit", "3s", "--cluster", "auto") == 0
    assert "cluster: sim, redis-single, 1 node (no Docker engine here" in capsys.readouterr().err


def test_a_user_lock_can_be_tested(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("run", "mylock_cli:MyLock", "--time-limit", "5s") == 0
    assert harness("run", "mylock_cli:MyLock", "--nemesis", "client-pause", "--time-limit", "15s", "--quiet") == 1
    assert capsys.readouterr().out.endswith("VIOLATION\n")


def test_a_lock_that_only_raises_gives_unknown_mutual_exclusion(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("run", "mylock_cli:Raises", "--time-limit", "5s", "--json") in (1, 3)
    document = results_in(capsys.readouterr().out)
    assert document["checkers"]["mutual-exclusion"]["valid"] is None
    history = History.load(Path("store/latest/history.jsonl"))
    assert any("RuntimeError: out of\norder.\n" in error for error in history.error if error)
    assert "RuntimeError: out of order. " in f"{document['summary']} ", "one line, one full stop"


def test_a_hanging_lock_is_reported_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("run", "mylock_cli:Hangs", "--cluster", "sim", "--time-limit", "5s", "--json") == 3
    summary = results_in(capsys.readouterr().out)["summary"]
    assert "no server was contacted" in summary
    assert "5 of 5 acquires never returned." in summary


@pytest.mark.slow
@pytest.mark.parametrize("lock", ["Exits", "OddGrant"])
def test_a_lock_cannot_decide_the_exit_status(lock: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("run", f"mylock_cli:{lock}", "--time-limit", "3s", "--json") in (1, 3)
    document = results_in(capsys.readouterr().out)
    assert document["checkers"]["mutual-exclusion"]["valid"] is None
    assert document["stats"]["acquires_ok"] == 0


def test_output_of_a_lock_goes_to_stderr_with_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("run", "mylock_cli:Prints", "--time-limit", "3s", "--json") == 0
    said = capsys.readouterr()
    assert results_in(said.out)["valid"] is True
    assert "hello" in said.err


@pytest.mark.slow
@pytest.mark.parametrize("durations", [("2.2", "10.1s"), ("0.7", "10.1s"), ("2", "3.3333333333s")])
def test_fractional_durations_are_accepted(durations: tuple[str, str]) -> None:
    assert harness("run", "redis-token", "--ttl", durations[0], "--time-limit", durations[1], "--quiet") == 0


@pytest.mark.slow
def test_many_runs_keep_only_folders_of_runs_that_are_not_valid(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--runs", "3", "--time-limit", "8s", "--hold", "0.5", "--json"]
    assert harness("run", "redis-token", *arguments) == 0
    document = json.loads(capsys.readouterr().out)
    assert [run["folder"] for run in document["runs"]] == ["", "", ""]
    assert document["certainty"] == "3 runs, no failure: below 63.2 % of such runs fail, with 95 % confidence"
    assert harness("run", "redis-token", "--nemesis", "client-pause", *arguments) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["planned"], document["status"], document["certainty"]) == (3, 1, "")
    assert [run["results"]["seed"] for run in document["runs"]] == [0, 1, 2]
    for run in document["runs"]:
        assert run["results"]["valid"] is True or (Path(run["folder"]) / "report.html").exists()
