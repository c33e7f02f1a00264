"""Every conformance check holds for a correct program, and fails for a program with the matching defect."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.conformance.local import LocalTestbed
from harness.conformance.suite import CHECKS, CheckResult, chosen, run
from harness.conformance.testbed import ConformanceSettings
from tests.conformance import server

ROOT = Path(__file__).parents[2]
SETTINGS = ConformanceSettings(ttl=2.0, timeout=0.6, patience=2.0, start=60.0)
"""For mutants. A program that hangs takes the whole patience, so it is short."""


class Unhurried(ConformanceSettings):
    """For correct programs: a busy machine must not make one fail."""

    @property
    def prompt(self) -> float:
        return 30.0


UNHURRIED = Unhurried(ttl=2.0, timeout=0.6, patience=30.0, start=60.0)
OPENED = {"lock": "tested", "kind": "tested", "service": "", "options": {}}
REQUIRED_MUTANTS = {
    "TimedOutIsFail": (
        "silent-acquire",
        "unknown whether the request took effect; 'fail' would claim that it did not",
    ),
    "OutOfOrder": ("in-order", "which was sent earlier"),
    "DropsReleases": (
        "released",
        "perhaps the release was not sent, and the key became free only when the lease ended",
    ),
}
"""(Check that finds it, part of the message) by mutant."""
OTHER_MUTANTS = {
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
"""Check that tests the defect, by mutant."""


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    with server.running() as address:
        yield address


@pytest.fixture(autouse=True)
def _test_programs_are_importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def run_checks(
    address: tuple[str, int], *command: str, only: tuple[str, ...] = (), settings: ConformanceSettings = SETTINGS
) -> list[CheckResult]:
    testbed = LocalTestbed(
        [sys.executable, "-S", "-m", f"tests.conformance.{command[0]}", *command[1:]], [address], OPENED
    )
    try:
        return list(run(testbed, settings, chosen(only)))
    finally:
        testbed.close()


def test_required_checks_hold_for_a_correct_program(address: tuple[str, int]) -> None:
    """The control of the tests of required mutants below."""
    checks = tuple(check for check, _ in REQUIRED_MUTANTS.values())
    results = run_checks(address, "program", only=checks, settings=UNHURRIED)
    assert [result.verdict for result in results] == ["holds"] * 3, results


@pytest.mark.slow
def test_every_check_holds_for_a_correct_program(address: tuple[str, int]) -> None:
    results = run_checks(address, "program", settings=UNHURRIED)
    assert [(result.name, result.verdict) for result in results] == [(check.name, "holds") for check in CHECKS], results


@pytest.mark.slow
def test_a_correct_but_slow_program_passes(address: tuple[str, int]) -> None:
    """The acquires together take longer than the ttl, but each hold is shorter."""
    results = run_checks(address, "mutants", "TakesAWhile", settings=replace(UNHURRIED, ttl=1.0))
    assert [result.name for result in results if result.verdict != "holds"] == [], results


@pytest.mark.slow
def test_a_check_that_outlasts_the_lease_is_unknown(address: tuple[str, int]) -> None:
    """Each of three acquires takes 1.2 s, while the lease lasts 2 s."""
    (result,) = run_checks(address, "mutants", "Slow", only=("keys",))
    assert result.verdict == "unknown"
    assert "longer than the ttl of 2 s allows, and the lease may have ended: raise --ttl" in result.why


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "check", "message"),
    [
        ("NoId", "opens", 'and answered {"ok": null}, which has no id,'),
        ("Wraps", "opens", 'and answered [{"id": 1, "ok": null}], which is no JSON object,'),
        ("WrongId", "opens", 'and answered {"id": 0, "ok": null}, whose id is not that of a request,'),
        ("Greets", "opens", "s; it wrote 'hello' to its stdout, which is no answer"),
        ("HoldsBack", "busy-now", '"fail": "busy"} only after the next request'),
        ("Hangs", "silent-acquire", "a program must report that soon"),
        ("SureOfRelease", "silent-release", "'ok' would claim that it took effect"),
    ],
)
def test_a_failure_describes_what_the_program_did(
    address: tuple[str, int], mutant: str, check: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A malformed answer ends the wait at once; only the program that writes no answer at all is waited for."""
    monkeypatch.setattr("harness.conformance.program.SURPLUS_WAIT_S", 1.0)
    settings = replace(SETTINGS, start=3.0) if mutant == "Greets" else SETTINGS
    (result,) = run_checks(address, "mutants", mutant, only=(check,), settings=settings)
    assert message in " ".join((*result.seen, result.expected))
    assert result.seconds < SETTINGS.start


@pytest.mark.slow
@pytest.mark.parametrize("mutant", REQUIRED_MUTANTS)
def test_required_mutants_are_found(address: tuple[str, int], mutant: str) -> None:
    check, message = REQUIRED_MUTANTS[mutant]
    assert message in " ".join(failure(address, mutant, check))


@pytest.mark.slow
@pytest.mark.parametrize("mutant", OTHER_MUTANTS)
def test_each_mutant_is_found(address: tuple[str, int], mutant: str) -> None:
    *observations, expected = failure(address, mutant, OTHER_MUTANTS[mutant])
    assert expected
    assert observations


def failure(address: tuple[str, int], mutant: str, check: str) -> tuple[str, ...]:
    """Return the observed messages, and last what was expected."""
    (result,) = run_checks(address, "mutants", mutant, only=(check,))
    assert result.verdict == "failed"
    return *result.seen, result.expected


def test_each_check_has_a_mutant() -> None:
    assert {*(check for check, _ in REQUIRED_MUTANTS.values()), *OTHER_MUTANTS.values()} == {
        check.name for check in CHECKS
    }
