"""The resource checker against a simulated register and stock.

Exhaustive: every order of read and write of 3 clients (90) and of two rounds of 2 clients (70), each write accepted,
applied with its answer lost, or lost altogether: 90 x 27 + 70 x 81 = 8,100 histories; 5 takes of a stock of up to 3:
3^5 x 4 = 972.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from harness.checkers.resource import ResourceChecker
from harness.history import History
from tests.checkers.story import Story
from tests.checkers.test_holds import orders

Step = tuple[int, str, str, int]
"""Client, f, outcome, value read or written."""


def run(order: tuple[int, ...], outcomes: tuple[str, ...]) -> list[Step]:
    """Return what each client saw: a read of the counter, then a write of it plus one, in this order. Writes that are
    not applied change nothing."""
    register, writes = 0, 0
    seen: dict[int, int] = {}
    steps: list[Step] = []
    for client in order:
        if client not in seen:
            seen[client] = register
            steps.append((client, "read", "ok", register))
            continue
        value, outcome = seen.pop(client) + 1, outcomes[writes]
        writes += 1
        steps.append((client, "write", outcome, value))
        if outcome != "unapplied":
            register = value
    return steps


def history_of_steps(steps: list[Step]) -> History:
    story = Story()
    arrival = 0
    for number, (client, f, outcome, value) in enumerate(steps):
        if outcome == "ok":
            story.access(f"c{client}", f, 1.0 + number, arrival, value)
        else:
            asked = {"fence": None, "value": value}
            story.call(f"c{client}", f, 1.0 + number, 1.5 + number, "info", asked=asked)
        arrival += outcome != "unapplied"
    return story.history()


def completions(steps: list[Step]) -> Iterator[list[Step]]:
    """Yield every order of what may have happened: each write with a lost answer is left out or comes at any later
    place."""
    for number, step in enumerate(steps):
        if step[2] in ("applied", "unapplied"):
            rest = steps[:number] + steps[number + 1 :]
            yield from completions(rest)
            for place in range(number, len(steps)):
                yield from completions([*rest[:place], (*step[:2], "assumed", step[3]), *rest[place:]])
            return
    yield steps


def loses(steps: list[Step]) -> bool | None:
    """Return whether the counter ends below the number of writes; None if the reads contradict this order."""
    register, writes = 0, 0
    for _, f, _, value in steps:
        if f == "read" and value != register:
            return None
        if f == "write":
            register, writes = value, writes + 1
    return register < writes


def judge(order: tuple[int, ...], outcomes: tuple[str, ...]) -> None:
    steps = run(order, outcomes)
    invalid = ResourceChecker().check(history_of_steps(steps)).valid is False
    certain = all(lost is not False for lost in map(loses, completions(steps)))
    surely = loses_by_version([step for step in steps if step[2] == "ok"])
    assert not invalid or certain, steps
    assert invalid or not surely, steps


def loses_by_version(steps: list[Step]) -> bool:
    """Return whether an accepted write of another client lies between a client's accepted read and write."""
    return any(
        a[:2] == (c[0], "read")
        and c[1] == "write"
        and b[1] == "write"
        and b[0] != c[0]
        and not any(d[0] == c[0] for d in steps[i + 1 : k])
        for i, a in enumerate(steps)
        for k, c in enumerate(steps)
        for b in steps[i + 1 : k]
    )


@pytest.mark.slow
def test_lost_updates_match_the_definition_for_three_clients() -> None:
    for order in orders((2, 2, 2)):
        for outcomes in product(("ok", "applied", "unapplied"), repeat=3):
            judge(order, outcomes)


@pytest.mark.slow
def test_lost_updates_match_the_definition_for_two_rounds() -> None:
    for order in orders((4, 4)):
        for outcomes in product(("ok", "applied", "unapplied"), repeat=4):
            judge(order, outcomes)


@pytest.mark.parametrize("stock", range(4))
def test_oversold_stock_matches_the_definition_for_all_takes(stock: int) -> None:
    """The stock is certainly oversold exactly if the accepted takes alone exceed it, whatever happened to those with
    lost answers."""
    for outcomes in product(("ok", "info", "fail"), repeat=5):
        story, arrival = Story(stock={"k0": stock}), 0
        for number, outcome in enumerate(outcomes):
            if outcome == "ok":
                story.access(f"c{number % 3}", "take", 1.0 + number, arrival)
                arrival += 1
            else:
                story.call(f"c{number % 3}", "take", 1.0 + number, 1.5 + number, outcome)  # type: ignore[arg-type]
        least = min(sum(applied) for applied in product(*[{"ok": (1,), "fail": (0,)}.get(o, (0, 1)) for o in outcomes]))
        assert (ResourceChecker().check(story.history()).valid is False) == (least > stock)


def test_a_lost_write_explains_an_unexpected_read() -> None:
    story = Story().access("c0", "write", 1.0, 0, 1).call("c1", "write", 1.1, 1.2, "info", asked={"value": 2})
    assert ResourceChecker().check(story.access("c0", "read", 1.5, 2, 2).history()).valid is True
    story = Story().access("c0", "write", 1.0, 0, 1)
    verdict = ResourceChecker().check(story.access("c0", "read", 1.5, 1, 2).history())
    assert [violation.kind for violation in verdict.evidence] == ["stale-read"]


def elements_lost(order: tuple[int, ...]) -> int:
    """Return how many elements a set lacks in the end if each write stores the elements that its client read, plus
    one."""
    kept: frozenset[int] = frozenset()
    seen: dict[int, frozenset[int]] = {}
    added = 0
    for client in order:
        if client in seen:
            kept, added = seen.pop(client) | {added}, added + 1
        else:
            seen[client] = kept
    return added - len(kept)


@pytest.mark.parametrize("calls", [(2, 2, 2), (4, 4), (6, 2)])
def test_lost_updates_equal_the_elements_missing_from_a_set(calls: tuple[int, ...]) -> None:
    found = set()
    for order in orders(calls):
        stats = ResourceChecker().check(history_of_steps(run(order, ("ok",) * (sum(calls) // 2)))).stats
        assert stats["lost"] == elements_lost(order), order
        found.add(stats["lost"])
    assert {0, 1} < found


def test_a_blind_write_loses_all_earlier_updates() -> None:
    story = Story()
    for arrival, client in enumerate(("c0", "c1", "c2")):
        story.access(client, "write", 1.0 + arrival, arrival, 7)
    assert ResourceChecker().check(story.history()).stats["lost"] == 2
