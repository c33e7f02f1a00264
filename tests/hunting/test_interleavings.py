"""The search through orders of steps, on toys whose orders can be counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import comb

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.hunting.interleavings import Explored, Given, Path, Redundant, Step, Unsteady, explore, independent
from tests.hunting.foata import Form, foata

Programs = Sequence[Sequence[frozenset[str]]]
"""What each process touches, step by step; a process is called p0, p1 ..."""


def play(programs: Programs, path: Path) -> tuple[str, ...]:
    """The order in which the steps came that touch x: what can be seen of an execution."""
    at = [0] * len(programs)
    seen: list[str] = []
    while left := [number for number, program in enumerate(programs) if at[number] < len(program)]:
        step = path.choose([Step(f"p{number}") for number in left])
        number = int(step.act[1:])
        touched = programs[number][at[number]] | {step.act}
        if "x" in touched:
            seen.append(f"{step.act}/{at[number]}")
        at[number] += 1
        path.took(touched)
    return tuple(seen)


def found(programs: Programs, *, reduce: bool) -> list[Explored[tuple[str, ...]]]:
    return list(explore(lambda path: play(programs, path), reduce=reduce))


def whole(runs: Sequence[Explored[tuple[str, ...]]]) -> list[Form]:
    return [foata(run.steps, run.touched) for run in runs if run.outcome is not None]


def orders(lengths: list[int]) -> int:
    """The multinomial coefficient."""
    product, total = 1, 0
    for length in lengths:
        total += length
        product *= comb(total, length)
    return product


HERE, X = frozenset[str](), frozenset({"x"})


@pytest.mark.parametrize(("one", "other"), [(1, 1), (2, 3), (4, 4)])
def test_two_that_have_nothing_in_common(one: int, other: int) -> None:
    """A round trip each to servers of their own, and the like."""
    programs = [[HERE] * one, [HERE] * other]
    assert len(whole(found(programs, reduce=False))) == comb(one + other, one)
    assert len(whole(found(programs, reduce=True))) == 1


def test_two_that_have_all_in_common() -> None:
    programs = [[X] * 3, [X] * 4]
    assert len(whole(found(programs, reduce=True))) == len(whole(found(programs, reduce=False))) == comb(7, 3)


def test_two_round_trips_to_one_server_come_in_two_orders() -> None:
    programs = [[HERE, X, HERE], [HERE, X, HERE]]
    assert len(whole(found(programs, reduce=False))) == comb(6, 3)
    assert len(whole(found(programs, reduce=True))) == 2


things = st.frozensets(st.sampled_from("xyz"), max_size=2)
toys = st.lists(st.lists(things, min_size=1, max_size=3), min_size=2, max_size=3)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(toys)
def test_each_class_once_and_none_forgotten(programs: Programs) -> None:
    every, reduced = found(programs, reduce=False), found(programs, reduce=True)
    assert len(every) == orders([len(program) for program in programs])
    assert len(whole(reduced)) == len(set(whole(reduced))), "each class once"
    assert set(whole(reduced)) == set(whole(every)), "no class is forgotten"
    assert {run.outcome for run in reduced} - {None} == {run.outcome for run in every}
    assert [run.more for run in reduced] == [True] * (len(reduced) - 1) + [False]


def test_a_wrong_independence_loses_classes() -> None:
    """The control."""
    programs = [[HERE, X], [HERE, X]]

    def wrong(one: frozenset[str], other: frozenset[str]) -> bool:
        return independent(one - {"x"}, other - {"x"})

    runs = list(explore(lambda path: play(programs, path), independent=wrong))
    assert len(whole(runs)) < len(whole(found(programs, reduce=True)))


def forked(path: Path) -> str:
    """Two steps that have nothing in common; the first could also go another way, which only it knows."""
    way = ""
    left = ["a", "b"]
    while left:
        step = path.choose([Step(act) for act in left])
        left.remove(step.act)
        way += step.then and "!"
        path.took(frozenset(step.act), [Step("a", "fault", 1)] if step == Step("a") else ())
    return way


def test_ways_that_a_step_turns_out_to_have_are_gone_too() -> None:
    assert [run.outcome for run in explore(forked, reduce=False)].count("!") == 2
    outcomes = [run.outcome for run in explore(forked)]
    assert sorted(outcome for outcome in outcomes if outcome is not None) == ["", "!"]


def test_given_steps_are_taken_and_then_the_first() -> None:
    path = Given([Step("b")])
    assert forked(path) == ""
    assert path.steps == (Step("b"), Step("a"))
    with pytest.raises(Unsteady, match="step 1 is to be c"):
        forked(Given([Step("c")]))


def test_what_goes_another_way_the_second_time_is_found_out() -> None:
    def growing() -> Iterator[list[Step]]:
        steps = [Step("a"), Step("b")]
        while True:
            yield list(steps)
            steps.append(Step("c"))

    choices = growing()

    def play(path: Path) -> None:
        path.choose(next(choices))
        path.took(frozenset())

    with pytest.raises(Unsteady, match="there was a choice of"):
        list(explore(play))


def test_a_step_that_takes_away_one_it_was_to_change_places_with_is_found_out() -> None:
    def play(path: Path) -> None:
        first = path.choose([Step("a"), Step("b")])
        path.took(frozenset({first.act}))
        path.choose([Step("c")])
        path.took(frozenset({"c"}))

    with pytest.raises(Unsteady, match="'a' was to change places with b"):
        list(explore(play))


def test_an_execution_is_cut_where_all_is_asleep() -> None:
    path = Path(reduce=True)
    path.choose([Step("a"), Step("b")])
    path.took(frozenset({"a"}))
    path.choose([Step("b")])
    path.took(frozenset({"b"}))
    assert path.again()
    assert path.choose([Step("a"), Step("b")]) == Step("b")
    path.took(frozenset({"b"}))
    with pytest.raises(Redundant):
        path.choose([Step("a")])
    assert path.choices == 1
