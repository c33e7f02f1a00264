"""The benchmark's histories are what they are generated to be: linearizable, or with one failure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice, product
from pathlib import Path

import pytest

from benchmarks.linearizability import generate, simulate
from benchmarks.linearizability.cases import Case, full, quick, unknown
from benchmarks.linearizability.generate import Shape, Workload
from benchmarks.linearizability.measure import Measured
from benchmarks.linearizability.table import Row, goals, markdown
from harness.checkers.linearizability.problem import problem
from harness.checkers.models import MODELS as ALL_MODELS
from harness.checkers.models import CasRegister, FencedMutex, Model, Mutex, OwnerMutex, Register
from harness.history import History
from harness.history.files import read_calls
from tests.checkers.linear import build
from tests.checkers.linear.brute import linearizable

MODELS: dict[Workload, tuple[Model, ...]] = {
    "lock": (Mutex(), OwnerMutex(), FencedMutex()),
    "register": (Register(),),
    "cas-register": (CasRegister(),),
}
SIZE: dict[Workload, tuple[int, int]] = {"lock": (30, 5), "register": (9, 3), "cas-register": (12, 3)}
"""Operations and clients that brute force can do."""
SEEDS = range(6)


def history(shape: Shape, folder: Path) -> History:
    path = folder / "history.jsonl"
    generate.write(generate.make(shape), path, shape.going_on)
    return History.load(path)


def entries(past: History) -> list[build.Entry]:
    return [
        (op.process, op.type, op.f, tuple(op.value) if isinstance(op.value, list) else op.value)
        for op in past
        if op.process >= 0
    ]


@pytest.mark.parametrize("workload", MODELS)
@pytest.mark.parametrize("wrong", [False, True])
def test_brute_force_confirms_the_planted_verdict(workload: Workload, wrong: bool, tmp_path: Path) -> None:
    for seed, crashed in product(SEEDS, (0, 2)):
        past = history(Shape(workload, *SIZE[workload], crashed, wrong, seed), tmp_path)
        for model in MODELS[workload]:
            found = build.calls(entries(past))
            if model.wants not in ("leases", "grants"):
                found = build.without_grants(found)
            assert linearizable(problem(found, model, 0), model) is not wrong, (seed, crashed, model)


GOING_ON: tuple[tuple[Workload, str], ...] = (
    ("lock", "owner-mutex"), ("lock", "reentrant-mutex"), ("lock", "fenced-mutex"), ("lock", "lease-mutex"),
    ("rw-lock", "rw-lock"), ("queued-lock", "fifo-lock"),
)  # fmt: skip


@pytest.mark.few(3)
@pytest.mark.parametrize(("workload", "name"), GOING_ON)
@pytest.mark.parametrize("wrong", [False, True])
def test_brute_force_confirms_the_planted_verdict_where_clients_go_on(
    workload: Workload, name: str, wrong: bool, tmp_path: Path
) -> None:
    model = ALL_MODELS[name]()
    for lost in (0, 1, 3):
        for shape in islice(_possible(Shape(workload, 32, 4, wrong=wrong, unknown=lost)), 4):
            history(shape, tmp_path)
            found = read_calls(tmp_path / "history.jsonl", model.wants)
            assert linearizable(problem(found, model, 0), model) is not wrong, shape


def _possible(shape: Shape) -> Iterator[Shape]:
    """Yield it with seeds that give a history with something unknown, if asked for, and with the planted failure."""
    for seed in range(200):
        found = replace(shape, seed=seed)
        with suppress(ValueError):  # it is too short for the failure
            kinds = generate.make(found).kind
            if not shape.unknown or simulate.INFO in kinds:
                yield found


def test_a_client_that_goes_on_has_the_same_name(tmp_path: Path) -> None:
    past = [op for op in history(Shape("lock", 300, 5, unknown=8), tmp_path) if op.process >= 0]
    lost = [op for op in past if op.type == "info"]
    assert len(lost) == 8
    assert {op.f for op in lost} == {"acquire", "release"}
    for op in lost:
        following = next(later for later in past[past.index(op) :] if later.node == op.node and later.type == "invoke")
        assert following.process == op.process + 5
    assert {op.node for op in lost} <= {"c2", "c3", "c4"}


def test_readers_hold_a_read_write_lock_together(tmp_path: Path) -> None:
    reading: set[str | None] = set()
    holders: dict[str | None, bool] = {}
    most = 0
    for op in history(Shape("rw-lock", 400, 6, unknown=0), tmp_path):
        if (op.type, op.f) == ("invoke", "acquire"):
            (reading.add if op.value.get("mode") == "read" else reading.discard)(op.node)
        elif (op.type, op.f) == ("ok", "acquire"):
            holders[op.node] = op.node in reading
            assert all(holders.values()) or len(holders) == 1
            most = max(most, len(holders))
        elif (op.type, op.f) == ("invoke", "release"):
            del holders[op.node]
    assert most > 2


def test_a_planted_double_hold_is_found_by_the_hold_checker(tmp_path: Path) -> None:
    """Exactly once, two clients believe at the same time that they hold the lock."""
    holders: set[int] = set()
    most = 0
    for op in history(Shape("lock", 400, 5, 10, wrong=True), tmp_path):
        if (op.type, op.f) == ("ok", "acquire"):
            holders.add(op.process)
        elif (op.type, op.f) == ("invoke", "release"):
            holders.remove(op.process)
        most = max(most, len(holders))
    assert most == 2


@pytest.mark.parametrize("workload", MODELS)
def test_a_history_is_one_that_clients_could_have_recorded(workload: Workload, tmp_path: Path) -> None:
    past = history(Shape(workload, 300, 5, 8), tmp_path)
    calls = past.calls()
    assert past.in_order() is past
    assert len(calls) in (299, 300)
    unknown = [call for call in calls if call.outcome == "info"]
    assert len(unknown) == 8
    for call in unknown:
        assert past.process.tolist()[call.invoke.index + 1 :].count(call.invoke.process) == (call.done is not None)
    assert {call.done is None for call in unknown} == {True, False}
    live = [call for call in calls if call.outcome != "info"]
    assert {call.invoke.f for call in live} == {
        "lock": {"acquire", "release"}, "register": {"read", "write"}, "cas-register": {"read", "write", "cas"}
    }[workload]  # fmt: skip
    assert past.nemesis("start")[0].value["clients"] == [f"c{process}" for process in range(13)]


def test_most_clients_wait_while_one_holds_the_lock(tmp_path: Path) -> None:
    waiting, most = 0, []
    for op in history(Shape("lock", 1000, 20), tmp_path):
        if op.f == "acquire":
            waiting += 1 if op.type == "invoke" else -1
            most.append(waiting)
    assert sum(most) / len(most) > 10


def test_the_same_shape_gives_the_same_bytes(tmp_path: Path) -> None:
    shape = Shape("cas-register", 200, 5, 3, wrong=True, seed=7)
    for name in ("a.edn", "b.edn"):
        generate.write(generate.make(shape), tmp_path / name)
    lines = (tmp_path / "a.edn").read_text().splitlines()
    assert lines == (tmp_path / "b.edn").read_text().splitlines()
    assert len(lines) == len(generate.make(shape))
    assert lines[0].startswith("{:index 0, :time ")


def test_a_history_too_short_for_the_planted_failure_is_refused() -> None:
    with pytest.raises(ValueError, match="nobody waited"):
        generate.make(Shape("lock", 2, 1, wrong=True))
    with pytest.raises(ValueError, match="no read"):
        generate.make(Shape("register", 1, 1, wrong=True))


def test_a_shape_is_written_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = generate.make(Shape("lock", 100, 5))
    generate.write(made, tmp_path / "whole.jsonl")
    monkeypatch.setattr(generate, "BLOCK", 7)
    generate.write(made, tmp_path / "blocks.jsonl")
    assert (tmp_path / "whole.jsonl").read_bytes() == (tmp_path / "blocks.jsonl").read_bytes()


def test_missed_goals_are_reported_as_missed() -> None:
    def row(ours: float, theirs: float) -> Row:
        case = Case(Shape("lock", 100_000, 20, 10), "owner-mutex")
        return Row(case, Measured("Ok", 100_000, 0.1, ours, ours), Measured("Ok", 100_000, 0.5, theirs, theirs))

    def met(one: Row) -> list[bool | None]:
        return [goal.met for goal in goals([one])]

    assert met(row(0.005, 10.0)) == [True, None, None, None, None, True, None]
    assert met(row(0.2, 10.0)) == [False, None, None, None, None, False, None]
    assert "2,000" in markdown([row(0.005, 10.0)])


def test_a_verdict_other_than_the_planted_one_is_reported() -> None:
    case = Case(Shape("lock", 100, 5, wrong=True), "mutex")
    assert Row(case, Measured("Illegal"), Measured("Unknown")).contradictions == []
    assert Row(case, Measured("Illegal"), Measured("Ok")).contradictions == [
        "lock-100-5-0-wrong.jsonl mutex: Porcupine says Ok, expected Illegal"
    ]


def test_case_names_are_distinct_and_lengths_rise() -> None:
    for some in (quick(), full(), unknown()):
        assert len({case.name for case in some}) == len(some)
        sizes: dict[Case, int] = {}
        for case in some:
            if case.shape.operations < 10_000_000:
                assert sizes.get(case.series, 0) < case.shape.operations
                sizes[case.series] = case.shape.operations
