"""A server to compare whose two sides are functions, so that tests choose where they differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random

from harness.fidelity.comparison import AnswerPair, Step

Side = Callable[[list[Step]], str]
"""Returns the answer to the last of the steps so far."""


class FakePair:
    version = "fake-server 1.0"

    def __init__(self, simulated: Side, documented: Callable[[Step], str]) -> None:
        self.simulated = simulated
        self.documented = documented
        self.executed = 0

    def steps(self, seed: int) -> Sequence[Step]:
        rng = Random(seed)
        return [("set", rng.randint(0, 99)) for _ in range(50)]

    def run(self, steps: Sequence[Step]) -> Iterator[AnswerPair]:
        self.executed += 1
        done: list[Step] = []
        for step in steps:
            done.append(step)
            yield AnswerPair("ok", self.simulated(done))

    def known(self, step: Step, answers: AnswerPair) -> str:
        assert answers.real != answers.simulated
        return self.documented(step)


class FakeServer:
    """The real side answers "ok" to everything."""

    name = "fake"

    def __init__(self, simulated: Side, *, missing: str = "", documented: Callable[[Step], str] = lambda _: "") -> None:
        self.pair = FakePair(simulated, documented)
        self.lacking = missing

    def missing(self) -> str:
        return self.lacking

    @contextmanager
    def start(self) -> Iterator[FakePair]:
        yield self.pair


def agrees(_done: list[Step]) -> str:
    return "ok"


def forgets_after_two_large_numbers(done: list[Step]) -> str:
    """Differ in the third step with a number of 90 or more."""
    return "ok" if done[-1][1] < 90 or sum(number >= 90 for _, number in done) < 3 else f"lost {len(done) >= 0}"
