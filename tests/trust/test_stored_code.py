"""Commands that show or judge a stored run never run code that its files name."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.documents import load_run, present
from harness.errors import UNKNOWN, VALID
from harness.lock_impls import catalogue
from harness.lock_impls.catalogue import all_descriptions
from harness.run.plans.lock_facts import find_facts
from harness.run.processes import workers
from harness.run.verdicts.judging import rejudge
from harness.serve.app import application
from tests.cli.commands import harness
from tests.serve.asking import request

from .stranger import CHECKER, LOCK, MODULE, Stranger


def test_results_have_the_facts_of_the_lock(stranger: Stranger) -> None:
    stranger.store()
    results = load_run(stranger.results)
    assert present(results.lock_facts) == find_facts("redis-token")
    assert results.lock_title == find_facts("redis-token").title


def test_a_killed_run_of_our_own_lock_is_judged_without_loading_it(
    stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger.store(lock="redlock")
    stranger.kill()
    monkeypatch.setattr(workers, "call", None)
    monkeypatch.setattr(catalogue, "resolve", None)
    result = rejudge(stranger.folder)
    assert result.results.lock_title == all_descriptions()["redlock"].info.title
    assert "cut short" in result.results.summary


@pytest.mark.slow
def test_a_killed_run_of_a_strangers_lock_is_judged_without_importing_it(stranger: Stranger) -> None:
    stranger.store(lock=LOCK)
    stranger.kill()
    assert harness("report", "run") == UNKNOWN
    results = load_run(stranger.results)
    assert results.lock == LOCK
    assert "cut short" in results.summary
    assert not stranger.code_was_run


@pytest.mark.few(1)
@pytest.mark.parametrize("command", [["report"], ["check", "--model", "mutex"], ["export", "history.edn"]])
def test_commands_on_a_stored_run_run_no_code_that_it_names(stranger: Stranger, command: list[str]) -> None:
    stranger.store(lock=LOCK, checkers=(CHECKER,), workload=f"{MODULE}:Workload")
    assert harness(command[0], "run", *command[1:]) == VALID
    assert not stranger.code_was_run


def test_a_stored_verdict_of_a_users_checker_is_kept(stranger: Stranger) -> None:
    stranger.store(checkers=(CHECKER,))
    assert rejudge(stranger.folder).verdicts[CHECKER].explanation == "the stored verdict"
    assert not stranger.code_was_run
    assert load_run(stranger.results).checkers[CHECKER].explanation == "the stored verdict"


def test_a_users_checker_without_a_stored_verdict_is_unknown_and_says_how_to_run_it(
    stranger: Stranger, capsys: pytest.CaptureFixture[str]
) -> None:
    stranger.store(checkers=(CHECKER,))
    stranger.kill()
    assert harness("report", "run") == UNKNOWN
    verdict = load_run(stranger.results).checkers[CHECKER]
    assert verdict.valid is None
    assert f"--checker {CHECKER}" in verdict.explanation
    assert f"{CHECKER} was not run" in capsys.readouterr().err
    assert not stranger.code_was_run


def test_a_users_checker_named_on_the_command_line_is_run_again(stranger: Stranger) -> None:
    stranger.store(checkers=(CHECKER,))
    assert harness("report", "run", "--checker", CHECKER) == VALID
    assert "it was run" in load_run(stranger.results).checkers[CHECKER].explanation
    assert stranger.code_was_run


def test_a_run_that_is_judged_again_keeps_its_lock_and_command(stranger: Stranger) -> None:
    stranger.store()
    before = load_run(stranger.results)
    rejudge(stranger.folder)
    after = load_run(stranger.results)
    assert (after.lock_facts, after.started_at, after.real_seconds) == (
        before.lock_facts,
        before.started_at,
        before.real_seconds,
    )


def test_the_pages_of_a_stored_run_run_no_code_that_it_names(stranger: Stranger) -> None:
    stranger.store(lock=LOCK, checkers=(CHECKER,), workload=f"{MODULE}:Workload")
    shown = Path("shown/lock/20261122T000000Z-0")
    shown.parent.mkdir(parents=True)
    stranger.folder.rename(shown)
    app = application(Path("shown"))
    page = request(app, "/runs/lock/20261122T000000Z-0/")
    assert page.status == 200, page.text
    assert f"--allow {LOCK}" in page.text, "it shows how the run is repeated"
    for address in ("/", "/live/lock/20261122T000000Z-0/", "/store/lock/20261122T000000Z-0/results.json"):
        assert request(app, address).status == 200
    assert not stranger.code_was_run
