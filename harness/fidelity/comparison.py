"""Give the same random steps to a real server and to the simulated one, and shrink the steps after which they differ.

A step is a command, a fault, or a wait. The answers to it are compared as text, from which a server's own module has
removed what may differ: the order of items that no server promises, and the time that the machine took.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from harness.documents.fidelity import FidelityDivergence

Step = tuple[Any, ...]
"""Plain data whose ``repr`` shows what is sent or done."""
MOST_SHRINKS: Final = 200
"""Number of shorter sequences to try for one divergence."""
ATTEMPTS: Final = 3
"""A divergence counts if it occurs in each of so many executions. Real servers are not deterministic."""


class AnswerPair(NamedTuple):
    """Answers to one step, ready for comparison."""

    real: str
    simulated: str


class ServerPair(Protocol):
    """A real server that was started, and the simulated one of the same kind."""

    version: str
    """Name and version of the real server."""

    def steps(self, seed: int) -> Sequence[Step]:
        """Return the steps of a seed: the same in each call."""

    def run(self, steps: Sequence[Step]) -> Iterator[AnswerPair]:
        """Empty both servers, and yield the answers of both to each step. A caller may stop early."""

    def known(self, step: Step, answers: AnswerPair) -> str:
        """Return the title in ``docs/fidelity/`` of a known difference, "" if it is not known."""


class Server(Protocol):
    """One kind of server to compare."""

    name: str

    def missing(self) -> str:
        """Return what this machine lacks for it, and how to install it; "" if nothing."""

    def start(self) -> AbstractContextManager[ServerPair]:
        """Start the real server as a process of this machine, on the loopback interface."""


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a comparison: ``steps`` is the number whose answers were compared, ``seeds`` the sequences.

    ``differing`` is the number of steps with different answers, also of divergences that are stored once.
    ``interrupted`` says that SIGINT or SIGTERM ended it; it then has the sequences before.
    """

    server: str
    version: str
    seeds: int
    steps: int
    seconds: float
    differing: int = 0
    divergences: tuple[FidelityDivergence, ...] = ()
    interrupted: bool = False

    @property
    def unknown(self) -> tuple[FidelityDivergence, ...]:
        """Divergences that are not documented."""
        return tuple(one for one in self.divergences if not one.known)


def compare(
    name: str,
    pair: ServerPair,
    seeds: Iterable[int],
    *,
    budget_s: float = float("inf"),
    stored: Iterable[str] = (),
    on_seed: Callable[[Agreement], None] | None = None,
) -> Agreement:
    """Compare until the seeds or the seconds are used up.

    ``stored`` are titles of known differences of which an example is stored already: shrinking another one takes
    minutes. ``on_seed`` is called after each sequence with what was found so far.
    """
    began = time.monotonic()
    found = Agreement(server=name, version=pair.version, seeds=0, steps=0, seconds=0.0)
    titles = set(stored)
    try:
        for seed in seeds:
            if found.seconds >= budget_s:
                break
            one = _sequence(name, pair, seed, titles)
            titles.update(divergence.known for divergence in one.divergences if divergence.known)
            found = merged(found, replace(one, seconds=time.monotonic() - began - found.seconds))
            if on_seed is not None:
                on_seed(found)
    except KeyboardInterrupt:
        found = replace(found, interrupted=True)
    return found


def merged(one: Agreement, other: Agreement) -> Agreement:
    """Return both comparisons of a server as one.

    A divergence with the same last step and answers as an earlier one is not stored again, nor is one with the same
    title of a known difference.
    """
    found = {_same(divergence): divergence for divergence in reversed((*one.divergences, *other.divergences))}
    return replace(
        one,
        seeds=one.seeds + other.seeds,
        steps=one.steps + other.steps,
        seconds=one.seconds + other.seconds,
        differing=one.differing + other.differing,
        divergences=tuple(reversed(found.values())),
        interrupted=one.interrupted or other.interrupted,
    )


def _same(one: FidelityDivergence) -> tuple[str, ...]:
    return (one.known,) if one.known else (one.steps[-1], one.real, one.simulated)


def _sequence(name: str, pair: ServerPair, seed: int, titles: Container[str]) -> Agreement:
    """Compare the sequence of one seed."""
    sequence = pair.steps(seed)
    number, answers = _first_difference(pair, sequence)
    found = Agreement(server=name, version=pair.version, seeds=1, steps=number, seconds=0.0)
    if answers is None:
        return found
    if pair.known(sequence[number - 1], answers) in titles:
        return replace(found, differing=1)
    if not _repeats(pair, sequence):
        return replace(found, steps=len(sequence))  # an execution to the end had no difference
    return replace(found, differing=1, divergences=(_divergence(pair, seed, sequence[:number], answers),))


def _first_difference(pair: ServerPair, steps: Sequence[Step]) -> tuple[int, AnswerPair | None]:
    """Return the number of steps up to and with the first that differs, and its answers; all and None if none does."""
    number = 0
    for answers in pair.run(steps):
        number += 1
        if answers.real != answers.simulated:
            return number, answers
    return number, None


def _repeats(pair: ServerPair, steps: Sequence[Step]) -> bool:
    return all(_first_difference(pair, steps)[1] is not None for _ in range(ATTEMPTS - 1))


def _divergence(pair: ServerPair, seed: int, steps: Sequence[Step], answers: AnswerPair) -> FidelityDivergence:
    """Return the divergence, shrunk, with the answers that were seen then: it may not occur in every execution."""
    shrunk, answers = _shrunk(pair, steps, answers)
    return FidelityDivergence(
        seed=seed,
        steps=tuple(map(repr, shrunk)),
        real=answers.real,
        simulated=answers.simulated,
        known=pair.known(shrunk[-1], answers),
    )


def _shrunk(pair: ServerPair, steps: Sequence[Step], answers: AnswerPair) -> tuple[list[Step], AnswerPair]:
    """Remove ever smaller blocks of steps while the rest still differs (delta debugging, Zeller 1999).

    ``answers`` are those to the last step; returns the remaining steps with the answers to their last one.
    """
    kept = list(steps)
    size, tries = max(1, len(kept) // 2), 0
    while tries < MOST_SHRINKS:
        at, shorter = 0, False
        while at < len(kept) - 1 and tries < MOST_SHRINKS:
            candidate = kept[:at] + kept[min(at + size, len(kept) - 1) :]
            tries += 1
            number, found = _first_difference(pair, candidate)
            if found is None:
                at += size
            else:
                kept, answers, shorter = candidate[:number], found, True
        if size == 1 and not shorter:
            break
        size = max(1, size // 2)
    return kept, answers
