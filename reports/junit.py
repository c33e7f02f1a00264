"""Write a nightly run as JUnit XML, which CI systems show as tests: a suite for each cluster, a test case for each run.

JUnit XML has no standard. This module uses what the common schemas share (Jenkins xUnit plugin, junit-10.xsd: times
with at most three decimals, ``properties`` before the test cases) and what XML 1.0 can contain.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

from junitparser import Attr, Error, Failure, FloatAttr, JUnitXml, Skipped, TestCase, TestSuite

from harness.documents import NightlyDocument
from harness.files import whole_file

from . import night
from .explored import ExplorationView
from .night import RED, NightView, OutcomeView

FORBIDDEN: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot contain, not even escaped (section 2.2, Char)."""


class _Seconds(FloatAttr):
    """A time with exactly three decimals; the schema allows neither more decimals nor an exponent."""

    def __set__(self, instance: Any, value: Any) -> None:
        Attr.__set__(self, instance, f"{value:.3f}")


class _JUnitCase(TestCase):
    time = _Seconds()


class _Suite(TestSuite):
    time = _Seconds()
    testcase = _JUnitCase


class _Report(JUnitXml):
    time = _Seconds()
    testsuite = _Suite


def write(document: NightlyDocument, path: Path) -> Path:
    """Write the file ``path``; OSError if it cannot be written."""
    view = night.read(document)
    report = _Report(_clean(f"harness {view.suite}"))
    for cluster in view.clusters:
        report.add_testsuite(_suite(view, cluster))
    if view.ablations:
        report.add_testsuite(_new_suite(view, "ablation", _ablation_cases(view)))
    if view.exploration is not None:
        report.add_testsuite(_new_suite(view, "exploration", _exploration_cases(view.exploration)))
    report.update_statistics()  # type: ignore[no-untyped-call]
    report.time = view.seconds  # the times of cases that ran in parallel add up to more
    del report._elem.attrib["skipped"]  # the schema has this attribute on suites only
    ET.indent(report._elem)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as file:
        report.write(file)
    return path


def _suite(view: NightView, cluster: str) -> TestSuite:
    outcomes = [outcome for outcome in view.outcomes if outcome.cluster == cluster]
    runs = Counter(outcome.scenario for outcome in outcomes)
    cases = [_case(it, it.scenario if runs[it.scenario] == 1 else f"{it.scenario} seed {it.seed}") for it in outcomes]
    return _new_suite(view, f"on {cluster}", cases)


def _new_suite(view: NightView, part: str, cases: Iterable[TestCase]) -> TestSuite:
    suite = _Suite(_clean(f"{view.suite} {part}"))
    suite.timestamp = f"{view.started_at.astimezone(UTC):%Y-%m-%dT%H:%M:%S}"
    for name, value in view.versions:
        suite.add_property(_clean(name), _clean(value))
    suite.add_testcases(list(cases))
    return suite


def _ablation_cases(view: NightView) -> Iterator[TestCase]:
    """Yield a case for each failure, which fails if a change of it does not have the expected effect."""
    for row in view.ablations:
        case = _JUnitCase(_clean(row.name), "ablation", 0.0)
        wrong = [f"{change.what}: {change.state}: {change.why}" for change in row.changes if change.unexplained]
        if wrong:
            case.result = _failure(Failure, "; ".join(wrong), "survives")
        case.system_out = _clean("\n".join((row.mechanism, *(f"{one.what}: {one.state}" for one in row.changes))))
        yield case


def _exploration_cases(found: ExplorationView) -> Iterator[TestCase]:
    """Yield a case for each failure that exploration knows, of which new ones fail, and one for the search itself."""
    search = _JUnitCase("search", "exploration", found.seconds)
    search.system_out = f"{found.visits} visits, {found.schedules} schedules, {found.share} of {found.pairs} pairs"
    yield search
    for failure in found.failures:
        case = _JUnitCase(_clean(failure.name), "exploration", 0.0)
        if failure.state == "new":
            case.result = _failure(Failure, failure.summary, failure.state)
        elif failure.state == "error":
            case.result = _failure(Error, failure.why, failure.state)
        case.system_out = _clean("\n".join((failure.mechanism, *failure.lines)))
        yield case


def _failure(kind: type[Failure] | type[Error], why: str, state: str) -> Failure | Error:
    result = kind(_clean(why), state)
    result.text = _clean(why)
    return result


def _case(outcome: OutcomeView, name: str) -> TestCase:
    case = _JUnitCase(_clean(name), _clean(outcome.row), outcome.real_seconds)
    if outcome.state == "not-run":
        case.result = Skipped(_clean(outcome.why))
    elif not outcome.as_expected:
        case.result = _failure(Failure if outcome.state in RED else Error, outcome.why, outcome.state)
    case.system_out = _clean("\n".join(_fact_lines(outcome)))
    return case


def _fact_lines(case: OutcomeView) -> list[str]:
    facts = {
        "scenario": case.title,
        "why": case.why,
        "verdict": case.reason,
        "setting": f"lock {case.lock} on {case.kind} ({case.cluster}), workload {case.workload}, seed {case.seed}",
        "faults": ", ".join(case.faults),
        "expected": "; ".join(f"{word}: {names}" for word, names in case.expected),
        "checkers": ", ".join(f"{name} {said}" for name, said in case.checkers),
        "first violation": "" if case.found_s is None else f"after {case.found_s:.3f} s",
        "run": case.folder,
    }
    return [f"{name}: {fact}" for name, fact in facts.items() if fact]


def _clean(text: str) -> str:
    """Replace each character that XML cannot contain by U+FFFD, a question mark in a box."""
    return FORBIDDEN.sub("\ufffd", text)
