"""Annotations of sweeps, comparisons, releases and bisections in GitHub Actions."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness.cli import bisect, compare, study_annotations, sweep, versions
from harness.documents import ComparisonDocument, convert
from harness.documents.bisect import BisectTrial
from tests.reports import comparisons, test_bisect_report, test_versions_report
from tests.reports.test_conclusions import point, sweep_of

from .commands import harness

LINE = re.compile(r"^::(error|warning|notice) title=(.*?)::(.*) Report: (.*)$", re.MULTILINE)
PAGE = Path("store/page.html")


@pytest.fixture(autouse=True)
def in_an_action(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[[], list[tuple[str, str, str]]]:
    """Return a function: the level, title and sentence of each line that was printed."""

    def read() -> list[tuple[str, str, str]]:
        said = capsys.readouterr()
        found = LINE.findall(said.err)
        assert said.out == ""
        assert len(found) == said.err.count("\n"), "every line is one annotation"
        assert {page for *_, page in found} == {str(PAGE)}
        return [tuple(one[:3]) for one in found]

    return read


Printed = Callable[[], list[tuple[str, str, str]]]


def compared(*locks: dict[str, Any]) -> ComparisonDocument:
    return convert(comparisons.document(*locks), ComparisonDocument, "comparison.json")


def test_each_violated_or_unknown_point_of_a_sweep_is_one_line(printed: Printed) -> None:
    doubtful = point(3, 3, 0, 1, unknown=1, why_unknown="no contention\nat all, 100 %")
    violated = point(1, 3, 2, 1, first_s=4.25, lost=1200, stalled=1)
    stalled, missing = point(2, 3, 0, 2, stalled=2), point(5, 3, 0, 1, asked=3)
    document = sweep_of(violated, stalled, doubtful, missing, point(4, 3, 0, 5))
    study_annotations.annotate_sweep(document, PAGE)
    *lines, conclusion = printed()

    def title(ttl: int) -> str:
        return f"redis-token%3A sim%2C ttl {ttl} s%2C hold 0.1 s%2C pause 3 s"

    assert lines == [
        ("error", title(1), "2 of 3 runs violated, first after 4.2 s; 1,200 updates lost. 1 of 3 runs stalled."),
        ("error", title(2), "2 of 2 runs stalled."),
        ("warning", title(3), "1 of 2 runs unknown: No contention%0Aat all, 100 %25."),
        ("warning", title(5), "2 of 3 runs not made."),
    ]
    assert conclusion[:2] == ("notice", "redis-token")
    assert conclusion[2].startswith("redis-token was violated in 2 of 12 runs, at 1 of 5 points. ")


def test_each_unsafe_unavailable_or_unknown_cell_of_a_comparison_is_one_line(printed: Printed) -> None:
    study_annotations.annotate_comparison(compared(comparisons.lock("redis-token", "sfua?-")), PAGE)
    *lines, conclusion = printed()
    assert [line[:2] for line in lines] == [
        ("error", "redis-token%2C clock-jump"),
        ("error", "redis-token%2C kill"),
        ("warning", "redis-token%2C partition-majority"),
    ]
    assert lines[0][2].startswith("Unsafe in 1 of 1 run: Two clients held k0 at the same time")
    assert lines[2][2] == "Unknown in 1 of 1 run: The effect of the fault was not confirmed."
    assert conclusion[:2] == ("notice", "compare")
    assert conclusion[2].startswith("redis-token did not stay safe ")


def test_each_failure_and_each_missing_release_is_one_line(printed: Printed) -> None:
    study_annotations.annotate_versions(test_versions_report.DOCUMENT, PAGE)
    failure = "redis-py-lock%2C slow-link", "mutual-exclusion fails with 2.10.6, and holds with 3.5.3."
    assert printed() == [
        ("error", *failure),
        ("error", *failure),
        ("warning", "redis-py-lock%2C slow-link%2C redis 9.9", "No such release."),
        ("notice", "redis-py-lock", "redis: 1 failure differs between releases."),
    ]


def test_each_release_with_the_failure_or_without_an_answer_is_one_line(printed: Printed) -> None:
    unexplained = BisectTrial(version="3.1.0", outcome="bad", invalid=("liveness", "fairness"))
    document = test_bisect_report.document(trials=(*test_bisect_report.TRIALS, unexplained))
    study_annotations.annotate_bisection(document, PAGE)
    assert printed() == [
        ("error", "redis-py-lock%2C redis 2.10.6", "Two clients held k0 at the same time."),
        ("warning", "redis-py-lock%2C redis 3.0.1", "No wheel | for <this> Python."),
        ("error", "redis-py-lock%2C redis 3.1.0", "The failure happens: liveness, fairness."),
        ("notice", "redis-py-lock", "redis 3.0.0 fixed the failure; 2.10.6 is the last release before it."),
    ]


def test_a_lock_of_the_repository_is_shown_at_its_class(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    mine = msgspec.structs.replace(sweep_of(point(1, 3, 2, 1)), lock="mylock_cli:MyLock")
    study_annotations.annotate_sweep(mine, PAGE)
    error, notice = capsys.readouterr().err.splitlines()
    assert error.startswith("::error file=mylock_cli.py,line=4,title=mylock_cli%3AMyLock%3A sim%2C ttl 1 s")
    assert notice.startswith("::notice file=mylock_cli.py,line=4,title=mylock_cli%3AMyLock::")


def test_nothing_is_printed_elsewhere(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS")
    study_annotations.annotate_versions(test_versions_report.DOCUMENT, PAGE)
    assert capsys.readouterr().err == ""


COMMANDS: dict[str, tuple[Any, str, Any, list[str]]] = {
    "sweep": (sweep, "_swept", sweep_of(point(1, 3, 2, 1)), ["sweep", "redis-token"]),
    "compare": (
        compare,
        "_compared",
        compared(comparisons.lock("redis-token", "u?----")),
        ["compare", "--locks", "redis-token"],
    ),
    "versions": (
        versions,
        "_compared",
        test_versions_report.DOCUMENT,
        ["run", "redis-py-lock", "--versions", "redis==1.0,2.0"],
    ),
    "bisect": (
        bisect,
        "_bisected",
        test_bisect_report.document(),
        ["bisect", "redis-py-lock", "--package", "redis", "--good", "3.2.0", "--bad", "2.10.6"],
    ),
}
"""For each study: its module, the function that runs it, a document of it, and the command."""


@pytest.mark.parametrize("study", COMMANDS)
@pytest.mark.parametrize("option", [(), ("--json",), ("--quiet",)])
def test_each_study_ends_with_its_conclusion_on_stderr(
    study: str, option: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    module, runs, document, command = COMMANDS[study]
    monkeypatch.setattr(module, runs, lambda *_, **__: (document, PAGE))
    harness(*command, *option)
    out, err = capsys.readouterr()
    lines = err.splitlines()
    assert [line for line in lines if line.startswith("::error ")]
    assert lines[-1].startswith("::notice ")
    assert "::" not in out
