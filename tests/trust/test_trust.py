"""Commands that run a plan from a file run its code only if the user allowed it on the command line."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from harness.documents import load_run, present
from harness.errors import USAGE, UsageError
from harness.plan import Expect, FaultSpec, Plan, allowing, code_in, dump, load, refuse_untrusted
from harness.run.store import FAILURES, PLAN
from harness.scenarios import catalogue
from harness.search.request import HuntRequest
from tests.cli.commands import harness

from .stranger import CHECKER, LOCK, Stranger

PLANS = {
    "lock": Plan(lock=LOCK, kind="redis-single"),
    "checker": Plan(lock="redis-token", checkers=(CHECKER,)),
    "expected-checker": Plan(lock="redis-token", expect=Expect(safe=False, invalid=(CHECKER,))),
    "workload": Plan(lock="redis-token", workload="stranger_code:Workload"),
    "fault": Plan(lock="redis-token", faults=(FaultSpec("stranger_code:Fault", at=0.0),)),
}
COMMANDS = (("replay",), ("scenario", "run"))


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("named", PLANS)
def test_code_that_only_the_file_names_is_refused_in_one_line(
    stranger: Stranger, command: tuple[str, ...], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("plan.toml").write_text(dump(PLANS[named]))
    (name, what) = next(iter(code_in(PLANS[named]).items()))
    assert harness(*command, "plan.toml") == USAGE
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert f"{what} {name}" in line
    assert "--trust" in line
    assert f"--allow {name}" in line
    assert not stranger.code_was_run
    assert not Path("store").exists()


@pytest.mark.few(1)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("consent", [("--trust",), ("--allow", LOCK)], ids=" ".join)
def test_code_that_the_user_allowed_is_run(
    stranger: Stranger, command: tuple[str, ...], consent: tuple[str, ...]
) -> None:
    Path("plan.toml").write_text(dump(msgspec.structs.replace(PLANS["lock"], time_limit=1.0)))
    assert harness(*command, "plan.toml", *consent) != USAGE
    assert stranger.code_was_run


def test_a_stored_run_of_a_stranger_is_not_replayed(stranger: Stranger) -> None:
    stranger.store(lock=LOCK)
    assert harness("replay", "run") == USAGE
    assert not stranger.code_was_run


def test_allowing_one_class_does_not_allow_another(stranger: Stranger, capsys: pytest.CaptureFixture[str]) -> None:
    Path("plan.toml").write_text(dump(Plan(lock=LOCK, checkers=(CHECKER,))))
    assert harness("replay", "plan.toml", "--allow", LOCK) == USAGE
    refusal = capsys.readouterr().err
    assert CHECKER in refusal
    assert LOCK not in refusal
    assert not stranger.code_was_run


def test_showing_a_scenario_file_runs_no_code_and_says_how_to_allow_it(
    stranger: Stranger, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("plan.toml").write_text(dump(PLANS["lock"]))
    assert harness("scenario", "show", "plan.toml") == 0
    assert f"--allow {LOCK}" in " ".join(capsys.readouterr().out.split())
    assert not stranger.code_was_run


@pytest.mark.slow
def test_a_hunt_refuses_a_stored_failure_with_code_that_the_user_did_not_name(
    stranger: Stranger, capsys: pytest.CaptureFixture[str]
) -> None:
    request = HuntRequest(lock="redis-token", faults=("none",)).completed()
    folder = Path("store") / FAILURES / "redis-token"
    folder.mkdir(parents=True)
    plan = msgspec.structs.replace(request.plan(), checkers=(CHECKER,), hold=3.0, time_limit=2.0)
    (folder / "strange.toml").write_text(dump(plan))
    hunt = ("hunt", "redis-token", "--faults", "none", "--rounds", "1", "--schedules", "1")
    assert harness(*hunt) == USAGE
    assert f"checker {CHECKER}" in capsys.readouterr().err
    assert not stranger.code_was_run
    assert harness(*hunt, "--fresh") != USAGE
    assert not stranger.code_was_run
    assert harness(*hunt, "--trust") != USAGE
    assert stranger.code_was_run


@pytest.mark.slow
def test_the_command_that_repeats_a_run_of_a_users_lock_allows_that_lock(stranger: Stranger) -> None:
    Path("plan.toml").write_text(dump(msgspec.structs.replace(PLANS["lock"], time_limit=1.0)))
    harness("replay", "plan.toml", "--trust")
    replay = present(load_run(Path("store/latest/results.json")).replay)
    assert replay is not None
    assert replay.endswith(f" --allow {LOCK}")
    assert harness(*replay.split()[1:]) != USAGE
    assert load(Path("store/latest") / PLAN).lock == LOCK


def test_our_scenarios_and_our_classes_need_no_consent() -> None:
    assert all(scenario.catalogued for scenario in catalogue.all())
    for scenario in catalogue.all():
        if scenario.plan.lock.startswith("harness.") and not scenario.plan.image:
            refuse_untrusted(scenario.plan, scenario.name, ())


@pytest.mark.parametrize("name", ["harness.cli.main:app", "harness.lock_implss.x:Y", "harness:run", "os:system"])
def test_other_code_of_the_harness_and_of_python_needs_consent(name: str) -> None:
    with pytest.raises(UsageError, match="names code that would run"):
        refuse_untrusted(Plan(lock=name), "plan.toml", ())


def test_an_image_needs_consent_too() -> None:
    plan = Plan(lock="redis-token", cluster="docker", image="strange/redis")
    with pytest.raises(UsageError, match="image strange/redis"):
        refuse_untrusted(plan, "plan.toml", ())
    refuse_untrusted(plan, "plan.toml", ["strange/redis"])
    assert allowing(plan) == ["--allow", "strange/redis"]
