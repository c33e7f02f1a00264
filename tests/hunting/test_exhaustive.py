"""Exhaustive search of small scopes, compared with counts on paper (:mod:`tests.hunting.token_model`) and with
mutants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

import msgspec
import pytest

from harness.documents import ExhaustiveDocument, plain
from harness.errors import UsageError
from harness.history import History
from harness.lock_impls.base import Grant
from harness.lock_impls.redis_token import RedisTokenLock
from harness.run.plans.lock_facts import searched_facts
from harness.search import steered
from harness.search.executions import execute, judge, repeat
from harness.search.exhaustive import exhaust
from harness.search.interleavings import (
    Execution,
    ExecutionStep,
    FixedSteps,
    NotReproducible,
    Touched,
    explore,
    independent,
)
from harness.search.scope import Scope
from harness.sim.patches import virtual
from tests.hunting.foata import Form, foata
from tests.hunting.token_model import SHORT, WHOLE, Token, count, walks


class Overwrites(RedisTokenLock):
    """It deletes the key of whoever holds it. As its documentation says, a holder may also go on after its lease."""

    info = replace(RedisTokenLock.info, name="overwrites")

    def try_lock(self) -> Grant | None:
        self.client.delete(self.key)
        return super().try_lock()


TOKEN = Scope(lock="redis-token")
SHORT_TOKEN = Scope(lock="redis-token", access=False)


def explore_scope(
    scope: Scope, *, reduce: bool = True, independent: Callable[[Touched, Touched], bool] = independent
) -> Iterable[Execution[steered.Section]]:
    plan, bounds = scope.plan(), scope.bounds()
    with virtual():
        yield from explore(lambda path: execute(plan, bounds, path), reduce=reduce, independent=independent)


def without_times(history: History) -> str:
    """Return the history without its times, which may differ between the executions of a class."""
    return "\n".join(repr((op.process, op.type, op.f, op.value, op.error)) for op in history)


def forms_on_paper(model: Token) -> dict[Form, bool]:
    """Return the classes, and for each whether both clients ever hold the lock."""
    return {foata([m.name for m in walk], [m.touches for m in walk]): end.both for walk, end in walks(model)}


def check_both(scope: Scope) -> tuple[int, int]:
    """Assert that the search finds the same classes with and without reduction, each with one history, and with
    reduction each only once. Return the numbers of completed executions with and without reduction."""
    outcomes: dict[bool, dict[Form, str]] = {}
    counts: list[int] = []
    for reduce in (True, False):
        outcomes[reduce] = {}
        runs = [run for run in explore_scope(scope, reduce=reduce) if run.outcome is not None]
        for run in runs:
            assert run.outcome is not None
            assert run.outcome.finished
            entries = without_times(run.outcome.recorder.history)
            assert outcomes[reduce].setdefault(foata(run.steps, run.touched), entries) == entries
        counts.append(len(runs))
    assert outcomes[True] == outcomes[False]
    assert len(outcomes[True]) == counts[0], "each class once"
    return counts[0], counts[1]


def check_whole(scope: Scope, model: Token) -> None:
    """Assert that the search finds as many classes as the model."""
    assert check_both(scope) == (len(forms_on_paper(model)), count(model))


def test_the_model_counts_are_those_on_paper() -> None:
    """A single client takes its steps in one order. Its pause can come before each answer to it, and after each
    answer but the last. A request can be served before the pause, or during it."""
    assert count(Token(WHOLE, 0, clients=1)) == 1
    assert count(Token(WHOLE, 1, clients=1)) == 1 + 4 + 3 + 4
    assert len(forms_on_paper(Token(WHOLE, 1, clients=1))) == 1 + 4 + 3


def test_one_client_and_a_pause_match_the_model() -> None:
    check_whole(Scope(lock="redis-token", clients=1), Token(WHOLE, 1, clients=1))


def test_one_client_and_two_pauses_match_the_count_on_paper() -> None:
    """The pauses come during each of two calls, or between them: at most two of three. One during a call strikes
    before or after the request has been served."""
    reduced = 1 + 3 + 3
    every = 1 + (2 + 1 + 2) + (2 * 1 + 2 * 2 + 1 * 2)
    assert check_both(Scope(lock="redis-token", clients=1, access=False, faults=2)) == (reduced, every)


@pytest.mark.slow
def test_a_scope_without_a_fault_has_no_violation() -> None:
    found = exhaust(Scope(lock="redis-token", faults=0))
    assert found.sentence().startswith("No violation in all 90 interleavings: 2 clients, one critical section each")
    assert "no fault" in found.sentence()
    assert (found.interleavings, found.violated, found.blocked) == (len(forms_on_paper(Token(WHOLE, 0))), 0, 0)
    assert not found.truncated
    assert found.deepest == 18


STORY = (
    ExecutionStep("begin c0"),
    ExecutionStep("c0>n1"),
    ExecutionStep("n1>c0", "pause c0", 1),  # it holds the lock, and has sent no other request yet
    ExecutionStep("time passes"),
    ExecutionStep("begin c1"),
    ExecutionStep("c1>n1"),
    ExecutionStep("n1>c1"),
    ExecutionStep("resume c0"),
    ExecutionStep("c0>resource"),
    ExecutionStep("resource>c0"),  # the read has completed
    ExecutionStep("c1>resource"),
    ExecutionStep("resource>c1"),
    ExecutionStep("c1>resource"),  # the write
)


def test_a_violation_by_one_pause_is_repeatable() -> None:
    one, two = repeat(TOKEN, STORY), repeat(TOKEN, STORY)
    assert one.broken() == ("mutual-exclusion", "resource")
    assert list(one.history) == list(two.history)
    assert one.keys == two.keys
    times = [op.time for op in one.history]
    assert all(before < after for before, after in pairwise(times)), "an order that can be told from the times"
    calls = [(op.f, op.type) for op in one.history][1:]
    assert calls[:4] == [("acquire", "invoke"), ("acquire", "ok"), ("inject", "invoke"), ("inject", "ok")]
    assert one.history.nemesis("inject")[1].value["observed"] == {"state": {"c0": "paused"}}
    assert one.history.nemesis("heal")[0].type == "ok"
    assert [state.by for state in one.keys if state.owner is not None] == ["c0", "c1"] * 2, "warm-up and section"


@pytest.mark.slow
def test_the_first_violation_is_reported_and_repeatable() -> None:
    found = exhaust(SHORT_TOKEN, stop_at_limits=True)
    (first,) = found.known_limits
    assert (found.violation, found.truncated) == (None, True)
    assert (first.number, first.limit, first.broken) == (found.interleavings, "late-client", ("mutual-exclusion",))
    assert "held k0 at the same time" in first.why
    trial = repeat(found.scope, first.steps)
    assert trial.broken() == first.broken
    assert trial.verdicts["mutual-exclusion"].explanation == first.why


@pytest.mark.slow
def test_a_known_limit_does_not_end_the_search() -> None:
    found = exhaust(SHORT_TOKEN)
    assert [limit.limit for limit in found.known_limits] == ["late-client"]
    assert (found.violation, found.truncated) == (None, False)
    assert found.sentence().startswith(
        f"No violation beyond the documented limits of the lock in all {found.interleavings:,} interleavings: "
    )


@pytest.mark.slow
def test_a_failure_is_found_beside_a_known_limit() -> None:
    found = exhaust(Scope(lock=f"{__name__}:Overwrites", access=False), first=False)
    assert found.violation is not None
    assert found.sentence().startswith(f"Violation in interleaving {found.violation.number:,} (")
    assert "the service had promised the lock" in found.violation.why
    assert [limit.limit for limit in found.known_limits] == ["late-client"]


def test_impossible_steps_are_refused() -> None:
    with pytest.raises(NotReproducible, match="step 2 should be resume c0"):
        repeat(SHORT_TOKEN, [ExecutionStep("begin c0"), ExecutionStep("resume c0")])


def test_the_search_stops_after_the_given_number_of_interleavings() -> None:
    heard: list[tuple[int, int]] = []
    found = exhaust(Scope(lock="redis-token", faults=0), most=3, progress=lambda *counts: heard.append(counts))
    assert found.sentence().startswith("No violation in the first 3 interleavings; the others were not tried")
    assert [interleavings for interleavings, _ in heard][-1] == 3


def test_an_interrupt_ends_the_search_with_its_partial_result() -> None:
    def interrupted(interleavings: int, redundant: int) -> None:
        if interleavings + redundant == 5:
            raise KeyboardInterrupt

    found = exhaust(Scope(lock="redis-token", faults=1), progress=interrupted)
    assert found.interleavings + found.redundant >= 5
    assert found.truncated
    assert found.sentence().startswith(
        f"No violation in the first {found.interleavings} interleavings; the others were not tried"
    )


def test_a_time_budget_ends_the_search() -> None:
    found = exhaust(TOKEN, budget_s=0.001)
    assert (found.interleavings, found.truncated) == (1, True)


@pytest.mark.parametrize(
    ("scope", "told"),
    [
        (Scope(lock="redis-token", families=("client-paus",)), "client-pause"),
        (Scope(lock="redis-token", faults=-1), "faults must not be negative"),
        (Scope(lock="redis-token", late=-1.0), "late must be from 0"),
        (Scope(lock="redis-token", look_for=("mutual",)), "no checker is called 'mutual'"),
    ],
)
def test_invalid_scopes_are_refused(scope: Scope, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        exhaust(scope)


@pytest.mark.slow
def test_short_sections_and_a_pause_match_the_model() -> None:
    check_whole(SHORT_TOKEN, Token(SHORT, 1))


@pytest.mark.slow
def test_whole_sections_without_a_fault_match_the_model() -> None:
    check_whole(Scope(lock="redis-token", faults=0), Token(WHOLE, 0))


@pytest.mark.slow
@pytest.mark.parametrize(("late", "counts"), [(0.0, (26, 100)), (0.2, (143, 1_372))])
def test_a_waiter_sleeps_between_its_tries(late: float, counts: tuple[int, int]) -> None:
    """Time passes here without a fault, and with late messages also while some are under way."""
    assert check_both(Scope(lock="redis-token", faults=0, access=False, wait=0.1, late=late)) == counts


@pytest.mark.slow
@pytest.mark.parametrize("lock", ["memcached-add", "mysql-unique"])
def test_locks_with_one_round_trip_per_call_have_equal_counts(lock: str) -> None:
    assert exhaust(Scope(lock=lock, faults=0, access=False)).interleavings == len(forms_on_paper(Token(SHORT, 0)))


@pytest.mark.slow
@pytest.mark.parametrize("lock", ["memcached-token", "mysql-reentrant", "redis-getset", "redis-watchdog"])
def test_locks_are_safe_without_a_fault(lock: str) -> None:
    found = exhaust(Scope(lock=lock, faults=0))
    assert (found.violation, found.truncated, found.blocked) == (None, False, 0)
    assert found.interleavings >= len(forms_on_paper(Token(WHOLE, 0))), "it has at least as many round trips"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_whole_sections_and_a_pause_match_the_model() -> None:
    """These are the numbers of interleavings, and of violations, for SET NX PX with two clients and one pause."""
    found = exhaust(TOKEN, first=False)
    paper = forms_on_paper(Token(WHOLE, 1))
    assert found.interleavings == len(paper) == 4_058
    assert found.violated == sum(paper.values()) == 2_990
    assert not found.truncated


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_whole_sections_and_a_pause_match_the_model_in_every_order() -> None:
    """Without reduction this takes half an hour."""
    assert count(Token(WHOLE, 1)) == 89_192
    check_whole(TOKEN, Token(WHOLE, 1))


@pytest.mark.slow
@pytest.mark.parametrize("blind_to", ["n1", "history"])
def test_a_wrong_independence_relation_is_detected(blind_to: str) -> None:
    """The control: if steps at one host count as independent, classes are lost, or an execution is not
    reproducible."""

    def wrong(one: Touched, other: Touched) -> bool:
        return independent(one - {blind_to}, other - {blind_to})

    try:
        runs = [run for run in explore_scope(SHORT_TOKEN, independent=wrong) if run.outcome is not None]
    except NotReproducible:
        return
    assert len(runs) != len(forms_on_paper(Token(SHORT, 1)))


@pytest.mark.slow
def test_the_resource_is_damaged_without_fencing() -> None:
    found = exhaust(Scope(lock="redis-fenced", look_for=("resource",)), stop_at_limits=True)
    assert [(limit.limit, limit.broken) for limit in found.known_limits] == [("late-client", ("resource",))]


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_fencing_protects_the_resource() -> None:
    found = exhaust(Scope(lock="redis-fenced", fencing="on"))
    assert found.sentence().startswith("No violation in all ")
    assert found.interleavings == 3_462


@pytest.mark.slow
def test_short_sections_survive_a_clock_jump() -> None:
    """Steps follow each other at once. A client that does not access the resource does not hold the lock during the
    jump."""
    found = exhaust(Scope(lock="redis-token", families=("clock-jump",), access=False), first=False)
    paper = forms_on_paper(Token(SHORT, 0, jumps=1))
    assert (found.interleavings, found.violated) == (len(paper), sum(paper.values())) == (442, 0)


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_whole_sections_and_a_clock_jump_match_the_model() -> None:
    found = exhaust(Scope(lock="redis-token", families=("clock-jump",)), first=False)
    paper = forms_on_paper(Token(WHOLE, 0, jumps=1))
    assert (found.interleavings, found.violated) == (len(paper), sum(paper.values())) == (5_950, 4_504)


class _InFavour(FixedSteps):
    """Takes the steps of one client before all others."""

    def __init__(self, steps: Sequence[ExecutionStep], client: str) -> None:
        super().__init__(steps)
        self._client = client

    def choose(self, steps: Sequence[ExecutionStep]) -> ExecutionStep:
        return super().choose(sorted(steps, key=lambda step: self._client not in step.act))


@pytest.mark.parametrize("acts", [["wipe n1", "n1>c1"], ["put forward n1"]])
def test_server_faults_break_mutual_exclusion(acts: list[str]) -> None:
    """The holder is slow, and the other client acquires quickly (and already knows that its connection was lost)."""
    scope = Scope(lock="redis-token", families=("kill-amnesia", "clock-jump"))
    plan = scope.plan()
    path = _InFavour([ExecutionStep(act) for act in ("begin c0", "c0>n1", "n1>c0", *acts)], "c1")
    section = execute(plan, scope.bounds(), path)
    assert section.finished
    assert judge(plan, searched_facts(plan.lock), section.recorder.history).broken() == ("mutual-exclusion",)
    healed = section.recorder.history.nemesis("heal")
    assert [op.value["observed"]["wiped"] for op in healed] == ([["n1"]] if acts[0] == "wipe n1" else [])


def test_the_document_of_a_search_has_all_of_its_result() -> None:
    found = exhaust(Scope(lock="redis-setnx-expire", access=False, faults=0), most=2)
    document = msgspec.json.decode(msgspec.json.encode(found.document()), type=ExhaustiveDocument)
    assert plain(document) == {"schema": 1, "reduced": True, **plain(found)}
    assert document.truncated
