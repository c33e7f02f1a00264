"""The order of critical sections, compared with the model of registers by brute force, and what it says of runs.

Each history is drawn from a world in which all is known: sections of accesses to two registers, one after the other or
interleaved. In the model a register holds its version: a write reads one version and writes the next one. In some
histories the answers of writes are lost.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from harness.checkers import sections
from harness.checkers.accesses import Access, lost_accesses
from harness.checkers.accesses import accesses as accepted_accesses
from harness.checkers.holds import holds
from harness.checkers.linearizability.problem import MUST, KeyProblem
from harness.checkers.models import MultiRegister, Operation
from harness.checkers.resource import ResourceChecker
from harness.checkers.sections import Section, Sections, Step
from harness.checkers.view import view
from harness.history import History
from tests.checkers.linear.brute import linearizable
from tests.checkers.story import Story

REGISTERS = ("k0", "k0/c0")


@dataclass(frozen=True)
class World:
    """The accesses in the order in which the resource accepted them: section, register, and whether it writes."""

    order: tuple[tuple[int, str, bool], ...]
    count: int

    def sections(self) -> Sections:
        found = [Section() for _ in range(self.count)]
        steps: defaultdict[str, list[Step]] = defaultdict(list)
        for arrival, (section, register, writes) in enumerate(self.order):
            access = Access("write" if writes else "read", register, section, arrival, arrival, arrival, None, None)
            steps[register].append(Step(section, access, arrival, arrival))
            one = found[section]
            one.begin, one.end = min(one.begin, arrival), max(one.end, arrival)
        return Sections(found, dict(steps))

    def has_order(self) -> bool:
        """Return the verdict of the model ``multi-register``, by brute force."""
        version = dict.fromkeys(REGISTERS, 0)
        parts: list[list[tuple[str, str, int]]] = [[] for _ in range(self.count)]
        for section, register, writes in self.order:
            parts[section].append(("read", register, version[register]))
            if writes:
                version[register] += 1
                parts[section].append(("write", register, version[register]))
        mine = [[at for at, access in enumerate(self.order) if access[0] == section] for section in range(self.count)]
        order = sorted((number for number, places in enumerate(mine) if places), key=lambda number: mine[number][0])
        operations = tuple(Operation("txn", parts[number], parts[number]) for number in order)
        windows = [(2 * mine[number][0], 2 * mine[number][-1] + 1) for number in order]
        return linearizable(
            KeyProblem(
                np.array([begin for begin, _ in windows]),
                np.array([end for _, end in windows]),
                np.full(len(order), MUST, dtype=np.int8),
                np.arange(len(order), dtype=np.int32),
                operations,
                np.arange(len(order)),
            ),
            MultiRegister(0),
        )


def draw_world(seed: int) -> World:
    """Draw up to five sections, each of which first reads. Most of them are interleaved with few others."""
    rng = random.Random(seed)
    count = rng.randint(2, 5)
    places: list[tuple[float, int, str, bool]] = []
    for section in range(count):
        begin, width = section * rng.choice((0.5, 1.0)), rng.choice((0.3, 1.0, 2.5))
        moments = sorted(begin + width * rng.random() for _ in range(rng.randint(1, 4)))
        for number, moment in enumerate(moments):
            places.append((moment, section, rng.choice(REGISTERS), bool(number) and rng.random() < 0.6))
    return World(tuple(place[1:] for place in sorted(places)), count)


def compare(some: range) -> Counter[bool]:
    verdicts: Counter[bool] = Counter()
    for seed in some:
        world = draw_world(seed)
        cycle, right = world.sections().cycle(), world.has_order()
        assert bool(cycle) is not right, world
        verdicts[right] += 1
        if cycle:
            assert [edge.after for edge in cycle[:-1]] == [edge.before for edge in cycle[1:]]
            assert cycle[-1].after == cycle[0].before
            assert any(edge.accesses for edge in cycle)
    return verdicts


def test_the_model_agrees_on_drawn_sections() -> None:
    assert min(compare(range(400)).values()) > 80


@pytest.mark.slow
def test_the_model_agrees_on_many_drawn_sections() -> None:
    assert min(compare(range(1_000, 41_000)).values()) > 8_000


def without(kind: str) -> Any:
    """Return the edges without those of one kind: ``time``, ``rw``, ``wr`` or ``ww``."""
    whole = Sections._edges

    def kind_of(edge: sections.Edge) -> str:
        return "".join("rw"[step.access.f == "write"] for step in edge.accesses) if edge.accesses else "time"

    return lambda self: {pair: edge for pair, edge in whole(self).items() if kind_of(edge) != kind}


@pytest.mark.parametrize("kind", ["time", "rw", "wr", "ww"])
def test_edges_that_are_left_out_are_missed(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(Sections, "_edges", without(kind))
    with pytest.raises(AssertionError):
        compare(range(3_000))


# Histories.


def cycle_of(history: History) -> list[sections.Edge]:
    columns = view(history)
    some = sections.critical_sections(columns, accepted_accesses(columns), lost_accesses(columns), holds(history))
    return some["k0"].cycle()


def history_of(world: World, lost: frozenset[int]) -> History:
    """Return the history of a world in which these writes have no answer. Every section is a client's hold."""
    story, value = Story(), dict.fromkeys(REGISTERS, 0)
    for section in range(world.count):
        story.acquire(f"c{section}", 0.1, 0.2)
    for arrival, (section, register, writes) in enumerate(world.order):
        at = 1.0 + arrival
        value[register] = arrival + 1 if writes else value[register]
        if arrival in lost:
            asked = {"fence": None, "value": value[register]}
            story.call(f"c{section}", "write", at - 0.4, at - 0.3, "info", key=register, asked=asked)
        else:
            story.access(f"c{section}", "write" if writes else "read", at, arrival, value[register], key=register)
    return story.history()


