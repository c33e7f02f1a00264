"""Each wrong lock of ``harness nightly --suite mutants`` is found by the checker that its table names."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.checkers.base import Verdict
from harness.checkers.mutual_exclusion import MutualExclusionChecker
from harness.cli import nightly_mutants
from harness.cli.main import main
from harness.documents import NightlyDocument
from harness.errors import UsageError
from harness.lock_impls.redis_token import RedisTokenLock
from harness.run.verdicts.decision import FENCED
from harness.scenarios import catalogue
from harness.scenarios.catalogue import Scenario
from harness.scenarios.mutants import redis, tables
from harness.studies.nightly import nightly

MUTANTS = {mutant.name: mutant for mutant in catalogue.mutants()}
FEW = ("redis-no-nx", "redis-release-never-returns", "redis-no-server", "redis-belongs-to-the-first")
"""Two that a checker finds, and two that are not tested."""


def run(tmp_path: Path, *mutants: Scenario, workers: int = 1) -> NightlyDocument:
    return nightly("mutants", "sim", store=tmp_path, scenarios=mutants or None, workers=workers)


def few() -> list[Scenario]:
    return [MUTANTS[f"mutants/{name}"] for name in FEW]


def test_every_mutant_says_what_is_wrong_and_what_must_notice() -> None:
    assert len(MUTANTS) >= 60
    for mutant in MUTANTS.values():
        assert len(mutant.plan.title.split()) > 4, f"{mutant.name}: the class's docstring must say what is wrong"
        assert mutant.plan.expect is not None
        assert mutant.plan.expect.invalid or mutant.plan.expect.untested, mutant.name
        assert mutant.plan.expect.safe is False
        assert mutant.catalogued


def test_no_plan_of_a_mutant_leaves_out_a_property() -> None:
    """Such a plan could end as valid although the named property is broken."""
    for mutant in MUTANTS.values():
        plan = mutant.plan
        assert (plan.require, plan.accept) == ((), ()), mutant.name
        assert plan.expect is not None
        assert plan.fencing == "off" or not FENCED & set(plan.expect.named), mutant.name


def test_every_class_of_the_mutants_has_a_table_or_is_correct() -> None:
    for path in tables.FOLDER.glob("*.toml"):
        docstrings = tables._docstrings(path.with_suffix(".py"))
        tested = {mutant.plan.lock.partition(":")[2] for mutant in MUTANTS.values() if mutant.path == path}
        untested = {name for name in docstrings if name not in tested}
        assert all(docstrings[name].startswith("Not a mutant") for name in untested), untested


@pytest.mark.slow
def test_the_named_checkers_notice_a_few_mutants(tmp_path: Path) -> None:
    document = run(tmp_path, *few())
    assert [outcome.state for outcome in document.outcomes] == ["as-expected"] * len(FEW)
    assert [outcome.valid for outcome in document.outcomes] == [False, False, None, None]
    assert document.status == 0


@pytest.mark.slow
def test_no_mutant_is_judged_valid(tmp_path: Path) -> None:
    document = run(tmp_path, workers=2)
    wrong = {one.scenario: f"{one.state}: {one.why}" for one in document.outcomes if one.state != "as-expected"}
    assert wrong == {}
    assert len(document.outcomes) == len(MUTANTS)
    for outcome in document.outcomes:
        assert outcome.valid is not True
        named = (*outcome.expected.invalid, *outcome.expected.untested)
        assert not [name for name in named if outcome.states[name] == "kept"], outcome.scenario


@pytest.mark.slow
def test_a_mutant_that_its_checker_misses_fails_the_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MutualExclusionChecker, "check", lambda *_: Verdict(True, "all is well"))
    document = run(tmp_path, *few()[:1])
    assert [outcome.state for outcome in document.outcomes] == ["missed"]
    assert document.status == 1


@pytest.mark.usefixtures("in_this_process")
def test_a_verdict_of_valid_fails_the_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the lock is correct, and the plan's other expectation is met."""
    monkeypatch.setattr(redis.TokenLock, "try_lock", RedisTokenLock.try_lock)
    monkeypatch.setattr(redis.NoNx, "try_lock", redis.TokenLock.try_lock)
    document = run(tmp_path, *few()[:1])
    assert [outcome.valid for outcome in document.outcomes] == [True]
    assert [outcome.state for outcome in document.outcomes] == ["missed"]
    assert "the lock is wrong, and the verdict is" in document.outcomes[0].why


@pytest.mark.slow
def test_the_output_has_a_row_for_each_mutant_and_the_share_of_each_checker(tmp_path: Path) -> None:
    document = run(tmp_path, *few())
    _, *rows = nightly_mutants.rows(document)
    assert [row.split()[0] for row in rows] == list(FEW)
    assert "[green]answers, release[/]" in rows[1]
    assert "mutual-exclusion not tested" in rows[2]
    said = nightly_mutants.shares(document)
    assert said.startswith("of 4 mutants: 2 violated, 2 not tested, 0 valid; caught by release 2 (50%)")
    assert "mutual-exclusion 1 (25%)" in said


def test_a_mutant_is_found_by_its_name() -> None:
    assert catalogue.find("mutants/redis-no-nx").plan.lock == "harness.scenarios.mutants.redis:NoNx"
    with pytest.raises(UsageError, match="redis-no-nx"):
        catalogue.find("mutants/redis-no-nxx")


@pytest.mark.slow
def test_the_command_runs_a_part_of_the_suite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    junit = tmp_path / "mutants.xml"
    command = ["nightly", "--suite", "mutants", "--only", "redis-*fence", "--out", str(tmp_path), "--junit", str(junit)]
    assert status_of([*command, "--workers", "1"]) == 0
    said = capsys.readouterr().out
    assert "redis-constant-fence" in said
    assert "fencing 4 (80%)" in said
    assert '<testcase name="mutants/redis-constant-fence"' in junit.read_text()
    assert status_of(["nightly", "--suite", "mutants", "--only", "del-foreign", "--out", str(tmp_path)]) == 2


def status_of(command: list[str]) -> object:
    with pytest.raises(SystemExit) as ended:
        main(command)
    return ended.value.code
