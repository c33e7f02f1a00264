"""A fault is one file: its class states everything that the library knows about it, and no other file names it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.checkers import faults_seen
from harness.checkers.availability import DEATHS
from harness.checkers.base import Violation
from harness.checkers.faults import IN_CALLS, SILENT, STILL
from harness.faults import calls, records
from harness.faults.base import Fault
from harness.faults.catalogue import fault_class, fault_names
from harness.faults.records import FaultRecord, Moment
from harness.run.verdicts.summary import describe, foremost_faults

ROOT = Path(__file__).parents[2]
LIBRARY = ("harness", "checkers", "reports", "scenarios")
MAY_NAME_FAULTS = {
    "checkers/faults.py": "checkers import nothing but histories, and those name the fault",
    "checkers/availability.py": "checkers import nothing but histories, and those name the fault",
    "crash.py": "a workload states its own fault as a plan does, and runs where no fault is loaded",
}
NAMES = [name for name in fault_names() if "-" in name]
"""Names that are nothing but a fault's; ``kill`` and ``latency`` are ordinary words."""
NAMED = re.compile(rf"(?<![\w-])(?:{'|'.join(NAMES)})(?![\w-])")
FAULTS = [name for name in fault_names() if name != "none"]
FILES = [
    path
    for folder in LIBRARY
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in {".py", ".js", ".html", ".css"}
    and path.relative_to(ROOT).parts[:2] != ("harness", "faults")
    and "lock_impls" not in path.parts
    and not any(str(path).endswith(name) for name in MAY_NAME_FAULTS)
]


def docstrings(tree: ast.Module) -> set[ast.AST]:
    """Return the docstrings of modules, classes, functions and attributes. They may name faults as examples."""
    return {
        node.value for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def named_faults(source: str) -> Iterator[str]:
    """Yield the faults that a Python file names in its strings and in the specs that it builds."""
    if "FaultSpec" not in source and not NAMED.search(source):
        return  # most files; parsing them takes seconds
    tree = ast.parse(source)
    prose = docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in prose:
            yield from NAMED.findall(node.value)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "FaultSpec":
            yield from (arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant))  # type: ignore[misc]


def test_no_other_file_of_the_library_names_a_fault() -> None:
    assert len(FILES) > 600
    named = {}
    for path in FILES:
        source = path.read_text(encoding="utf-8")
        if found := list(named_faults(source)) if path.suffix == ".py" else NAMED.findall(source):
            named[str(path.relative_to(ROOT))] = found
    assert named == {}, "state it in the fault's class and ask that"


def test_a_fault_that_is_named_elsewhere_is_found() -> None:
    assert list(named_faults('"""client-pause"""\nPAUSE = "client-pause"')) == ["client-pause"]
    assert list(named_faults('FaultSpec("kill", at=1.0)')) == ["kill"]
    assert list(named_faults('what = "client-pauses"')) == []


def test_checkers_know_the_faults_that_silence_a_client() -> None:
    """Checkers may import only histories, so they list names; this keeps the lists equal to the classes."""
    silenced = {kind: {name for name in FAULTS if fault_class(name).silences == kind} for kind in ("pause", "death")}
    assert silenced["pause"] == STILL
    assert silenced["death"] == {DEATHS}
    assert {name for name in FAULTS if fault_class(name).silences} == SILENT
    assert {name for name in FAULTS if fault_class(name).fact == calls.FACT} == IN_CALLS


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_states_what_damages_the_cluster(name: str) -> None:
    assert fault_class(name).damages_with


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_that_was_not_observed_is_described_in_general_words(name: str) -> None:
    record = FaultRecord(0, name, ("n1",), {}, 1_500_000_000, None, False, {}, None)
    assert not fault_class(name).describes(record)
    assert Fault.story(record, "") == f"{name} strikes n1"
    assert Fault.cause(record, Moment(2_000_000_000, 500_000_000)) == f"{name} struck n1 at 1.000 s"


def test_a_partial_effect_is_described_by_how_many_it_affected() -> None:
    error = "took effect on 1 of 2 hosts, not on n2; expected all of them paused"
    record = FaultRecord(0, "server-pause", ("n1", "n2"), {}, 1_500_000_000, None, False, {}, error)
    told = "server-pause struck n1 and n2 at 1.000 s, and took effect on 1 of 2 hosts, not on n2"
    assert describe(record, 500_000_000, 2_000_000_000) == told
    assert faults_seen.PARTIAL == records.PARTIAL


def test_the_faults_that_struck_the_client_of_a_violation_are_named_first() -> None:
    hosts = ("c1", "c0", "c2", "c3", "c4")
    faults = [FaultRecord(n, "lost-reply", (host,), {}, n, n, True, {}, None) for n, host in enumerate(hosts)]
    violation = Violation("late-answer", "k0", "", 9, 10, ({"client": "c0", "from_ns": 0},))
    assert [fault.hosts[0] for fault in foremost_faults(faults, violation)] == ["c0", "c3", "c4"]


def test_a_fault_has_words_of_its_own() -> None:
    plain = [name for name in FAULTS if fault_class(name).story.__func__ is Fault.story.__func__]  # type: ignore[attr-defined]
    assert plain == []
