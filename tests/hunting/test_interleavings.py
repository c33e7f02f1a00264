"""The search through orders of steps, on small programs whose orders can be counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.search.interleavings import (
    Execution,
    ExecutionStep,
    FixedSteps,
    NotReproducible,
    Path,
    Redundant,
    explore,
    independent,
)
from tests.hunting.foata import Form, foata

Programs = Sequence[Sequence[frozenset[str]]]
"""Objects that each process touches, step by step; processes are called p0, p1 ..."""


def execute(programs: Programs, path: Path) -> tuple[str, ...]:
    """Return the order of the steps that touch x: the observable part of an execution."""
    at = [0] * len(programs)
    seen: list[str] = []
    while left := [number for number, program in enumerate(programs) if at[number] < len(program)]:
        step = path.choose([ExecutionStep(f"p{number}") for number in left])
        number = int(step.act[1:])
        touched = programs[number][at[number]] | {step.act}
        if "x" in touched:
            seen.append(f"{step.act}/{at[number]}")
        at[number] += 1
        path.took(touched)
    return tuple(seen)


def executions_of(programs: Programs, *, reduce: bool) -> list[Execution[tuple[str, ...]]]:
    return list(explore(lambda path: execute(programs, path), reduce=reduce))


def whole(runs: Sequence[Execution[tuple[str, ...]]]) -> list[Form]:
    return [foata(run.steps, run.touched) for run in runs if run.outcome is not None]


def orders(lengths: list[int]) -> int:
    """Return the multinomial coefficient."""
    product, total = 1, 0
    for length in lengths:
        total += length
        product *= comb(total, length)
    return product


HERE, X = frozenset[str](), frozenset({"x"})


@pytest.mark.parametrize(("one", "other"), [(1, 1), (2, 3), (4, 4)])
def test_independent_programs_have_one_class(one: int, other: int) -> None:
    """For example a round trip each to different servers."""
    programs = [[HERE] * one, [HERE] * other]
    assert len(whole(executions_of(programs, reduce=False))) == comb(one + other, one)
    assert len(whole(executions_of(programs, reduce=True))) == 1


def test_dependent_programs_have_a_class_per_order() -> None:
    programs = [[X] * 3, [X] * 4]
    assert (
        len(whole(executions_of(programs, reduce=True)))
        == len(whole(executions_of(programs, reduce=False)))
        == comb(7, 3)
    )


def test_two_round_trips_to_one_server_have_two_classes() -> None:
    programs = [[HERE, X, HERE], [HERE, X, HERE]]
    assert len(whole(executions_of(programs, reduce=False))) == comb(6, 3)
    assert len(whole(executions_of(programs, reduce=True))) == 2


things = st.frozensets(st.sampled_from("xyz"), max_size=2)
toys = st.lists(st.lists(things, min_size=1, max_size=3), min_size=2, max_size=3)


@settings(max_examples=60, derandomize=True)
@given(toys)
def test_reduction_finds_each_class_exactly_once(programs: Programs) -> None:
    every, reduced = executions_of(programs, reduce=False), executions_of(programs, reduce=True)
    assert len(every) == orders([len(program) for program in programs])
    assert len(whole(reduced)) == len(set(whole(reduced))), "each class once"
    assert set(whole(reduced)) == set(whole(every)), "no class is forgotten"
    assert {run.outcome for run in reduced} - {None} == {run.outcome for run in every}
    assert [run.more for run in reduced] == [True] * (len(reduced) - 1) + [False]


def test_a_wrong_independence_relation_loses_classes() -> None:
    """The control."""
    programs = [[HERE, X], [HERE, X]]

    def wrong(one: frozenset[str], other: frozenset[str]) -> bool:
        return independent(one - {"x"}, other - {"x"})

    runs = list(explore(lambda path: execute(programs, path), independent=wrong))
    assert len(whole(runs)) < len(whole(executions_of(programs, reduce=True)))


def execute_fork(path: Path) -> str:
    """Two independent steps. The first one has an alternative that is known only once it is taken."""
    way = ""
    left = ["a", "b"]
    while left:
        step = path.choose([ExecutionStep(act) for act in left])
        left.remove(step.act)
        way += step.then and "!"
        path.took(frozenset(step.act), [ExecutionStep("a", "fault", 1)] if step == ExecutionStep("a") else ())
    return way


def test_alternatives_found_during_a_step_are_explored() -> None:
    assert [run.outcome for run in explore(execute_fork, reduce=False)].count("!") == 2
    outcomes = [run.outcome for run in explore(execute_fork)]
    assert sorted(outcome for outcome in outcomes if outcome is not None) == ["", "!"]


def test_given_steps_are_followed_by_the_first_possible_ones() -> None:
    path = FixedSteps([ExecutionStep("b")])
    assert execute_fork(path) == ""
    assert path.steps == (ExecutionStep("b"), ExecutionStep("a"))
    with pytest.raises(NotReproducible, match="step 1 should be c"):
        execute_fork(FixedSteps([ExecutionStep("c")]))


def test_a_nondeterministic_program_is_detected() -> None:
    def growing() -> Iterator[list[ExecutionStep]]:
        steps = [ExecutionStep("a"), ExecutionStep("b")]
        while True:
            yield list(steps)
            steps.append(ExecutionStep("c"))

    choices = growing()

    def execute(path: Path) -> None:
        path.choose(next(choices))
        path.took(frozenset())

    with pytest.raises(NotReproducible, match="the choice was"):
        list(explore(execute))


def test_a_step_that_disables_an_independent_step_is_detected() -> None:
    def execute(path: Path) -> None:
        first = path.choose([ExecutionStep("a"), ExecutionStep("b")])
        path.took(frozenset({first.act}))
        path.choose([ExecutionStep("c")])
        path.took(frozenset({"c"}))

    with pytest.raises(NotReproducible, match="'a' should be independent of b"):
        list(explore(execute))


def test_an_execution_ends_when_all_its_steps_are_asleep() -> None:
    path = Path(reduce=True)
    path.choose([ExecutionStep("a"), ExecutionStep("b")])
    path.took(frozenset({"a"}))
    path.choose([ExecutionStep("b")])
    path.took(frozenset({"b"}))
    assert path.again()
    assert path.choose([ExecutionStep("a"), ExecutionStep("b")]) == ExecutionStep("b")
    path.took(frozenset({"b"}))
    with pytest.raises(Redundant):
        path.choose([ExecutionStep("a")])
    assert path.choices == 1
