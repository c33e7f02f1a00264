"""Failures from public trackers, with the releases next to the change, from the package index."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import plan as plans
from harness.documents.bisect import BisectQuestion
from harness.environments import store
from harness.studies.bisect_releases import BisectRequest, bisect_releases

pytestmark = pytest.mark.slow
QUESTIONS = Path(__file__).parents[2] / "examples" / "releases"
CASES = (
    ("redis-py-1031", "redis", ("2.10.5", "2.10.6", "3.0.0", "3.5.3"), "3.0.0", True),
    ("kazoo-649", "kazoo", ("2.8.0", "2.9.0", "2.11.0"), "2.9.0", True),
    ("kazoo-649", "kazoo", ("2.6.1", "2.7.0", "2.8.0"), "2.8.0", False),
    ("python-redis-lock-71", "python-redis-lock", ("3.3.1", "3.4.0", "4.0.1"), "3.4.0", True),
    ("python-redis-lock-71", "python-redis-lock", ("3.1.0", "3.2.0", "3.3.1"), "3.2.0", False),
)  # fmt: skip


@pytest.mark.parametrize(("name", "package", "releases", "changed", "fixed"), CASES)
def test_the_release_of_the_tracker_is_found(
    name: str, package: str, releases: tuple[str, ...], changed: str, fixed: bool,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv(store.FOLDER, str(tmp_path / "environments"))
    plan = plans.load(QUESTIONS / f"{name}.toml")
    assert plan.expect is not None
    bad, good = (releases[0], releases[-1]) if fixed else (releases[-1], releases[0])
    question = BisectQuestion(plan=plan, look_for=tuple(plan.expect.invalid), seeds=(0, 1))
    found = bisect_releases(BisectRequest(question, package, good, bad, only=releases))
    assert (found.first_changed, found.releases) == (changed, releases)
    silent = [one for one in found.trials if one.outcome == "good"]
    assert silent
    assert all(one.runs == 2 and not one.invalid for one in silent)
    assert found.story.steps
