"""The same plans with several releases, from the request to the document, and ``--versions`` of the commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import main
from harness.documents import load_versions
from harness.documents.versions import VersionCell, VersionPlan, VersionRun
from harness.errors import UsageError
from harness.plan import Plan
from harness.search.drawn import draw
from harness.search.request import HuntRequest
from harness.studies import compare_releases
from harness.studies.compare_releases import VersionsRequest, named_plan

PLAN = Plan(lock="redis-py-lock", seed=4)


class World:
    """Stands in for the runs: release 1.0 fails in every plan, 9.0 cannot be installed."""

    def __init__(self) -> None:
        self.runs: list[tuple[str, str]] = []
        self.stories: list[Plan] = []
        self.interrupted_at = 1000

    def cell_of(self, named: VersionPlan, version: str, releases: Any) -> VersionCell:
        del releases
        if len(self.runs) >= self.interrupted_at:
            raise KeyboardInterrupt
        self.runs.append((named.name, version))
        if version == "9.0":
            return VersionCell(version=version, plan=named.name, state="missing", reason="no such release")
        invalid, valid = (("liveness",), ()) if version == "1.0" else ((), ("liveness",))
        runs = tuple(VersionRun(seed=seed, invalid=invalid, valid=valid) for seed in named.seeds)
        return VersionCell(version=version, plan=named.name, state="violated" if invalid else "valid", runs=runs)

    def story_with(self, plan: Plan, checker: str) -> None:
        assert checker == "liveness"
        self.stories.append(plan)

    def store_run(self, plan: Plan, store: Path, command: str) -> Path:
        del command
        return store / f"{plan.requires[-1]}-{plan.seed}"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    found = World()
    for name in ("cell_of", "story_with", "store_run"):
        monkeypatch.setattr(compare_releases, name, getattr(found, name))
    return found


def request(*names: str, releases: tuple[str, ...] = ("1.0", "2.0"), **more: Any) -> VersionsRequest:
    return VersionsRequest(tuple(named_plan(name, PLAN, 2) for name in names), "redis", releases, **more)


def test_every_plan_is_run_with_every_release(world: World, tmp_path: Path) -> None:
    lines: list[str] = []
    found = compare_releases.compare_releases(
        request("pause", "kill", releases=("1.0", "2.0", "9.0")), store=tmp_path, command="x", on_line=lines.append
    )
    assert world.runs == [(plan, version) for plan in ("pause", "kill") for version in ("1.0", "2.0", "9.0")]
    assert [(one.plan, one.fails_in, one.holds_in, one.unknown_in) for one in found.differences] == [
        ("pause", ("1.0",), ("2.0",), ("9.0",)), ("kill", ("1.0",), ("2.0",), ("9.0",)),
    ]  # fmt: skip
    assert [one.folder for one in found.differences] == [f"{tmp_path}/redis==1.0-4"] * 2
    assert [plan.requires for plan in world.stories] == [("redis==1.0",)] * 2
    assert found.plans[0].seeds == (4, 5)
    assert "pause, redis 1.0: violated: liveness in 2 of 2 runs" in lines
    assert "kill, redis 9.0: missing: no such release" in lines


def test_only_the_first_failures_have_stories(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare_releases, "MOST_STORIES", 1)
    found = compare_releases.compare_releases(request("pause", "kill"))
    assert len(world.stories) == 1
    assert len(found.differences) == 2


def test_an_interrupted_study_has_the_results_until_then(world: World) -> None:
    world.interrupted_at = 3
    found = compare_releases.compare_releases(request("pause", "kill"))
    assert found.interrupted
    assert len(found.cells) == 3
    assert [named.name for named in found.plans] == ["pause", "kill"]
    assert world.stories == []


def test_after_its_budget_no_further_plan_is_begun(world: World) -> None:
    found = compare_releases.compare_releases(request("pause", "kill", budget_s=-1.0))
    assert [named.name for named in found.plans] == ["pause"]
    assert [cell.plan for cell in found.cells] == ["pause", "pause"], "a plan that was begun is completed"


def test_wrong_requests_are_refused(world: World) -> None:
    docker = VersionPlan(name="p", plan=Plan(lock="x", cluster="docker"), seeds=(0,))
    for plans, message in (
        ((), "at least one plan"),
        ((docker,), "on the simulator"),
        ((VersionPlan(name="p", plan=PLAN),), "plan p: expected at least one seed"),
        ((VersionPlan(name="p", plan=Plan(lock="redis-tokne"), seeds=(0,)),), "no lock is called 'redis-tokne'"),
    ):
        with pytest.raises(UsageError, match=message):
            compare_releases.compare_releases(VersionsRequest(plans, "redis", ("1.0", "2.0")))
    assert world.runs == []


def command(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as ended:
        main([*arguments])
    return ended.value.code


def test_run_compares_releases(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("run", "redis-py-lock", "--nemesis", "kill", "--runs", "3", "--out", str(tmp_path))
    assert command(*arguments, "--versions", "redis==2.0,1.0") == 1
    output = capsys.readouterr().out
    assert "redis: 1 failure differs between releases." in output
    assert "✗ 1.0  ✓ 2.0" in output
    (folder,) = (tmp_path / "versions").iterdir()
    stored = load_versions(folder / "versions.json")
    assert stored.releases == ("1.0", "2.0")
    assert stored.plans[0].seeds == (0, 1, 2)
    assert stored.plans[0].plan.faults[0].fault == "kill"
    assert (folder / "versions.html").exists()


def test_compare_needs_one_lock_for_releases(world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    some = ("--nemeses", "none,kill", "--runs", "1", "--out", str(tmp_path), "--versions", "redis==1.0,2.0")
    assert command("compare", "--locks", "redis-py-lock,redis-token", *some) == 2
    assert "--versions compares releases for one lock" in capsys.readouterr().err
    assert command("compare", "--locks", "redis-py-lock", *some, "--json") == 1
    assert [one["name"] for one in json.loads(capsys.readouterr().out)["plans"]] == ["none", "kill"]


@pytest.mark.slow
def test_hunt_tries_drawn_schedules_with_each_release(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("hunt", "redis-token", "--schedules", "5", "--quiet", "--out", str(tmp_path))
    assert command(*arguments, "--versions", "redis==2.0,3.0") == 0
    assert [version for _, version in world.runs] == ["2.0", "3.0"] * (len(world.runs) // 2)
    assert world.runs[0][0] == "schedule 1"


def test_malformed_versions_are_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("run", "redis-py-lock", "--versions", "redis", "--out", str(tmp_path)) == 2
    assert "expected a package and at least two releases" in capsys.readouterr().err


@pytest.mark.slow
def test_drawn_schedules_are_the_same_each_time() -> None:
    one = draw(HuntRequest(lock="redis-token", schedules=8, seed=3))
    assert one == draw(HuntRequest(lock="redis-token", schedules=8, seed=3))
    assert one != draw(HuntRequest(lock="redis-token", schedules=8, seed=4))
    assert 1 < len(one) <= 8
    assert all(plan.lock == "redis-token" for plan in one)
