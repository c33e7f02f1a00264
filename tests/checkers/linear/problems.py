"""Small problems for the tests of the search (all, random, or with a known order), and the checks of its answers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from harness.checkers.linearizability.problem import LOOSE, MAY, MUST, Budget, KeyProblem, SearchAnswer
from harness.checkers.linearizability.search import Searcher
from harness.checkers.models import (
    CasRegister,
    Either,
    FencedMutex,
    FifoLock,
    Inconsistent,
    Model,
    Mutex,
    Operation,
    OwnerMutex,
    ReadWriteLock,
    ReentrantMutex,
    Register,
    Semaphore,
)
from harness.history.calls import NEVER
from tests.checkers.linear.brute import linearizable

BUDGET: Final = Budget(20.0, 2**24)
Window = tuple[int, int, int]
"""Kind, and the positions of invocation and return."""


class Sum(Model):
    """Adds numbers modulo a limit."""

    fs = frozenset({"add", "read"})

    def __init__(self, limit: int = 97) -> None:
        self.limit = limit

    @property
    def initial(self) -> int:
        return 0

    def step(self, state: int, operation: Operation) -> int | Inconsistent:
        if operation.f == "read":
            return state if state == operation.result else Inconsistent(f"it is {state}")
        return (state + int(operation.argument)) % self.limit


class Lossy(Model):
    """A register that may lose writes and forget its value."""

    fs = frozenset({"read", "write", "forget"})

    @property
    def initial(self) -> int:
        return 0

    def step(self, state: int, operation: Operation) -> int | Inconsistent | Either:
        if operation.f == "read":
            return state if state == operation.result else Inconsistent(f"it is {state}")
        if operation.f == "forget":
            return Either(frozenset({state, 0}))
        return Either(frozenset({state, operation.argument}))


def both(f: str, *, clients: int = 2, **said: Any) -> list[Operation]:
    return [Operation(f, client=f"c{number}", **said) for number in range(clients)]


def register_operations(*, cas: bool) -> list[Operation]:
    reads = [Operation("read", result=value) for value in (None, 0, 1)]
    swaps = [Operation("cas", [old, new]) for old, new in itertools.product((0, 1), repeat=2)]
    return [*reads, Operation("write", 0), Operation("write", 1), *(swaps if cas else ())]


LOCKING: Final = [Operation("acquire"), Operation("release")]
OWNED: Final = [*both("acquire"), *both("release")]
FENCED: Final = [*(Operation("acquire", result={"fence": fence}, client=f"c{fence % 2}") for fence in (1, 2, 3))]
ALPHABETS: Final[dict[str, tuple[Model, list[Operation]]]] = {
    "register": (Register(), register_operations(cas=False)),
    "cas-register": (CasRegister(), register_operations(cas=True)),
    "mutex": (Mutex(), LOCKING),
    "semaphore": (Semaphore(2), LOCKING),
    "owner-mutex": (OwnerMutex(), OWNED),
    "reentrant-mutex": (ReentrantMutex(2), OWNED),
    "fenced-mutex": (FencedMutex(), [*FENCED, *both("acquire", result={}), *both("release")]),
    "fifo-lock": (FifoLock(), [*OWNED, *both("enqueue"), *both("cancel")]),
    "rw-lock": (ReadWriteLock(), [*both("acquire-read"), *both("acquire-write"), *both("release")]),
    "lossy": (Lossy(), [*register_operations(cas=False)[1:], Operation("write", 2), Operation("forget")]),
}


def shapes(count: int) -> list[tuple[Window, ...]]:
    """Return every way in which this many calls of all kinds can lie in time, ordered by invocation. Calls of unknown
    outcome have no return, so some ways are equal."""
    found: set[tuple[Window, ...]] = set()
    for events in _events(count):
        for kinds in itertools.product((MUST, MAY, LOOSE), repeat=count):
            left = [e for e in events if e[1] == 0 or kinds[e[0]] != MAY]
            at = {event: position for position, event in enumerate(left)}
            found.add(tuple((kinds[c], at[c, 0], at.get((c, 1), NEVER)) for c in range(count)))
    return sorted(found)


def _events(count: int) -> Iterator[tuple[tuple[int, int], ...]]:
    def more(so_far: tuple[tuple[int, int], ...], begun: int, going: frozenset[int]) -> Iterator[Any]:
        if begun < count:
            yield from more((*so_far, (begun, 0)), begun + 1, going | {begun})
        for call in going:
            yield from more((*so_far, (call, 1)), begun, going - {call})
        if begun == count and not going:
            yield so_far

    return more((), 0, frozenset())


def put(windows: Sequence[Window], which: Sequence[int], operations: Sequence[Operation]) -> KeyProblem:
    kinds, invoked, returned = zip(*windows, strict=True) if windows else ((), (), ())
    return KeyProblem(
        np.array(invoked, dtype=np.int64),
        np.array(returned, dtype=np.int64),
        np.array(kinds, dtype=np.int8),
        np.array(which, dtype=np.int32),
        tuple(operations),
        np.arange(len(windows)),
    )


def agree(part: KeyProblem, model: Model, searcher: Searcher) -> bool:
    """Assert that the search gives the verdict of brute force, and check the rest of its answer."""
    answer = searcher.search(part, BUDGET)
    if answer.valid is not linearizable(part, model):
        return False
    replay(part, model, answer)
    if not answer.valid:
        before, reached = until(part, answer.stuck), until(part, answer.stuck, included=False)
        assert not linearizable(before, model)
        assert linearizable(reached, model)
        assert part.returned[answer.unplaced] == answer.stuck
        assert part.kind[answer.unplaced] == MUST
    return True


def until(part: KeyProblem, position: int, *, included: bool = True) -> KeyProblem:
    """Return what was known by ``position``: a call that returns later may or may not have taken effect."""
    cut = part.pick(part.invoked < position)
    later = (cut.returned > position) | (not included) & (cut.returned == position)
    kind = np.where(later, MAY, cut.kind).astype(np.int8)
    returned = np.where(later, NEVER, cut.returned)
    return KeyProblem(cut.invoked, returned, kind, cut.operation, cut.operations, cut.rows)


def replay(part: KeyProblem, model: Model, answer: SearchAnswer) -> None:
    """Assert that the order in an answer is valid."""
    assert len(set(answer.order)) == len(answer.order) == len(answer.states)
    state, latest = model.initial, -1
    for call, after in zip(answer.order, answer.states, strict=True):
        found = model.step(state, part.operations[part.operation[call]])
        assert not isinstance(found, Inconsistent)
        assert after in found.states if isinstance(found, Either) else after == found
        latest = max(latest, int(part.invoked[call]))
        assert part.returned[call] > latest
        state = after
    if answer.valid is not None:
        must = np.flatnonzero((part.kind == MUST) & (part.returned < (NEVER if answer.valid else answer.stuck)))
        assert set(must.tolist()) <= set(answer.order)


def draw_problem(rng: random.Random, model: Model, operations: Sequence[Operation], most: int) -> KeyProblem:
    """Draw a problem of up to this many calls, with up to four pending at a time, or all of them."""
    count, width = rng.randrange(most + 1), rng.choice([2, 3, 4, most])
    windows: list[list[int]] = []
    going: list[int] = []
    for position in itertools.count():
        if len(windows) == count and not going:
            break
        if len(windows) < count and (not going or (len(going) < width and rng.random() < 0.6)):
            kind = rng.choices([MUST, MAY, LOOSE], [6, 2, 1])[0]
            if kind != MAY:
                going.append(len(windows))
            windows.append([kind, position, NEVER])
        else:
            windows[going.pop(rng.randrange(len(going)))][2] = position
    which = [rng.randrange(len(operations)) for _ in windows]
    return put([(kind, begin, end) for kind, begin, end in windows], which, operations)


def draw_ordered_problem(rng: random.Random, model: Model, operations: Sequence[Operation], most: int) -> KeyProblem:
    """Draw a problem of up to this many calls that has an order. In half of the problems one operation is then
    changed."""
    state, which, times = model.initial, [], []
    width = rng.choice([1.0, 2.0, 4.0])
    for number in range(rng.randrange(most + 1)):
        found: Any = Inconsistent("")
        while isinstance(found, Inconsistent):
            operation = rng.randrange(len(operations))
            found = model.step(state, operations[operation])
        state = rng.choice(sorted(found.states, key=str)) if isinstance(found, Either) else found
        which.append(operation)
        times.append((number - width * rng.random(), number + width * rng.random()))
    if which and rng.random() < 0.5:
        which[rng.randrange(len(which))] = rng.randrange(len(operations))
    kinds = [rng.choices([MUST, MAY, LOOSE], [4, 1, 1])[0] for _ in which]
    moments = sorted(
        [begin for begin, _ in times] + [end for (_, end), kind in zip(times, kinds, strict=True) if kind != MAY]
    )
    at = {moment: position for position, moment in enumerate(moments)}
    order = sorted(range(len(which)), key=times.__getitem__)
    windows = [(kinds[call], at[times[call][0]], at.get(times[call][1], NEVER)) for call in order]
    return put(windows, [which[call] for call in order], operations)