def judge_lost_answers(some: range) -> tuple[int, int]:
    """Assert that what is found was wrong, and return how often something was wrong, and found."""
    wrong = found = 0
    for seed in some:
        world = draw_world(seed)
        rng = random.Random(-seed)
        lost = frozenset(at for at, (_, _, writes) in enumerate(world.order) if writes and rng.random() < 0.3)
        cycle = cycle_of(history_of(world, lost))
        right = world.has_order()
        assert not (cycle and right), (world, lost)
        wrong, found = wrong + (not right), found + bool(cycle)
    return wrong, found


def test_lost_answers_accuse_nobody() -> None:
    wrong, found = judge_lost_answers(range(150))
    assert 20 < found < wrong


@pytest.mark.slow
def test_lost_answers_accuse_nobody_in_many_histories() -> None:
    judge_lost_answers(range(1_000, 9_000))


def two_in_section(**settings: Any) -> Story:
    """Two clients hold ``k0``, and both read 0."""
    story = Story(**settings).acquire("c0", 0.1, 0.2).acquire("c1", 0.3, 0.4)
    return story.access("c0", "read", 0.5, 0, 0).access("c1", "read", 0.6, 1, 0)


def test_a_lost_write_that_a_read_shows_loses_an_update() -> None:
    """c0 was killed after its write had left. The write arrived after c1's, as c2 read: c1's update is lost."""
    story = two_in_section().call("c0", "write", 0.7, None, asked={"fence": None, "value": 9})
    story.access("c1", "write", 0.8, 2, 1).acquire("c2", 0.9, 1.0)
    unseen = story.history()
    assert cycle_of(unseen) == []
    assert ResourceChecker().check(unseen).valid is True
    verdict = ResourceChecker().check(story.access("c2", "read", 1.1, 4, 9).history())
    assert [violation.kind for violation in verdict.evidence] == ["interleaved"]
    assert "c0 wrote k0 (its answer was lost, and a read at 1.101 s shows it)" in verdict.explanation


def test_two_lost_writes_of_one_value_accuse_nobody() -> None:
    story = two_in_section().call("c0", "write", 0.7, 0.75, "info", asked={"fence": None, "value": 9})
    story.call("c3", "write", 0.7, 0.75, "info", asked={"fence": None, "value": 9})
    story.access("c1", "write", 0.8, 2, 1).acquire("c2", 0.9, 1.0).access("c2", "read", 1.1, 4, 9)
    assert ResourceChecker().check(story.history()).valid is True


