"""A bisection from the request to the document: the releases of the range, the story, the commands, the changelog."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from harness import plan as plans
from harness.cli.main import main
from harness.documents import load_bisect
from harness.documents.bisect import BisectQuestion, BisectTrial
from harness.environments.changelog import Changelog
from harness.environments.releases import Release
from harness.errors import EnvironmentLacking, UsageError
from harness.plan import Expect, Plan
from harness.studies import bisect_releases
from harness.studies.bisect_releases import BisectRequest

LISTED = ("1.0", "1.1", "1.2", "2.0", "2.1", "3.0")
FIXED_IN = Version("2.0")


class World:
    """Stands in for the index and for the runs: releases before 2.0 fail."""

    def __init__(self) -> None:
        self.tried: list[str] = []
        self.plans: list[Plan] = []
        self.changelog_of: list[str] = []
        self.listed_with: dict[str, Any] = {}

    def releases(self, package: str, **options: Any) -> tuple[Release, ...]:
        assert package == "locker"
        self.listed_with = options
        return tuple(Release(Version(text)) for text in LISTED)

    def try_release(self, question: BisectQuestion, version: str, releases: Any) -> BisectTrial:
        del releases
        self.tried.append(version)
        if Version(version) >= FIXED_IN:
            return BisectTrial(version=version, outcome="good", runs=1)
        return BisectTrial(version=version, outcome="bad", runs=1, seed=question.seeds[0], invalid=("liveness",))

    def changelog(self, releases: list[Release]) -> Changelog | None:
        self.changelog_of = [str(one) for one in releases]
        return Changelog("locker-2.0.tar.gz: CHANGES", ("2.0", "- Fixed"), 3)

    def store_run(self, plan: Plan, store: Path, command: str) -> Path:
        del command
        self.plans.append(plan)
        folder = store / "x" / "run"
        folder.mkdir(parents=True)
        return folder


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    found = World()
    for name in ("releases", "try_release", "changelog", "store_run"):
        monkeypatch.setattr(bisect_releases, name, getattr(found, name))
    monkeypatch.setattr(bisect_releases, "story_with", lambda plan, checker: None)
    return found


def request(**changes: Any) -> BisectRequest:
    plan = Plan(lock="mine.lock:Mine", requires=("six",))
    question = BisectQuestion(plan=plan, look_for=("liveness",), seeds=(7,))
    return BisectRequest(**{"question": question, "package": "locker", "good": "3.0", "bad": "1.0", **changes})


def test_the_document_says_which_release_changed_the_failure_and_how_to_repeat_it(world: World, tmp_path: Path) -> None:
    lines: list[str] = []
    found = bisect_releases.bisect_releases(request(), store=tmp_path, command="harness bisect", on_line=lines.append)
    assert (found.first_changed, found.before, found.remaining) == ("2.0", "1.2", ("2.0",))
    assert found.releases == LISTED
    assert found.conclusion == "locker 2.0 fixed the failure; 1.2 is the last release before it."
    assert found.story_version == "1.2", "the story is of the failing release next to the change"
    folder = f"{tmp_path}/x/run"
    assert [one.folder for one in found.trials if one.version == "1.2"] == [folder]
    assert found.repeat == (
        f"harness replay {folder}/counterexample.toml --allow mine.lock:Mine",
        f"harness replay {folder}/counterexample.toml --with six --with locker==2.0 --allow mine.lock:Mine",
    )
    kept = plans.load(tmp_path / "x" / "run" / "counterexample.toml")
    assert (kept.requires, kept.seed) == (("six", "locker==1.2"), 7)
    assert kept.expect == Expect(safe=False, invalid=("liveness",))
    assert found.changelog is not None
    assert (found.changelog.source, found.changelog.omitted) == ("locker-2.0.tar.gz: CHANGES", 3)
    assert world.changelog_of == ["2.0"]
    assert world.listed_with == {"prereleases": False, "yanked": False}
    assert lines[0] == "6 releases of locker from 1.0 to 3.0"
    assert "locker 1.0: fails: liveness with seed 7 (0.0 s)" in lines
    assert "between 1.0 and 3.0: 4 releases, about 3 trials" in lines


def test_without_a_store_nothing_is_stored(world: World) -> None:
    found = bisect_releases.bisect_releases(request())
    assert (found.repeat, world.plans) == ((), [])
    assert found.first_changed == "2.0"


def test_the_ends_may_be_spelled_differently(world: World) -> None:
    found = bisect_releases.bisect_releases(request(good="2", bad="1"))
    assert (found.good, found.bad, found.releases) == ("2.0", "1.0", LISTED[:4])


def test_given_releases_are_searched_without_an_index(world: World) -> None:
    world.listed_with = {"not": "asked"}
    found = bisect_releases.bisect_releases(request(only=("1.2", "2.1"), good="9.0"))
    assert found.releases == ("1.0", "1.2", "2.1", "9.0")
    assert (found.first_changed, found.changelog) == ("2.1", None)
    assert world.listed_with == {"not": "asked"}


def test_a_prerelease_as_an_end_includes_prereleases(world: World) -> None:
    with pytest.raises(UsageError, match=r"unknown release of locker '3\.0rc1'"):
        bisect_releases.bisect_releases(request(good="3.0rc1"))
    assert world.listed_with["prereleases"] is True


def test_a_changelog_that_cannot_be_fetched_is_left_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(releases: list[Release]) -> None:
        raise EnvironmentLacking("no network")

    monkeypatch.setattr(bisect_releases, "changelog", unreachable)
    found = bisect_releases.bisect_releases(request())
    assert (found.first_changed, found.changelog) == ("2.0", None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"good": "1"}, "two releases"),
        ({"package": ""}, "the name of a package such as redis, got ''"),
        ({"package": "locker==3"}, "the name of a package such as redis, got 'locker==3'"),
        ({"good": "one"}, "expected a version"),
        ({"question": BisectQuestion(plan=Plan(lock="x", cluster="docker"), seeds=(0,))}, "on the simulator"),
        ({"question": BisectQuestion(plan=Plan(lock="x"))}, "at least one seed"),
    ],
)
def test_a_wrong_request_is_refused(world: World, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        bisect_releases.bisect_releases(request(**changes))
    assert world.tried == []


# The command.


def command(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as ended:
        main(["bisect", "redis-py-lock", "--package", "locker", *arguments])
    return ended.value.code


def test_the_command_stores_the_document_and_the_reports(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "question.toml"
    plan.write_text('lock = "redis-py-lock"\nseed = 3\n[expect]\nsafe = false\ninvalid = ["liveness"]\n')
    store = tmp_path / "store"
    ends = ("--good", "3.0", "--bad", "1.0", "--question", str(plan), "--runs", "2", "--out", str(store))
    assert command(*ends) == 0
    output = capsys.readouterr()
    assert "locker 2.0 fixed the failure" in output.out
    assert "locker 1.0: fails" in output.err
    (folder,) = (store / "bisections").iterdir()
    assert {path.name for path in folder.iterdir()} == {"bisect.json", "bisect.html", "bisect.md"}
    stored = load_bisect(folder / "bisect.json")
    assert stored.question.look_for == ("liveness",)
    assert stored.question.seeds == (3, 4)
    assert stored.question.source == str(plan)


def test_the_command_prints_json_alone(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("--good", "3.0", "--bad", "1.0", "--json", "--out", str(tmp_path)) == 0
    output = capsys.readouterr()
    assert json.loads(output.out)["first_changed"] == "2.0"
    assert output.err == ""


def test_an_end_that_is_not_as_claimed_is_one_message(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("--good", "1.1", "--bad", "3.0", "--out", str(tmp_path)) == 2
    assert "3.0 was given as --bad, where the failure happens, but there the failure does not happen" in (
        capsys.readouterr().err
    )


def test_a_question_about_a_hunt_without_failure_is_refused(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hunt.json").write_text('{"schema": 1, "findings": []}')
    assert command("--good", "3.0", "--bad", "1.0", "--question", str(tmp_path), "--out", str(tmp_path)) == 2
    assert "this hunt found no failure" in capsys.readouterr().err


def test_a_folder_that_is_no_question_is_refused(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("--good", "3.0", "--bad", "1.0", "--question", str(tmp_path), "--out", str(tmp_path)) == 2
    assert f"{tmp_path}: expected the folder of a run or of a hunt" in capsys.readouterr().err


def test_a_stored_run_is_a_question_about_its_violations(world: World, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "plan.toml").write_text('lock = "redis-py-lock"\n')
    checkers = {"liveness": {"valid": False}, "mutual-exclusion": {"valid": True}}
    (run / "results.json").write_text(json.dumps({"schema": 1, "valid": False, "checkers": checkers}))
    assert command("--good", "3.0", "--bad", "1.0", "--question", str(run), "--out", str(tmp_path / "store")) == 0
    (folder,) = (tmp_path / "store" / "bisections").iterdir()
    assert load_bisect(folder / "bisect.json").question.look_for == ("liveness",)


def test_the_plan_of_a_run_goes_before_a_counterexample_beside_it(world: World, tmp_path: Path) -> None:
    """As for replay: the history and the results in the folder are those of the plan."""
    (tmp_path / "plan.toml").write_text('lock = "redis-py-lock"\nseed = 5\n')
    (tmp_path / "counterexample.toml").write_text('lock = "redis-py-lock"\nseed = 6\n')
    for seed in (5, 6):
        store = tmp_path / f"store-{seed}"
        ends = ("--good", "3.0", "--bad", "1.0", "--out", str(store))
        assert command(*ends, "--question", str(tmp_path)) == 0
        (found,) = store.glob("bisections/*/bisect.json")
        assert load_bisect(found).question.seeds == (seed,)
        (tmp_path / "plan.toml").unlink(missing_ok=True)


def test_a_misspelled_lock_is_refused_before_releases_are_listed_or_tried(world: World) -> None:
    plan = Plan(lock="redis-tokne")
    misspelled = request(question=BisectQuestion(plan=plan, look_for=(), seeds=(0,)), package="redis")
    with pytest.raises(UsageError, match="no lock is called 'redis-tokne'; did you mean redis-token"):
        bisect_releases.bisect_releases(misspelled)
    assert (world.listed_with, world.tried) == ({}, [])
