"""The pytest plugin, in inner pytest runs: hunts with scripted results, and real ones."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.documents import HuntDocument
from harness.documents.hunt import HuntCoverage, HuntFinding
from harness.lock_impls.catalogue import names
from harness.search import hunt as hunts
from harness.search.hunt import HuntResult
from harness.search.request import HuntRequest
from harness.search.trials import run_trial

pytest_plugins = ["pytester"]

LOCKS = """
import pytest
import redis


class Naive:
    def __init__(self, redis: redis.Redis, key: str, ttl: float) -> None:
        self.redis, self.key, self.ttl = redis, key, ttl

    def acquire(self, timeout: float) -> bool:
        return bool(self.redis.set(self.key, "me", nx=True, px=int(self.ttl * 1000)))

    def release(self) -> None:
        self.redis.delete(self.key)
"""
STORY = "  1. At 0.000 s c0 acquires k0."
Suite = Callable[..., pytest.RunResult]
Calls = list[tuple[HuntRequest, dict[str, Any]]]


class Hunting:
    """Stands in for :func:`harness.hunt`: records the requests, and returns what a test wants."""

    def __init__(self) -> None:
        self.calls: Calls = []
        self.found = False
        self.judged = 7
        self.interrupted = False

    def __call__(self, request: HuntRequest, **arguments: Any) -> HuntResult:
        self.calls.append((request, arguments))
        folder = arguments["store"] / "a.failure"
        finding = HuntFinding(broken=("mutual-exclusion",), lines=(STORY.strip(),), folder=str(folder))
        document = HuntDocument(
            schema=1, lock=request.lock, found=self.found, findings=(finding,) if self.found else (), schedules=1000,
            rounds=1, judged=self.judged, seconds=1.0, coverage=HuntCoverage(states=1), interrupted=self.interrupted,
        )  # fmt: skip
        findings = (SimpleNamespace(folder=folder),) if self.found else ()
        return HuntResult(request, cast(Any, findings), document, folder)


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    """Import all that an inner run imports. Its imports are forgotten afterwards, and must not happen twice."""
    run_trial(HuntRequest(lock="redis-token", clients=1).completed().plan())
    names()


@pytest.fixture
def hunting(monkeypatch: pytest.MonkeyPatch) -> Hunting:
    instead = Hunting()
    monkeypatch.setattr(hunts, "hunt", instead)
    return instead


@pytest.fixture
def suite(pytester: pytest.Pytester) -> Suite:
    """Run a module of tests that also has a lock."""

    def run(tests: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(test_locks=LOCKS + tests)
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", *arguments, no_reraise_ctrlc=True)

    return run


FIXTURE = (
    "\ndef test_it(harness):\n    harness.hunt(Naive, faults='client-pause', budget_s=20, look_for=['resource'])\n"
)
MARKED = "\n@pytest.mark.hunt(Naive, faults=('client-pause',), budget_s=20)\ndef test_it(): ...\n"


@pytest.mark.few(1)
@pytest.mark.parametrize("tests", [FIXTURE, MARKED])
def test_a_failure_fails_the_test_and_prints_only_its_story(suite: Suite, hunting: Hunting, tests: str) -> None:
    hunting.found = True
    result = suite(tests)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["FAILURE FOUND: test_*:Naive: mutual-exclusion", STORY, "report: .harness/a.failure/*"]
    )
    result.stdout.no_fnmatch_line("*Error*")
    result.stdout.no_fnmatch_line("*def test_it*")
    result.stdout.fnmatch_lines(["harness: 1 hunt, 1,000 schedules, 1 failure (reports in .harness)"])


@pytest.mark.parametrize("tests", [pytest.param(FIXTURE, marks=pytest.mark.slow), MARKED])
def test_options_are_passed_to_the_hunt_and_a_safe_lock_passes(suite: Suite, hunting: Hunting, tests: str) -> None:
    result = suite(tests, "--strict-markers")
    result.assert_outcomes(passed=1)
    ((request, arguments),) = hunting.calls
    assert request.lock.endswith(":Naive")
    assert (request.faults, request.seed, arguments["budget_s"], arguments["workers"]) == (("client-pause",), 0, 20, 1)
    assert request.look_for == (("resource",) if tests is FIXTURE else ())
    result.stdout.fnmatch_lines(["harness: 1 hunt, 1,000 schedules, 0 failures"])


@pytest.mark.slow
def test_options_override_arguments_of_tests(suite: Suite, hunting: Hunting, pytester: pytest.Pytester) -> None:
    options = ["--harness-budget", "1500ms", "--harness-seed", "7", "--harness-workers", "3", "--harness-fresh"]
    suite("\ndef test_it(harness):\n    harness.hunt(Naive, rounds=4, seed=1)\n", *options, "--harness-store", "kept")
    ((request, arguments),) = hunting.calls
    assert (request.seed, arguments["budget_s"], arguments["rounds"]) == (7, 1.5, None)
    assert (arguments["workers"], arguments["fresh"]) == (3, True)
    assert arguments["store"] == pytester.path / "kept"
    assert (pytester.path / "kept" / ".gitignore").read_text() == "*\n"


@pytest.mark.slow
def test_the_store_of_the_ini_file_is_below_the_root(suite: Suite, hunting: Hunting, pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nharness_store = build/locks\n")
    suite(MARKED)
    assert hunting.calls[0][1]["store"] == pytester.path / "build/locks"


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--harness-budget=soon", "expected a duration"),
        ("--harness-budget=0", "more than 0"),
        ("--harness-workers=0", "1"),
    ],
)
def test_invalid_options_are_refused_at_the_start(suite: Suite, option: str, said: str) -> None:
    result = suite("", option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{option.partition('=')[0]}*{said}*"])


@pytest.mark.slow
def test_markers_are_hunted_from_the_outermost_until_a_failure(suite: Suite, hunting: Hunting) -> None:
    tests = """
