"""The JUnit file, as a parser reads it and as the schema of Jenkins requires it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from harness.documents import DocumentError
from harness.reports import junit
from tests.reports import nights

COUNTS = {"tests", "failures", "errors"}
# Element: attributes it must have, and may have; after junit-10.xsd of Jenkins' xUnit plugin.
ATTRIBUTES = {
    "testsuites": (set(), {"name", "time", *COUNTS}),
    "testsuite": ({"name", *COUNTS}, {"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file"}),
    "properties": (set(), set()),
    "property": ({"name", "value"}, set()),
    "testcase": ({"name"}, {"time", "classname", "group"}),
    "failure": (set(), {"type", "message"}),
    "error": (set(), {"type", "message"}),
    "skipped": (set(), {"type", "message"}),
    "system-out": (set(), set()),
}
CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"properties", "testcase"},
    "properties": {"property"},
    "testcase": {"skipped", "error", "failure", "system-out"},
}
TIME = re.compile(r"[0-9]+\.[0-9]{3}")
STATES = {"failures": "failure", "errors": "error", "skipped": "skipped"}


def breaches(root: ET.Element) -> Iterator[str]:
    """Yield each breach of the schema and each wrong count."""
    for element in root.iter():
        must, may = ATTRIBUTES[element.tag]
        yield from (f"{element.tag} lacks {name}" for name in must - set(element.attrib))
        yield from (f"{element.tag} must not have {name}" for name in set(element.attrib) - must - may)
        yield from (
            f"{child.tag} in {element.tag}" for child in element if child.tag not in CHILDREN.get(element.tag, ())
        )
        if "time" in element.attrib and not TIME.fullmatch(element.attrib["time"]):
            yield f"time {element.attrib['time']}"
        if "tests" in element.attrib and int(element.attrib["tests"]) != len(list(element.iter("testcase"))):
            yield f"tests of {element.tag}"
        for name, tag in STATES.items():
            if name in element.attrib and int(element.attrib[name]) != len(list(element.iter(tag))):
                yield f"{name} of {element.tag}"


@pytest.fixture
def written(tmp_path: Path) -> Path:
    return junit.write(nights.read(nights.mixed()), tmp_path / "reports" / "junit.xml")


def test_a_parser_reads_suites_and_cases(written: Path) -> None:
    suites = list(JUnitXml.fromfile(str(written)))
    assert all(isinstance(suite, TestSuite) for suite in suites)
    told = [(suite.name, suite.tests, suite.failures, suite.errors, suite.skipped) for suite in suites]
    assert told == [("smoke on sim", 5, 2, 1, 0), ("smoke on docker", 5, 1, 1, 1)]
    assert suites[0].timestamp == "2026-11-21T02:00:00"
    properties = suites[0].properties()
    assert [(one.name, one.value) for one in properties] == [("lock-harness", "0.1.0"), ("python", "3.11.2")]


def test_survivors_and_new_failures_are_failed_cases(tmp_path: Path) -> None:
    path = junit.write(nights.read(nights.explored()), tmp_path / "junit.xml")
    assert list(breaches(ET.parse(path).getroot())) == []
    *_, ablation, exploration = JUnitXml.fromfile(str(path))
    assert (ablation.name, ablation.tests, ablation.failures) == ("smoke ablation", 1, 1)
    (case,) = ablation
    assert case.result[0].message == "fencing = on: survives: as-expected: two holders"
    assert (exploration.name, exploration.tests, exploration.failures, exploration.errors) == (
        "smoke exploration", 5, 1, 1,
    )  # fmt: skip
    failed = {case.name: type(case.result[0]) for case in exploration if case.result}
    assert failed == {"redis-token-new": Failure, "redis-token-error": Error}


def test_each_state_becomes_the_matching_junit_result(written: Path) -> None:
    cases = {(suite.name.split()[-1], case.name): case for suite in JUnitXml.fromfile(str(written)) for case in suite}
    assert {key: [type(one) for one in case.result] for key, case in cases.items()} == {
        ("sim", "ttl-pause-write"): [],
        ("sim", "ttl-pause-write.safe"): [],
        ("sim", "clock-jump-redlock"): [Failure],
        ("sim", "clock-jump-redlock.safe"): [Failure],
        ("sim", "failover-lost-lock"): [Error],
        ("docker", "ttl-pause-write"): [],
        ("docker", "ttl-pause-write.safe"): [],
        ("docker", "clock-jump-redlock"): [Failure],
        ("docker", "clock-jump-redlock.safe"): [Error],
        ("docker", "failover-lost-lock"): [Skipped],
    }
    case = cases["sim", "clock-jump-redlock"]
    assert isinstance(case, TestCase)
    assert (case.classname, case.time) == ("clock-jump-redlock", 0.4)
    assert case.result[0].type == "missed"
    assert case.result[0].message.startswith("mutual-exclusion said valid in 20 s")
    assert "why: mutual-exclusion said valid in 20 s" in case.system_out
    assert "run: store/redlock/20261121T020000Z-0" in case.system_out
    assert cases["docker", "failover-lost-lock"].result[0].message == "docker has no engine here"


def test_the_file_follows_the_schema(written: Path) -> None:
    assert list(breaches(ET.parse(written).getroot())) == []


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda root: root.set("skipped", "1"), "testsuites must not have skipped"),
        (lambda root: root[0].attrib.pop("errors"), "testsuite lacks errors"),
        (lambda root: root[0].set("failures", "7"), "failures of testsuite"),
        (lambda root: root[0].set("time", "1e3"), "time 1e3"),
        (lambda root: ET.SubElement(root[0], "failure"), "failure in testsuite"),
    ],
)
def test_the_schema_check_detects_spoilt_files(written: Path, spoil: Callable[[ET.Element], object], told: str) -> None:
    """The control."""
    root = ET.parse(written).getroot()
    spoil(root)
    assert told in list(breaches(root))


def test_characters_that_xml_forbids_are_replaced(written: Path) -> None:
    data = written.read_bytes()
    assert not re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]", data)
    (failure,) = ET.parse(written).getroot().findall("*/testcase[@name='clock-jump-redlock.safe']/failure")
    assert failure.get("message") == failure.text == "<b>\"two\" & 'three'</b> \ufffd\ufffd[31m \ufffd ]]> ünïcode 🔒"


def test_each_seed_of_a_scenario_has_its_own_case_name(tmp_path: Path) -> None:
    document = nights.night(21, [nights.outcome("a", seed=seed) for seed in (3, 4)])
    (suite,) = JUnitXml.fromfile(str(junit.write(nights.read(document), tmp_path / "junit.xml")))
    assert [case.name for case in suite] == ["a seed 3", "a seed 4"]


def test_an_empty_nightly_run_gives_a_file(tmp_path: Path) -> None:
    (suite,) = JUnitXml.fromfile(str(junit.write(nights.read(nights.night(21, [])), tmp_path / "junit.xml")))
    assert (suite.name, suite.tests) == ("smoke on sim", 0)


def test_a_malformed_document_is_refused_with_its_place(tmp_path: Path) -> None:
    document = nights.night(21, [nights.outcome("a", state="perhaps")])
    with pytest.raises(DocumentError, match=r'outcomes\[0\].state: expected one of .*violated.*got "perhaps"'):
        junit.write(nights.read(document), tmp_path / "junit.xml")
