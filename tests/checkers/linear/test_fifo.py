"""The quick algorithm for FIFO locks, compared with brute force."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from itertools import combinations_with_replacement
from typing import Any, Final

import numpy as np
import pytest

from harness.checkers.linearizability import fifo
from harness.checkers.linearizability.problem import MAY, MUST, KeyProblem
from harness.checkers.models import FifoLock, Operation
from harness.history.calls import NEVER, NONE, Calls
from tests.checkers.linear.brute import linearizable
from tests.checkers.linear.build import calls, mutant

FS: Final = ("enqueue", "acquire", "release", "cancel")
PROGRAMS: Final = ("a", "e", "ar", "ea", "ec", "ear", "era", "aer", "eca", "ara")
"""Actions of a client, by first letters."""
OPERATIONS: Final = tuple(Operation(f, client=f"c{client}") for client in range(4) for f in FS)
Row = tuple[int, int, int]
"""Operation (a number into OPERATIONS), invoked, returned."""
Small = tuple[Row, ...]


def all_histories(programs: tuple[str, ...]) -> Iterator[Small]:
    """Yield every history of clients with these programs, entry by entry."""

    def grown(done: tuple[int, ...], order: tuple[int, ...]) -> Iterator[Small]:
        if len(order) == 2 * sum(map(len, programs)):
            yield interleave(programs, order)
        for client, program in enumerate(programs):
            if done[client] < 2 * len(program):
                more = (*done[:client], done[client] + 1, *done[client + 1 :])
                yield from grown(more, (*order, client))

    return grown((0,) * len(programs), ())


def interleave(programs: tuple[str, ...], order: tuple[int, ...]) -> Small:
    """Return the history in which ``order`` names the client of each entry."""
    places: list[list[int]] = [[] for _ in programs]
    for position, client in enumerate(order):
        places[client].append(position)
    rows = [
        (4 * client + "earc".index(letter), places[client][2 * number], places[client][2 * number + 1])
        for client, program in enumerate(programs)
        for number, letter in enumerate(program)
    ]
    return tuple(sorted(rows, key=lambda row: row[1]))


def draw_history(seed: int, clients: int, size: int) -> Small:
    """Draw a history of up to ``size`` calls that a lock may produce, sometimes with two entries exchanged."""
    dice = random.Random(seed)
    queue: list[int] = []
    owner = NONE
    spots: list[tuple[int, str]] = []
    for _ in range(dice.randint(3, size)):
        free = [client for client in range(clients) if client not in queue and client != owner]
        able = [(client, "e") for client in free] + [(client, "c") for client in queue]
        able += [(owner, "r")] * 2 if owner != NONE else [(client, "a") for client in queue[:1] * 3 or free]
        client, what = dice.choice(able)
        spots.append((client, what))
        queue = [other for other in queue if other != client] + [client] * (what == "e")
        owner = {"a": client, "r": NONE}.get(what, owner)
    if dice.random() < 0.5:
        one, two = dice.randrange(len(spots)), dice.randrange(len(spots))
        spots[one], spots[two] = spots[two], spots[one]
    wide, ends, rows = dice.choice((0.5, 1.5, 4.0)), [-9.0] * clients, []
    for at, (client, what) in enumerate(spots):
        following = next((other for other in range(at + 1, len(spots)) if spots[other][0] == client), at + 9)
        begin = max(at - dice.expovariate(1 / wide), ends[client])
        ends[client] = min(at + dice.expovariate(1 / wide), (at + following) / 2)
        rows.append((4 * client + "earc".index(what), begin, ends[client]))
    order = {at: number for number, at in enumerate(sorted({at for row in rows for at in row[1:]}))}
    return tuple(sorted(((f, 2 * order[begin] + 1, 2 * order[end]) for f, begin, end in rows), key=lambda row: row[1]))


def together(histories: list[Small]) -> Calls:
    """Return one history in which each of ``histories`` has a key of its own."""
    table = np.array([row for history in histories for row in history], dtype=np.int64).reshape(-1, 3)
    none, zeros = np.full(len(table), NONE, dtype=np.int32), np.zeros(len(table), dtype=np.int64)
    return Calls(
        fs=list(FS),
        keys=[str(number) for number in range(len(histories))],
        clients=["c0", "c1", "c2", "c3"],
        f=(table[:, 0] % 4).astype(np.int32),
        key=np.repeat(np.arange(len(histories), dtype=np.int32), [len(history) for history in histories]),
        client=(table[:, 0] // 4).astype(np.int32),
        process=zeros,
        known=(table[:, 2] != NEVER).astype(np.int8),
        invoked=table[:, 1],
        returned=table[:, 2],
        began=zeros,
        ended=zeros,
        argument=none,
        result=none,
        fence=zeros[:0],
        lease=zeros[:0],
        good=none[:0].astype(np.int8),
    )


def right(history: Small, until: int = NEVER) -> bool:
    """Return the verdict of brute force on what has been recorded up to and including ``until``."""
    rows = [(f, begin, end if end <= until else NEVER) for f, begin, end in history if begin <= until]
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    kind = np.where(table[:, 2] == NEVER, MAY, MUST).astype(np.int8)
    which = table[:, 0].astype(np.int32)
    return linearizable(
        KeyProblem(table[:, 1], table[:, 2], kind, which, OPERATIONS, np.arange(len(table))), FifoLock()
    )


def wrong_ones(histories: list[Small], module: Any = fifo) -> dict[int, Any]:
    outcome = module.check(together(histories), FifoLock())
    assert not outcome.undecided
    return {failure.key: failure for failure in outcome.failures}


def compare(histories: list[Small]) -> int:
    """Compare the verdict, the failing entry and the failing part with brute force. Return the number of failing
    histories."""
    failures = wrong_ones(histories)
    first = np.cumsum([0, *map(len, histories)])
    for number, history in enumerate(histories):
        assert right(history) == (number not in failures), history
        if number in failures:
            position = failures[number].position
            part = tuple(history[row - int(first[number])] for row in failures[number].rows)
            assert not right(part, position), (history, part)
            assert right(history, position - 1), (history, position)
    return len(failures)


def test_brute_force_agrees_on_short_programs_of_two_clients() -> None:
    short = [program for program in PROGRAMS if len(program) < 3]
    histories = [found for pair in combinations_with_replacement(short, 2) for found in all_histories(pair)]
    assert len(histories) == 528
    assert compare(histories) > 100


TRIPLES: Final = (("e", "e", "ea"), ("ea", "ea", "a"), ("a", "ec", "e"))


@pytest.mark.slow
def test_brute_force_agrees_on_programs() -> None:
    """All pairs of programs, and some triples."""
    programs = [*combinations_with_replacement(PROGRAMS, 2), *TRIPLES]
    histories = [found for clients in programs for found in all_histories(clients)]
    assert len(histories) == 21808
    assert compare(histories) > 4000


@pytest.mark.parametrize(
    "number", [2000, pytest.param(20_000, marks=pytest.mark.slow), pytest.param(100_000, marks=pytest.mark.long)]
)
def test_brute_force_agrees_on_drawn_histories(number: int) -> None:
    wrong = compare([draw_history(seed, 2 + seed % 3, 10) for seed in range(number)])
    assert number / 10 < wrong < number * 9 / 10


MUTANTS: Final = {
    "whoever joined earlier is no rival": (" or joined >= rival", ""),
    "who gave up is forgotten": ("blocked = max(blocked, vain[before][1])", "pass"),
    "who gave up blocks those before it too": ("vain[before][0] < joined:", "vain[before][0] < begun:"),
    "who holds is forgotten": ("free = unit.ended[0]", "pass"),
    "a grant without a place in the queue pushes in": (
        "joined = max(joined, free, begun, blocked) if direct",
        "joined = joined if direct",
    ),
    "who pushes in looks once": ("if direct:\n                joined = max(joined, blocked)", "pass"),
    "what fits nowhere is fine": ("return units.misfit", "return NEVER"),
}


@cache
def histories_for_mutants() -> tuple[list[Small], dict[int, Any]]:
    histories = [draw_history(seed, 2 + seed % 3, 10) for seed in range(1500)]
    return histories, wrong_ones(histories)


@pytest.mark.few(3)
@pytest.mark.parametrize("change", MUTANTS.values(), ids=MUTANTS.keys())
def test_a_mutated_rule_is_caught(change: tuple[str, str]) -> None:
    """At least the failing entry differs."""
    histories, found = histories_for_mutants()
    others = wrong_ones(histories, mutant(fifo, change))
    assert {key: one.position for key, one in others.items()} != {key: one.position for key, one in found.items()}


def test_a_grant_out_of_order_among_many_calls_is_explained_by_a_few_calls() -> None:
    turns = [(0, "enqueue"), (1, "enqueue"), (0, "acquire"), (0, "release"), (1, "acquire"), (1, "release")]
    wrong = [(0, "enqueue"), (1, "enqueue"), (1, "acquire"), (1, "release")]
    entries = [(who, kind, f) for who, f in turns * 500 + wrong + turns[2:4] * 1 for kind in ("invoke", "ok")]
    (failure,) = fifo.check(calls(entries), FifoLock()).failures
    assert failure.position == 6005
    assert {3000, 3001, 3002} <= set(failure.rows)
    assert len(failure.rows) < 10


def test_unknown_outcomes_and_clients_in_two_places_are_left_to_the_search() -> None:
    held = [(0, "invoke", "acquire", None, "x"), (0, "ok", "acquire", None, "x")]
    open_call = [(1, "invoke", "enqueue", None, "y")]
    twice = [(process, kind, "enqueue", None, "z") for kind in ("invoke", "ok") for process in (2, 3)]
    found = calls([*held, *open_call, *twice], clients={3: 2})
    assert fifo.check(found, FifoLock()).undecided == (1, 2)
    assert not fifo.check(found, FifoLock()).failures
    assert not fifo.check(calls([]), FifoLock()).undecided