@pytest.mark.hunt(lock=Naive, clients=4)
class TestAll:
    @pytest.mark.hunt(Naive, clients=2)
    @pytest.mark.hunt(Naive, clients=3)
    def test_it(self):
        raise ValueError("the body comes last")
"""
    result = suite(tests)
    assert [request.clients for request, _ in hunting.calls] == [4, 2, 3]
    result.stdout.fnmatch_lines(["*ValueError: the body comes last*", "harness: 3 hunts, 3,000 schedules, 0 failures"])
    hunting.found = True
    suite(tests)
    assert len(hunting.calls) == 4


@pytest.mark.slow
def test_a_hunt_that_proves_nothing_does_not_pass(suite: Suite, hunting: Hunting) -> None:
    hunting.judged = 0
    result = suite(MARKED)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["UNKNOWN: *:Naive: no schedule could be judged", "*0 failures, 1 without a verdict"])


@pytest.mark.slow
def test_an_interrupted_hunt_interrupts_the_tests(suite: Suite, hunting: Hunting) -> None:
    hunting.interrupted = True
    assert suite(MARKED + MARKED.replace("test_it", "test_other")).ret == pytest.ExitCode.INTERRUPTED
    assert len(hunting.calls) == 1


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("hunt('redis-tokn')", "harness: no lock is called 'redis-tokn'; did you mean redis-token*"),
        ("hunt(Naive, fault='client-pause')", "harness: unknown argument of a hunt 'fault': did you mean faults*"),
        ("hunt(Naive, faults='client-paus')", "harness: *'client-paus'*client-pause*"),
        ("hunt(Naive, clients='3')", "harness: hunt: clients: expected int, got str"),
        ("hunt(Naive('r', 'k', 1))", "harness: a lock is given as its class or its name, got *"),
        ("hunt(type('Here', (Naive,), {}))", "harness: *:Here cannot be found under its name*"),
        (
            "hunt(Refusing, faults='none')",
            "harness: no client ever gets *Refusing, although no fault is injected*: ValueError: no*",
        ),
        ("run(Naive, fauts=())", "harness: unknown key 'fauts': did you mean faults*"),
        ("run(Plan(lock='redis-token'), ttl=2)", "harness: a plan contains all options, so give no other, got ttl"),
    ],
)
def test_an_impossible_request_is_reported_in_one_line(suite: Suite, call: str, said: str) -> None:
    refusing = "\nclass Refusing(Naive):\n    def acquire(self, timeout):\n        raise ValueError('no server')\n"
    result = suite(f"{refusing}\nfrom harness import Plan\ndef test_it(harness):\n    harness.{call}\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*_ test_it _*", said, "*short test summary*"], consecutive=True)


@pytest.mark.slow
def test_an_expected_failure_differs_from_an_impossible_request(suite: Suite, hunting: Hunting) -> None:
    expected = "\nfrom harness.pytest.plugin import LockBroken\n@pytest.mark.xfail(raises=LockBroken)"
    hunting.found = True
    suite(expected + MARKED).assert_outcomes(xfailed=1)
    suite(expected + MARKED.replace("client-pause", "client-paus")).assert_outcomes(failed=1)


def test_a_marker_without_a_lock_is_refused(suite: Suite) -> None:
    suite("\n@pytest.mark.hunt(faults='none')\ndef test_it(): ...\n").stdout.fnmatch_lines(
        ["the marker hunt takes one lock, as in @pytest.mark.hunt(lock=MyLock, *"]
    )


def test_a_marker_applied_to_the_lock_class_does_not_lose_the_test(suite: Suite) -> None:
    """``pytest.mark.x(SomeClass)`` marks that class, so it would turn the lock into a test."""
    tests = "\nclass Lone:\n    def __init__(self, redis): ...\n\n@pytest.mark.hunt(Lone)\ndef test_it(): ...\n"
    result = suite(tests)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the marker hunt is on Lone itself: name the lock, as in @pytest.mark.hunt(lock=*"])


def test_a_run_passes_or_fails_with_its_verdict(suite: Suite, pytester: pytest.Pytester) -> None:
    tests = "\ndef test_it(harness):\n    harness.run('redis-token', clients=2, hold='100ms', time_limit=6)\n"
    result = suite(tests, "--harness-seed", "3")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["harness: 1 run, 0 failures"])
    assert not (pytester.path / ".harness").exists(), "what passes is not kept"


@pytest.mark.slow
def test_pytest_runs_without_a_hunt_import_no_heavy_module(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): ...")
    program = """
