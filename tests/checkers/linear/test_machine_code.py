"""Machine code from numba gives the same verdicts as plain Python, in the same words. Small checks do not use it.

Compiling takes longest on a busy machine, so these tests have very long time limits."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from benchmarks.linearizability import generate
from benchmarks.linearizability.generate import Shape, Workload
from harness.checkers.linearizability import arrays, deadlines, definite, kernel, stacks
from harness.checkers.linearizability.check import Checked, check
from harness.checkers.models import (
    CasRegister,
    FencedMutex,
    FifoLock,
    LeaseMutex,
    Model,
    Mutex,
    OwnerMutex,
    ReadWriteLock,
    ReentrantFencedMutex,
    ReentrantMutex,
    Register,
    Semaphore,
    Stack,
)
from harness.history import compiled, pairing
from harness.history.calls import Calls
from harness.history.compiled import MachineCode, fastest
from harness.history.files import read_calls
from tests.checkers.linear.build import Entry, without_grants
from tests.checkers.linear.build import calls as small_calls
from tests.checkers.linear.draw import Draw, draw_history, grant_call, lock_call, register_call

pytestmark = pytest.mark.timeout(1800)


def queue_call(random: Random) -> tuple[str, Any, Any]:
    return random.choice(("enqueue", "acquire", "release", "cancel")), None, None


def lease_call(random: Random) -> tuple[str, Any, Any]:
    if random.random() < 0.7:
        return grant_call(random)
    return random.choice((("extend", None, {"extended": True}), ("check", None, {"valid": random.random() < 0.5})))


def mode_call(random: Random) -> tuple[str, Any, Any]:
    return random.choice(("acquire", "release")), random.choice((None, "read", "write")), None


def plain_register_call(random: Random) -> tuple[str, Any, Any]:
    while (call := register_call(random))[0] == "cas":
        pass
    return call


def stack_call(random: Random) -> tuple[str, Any, Any]:
    """Draw a push of an element that is rarely pushed twice, or a pop."""
    if random.random() < 0.6:
        return "push", random.randint(1, 9), None
    return "pop", None, random.choice((None, *range(1, 10)))


MODELS: Final[list[tuple[Model, Draw]]] = [
    (Stack(), stack_call),
    (Mutex(), lock_call),
    (Semaphore(2), lock_call),
    (OwnerMutex(), lock_call),
    (ReentrantMutex(2), lock_call),
    (ReadWriteLock(), mode_call),
    (FencedMutex(), grant_call),
    (ReentrantFencedMutex(2), grant_call),
    (LeaseMutex(), lease_call),
    (FifoLock(), queue_call),
    (Register(), plain_register_call),
    (CasRegister(), register_call),
]
BY_MODEL = pytest.mark.parametrize(("model", "draw"), MODELS, ids=[model.name for model, _ in MODELS])


def histories(model: Model, draw: Draw, count: int) -> list[Calls]:
    """Draw histories. Short ones are often linearizable, long ones almost never."""
    sizes = [2 + seed % 4 if seed % 3 else 6 + seed % 5 for seed in range(count)]
    found = [draw_history(seed, draw, clients=2, count=size, unknown=0.3) for seed, size in enumerate(sizes)]
    return found if model.wants in ("leases", "grants") else [without_grants(history) for history in found]


def both_ways(history: Calls, model: Model) -> list[Checked]:
    """Return the answers of the quick algorithm, where the model has one, and of the search."""
    return [check(history, model, quick=quick) for quick in (True, False)]


def compare(model: Model, draw: Draw, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn_histories = histories(model, draw, count)
    monkeypatch.setattr(compiled, "limits", compiled.NEVER)
    plain = [both_ways(history, model) for history in drawn_histories]
    monkeypatch.setattr(compiled, "limits", compiled.ALWAYS)
    assert [both_ways(history, model) for history in drawn_histories] == plain
    wrong = sum(checked.verdict.valid is False for checked, _ in plain)
    assert 3 < wrong < count - 3


@pytest.mark.slow  # compiles
@BY_MODEL
def test_machine_code_gives_the_same_verdict_as_plain_python(
    model: Model, draw: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(model, draw, 80, monkeypatch)


@pytest.mark.slow
@BY_MODEL
def test_machine_code_gives_the_same_verdict_on_many_histories(
    model: Model, draw: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(model, draw, 1500, monkeypatch)


@pytest.mark.few(2)
@BY_MODEL
def test_verdicts_do_not_change_without_numba(model: Model, draw: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    """For inputs of any size: here all of them are large enough for machine code."""
    drawn_histories = histories(model, draw, 20)
    plain = [both_ways(history, model) for history in drawn_histories]
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setattr(compiled, "_machine_code", {})
    monkeypatch.setattr(compiled, "limits", compiled.ALWAYS)
    assert [both_ways(history, model) for history in drawn_histories] == plain
    assert not any(compiled._machine_code.values())


@pytest.mark.slow  # compiles
def test_numba_compiles_every_loop_that_a_check_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the tests above would compare plain Python with plain Python."""
    monkeypatch.setattr(compiled, "limits", compiled.ALWAYS)
    path = write_history(tmp_path, "lock", 40)
    calls = read_calls(path, "values")
    for model in (Mutex(), OwnerMutex()):
        both_ways(calls, model)
    pushed: list[Entry] = [(0, kind, "push", 1) for kind in ("invoke", "ok")]
    check(without_grants(small_calls(pushed)), Stack())
    rooms = partial(check, read_calls(write_history(tmp_path, "cas-register", 2000), "values"), CasRegister())
    monkeypatch.setattr("harness.checkers.linearizability.search.ENTRIES", 2)
    rooms()
    loops = (
        pairing._pair, definite._walk, definite._sweep, deadlines._lost, arrays.prepare, arrays.rehash, kernel.explore,
        stacks._nest,
    )  # fmt: skip
    for loop in loops:
        code: Any = fastest(loop, rows=0)
        assert isinstance(code, MachineCode), loop
        assert code.compiled, loop


SCRIPT: Final = """
import sys
from harness import check
print(check(sys.argv[1], sys.argv[2]).verdict.valid, "numba" in sys.modules)
"""


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("workload", "model"),
    [("lock", "owner-mutex"), ("lock", "mutex"), ("lock", "lease-mutex"), ("cas-register", "cas-register")],
)
def test_a_check_of_a_thousand_calls_does_not_import_numba(workload: Workload, model: str, tmp_path: Path) -> None:
    path = write_history(tmp_path, workload, 1000)
    command = [sys.executable, "-c", SCRIPT, str(path), model]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["True", "False"]


def write_history(folder: Path, workload: Workload, operations: int) -> Path:
    path = folder / f"{workload}-{operations}.jsonl"
    generate.write(generate.make(Shape(workload, operations, 5, 2)), path)
    return path
