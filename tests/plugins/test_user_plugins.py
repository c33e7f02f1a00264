"""A user's lock, fault, checker, model and workload: each one file outside the repository, used by name."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.checkers.catalogue import CHECKERS
from harness.faults.base import Fault
from harness.faults.catalogue import FAULTS, fault_class, fault_of
from harness.faults.records import FaultRecord, Moment
from harness.lock_impls.catalogue import LOCKS
from tests.cli.commands import harness

FILES = {
    "my_lock": """
class Careful:
    def __init__(self, client, key, ttl):
        self.client, self.key, self.ttl = client, key, ttl
    def acquire(self):
        return self.client.set(self.key, "me", nx=True, px=int(self.ttl * 1000))
    def release(self):
        self.client.delete(self.key)

class Endless:
    def acquire(self):
        return True
""",
    "my_fault": """
from typing import ClassVar
from harness.clusters.abilities import PROCESSES
from harness.faults.base import Damage, Fault, Observation

class Blink(Fault):
    name: ClassVar = "blink"
    summary: ClassVar = "a client stands still for a moment"
    needs: ClassVar = frozenset({PROCESSES})
    schedule: ClassVar = {"at": 1.0, "for": "0.2 ttl"}
    host: str = "c0"

    def inject(self, scene):
        processes = scene.part(PROCESSES)
        processes.pause(self.host)
        def observe():
            return Observation({self.host: processes.state(self.host) == "paused"}, {}, "it paused")
        return Damage([self.host], observe, lambda: processes.resume(self.host))

    @classmethod
    def cause(cls, record, moment):
        return f"{record.who} blinked"

class Raises(Blink):
    def inject(self, scene):
        raise ZeroDivisionError("by nought")

class NoDamage(Blink):
    def inject(self, scene):
        return ["c0"]

class Stranger(Blink):
    def inject(self, scene):
        return Damage(["c99"], lambda: Observation({}, {}, ""), lambda: None)

class Seen(Blink):
    def inject(self, scene):
        return Damage(["c0"], lambda: True, lambda: None)

class Whenever(Blink):
    schedule: ClassVar = {"at": "soon"}

class Other:
    pass
""",
    "my_checker": """
from harness.checkers.base import Verdict, Violation

class NoDoubleGrant:
    def check(self, history):
        return Verdict(True, f"{len(history)} entries are fine")

class Objects:
    def check(self, history):
        at = int(history.time[0])
        return Verdict(False, "two grants", (Violation("double", "k0", "two grants", at, at + 1),))

class Misplaced:
    def check(self, history):
        return Verdict(False, "two grants", (Violation("double", "k0", 1, 2, "two grants"),))

class Exits:
    def check(self, history):
        raise SystemExit(0)

class Demanding:
    def __init__(self, what):
        pass
    def check(self, history):
        return Verdict(True, "")

class Idle:
    pass
""",
    "my_model": """
class Switch:
    fs = {"acquire", "release"}
    initial = False
    def step(self, state, operation):
        return not state

class Listed(Switch):
    initial = []
    def step(self, state, operation):
        return []

class Still:
    fs = {"acquire"}
    initial = False
""",
    "my_workload": """
class Quick:
    @staticmethod
    def stock(settings, duration):
        return {}
    @staticmethod
    def run(client):
        from harness.worker.workloads.mutex import MutexWorkload
        MutexWorkload.run(client)

class Stocked(Quick):
    @staticmethod
    def stock(settings, duration):
        return ["apples"]

class Raises(Quick):
    @staticmethod
    def run(client):
        raise ZeroDivisionError("by nought")

class Idle:
    pass
""",
}
SHORT = ("--cluster", "sim", "--time-limit", "5s", "--seed", "3")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working directory with one file for each sort of plug-in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    for name, text in FILES.items():
        (tmp_path / f"{name}.py").write_text(text)
    yield tmp_path
    for name in FILES:
        sys.modules.pop(name, None)
    FAULTS.forget()


def results() -> Any:
    return json.loads(Path("store/latest/results.json").read_text())


@pytest.mark.slow
def test_all_are_used_by_name_on_the_command_line_and_in_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    given = ("--nemesis", "my_fault:Blink", "--workload", "my_workload:Quick", "--checker", "my_checker:NoDoubleGrant")
    assert harness("run", "my_lock:Careful", *given, *SHORT) == 0
    found = results()
    assert found["checkers"]["my_checker:NoDoubleGrant"]["valid"] is True
    assert [(fault["fault"], fault["seen"]) for fault in found["faults"]] == [("my_fault:Blink", True)]
    assert found["plan"]["workload"] == "my_workload:Quick"
    assert harness("check", "store/latest", "--model", "my_model:Switch") == 0

    plan = """