def test_a_section_whose_write_may_come_later_has_no_end() -> None:
    """c0's section is [read k0, write of unknown outcome]. It may be last, although all that is known of it is over
    before c1's section begins, and c2 reads what it wrote."""
    story = Story().acquire("c0", 0.1, 0.2).access("c0", "read", 0.5, 0, 0, key="k0/c0")
    story.call("c0", "write", 0.6, None, key="k0", asked={"fence": None, "value": 7})
    story.acquire("c1", 0.7, 0.8).access("c1", "read", 0.9, 1, 0).access("c1", "write", 1.0, 2, 1)
    story.acquire("c2", 1.1, 1.2).access("c2", "read", 1.3, 4, 7)
    assert cycle_of(story.history()) == []


def test_interleaved_sales_are_found_while_units_are_left() -> None:
    story = two_in_section(stock={"k0": 3}).access("c0", "take", 0.7, 2).access("c1", "take", 0.8, 3)
    verdict = ResourceChecker().check(story.history())
    assert [violation.kind for violation in verdict.evidence] == ["interleaved"]
    assert verdict.explanation == (
        "Critical sections on k0 interleaved: c0 sold a unit of k0 at 0.701 s, before c1 sold a unit of k0 at 0.801 s; "
        "c1 read k0 at 0.601 s, before c0 sold a unit of k0 at 0.701 s (accesses 1, 2, 3)"
    )


def test_registers_of_one_key_are_judged_together() -> None:
    """c1 reads the packet before c0's section and the account after it; neither register alone shows that."""
    story = Story().acquire("c0", 0.1, 0.2).acquire("c1", 0.3, 0.4)
    story.access("c1", "read", 0.5, 0, 0).access("c0", "read", 0.6, 1, 0).access("c0", "write", 0.7, 2, 1)
    story.access("c0", "write", 0.8, 3, 1, key="k0/c0")
    right = story.history()
    assert ResourceChecker().check(right).valid is True
    verdict = ResourceChecker().check(story.access("c1", "read", 0.9, 4, 1, key="k0/c0").history())
    assert [violation.kind for violation in verdict.evidence] == ["interleaved"]


def test_a_write_without_a_read_is_a_section_by_itself() -> None:
    """A leader acts again and again, and relies on nothing that it read."""
    story = Story().acquire("c0", 0.1, 0.2).access("c0", "write", 0.3, 0, 1).acquire("c1", 0.3, 0.4)
    story.access("c1", "write", 0.5, 1, 2).access("c0", "write", 0.6, 2, 3)
    assert cycle_of(story.history()) == []


# Additions to a counter of the lock's own service.


def additions(*numbers: tuple[str, int]) -> Story:
    """One section after the other, each of which adds one to a number."""
    story = Story()
    for place, (client, seen) in enumerate(numbers):
        at = 1.0 + place
        story.acquire(client, at, at + 0.1).add(client, at + 0.2, seen).release(client, at + 0.3)
    return story


def test_an_addition_that_saw_an_old_number_is_found() -> None:
    verdict = ResourceChecker().check(additions(("c0", 0), ("c1", 2), ("c2", 1)).history())
    assert verdict.explanation == (
        "c2 saw a stale 1 in k0 at 3.201 s: c1 had made it 3 by an addition that was over at 2.301 s"
    )


def test_a_number_that_nobody_wrote_is_found_unless_an_addition_may_have_written_it() -> None:
    verdict = ResourceChecker().check(additions(("c0", 0), ("c1", 2)).history())
    assert [violation.kind for violation in verdict.evidence] == ["never-written"]
    story = additions(("c0", 0), ("c1", 2)).acquire("c2", 1.0, 1.4).add("c2", 1.5, outcome="info").release("c2", 1.7)
    assert ResourceChecker().check(story.history()).valid is True


def test_additions_that_overlap_may_have_any_order() -> None:
    story = Story().acquire("c0", 0.1, 0.2).add("c0", 0.3, 1).acquire("c1", 0.2, 0.4).add("c1", 0.5, 0)
    assert ResourceChecker().check(story.release("c1", 0.6).release("c0", 0.7).history()).valid is True
