"""Histories to measure, with their models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Final, Literal

from benchmarks.linearizability.generate import Shape, Workload

QUICK_LOCK: Final = (1_000, 10_000, 100_000)
LOCK: Final = (*QUICK_LOCK, 1_000_000)
LONGEST: Final = 10_000_000
QUICK_REGISTER: Final = (100, 300, 1_000)
REGISTER: Final = (*QUICK_REGISTER, 10_000, 100_000)
CLIENTS: Final = (5, 20, 50)
USUAL: Final = 20
UNKNOWN: Final = (0, 1, 5, 50, 500)
"""Numbers of calls after whose unknown outcome the client goes on."""
PLANTED: Final = 15
"""Crashed clients of the double hold among a thousand operations."""


@dataclass(frozen=True, slots=True)
class Case:
    shape: Shape
    model: str
    suffix: Literal[".jsonl", ".edn"] = ".jsonl"

    @property
    def shared(self) -> bool:
        """True if Porcupine gets it too. The program around it reads JSON lines only, and has no room for the longest:
        Porcupine remembers a bit for each call of the history with each step that it takes."""
        return self.suffix == ".jsonl" and self.shape.operations < LONGEST

    @property
    def name(self) -> str:
        """Tells cases apart."""
        return f"{self.shape.name}{self.suffix} {self.model}"

    @property
    def series(self) -> Case:
        """The same of any length: what one program cannot decide, it cannot for more operations."""
        return replace(self, shape=replace(self.shape, operations=0))


def quick() -> list[Case]:
    """A minute's worth."""
    return [
        *_cases("owner-mutex", "lock", QUICK_LOCK, [(USUAL, 10, False)]),
        *_cases("owner-mutex", "lock", QUICK_LOCK[:-1], [(USUAL, 0, True)]),
        *_cases("mutex", "lock", QUICK_LOCK[:-1], [(USUAL, 10, False)]),
        *planted((USUAL,)),
        *_cases("cas-register", "cas-register", QUICK_REGISTER, [(USUAL, 5, False)]),
        *_cases("cas-register", "cas-register", QUICK_REGISTER[-1:], [(5, 5, False), (50, 5, False)]),
        *_cases("cas-register", "cas-register", QUICK_REGISTER[:1], [(USUAL, 5, True)]),
        *edn(),
    ]


def full() -> list[Case]:
    """All of it: about an hour, most of it Porcupine's time-outs."""
    some = list(product((USUAL,), (0, 10), (False, True)))
    return [
        *planted(CLIENTS),
        *_cases("owner-mutex", "lock", (LONGEST,), [(USUAL, 0, False), (USUAL, 10, False), (USUAL, 10, True)]),
        *_cases("mutex", "lock", (LONGEST,), [(USUAL, 10, False)]),
        *_cases("fenced-mutex", "lock", (LONGEST,), [(USUAL, 10, False)]),
        *_cases("owner-mutex", "lock", LOCK, product(CLIENTS, (0, 10, 100), (False, True))),
        *_cases("mutex", "lock", LOCK, some),
        *_cases("fenced-mutex", "lock", LOCK, some),
        *_cases("cas-register", "cas-register", REGISTER, product(CLIENTS, (0, 5, 10), (False, True))),
        *_cases("register", "register", REGISTER, product((USUAL,), (0, 5, 10), (False, True))),
        *edn(),
    ]


def unknown() -> list[Case]:
    """Locks whose clients go on after calls of unknown outcome, right and with a double hold. A mutex without owners
    and a semaphore have only right ones: any client's unknown release explains one more holder."""
    models: dict[str, Workload] = {
        "owner-mutex": "lock", "reentrant-mutex": "lock", "fenced-mutex": "lock", "lease-mutex": "lock",
        "rw-lock": "rw-lock", "fifo-lock": "queued-lock", "mutex": "lock", "semaphore": "semaphore",
    }  # fmt: skip
    return [
        Case(Shape(workload, operations, USUAL, wrong=wrong, unknown=count), model)
        for model, workload in models.items()
        for count, wrong in product(UNKNOWN, (False, True))
        for operations in LOCK
        if not (wrong and model in ("mutex", "semaphore"))
    ]


def planted(clients: tuple[int, ...]) -> Iterator[Case]:
    """One double hold among a thousand operations, and clients that crashed."""
    return _cases("owner-mutex", "lock", (1_000,), product(clients, (PLANTED,), (True,)))


def edn() -> list[Case]:
    """As Jepsen writes it."""
    return [
        Case(Shape("lock", 100_000, USUAL, 10), "owner-mutex", ".edn"),
        Case(Shape("cas-register", 100_000, USUAL, 0), "cas-register", ".edn"),
    ]


def _cases(
    model: str, workload: Workload, sizes: tuple[int, ...], kinds: Iterable[tuple[int, int, bool]]
) -> Iterator[Case]:
    """``kinds`` are the numbers of clients and of those that crash, and whether it is wrong; lengths rise."""
    for clients, crashed, wrong in kinds:
        for operations in sizes:
            yield Case(Shape(workload, operations, clients, crashed, wrong), model)
