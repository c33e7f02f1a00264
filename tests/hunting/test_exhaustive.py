"""Small scopes, wholly: counted on paper too (:mod:`tests.hunting.token_model`), and broken on purpose."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any

import pytest
import redis

from harness.errors import UsageError
from harness.history import History
from harness.hunting import steered
from harness.hunting.exhaustive import Scope, again, execute, exhaust, judged
from harness.hunting.interleavings import Explored, Given, Step, Touched, Unsteady, explore, independent
from harness.sim.patches import virtual
from tests.hunting.foata import Form, foata
from tests.hunting.token_model import SHORT, WHOLE, Token, count, walks

TOKEN = Scope(lock="redis-token")
SHORT_TOKEN = Scope(lock="redis-token", access=False)


def explored(
    scope: Scope, *, reduce: bool = True, independent: Callable[[Touched, Touched], bool] = independent
) -> Iterable[Explored[steered.Section]]:
    plan, bounds = scope.plan(), scope.bounds()
    with virtual():
        yield from explore(lambda path: execute(plan, bounds, path), reduce=reduce, independent=independent)


def said(history: History) -> str:
    """A history without its times, which the steps of a class need not have in common."""
    return "\n".join(repr((op.process, op.type, op.f, op.value, op.error)) for op in history)


def forms_on_paper(model: Token) -> dict[Form, bool]:
    """The classes, and whether both clients ever hold the lock in them."""
    return {foata([m.name for m in walk], [m.touches for m in walk]): end.both for walk, end in walks(model)}


def check_both(scope: Scope) -> tuple[int, int]:
    """With and without reduction the same classes are found, each with one history, and with reduction each once; how
    many executions came to their end, with and without."""
    outcomes: dict[bool, dict[Form, str]] = {}
    counts: list[int] = []
    for reduce in (True, False):
        outcomes[reduce] = {}
        runs = [run for run in explored(scope, reduce=reduce) if run.outcome is not None]
        for run in runs:
            assert run.outcome is not None
            assert run.outcome.finished
            entries = said(run.outcome.recorder.history)
            assert outcomes[reduce].setdefault(foata(run.steps, run.touched), entries) == entries
        counts.append(len(runs))
    assert outcomes[True] == outcomes[False]
    assert len(outcomes[True]) == counts[0], "each class once"
    return counts[0], counts[1]


def check_whole(scope: Scope, model: Token) -> None:
    """There are as many as there are on paper."""
    assert check_both(scope) == (len(forms_on_paper(model)), count(model))


def test_the_model_is_counted_right() -> None:
    """One client alone takes its steps in one order; a pause of it can come before each answer to it, and after each
    answer but the last; a request of its can be served before the pause, or during it."""
    assert count(Token(WHOLE, 0, clients=1)) == 1
    assert count(Token(WHOLE, 1, clients=1)) == 1 + 4 + 3 + 4
    assert len(forms_on_paper(Token(WHOLE, 1, clients=1))) == 1 + 4 + 3


def test_one_client_and_a_pause() -> None:
    check_whole(Scope(lock="redis-token", clients=1), Token(WHOLE, 1, clients=1))


def test_one_client_and_two_pauses() -> None:
    """During each of two calls, or between them: at most two of three, and one during a call strikes before or after
    the request has been served."""
    reduced = 1 + 3 + 3
    every = 1 + (2 + 1 + 2) + (2 * 1 + 2 * 2 + 1 * 2)
    assert check_both(Scope(lock="redis-token", clients=1, access=False, faults=2)) == (reduced, every)


@pytest.mark.slow
def test_without_a_fault_it_is_safe() -> None:
    found = exhaust(Scope(lock="redis-token", faults=0))
    assert found.sentence().startswith("none in all 90 interleavings: 2 clients, one section each")
    assert "no fault" in found.sentence()
    assert (found.interleavings, found.violated, found.blocked) == (len(forms_on_paper(Token(WHOLE, 0))), 0, 0)
    assert not found.truncated
    assert found.deepest == 18


STORY = (
    Step("begin c0"),
    Step("c0>n1"),
    Step("n1>c0", "pause c0", 1),  # it has the lock, and has not asked for anything yet
    Step("time passes"),
    Step("begin c1"),
    Step("c1>n1"),
    Step("n1>c1"),
    Step("resume c0"),
    Step("c0>resource"),
    Step("resource>c0"),  # it has read
    Step("c1>resource"),
    Step("resource>c1"),
    Step("c1>resource"),  # it writes
)


def test_one_pause_breaks_it_and_that_can_be_repeated() -> None:
    one, two = again(TOKEN, STORY), again(TOKEN, STORY)
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
def test_the_first_violation_is_told_and_can_be_repeated() -> None:
    found = exhaust(SHORT_TOKEN)
    assert found.violation is not None
    assert found.truncated
    assert found.sentence().startswith(f"violated in interleaving {found.violation.number}: ")
    assert found.violation.broken == ("mutual-exclusion",)
    assert "c1 acquired k0" in found.violation.why
    trial = again(found.scope, found.violation.steps)
    assert trial.broken() == found.violation.broken
    assert trial.verdicts["mutual-exclusion"].explanation == found.violation.why


def test_steps_that_cannot_be_taken_are_refused() -> None:
    with pytest.raises(Unsteady, match="step 2 is to be resume c0"):
        again(SHORT_TOKEN, [Step("begin c0"), Step("resume c0")])


def test_it_stops_when_told_to() -> None:
    heard: list[tuple[int, int]] = []
    found = exhaust(Scope(lock="redis-token", faults=0), most=3, progress=lambda *counts: heard.append(counts))
    assert found.sentence().startswith("none in the first 3 interleavings, and there are more")
    assert [interleavings for interleavings, _ in heard][-1] == 3


def test_an_interrupt_ends_it_with_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle of an execution, where a lock's code runs."""
    times = 0

    def interrupted(*_: object) -> None:
        nonlocal times
        times += 1
        if times > 20:
            raise KeyboardInterrupt

    monkeypatch.setattr(redis.Redis, "evalsha", interrupted_before(redis.Redis.evalsha, interrupted))
    found = exhaust(Scope(lock="redis-token", faults=0))
    assert times == 21
    assert 0 < found.interleavings < 21
    assert found.truncated
    assert found.sentence().startswith(f"none in the first {found.interleavings} interleavings, and there are more")


