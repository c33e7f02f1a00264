"""Loops run as plain Python or as machine code, whichever finishes earlier, with the same result."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from harness.history import compiled
from harness.history.compiled import ALWAYS, NEVER, Limits, MachineCode, fastest
from harness.history.files import calls_of
from tests.history.drawn import assert_same, draw_history

pytestmark = pytest.mark.timeout(1800)  # a busy machine compiles slowly
LOOPS = """
from harness.history.compiled import compilable
from steps import STEP

@compilable
def one(number):
    return number * STEP

@compilable
def total(numbers):
    found = 0
    for number in numbers:
        found += one(number)
    return found
"""


@pytest.fixture
def loops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], ModuleType]:
    """Write and import a module whose loop uses a number of another module, ``steps``."""
    monkeypatch.setattr(compiled, "_machine_code", {})
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "loops.py").write_text(LOOPS)

    def imported(step: int) -> ModuleType:
        steps = ModuleType("steps")
        steps.__dict__["STEP"] = step
        monkeypatch.setitem(sys.modules, "steps", steps)
        spec = importlib.util.spec_from_file_location("loops", tmp_path / "loops.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return imported


def run(loop: Any, rows: int = 0) -> tuple[int, bool]:
    """Return what ``loop`` returns for 1, 2 and 3, and whether machine code computed it."""
    chosen = fastest(loop, rows)
    found = int(chosen(np.arange(1, 4)))
    return found, isinstance(chosen, MachineCode) and chosen.compiled


def test_only_large_inputs_use_machine_code(
    loops: Callable[[int], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "limits", Limits(0, 10, 20))
    loop = loops(1).total
    assert run(loop, 19) == (6, False)
    assert run(loop, 20) == (6, True)
    assert run(loop, 0) == (6, True), "it is loaded by now"
    monkeypatch.setattr(compiled, "limits", NEVER)
    assert run(loop, 10**9) == (6, False)


def test_machine_code_on_disk_is_used_from_fewer_rows_on(
    loops: Callable[[int], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "limits", ALWAYS)
    assert run(loops(1).total) == (6, True)
    monkeypatch.setattr(compiled, "limits", Limits(0, 10, 20))
    again = loops(1).total
    assert run(again, 9) == (6, False)
    assert run(again, 10) == (6, True)


def test_machine_code_is_rebuilt_when_a_constant_in_another_file_changes(
    loops: Callable[[int], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "limits", ALWAYS)
    assert run(loops(1).total) == (6, True)
    assert run(loops(7).total) == (42, True)


def test_an_unwritable_cache_is_ignored(
    loops: Callable[[int], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("__pycache__", "cache", ".cache"):
        (tmp_path / name).write_text("a file where a folder should be")
    monkeypatch.setattr(compiled, "limits", ALWAYS)
    assert run(loops(1).total) == (6, True)


def test_a_damaged_cache_is_ignored(
    loops: Callable[[int], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "limits", ALWAYS)
    assert run(loops(1).total) == (6, True)
    kept = list(tmp_path.rglob("*.nbi"))
    assert kept
    for file in kept:
        file.write_bytes(b"no pickle")
    assert run(loops(1).total) == (6, True)


def test_a_loop_that_numba_cannot_compile_stays_plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    @compiled.compilable
    def opened(numbers: Any) -> int:
        return len(sorted(map(str, {int(number): open for number in numbers})))

    monkeypatch.setattr(compiled, "limits", ALWAYS)
    assert run(opened) == (3, False)


@pytest.mark.parametrize("wants", ["nothing", "leases", "grants", "values"])
def test_machine_code_reads_the_same_calls(wants: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    histories = [draw_history(seed, keys=2, tidy=seed % 2 == 0) for seed in range(60)]
    monkeypatch.setattr(compiled, "limits", NEVER)
    plain = [read(history, wants) for history in histories]
    monkeypatch.setattr(compiled, "limits", ALWAYS)
    for history, expected in zip(histories, plain, strict=True):
        found = read(history, wants)
        if isinstance(expected, str):
            assert found == expected
        else:
            assert_same(found, expected)


def read(history: Any, wants: Any) -> Any:
    """Return the calls, or the error that says why they cannot be read."""
    try:
        return calls_of(history, wants)
    except ValueError as error:
        return str(error)