lock = "my_lock:Careful"
workload = "my_workload:Quick"
checkers = ["my_checker:NoDoubleGrant", "my_checker:Objects"]
time_limit = "5s"
[[faults]]
fault = "my_fault:Blink"
at = 1.0
for = 0.3
[expect]
safe = false
invalid = ["my_checker:Objects"]
valid = ["my_checker:NoDoubleGrant"]
"""
    Path("mine.toml").write_text(plan)
    capsys.readouterr()
    assert harness("scenario", "run", "mine.toml", "--trust") == 0
    assert "as-expected" in capsys.readouterr().out
    assert harness("replay", "mine.toml", "--trust") == 1
    assert results()["checkers"]["my_checker:Objects"]["valid"] is False


def test_a_fault_is_described_in_its_own_words_once_it_is_loaded() -> None:
    record = FaultRecord(0, "my_fault:Blink", ("c0",), {}, 1, 2, True, {"": True}, None)
    assert fault_of(record) is Fault, "a name in a stranger's history must not run code"
    assert "my_fault" not in sys.modules
    own = fault_class("my_fault:Blink")
    assert fault_of(record) is own
    assert fault_of(record).cause(record, Moment(1, 0)) == "c0 blinked"


@pytest.mark.few(1)
@pytest.mark.parametrize("broken", ["Misplaced", "Exits"])
def test_a_broken_checker_is_unknown_and_hides_no_other_verdict(broken: str) -> None:
    assert harness("run", "redis-token", "--checker", f"my_checker:{broken}", *SHORT) == 3
    checkers = results()["checkers"]
    verdict = checkers.pop(f"my_checker:{broken}")
    assert verdict["valid"] is None
    assert "the checker failed: " in verdict["explanation"]
    assert {name for name, one in checkers.items() if one["valid"] is None} == set()
    assert "mutual-exclusion" in checkers


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("my_lock:Endless",), "my_lock:Endless is no lock: it has no method release"),
        (("redis-token", "--checker", "my_checker:Idle"), "my_checker:Idle is no checker: it has no method 'check'"),
        (("redis-token", "--checker", "my_checker:Demanding"), "the checker my_checker:Demanding cannot be made"),
        (("redis-token", "--checker", "my_checker:NoSuch"), "my_checker has no class called 'NoSuch'"),
        (("redis-token", "--checker", "livenes"), "no checker is called 'livenes'; did you mean 'liveness'?"),
        (("redis-token", "--nemesis", "my_fault:Other"), "my_fault:Other is no fault: it does not derive from"),
        (("redis-token", "--nemesis", "my_fault:Whenever"), "the fault my_fault:Whenever: its schedule"),
        (("redis-token", "--nemesis", "my_fault:Raises"), "the fault my_fault:Raises: inject raised ZeroDivisionError"),
        (("redis-token", "--nemesis", "my_fault:NoDamage"), "malformed Damage: expected a Damage, got ['c0']"),
        (("redis-token", "--nemesis", "my_fault:Stranger"), "hosts names 'c99', and there is no such host"),
        (("redis-token", "--nemesis", "my_fault:Seen"), "observe returned a malformed Observation"),
        (
            ("redis-token", "--workload", "my_workload:Idle"),
            "my_workload:Idle is no workload: it has no method",
        ),
        (
            ("redis-token", "--workload", "my_workload:Stocked"),
            "workload my_workload:Stocked: stock must be a dict",
        ),
        (("redis-token", "--workload", "my_workload:Raises"), "my_workload:Raises: run raised ZeroDivisionError"),
    ],
)
def test_a_broken_plug_in_is_one_line_that_names_it_and_exit_2(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert harness("run", *arguments, *SHORT) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("cluster:")]
    assert len(errors) == 1
    assert message in errors[0]


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("my_model:Still", "my_model:Still is not a model: it has no 'step'"),
        ("my_model:Listed", "the model my_model:Listed cannot read this history: TypeError: unhashable type: 'list'"),
    ],
)
def test_a_broken_model_is_one_line_that_names_it_and_exit_2(
    model: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert harness("run", "redis-token", *SHORT) == 0
    capsys.readouterr()
    assert harness("check", "store/latest", "--model", model) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error


def distribution(folder: Path, name: str, points: str) -> None:
    """Install a distribution that declares entry points: a dist-info directory is all there is to that."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(points)


@pytest.mark.slow
def test_entry_points_are_used_by_name(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    points = """
[lock_harness.locks]
careful = my_lock:Careful
[lock_harness.faults]
blink = my_fault:Blink
[lock_harness.checkers]
no-double-grant = my_checker:NoDoubleGrant
torn = my_checker:NoSuch
liveness = my_checker:Objects
[lock_harness.workloads]
quick = my_workload:Quick
[lock_harness.models]
switch = my_model:Switch
"""
    distribution(folder / "site", "my-plugins", points)
    monkeypatch.syspath_prepend(str(folder / "site"))
    given = ("--nemesis", "blink", "--workload", "quick", "--checker", "no-double-grant", "--checker", "liveness")
    assert harness("run", "careful", *given, *SHORT) == 0
    assert results()["checkers"]["no-double-grant"]["valid"] is True
    assert harness("check", "store/latest", "--model", "switch") == 0
    capsys.readouterr()
    assert harness("run", "careful", "--checker", "torn", *SHORT) == 2
    assert "my_checker has no class called 'NoSuch' (entry point 'torn' of my-plugins)" in capsys.readouterr().err
    assert harness("list", "checkers", "--json") == 0
    listed = {row["name"]: row["about"] for row in json.loads(capsys.readouterr().out)}
    assert listed["torn"].startswith("cannot be used: ")
    assert not listed["liveness"].startswith("cannot be used")


def test_a_name_that_two_distributions_declare_is_ambiguous(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        distribution(folder / "site", name, "[lock_harness.faults]\nblink = my_fault:Blink\n")
    monkeypatch.syspath_prepend(str(folder / "site"))
    assert harness("run", "redis-token", "--nemesis", "blink", *SHORT) == 2
    assert "the nemesis 'blink' is ambiguous: " in capsys.readouterr().err


def test_our_own_names_go_before_entry_points(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = "[lock_harness.checkers]\nliveness = my_checker:Objects\n[lock_harness.locks]\nredlock = my_lock:Careful\n"
    distribution(folder / "site", "my-plugins", points)
    monkeypatch.syspath_prepend(str(folder / "site"))
    assert CHECKERS.find("liveness").__module__ == "harness.checkers.liveness"
    assert getattr(LOCKS.find("redlock"), "__module__", "") == "harness.lock_impls.redlock"
