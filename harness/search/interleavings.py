"""Enumerate the orders in which the steps of an execution can come: depth first, each execution from the beginning.

Two steps that touch nothing in common are independent: swapping them changes nothing. Orders that differ only by such
swaps form one *interleaving class* (a Mazurkiewicz trace). With ``reduce``, one order of each class is executed, by
sleep sets (Godefroid, "Partial-Order Methods for the Verification of Concurrent Systems", 1996, chapter 5): after all
continuations of a step have been tried, the step sleeps in the alternatives tried next, until a step comes that is not
independent of it. If every possible step is asleep, the execution is cut, since it could only repeat a class.

What a step touches is known only after taking it. It is the same in all orders of a class, since the earlier steps that
touch the same are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

import msgspec

from harness.errors import UNKNOWN, HarnessError

Outcome = TypeVar("Outcome")
Touched = frozenset[str]
EVERYTHING: Final = "*"
"""Among what a step touches: the step is independent of none."""


class ExecutionStep(msgspec.Struct, frozen=True, order=True):
    """One step of an execution: ``act``; within it ``then`` (if any), after call number ``after`` (from 1) ended."""

    act: str
    then: str = ""
    after: int = 0

    def __str__(self) -> str:
        return f"{self.act}, and after call {self.after} {self.then}" if self.then else self.act


class Redundant(Exception):
    """Raised to cut an execution: every possible next step was tried in an execution of the same class."""


class NotReproducible(HarnessError):
    """An execution differed from an earlier one with the same steps, or two independent steps were not independent."""

    exit_status = UNKNOWN


def independent(one: Touched, other: Touched) -> bool:
    """Return whether two steps that touch this can be swapped."""
    return EVERYTHING not in one and EVERYTHING not in other and one.isdisjoint(other)


@dataclass(slots=True)
class _Node:
    """A moment of choice: the possible steps, those asleep from the beginning, those tried, and the one being tried."""

    steps: list[ExecutionStep]
    asleep: dict[ExecutionStep, Touched]
    taken: ExecutionStep
    tried: dict[ExecutionStep, Touched] = field(default_factory=dict)

    def next(self) -> ExecutionStep | None:
        return next((step for step in self.steps if step not in self.asleep and step not in self.tried), None)


class Path:
    """Guide one execution after the other.

    Each execution calls :meth:`choose` at every moment of choice, and then :meth:`took` with what the step touched.
    """

    def __init__(self, *, reduce: bool, independent: Callable[[Touched, Touched], bool] = independent) -> None:
        self._reduce = reduce
        self._independent = independent
        self._nodes: list[_Node] = []
        self._depth = 0
        self.choices = 0
        """Moments at which there was more than one step to choose from."""

    @property
    def steps(self) -> tuple[ExecutionStep, ...]:
        """Return the steps of the current execution so far."""
        return tuple([node.taken for node in self._nodes[: self._depth]])

    @property
    def touched(self) -> tuple[Touched, ...]:
        """Hosts, links and other items that each step of the current execution touched."""
        return tuple([node.tried[node.taken] for node in self._nodes[: self._depth]])

    def choose(self, steps: Sequence[ExecutionStep]) -> ExecutionStep:
        """Return the step to take; raise :class:`Redundant` if none of them is needed."""
        if self._depth == len(self._nodes):
            self._nodes.append(self._node(steps))
        node = self._nodes[self._depth]
        if [step for step in node.steps if not step.then] != list(steps):
            raise NotReproducible(
                f"step {self._depth + 1}: the choice was {node.steps} before, and is {list(steps)} now"
            )
        self._depth += 1
        return node.taken

    def took(self, touched: Touched, also: Sequence[ExecutionStep] = ()) -> None:
        """Record what the step touched.

        ``also`` are alternatives to the step that became known only by taking it; whatever wakes it wakes them, too.
        """
        node = self._nodes[self._depth - 1]
        # Insert them next: where the step sleeps later, they could not become known, so they must sleep there, too.
        where = node.steps.index(node.taken) + 1
        node.steps[where:where] = [step for step in also if step not in node.steps]
        if node.tried.setdefault(node.taken, touched) != touched:
            raise NotReproducible(f"{node.taken} touched {sorted(node.tried[node.taken])}, and now {sorted(touched)}")

    def again(self) -> bool:
        """Go back to the last choice with an untried step, for the next execution; return False if there is none."""
        self._depth = 0
        while self._nodes:
            step = self._nodes[-1].next()
            if step is not None:
                self._nodes[-1].taken = step
                return True
            self._nodes.pop()
        return False

    def _node(self, steps: Sequence[ExecutionStep]) -> _Node:
        asleep = self._asleep() if self._reduce else {}
        there = {step.act for step in steps}
        for step in asleep:
            if step.act not in there:
                raise NotReproducible(
                    f"{step.act!r} should be independent of {self._nodes[-1].taken}, but is not possible after it"
                )
        awake = next((step for step in steps if step not in asleep), None)
        if awake is None:
            raise Redundant
        self.choices += len(steps) > 1
        return _Node(list(steps), asleep, awake)

    def _asleep(self) -> dict[ExecutionStep, Touched]:
        """Return the steps asleep after the last one: independent of it, and asleep or tried before."""
        if not self._nodes:
            return {}
        last = self._nodes[-1]
        touched = last.tried[last.taken]
        before = {**last.asleep, **{step: what for step, what in last.tried.items() if step != last.taken}}
        return {step: what for step, what in before.items() if self._independent(what, touched)}


@dataclass(frozen=True, slots=True)
class Execution(Generic[Outcome]):
    """One execution: its steps, what each touched, and its outcome (None if it was cut as redundant).

    ``choices`` counts the moments with more than one possible step, in all executions so far. ``more``: this is not the
    last execution.
    """

    steps: tuple[ExecutionStep, ...]
    touched: tuple[Touched, ...]
    outcome: Outcome | None
    choices: int
    more: bool


def explore(
    execution: Callable[[Path], Outcome],
    *,
    reduce: bool = True,
    independent: Callable[[Touched, Touched], bool] = independent,
) -> Iterator[Execution[Outcome]]:
    """Yield all executions. ``execution`` executes one along a path; without ``reduce``, every order of every class."""
    path = Path(reduce=reduce, independent=independent)
    more = True
    while more:
        outcome: Outcome | None
        try:
            outcome = execution(path)
        except Redundant:
            outcome = None
        steps, touched = path.steps, path.touched
        more = path.again()
        yield Execution(steps, touched, outcome, path.choices, more)


class FixedSteps(Path):
    """Guide a single execution along given steps; after those, always take the first possible one."""

    def __init__(self, steps: Sequence[ExecutionStep]) -> None:
        super().__init__(reduce=False)
        self._given = list(steps)

    def choose(self, steps: Sequence[ExecutionStep]) -> ExecutionStep:
        if self._depth < len(self._given):
            step = self._given[self._depth]
            if step.act not in {one.act for one in steps}:
                raise NotReproducible(f"step {self._depth + 1} should be {step}, but the choice is {list(steps)}")
            self._nodes.append(_Node([step, *steps], {}, step))
            self._depth += 1
            return step
        return super().choose(steps)
