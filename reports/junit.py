"""A night as JUnit XML, which CI systems show as tests: a test suite a cluster, a test case a scenario.

There is no standard; this keeps to what the schemas in use have in common (Jenkins xUnit plugin, junit-10.xsd: times
with at most three decimals, ``properties`` before the test cases) and to what XML 1.0 can hold at all.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

from reports import night
from reports.night import RED, UNSURE, NightView, OutcomeView

FORBIDDEN: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 has no way to write, not even escaped (section 2.2, Char)."""


def write(night_document: dict[str, Any], path: Path) -> Path:
    """Write the file ``path``; ReportError for a malformed document, OSError if it cannot be written."""
    view = night.read(night_document)
    totals = _totals(view.outcomes, view.seconds)
    del totals["skipped"]  # the schema has it on suites only
    root = ET.Element("testsuites", {"name": _clean(f"harness {view.suite}"), **totals})
    for cluster in view.clusters:
        _suite(root, view, cluster)
    ET.indent(root)
    path.parent.mkdir(parents=True, exist_ok=True)
    ET.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
    return path


def _suite(root: ET.Element, view: NightView, cluster: str) -> None:
    cases = [outcome for outcome in view.outcomes if outcome.cluster == cluster]
    spent = sum(case.real_seconds for case in cases)
    named = {
        "name": _clean(f"{view.suite} on {cluster}"),
        "timestamp": f"{view.started_at.astimezone(UTC):%Y-%m-%dT%H:%M:%S}",
    }
    suite = ET.SubElement(root, "testsuite", named | _totals(cases, spent))
    if view.versions:
        properties = ET.SubElement(suite, "properties")
        for name, value in view.versions:
            ET.SubElement(properties, "property", name=_clean(name), value=_clean(value))
    often = Counter(case.scenario for case in cases)
    for case in cases:
        _case(suite, case, case.scenario if often[case.scenario] == 1 else f"{case.scenario} seed {case.seed}")


def _totals(cases: Sequence[OutcomeView], spent: float) -> dict[str, str]:
    states = Counter(case.state for case in cases)
    return {
        "tests": str(len(cases)),
        "failures": str(sum(states[state] for state in RED)),
        "errors": str(sum(states[state] for state in UNSURE)),
        "skipped": str(states["not-run"]),
        "time": f"{spent:.3f}",
    }


def _case(suite: ET.Element, case: OutcomeView, name: str) -> None:
    attributes = {"classname": _clean(case.row), "name": _clean(name), "time": f"{case.real_seconds:.3f}"}
    element = ET.SubElement(suite, "testcase", attributes)
    why = _clean(case.why)
    if case.state == "not-run":
        ET.SubElement(element, "skipped", message=why)
    elif not case.as_expected:
        kind = "failure" if case.state in RED else "error"
        ET.SubElement(element, kind, type=case.state, message=why).text = why
    ET.SubElement(element, "system-out").text = _clean("\n".join(_told(case)))


def _told(case: OutcomeView) -> list[str]:
    facts = {
        "scenario": case.title,
        "why": case.why,
        "setting": f"lock {case.lock} on {case.kind} ({case.cluster}), workload {case.workload}, seed {case.seed}",
        "faults": ", ".join(case.faults),
        "expected": "; ".join(f"{word}: {names}" for word, names in case.expected),
        "checkers": ", ".join(f"{name} {said}" for name, said in case.checkers),
        "first violation": "" if case.found_s is None else f"after {case.found_s:.3f} s",
        "run": case.folder,
    }
    return [f"{name}: {fact}" for name, fact in facts.items() if fact]


def _clean(text: str) -> str:
    """``text`` with a question mark in a box (U+FFFD) for each character that XML cannot hold."""
    return FORBIDDEN.sub("\ufffd", text)
