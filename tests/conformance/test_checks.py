"""Every check holds for a program that is right, and fails for one that is wrong in what it is about."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.conformance.bench import Settings
from harness.conformance.local import LocalBench
from harness.conformance.suite import CHECKS, Result, chosen, run
from tests.conformance import server

ROOT = Path(__file__).parents[2]
QUICK = Settings(ttl=0.5, timeout=0.2, patience=0.5, start=5.0)
OPENED = {"lock": "tested", "kind": "tested", "service": "", "options": {}}
ACCEPTANCE = {
    "TimedOutIsFail": (
        "silent-acquire",
        "nobody knows whether it happened, and 'fail' would say that it surely did not",
    ),
    "OutOfOrder": ("in-order", "which was sent earlier"),
    "DropsReleases": ("released", "was the release dropped, and only the end of the lease freed it"),
}
"""Mutant to the check that finds it, and what that says of it."""
MUTANTS = {
    "Refuses": "opens",
    "ShortLease": "busy-waits",
    "DiesOfUnknown": "unknown-op",
    "Slow": "prompt",
    "ValidTooLong": "grant",
    "WaitsAnyway": "busy-now",
    "GivesUp": "busy-waits",
    "Claims": "one-holder",
    "LooksRarely": "handed-on",
    "SaysFreed": "release-unheld",
    "FreesAnybodys": "release-of-another",
    "FenceStands": "fences",
    "NearlySameKeys": "keys",
    "AlwaysValid": "still-valid",
    "AlwaysExtends": "extends",
    "Hangs": "silent-acquire",
    "SureOfRelease": "silent-release",
    "LostIsBusy": "lost-answer",
    "StaysBroken": "recovers",
    "NeverExpires": "holder-dies",
    "AnswersTwice": "one-answer",
    "WrongId": "one-answer",
    "TwoOutcomes": "one-answer",
    "Logs": "only-answers",
    "EndsBadly": "closes",
    "Lingers": "ends-with-input",
}
"""Mutant to the check that is about what is wrong with it."""


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    with server.running() as where:
        yield where


@pytest.fixture(autouse=True)
def _can_import_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def tried(
    address: tuple[str, int], *command: str, only: tuple[str, ...] = (), settings: Settings = QUICK
) -> list[Result]:
    bench = LocalBench([sys.executable, "-S", "-m", f"tests.conformance.{command[0]}", *command[1:]], [address], OPENED)
    try:
        return list(run(bench, settings, chosen(only)))
    finally:
        bench.close()


def test_what_must_never_fail_holds(address: tuple[str, int]) -> None:
    """The control of the three that follow."""
    results = tried(address, "program", only=tuple(check for check, _ in ACCEPTANCE.values()))
    assert [result.verdict for result in results] == ["holds"] * 3, results


@pytest.mark.slow
def test_every_check_holds_for_a_program_that_is_right(address: tuple[str, int]) -> None:
    results = tried(address, "program")
    assert [(result.name, result.verdict) for result in results] == [(check.name, "holds") for check in CHECKS], results


@pytest.mark.slow
def test_who_is_right_and_takes_a_while_is_not_accused(address: tuple[str, int]) -> None:
    """In all it takes longer than the ttl, as long as each hold is shorter."""
    results = tried(address, "mutants", "TakesAWhile")
    assert [result.name for result in results if result.verdict != "holds"] == [], results


@pytest.mark.slow
def test_what_takes_longer_than_the_lease_is_not_judged(address: tuple[str, int]) -> None:
    """0.3 s for each of three acquires, while a lease of 0.5 s lasts."""
    (result,) = tried(address, "mutants", "Slow", only=("keys",))
    assert result.verdict == "unknown"
    assert "longer than the ttl of 0.5 s allows, and the lease may have ended: raise --ttl" in result.why


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "check", "words"),
    [
        ("NoId", "opens", 'and answered {"ok": null}, which has no id,'),
        ("Wraps", "opens", 'and answered [{"id": 1, "ok": null}], which is no JSON object,'),
        ("WrongId", "opens", 'and answered {"id": 0, "ok": null}, whose id is not that of a request,'),
        ("Greets", "opens", "did not answer within 0.50 s; it wrote 'hello' to its stdout, which is no answer"),
        ("HoldsBack", "busy-now", '"fail": "busy"} only when it was asked something else'),
        ("Hangs", "silent-acquire", "nobody knows whether it happened, and a program says so soon"),
        ("SureOfRelease", "silent-release", "and 'ok' would say that it surely did"),
    ],
)
def test_it_says_what_the_program_did(address: tuple[str, int], mutant: str, check: str, words: str) -> None:
    (result,) = tried(address, "mutants", mutant, only=(check,), settings=replace(QUICK, start=0.5))
    assert words in " ".join((*result.seen, result.expected))
    assert result.seconds < 2


@pytest.mark.parametrize("mutant", ACCEPTANCE)
def test_what_must_never_pass_is_found(address: tuple[str, int], mutant: str) -> None:
    check, words = ACCEPTANCE[mutant]
    assert words in " ".join(found(address, mutant, check))


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS)
def test_what_is_wrong_is_found(address: tuple[str, int], mutant: str) -> None:
    *seen, expected = found(address, mutant, MUTANTS[mutant])
    assert expected
    assert seen


def found(address: tuple[str, int], mutant: str, check: str) -> tuple[str, ...]:
    """What was seen, and last what was expected."""
    (result,) = tried(address, "mutants", mutant, only=(check,))
    assert result.verdict == "failed"
    return *result.seen, result.expected


def test_each_check_has_a_mutant() -> None:
    assert {*(check for check, _ in ACCEPTANCE.values()), *MUTANTS.values()} == {check.name for check in CHECKS}
