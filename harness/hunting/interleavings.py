"""Every order in which the steps of an execution can come: depth first, each execution from the beginning.

Two steps that touch nothing in common can change places, and nobody sees a difference: orders that differ in no more
than that are one *interleaving class* (a Mazurkiewicz trace). With ``reduce`` one order of each class is executed, by
sleep sets (Godefroid, "Partial-Order Methods for the Verification of Concurrent Systems", 1996, chapter 5): when all
that can follow a step has been tried, the step sleeps in what is tried after it, until a step comes that it could not
change places with. Where all that could come is asleep, the execution is cut: it could only repeat a class.

What a step touches is found out by taking it. That is the same in all orders of a class, since what came before it and
touches the same is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import msgspec

Outcome = TypeVar("Outcome")
Touched = frozenset[str]
EVERYTHING: Final = "*"
"""Among what a step touches: it changes places with none."""


class Step(msgspec.Struct, frozen=True, order=True):
    """What happens next: ``act``, and in the middle of it, after call number ``after`` (from 1) that ends in it,
    ``then``."""

    act: str
    then: str = ""
    after: int = 0

    def __str__(self) -> str:
        return f"{self.act}, and after call {self.after} {self.then}" if self.then else self.act


class Redundant(Exception):
    """Whatever could come next has been tried in an execution of the same class."""


class Unsteady(Exception):
    """An execution did not go as it had gone before, or a step that was said to change places with another did not."""


def independent(one: Touched, other: Touched) -> bool:
    """May two steps that touch this change places?"""
    return EVERYTHING not in one and EVERYTHING not in other and one.isdisjoint(other)


@dataclass(slots=True)
class _Node:
    """A moment of choice: the steps that there are, those that sleep from the beginning, those that were tried, with
    what they touch, and the one that is being tried."""

    steps: list[Step]
    asleep: dict[Step, Touched]
    taken: Step
    tried: dict[Step, Touched] = field(default_factory=dict)

    def next(self) -> Step | None:
        return next((step for step in self.steps if step not in self.asleep and step not in self.tried), None)


class Path:
    """Leads one execution after the other. Each asks it at every moment of choice (:meth:`choose`), and tells what the
    step touched (:meth:`took`) before it asks again or ends."""

    def __init__(self, *, reduce: bool, independent: Callable[[Touched, Touched], bool] = independent) -> None:
        self._reduce = reduce
        self._independent = independent
        self._nodes: list[_Node] = []
        self._depth = 0
        self.choices = 0
        """Moments at which there was more than one step to choose from."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """Those of the present execution, up to now."""
        return tuple([node.taken for node in self._nodes[: self._depth]])

    @property
    def touched(self) -> tuple[Touched, ...]:
        """What each of the steps touched."""
        return tuple([node.tried[node.taken] for node in self._nodes[: self._depth]])

    def choose(self, steps: Sequence[Step]) -> Step:
        """The one of these to take; raises :class:`Redundant` if none needs to be."""
        if self._depth == len(self._nodes):
            self._nodes.append(self._node(steps))
        node = self._nodes[self._depth]
        if [step for step in node.steps if not step.then] != list(steps):
            raise Unsteady(f"step {self._depth + 1}: there was a choice of {node.steps}, and now of {list(steps)}")
        self._depth += 1
        return node.taken

    def took(self, touched: Touched, also: Sequence[Step] = ()) -> None:
        """The step touched this; ``also`` are steps that could have been taken in its place, as it turns out: whatever
        wakes it wakes these, too."""
        node = self._nodes[self._depth - 1]
        # Next in turn: where the step sleeps later on nobody would find out about them, so they must sleep there, too.
        where = node.steps.index(node.taken) + 1
        node.steps[where:where] = [step for step in also if step not in node.steps]
        if node.tried.setdefault(node.taken, touched) != touched:
            raise Unsteady(f"{node.taken} touched {sorted(node.tried[node.taken])}, and now {sorted(touched)}")

    def again(self) -> bool:
        """Go back to the last choice that has something untried, for the next execution; False if there is none."""
        self._depth = 0
        while self._nodes:
            step = self._nodes[-1].next()
            if step is not None:
                self._nodes[-1].taken = step
                return True
            self._nodes.pop()
        return False

    def _node(self, steps: Sequence[Step]) -> _Node:
        asleep = self._asleep() if self._reduce else {}
        there = {step.act for step in steps}
        for step in asleep:
            if step.act not in there:
                raise Unsteady(f"{step.act!r} was to change places with {self._nodes[-1].taken}, which took it away")
        awake = next((step for step in steps if step not in asleep), None)
        if awake is None:
            raise Redundant
        self.choices += len(steps) > 1
        return _Node(list(steps), asleep, awake)

    def _asleep(self) -> dict[Step, Touched]:
        """What sleeps after the last step: what slept or was tried before it, unless it cannot change places with
        it."""
        if not self._nodes:
            return {}
        last = self._nodes[-1]
        touched = last.tried[last.taken]
        before = {**last.asleep, **{step: what for step, what in last.tried.items() if step != last.taken}}
        return {step: what for step, what in before.items() if self._independent(what, touched)}


@dataclass(frozen=True, slots=True)
class Explored(Generic[Outcome]):
    """One execution: its steps, what each touched, and what came of it; None if it was cut as redundant.

    ``choices`` counts the moments, in all executions up to now, at which there was more than one step to choose from;
    ``more``: this is not the last execution."""

    steps: tuple[Step, ...]
    touched: tuple[Touched, ...]
    outcome: Outcome | None
    choices: int
    more: bool


def explore(
    play: Callable[[Path], Outcome],
    *,
    reduce: bool = True,
    independent: Callable[[Touched, Touched], bool] = independent,
) -> Iterator[Explored[Outcome]]:
    """Execute all there is, ``play`` by ``play``; without ``reduce`` every order of every class."""
    path = Path(reduce=reduce, independent=independent)
    more = True
    while more:
        outcome: Outcome | None
        try:
            outcome = play(path)
        except Redundant:
            outcome = None
        steps, touched = path.steps, path.touched
        more = path.again()
        yield Explored(steps, touched, outcome, path.choices, more)


class Given(Path):
    """Leads a single execution along steps that are known, and then takes the first there is."""

    def __init__(self, steps: Sequence[Step]) -> None:
        super().__init__(reduce=False)
        self._given = list(steps)

    def choose(self, steps: Sequence[Step]) -> Step:
        if self._depth < len(self._given):
            step = self._given[self._depth]
            if step.act not in {one.act for one in steps}:
                raise Unsteady(f"step {self._depth + 1} is to be {step}, and there is a choice of {list(steps)}")
            self._nodes.append(_Node([step, *steps], {}, step))
            self._depth += 1
            return step
        return super().choose(steps)