import sys, pytest
assert pytest.main(["-q", "-p", "no:hypothesispytest", "-p", "no:cacheprovider"]) == 0
assert "harness.pytest.plugin" in sys.modules
heavy = {"hypothesis", "greenlet", "msgspec", "numpy", "lock_impls", "checkers", "harness.plan", "harness.run.runs"}
print("loaded:", sorted(heavy & set(sys.modules)))
"""
    pytester.run(sys.executable, "-c", program).stdout.fnmatch_lines(["loaded: []"])


REAL = """
from harness.pytest.plugin import LockBroken

@pytest.mark.xfail(strict=True, raises=LockBroken)
@pytest.mark.hunt(Naive, faults=("client-pause",), look_for="mutual-exclusion", rounds=3)
def test_expected(): ...

def test_found(harness):
    harness.hunt(Naive, faults=("client-pause",), look_for="mutual-exclusion", rounds=3, ttl=1)

def test_run(harness):
    harness.run(Naive, faults="client-pause", clients=3)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [("-W", "error"), ("-n", "2"), ("--import-mode", "importlib", "--harness-workers", "2")]
)
def test_real_hunts_find_failures_of_an_unsafe_lock(pytester: pytest.Pytester, arguments: tuple[str, ...]) -> None:
    """Three ways: with warnings as errors, with pytest-xdist, and with worker processes of the hunt."""
    tests = pytester.mkdir("checks")
    (tests / "test_locks.py").write_text(LOCKS + REAL)
    result = pytester.runpytest_subprocess("checks", "-p", "no:cacheprovider", *arguments)
    result.assert_outcomes(failed=2, xfailed=1)
    output = result.stdout.str()
    assert "FAILURE FOUND: " in output
    assert "\n  1. At " in output
    assert "\n  Both hold k0 from " in output
    assert "VIOLATION: " in output
    result.stdout.fnmatch_lines(["harness: 2 hunts, * schedules, 1 run, 3 failures (reports in .harness)"])
    kept = sorted((pytester.path / ".harness").glob("*/*/report.html"))
    assert len(kept) == 3
    assert len(list(Path(pytester.path, ".harness").glob("*/*/counterexample.toml"))) == 2


@pytest.mark.slow
def test_a_timeout_of_pytest_ends_a_hunt(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        import harness.search.hunt  # a slow machine imports for seconds, which the time-out must not interrupt

        @pytest.mark.timeout(3, method="signal")
        @pytest.mark.hunt("redis-fenced", faults="client-pause", fencing="on", look_for="resource", budget_s=60)
        def test_it(): ...
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Failed: Timeout*3.0s*"])
    assert "hypothesis.errors" not in result.stdout.str()
    assert result.duration < 60