def interrupted_before(real: Callable[..., Any], interrupt: Callable[[], None]) -> Callable[..., Any]:
    def either(*args: Any, **kwargs: Any) -> Any:
        interrupt()
        return real(*args, **kwargs)

    return either


def test_its_time_is_bounded() -> None:
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
def test_bad_scopes_are_refused(scope: Scope, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        exhaust(scope)


@pytest.mark.slow
def test_short_sections_and_a_pause() -> None:
    check_whole(SHORT_TOKEN, Token(SHORT, 1))


@pytest.mark.slow
def test_whole_sections_without_a_fault() -> None:
    check_whole(Scope(lock="redis-token", faults=0), Token(WHOLE, 0))


@pytest.mark.slow
@pytest.mark.parametrize(("late", "counts"), [(0.0, (26, 100)), (0.2, (143, 1_372))])
def test_who_waits_for_a_busy_lock_sleeps_between_its_tries(late: float, counts: tuple[int, int]) -> None:
    """Time passes here without a fault, and where messages may be late, also while some are under way."""
    assert check_both(Scope(lock="redis-token", faults=0, access=False, wait=0.1, late=late)) == counts


@pytest.mark.slow
@pytest.mark.parametrize("lock", ["memcached-add", "mysql-unique"])
def test_other_locks_of_one_round_trip_a_call_have_as_many(lock: str) -> None:
    assert exhaust(Scope(lock=lock, faults=0, access=False)).interleavings == len(forms_on_paper(Token(SHORT, 0)))


@pytest.mark.slow
@pytest.mark.parametrize("lock", ["memcached-token", "mysql-reentrant", "redis-getset", "redis-watchdog"])
def test_locks_are_safe_without_a_fault(lock: str) -> None:
    found = exhaust(Scope(lock=lock, faults=0))
    assert (found.violation, found.truncated, found.blocked) == (None, False, 0)
    assert found.interleavings >= len(forms_on_paper(Token(WHOLE, 0))), "it has at least as many round trips"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_whole_sections_and_a_pause() -> None:
    """The count of interleavings for SET NX PX with two clients and one pause, and of those that break it."""
    found = exhaust(TOKEN, first=False)
    paper = forms_on_paper(Token(WHOLE, 1))
    assert found.interleavings == len(paper) == 4_058
    assert found.violated == sum(paper.values()) == 2_990
    assert not found.truncated


@pytest.mark.long
@pytest.mark.timeout(7_200)
def test_whole_sections_and_a_pause_in_every_order() -> None:
    """Without reduction: half an hour."""
    assert count(Token(WHOLE, 1)) == 89_192
    check_whole(TOKEN, Token(WHOLE, 1))


@pytest.mark.slow
@pytest.mark.parametrize("blind_to", ["n1", "history"])
def test_a_wrong_independence_is_found_out(blind_to: str) -> None:
    """The control: with steps at one host taken for independent, classes are lost, or an execution contradicts."""

    def wrong(one: Touched, other: Touched) -> bool:
        return independent(one - {blind_to}, other - {blind_to})

    try:
        runs = [run for run in explored(SHORT_TOKEN, independent=wrong) if run.outcome is not None]
    except Unsteady:
        return
    assert len(runs) != len(forms_on_paper(Token(SHORT, 1)))


@pytest.mark.slow
def test_without_a_check_of_its_fences_the_resource_comes_to_harm() -> None:
    found = exhaust(Scope(lock="redis-fenced", look_for=("resource",)))
    assert found.violation is not None
    assert found.violation.broken == ("resource",)


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_fences_save_the_resource() -> None:
    found = exhaust(Scope(lock="redis-fenced", fencing="on"))
    assert found.sentence().startswith("none in all ")
    assert found.interleavings == 3_462


@pytest.mark.slow
def test_short_sections_and_a_jump_of_the_clock() -> None:
    """Steps come one right after the other: while the clock jumps, nobody holds who does not touch the resource."""
    found = exhaust(Scope(lock="redis-token", families=("clock-jump",), access=False), first=False)
    paper = forms_on_paper(Token(SHORT, 0, jumps=1))
    assert (found.interleavings, found.violated) == (len(paper), sum(paper.values())) == (442, 0)


@pytest.mark.long
@pytest.mark.timeout(1_200)
def test_whole_sections_and_a_jump_of_the_clock() -> None:
    found = exhaust(Scope(lock="redis-token", families=("clock-jump",)), first=False)
    paper = forms_on_paper(Token(WHOLE, 0, jumps=1))
    assert (found.interleavings, found.violated) == (len(paper), sum(paper.values())) == (5_950, 4_504)


class _InFavour(Given):
    """Takes what one client does before anything else."""

    def __init__(self, steps: Sequence[Step], client: str) -> None:
        super().__init__(steps)
        self._client = client

    def choose(self, steps: Sequence[Step]) -> Step:
        return super().choose(sorted(steps, key=lambda step: self._client not in step.act))


@pytest.mark.parametrize("acts", [["wipe n1", "n1>c1"], ["put forward n1"]])
def test_faults_of_servers_break_it(acts: list[str]) -> None:
    """Whoever holds the lock is slow, and who is quick takes it (and knows already that its connection is gone)."""
    scope = Scope(lock="redis-token", families=("kill-amnesia", "clock-jump"))
    plan = scope.plan()
    path = _InFavour([Step(act) for act in ("begin c0", "c0>n1", "n1>c0", *acts)], "c1")
    section = execute(plan, scope.bounds(), path)
    assert section.finished
    assert judged(plan, section).broken() == ("mutual-exclusion",)
    healed = section.recorder.history.nemesis("heal")
    assert [op.value["observed"]["wiped"] for op in healed] == ([["n1"]] if acts[0] == "wipe n1" else [])
