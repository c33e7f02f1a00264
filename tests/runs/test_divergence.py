"""The judgement of a try on a real cluster, and the divergence of its history from the simulated one."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from harness.history import SECOND, History, Op
from harness.plan import Expect, FaultSpec
from harness.search.replay import Divergence, differs_at, expected_of, first_divergence, judge, prepare, simulate
from tests.checkers.story import Story

from .replayed_plans import UNSAFE, plan

# Expected checkers, and the judgement of a try.


@pytest.mark.slow
def test_expected_checkers_come_from_the_plan_or_the_simulation() -> None:
    pause = (FaultSpec("client-pause", on="acquire", client=0, for_=3.0),)
    assert expected_of(simulate(plan(faults=pause))) == ("mutual-exclusion", "resource")
    assert expected_of(simulate(plan(faults=pause, expect=UNSAFE))) == ("mutual-exclusion",)
    assert expected_of(simulate(plan(faults=pause, expect=Expect(safe=False, invalid=("deadlock",))))) == ()
    assert expected_of(simulate(plan(expect=Expect(safe=True)))) == ()


@pytest.mark.slow
def test_a_try_is_judged_by_the_expected_checkers() -> None:
    given = plan(faults=(FaultSpec("client-pause", on="acquire", client=0, for_=3.0),), expect=UNSAFE)
    ready = prepare(simulate(given))
    again = simulate(ready.plan)
    assert judge(ready, again.history, again.verdicts).reproduced is True
    other = simulate(plan(faults=(FaultSpec("client-pause", on="acquire", client=1, for_=0.1),)))
    attempt = judge(ready, other.history, other.verdicts)
    assert attempt.reproduced is False
    assert attempt.divergence is not None
    assert attempt.where.startswith("On the simulator client-pause struck c0 at 0.002 s (step 2); here client-pause")
    nothing = simulate(plan(time_limit=1.0, faults=(FaultSpec("client-pause", on="acquire", client=0, nth=99),)))
    assert judge(ready, nothing.history, nothing.verdicts).reproduced is None, "its fault never struck"


# Divergence of two histories. In the story c0's lease ends while it is paused, and c1 acquires the key.


def overrun() -> Story:
    story = Story(clients=["c0", "c1"])
    story.acquire("c0", 0.1, 0.2).fault(0, "client-pause", ["c0"], 0.2, 3.2)
    return story.acquire("c1", 0.5, 2.2).release("c1", 3.0).release("c0", 3.3)


def divergence_from_overrun(history: History, until_s: float | None = None) -> Divergence | None:
    return first_divergence(overrun().history(), history, None if until_s is None else round(until_s * SECOND))


def test_the_same_steps_at_other_times_do_not_diverge() -> None:
    story = Story(clients=["c0", "c1"])
    story.acquire("c0", 0.15, 0.3).fault(0, "client-pause", ["c0"], 0.31, 3.4)
    story.acquire("c1", 0.4, 2.4).release("c1", 2.9).release("c0", 3.5)
    assert divergence_from_overrun(story.history()) is None


def test_another_outcome_of_a_call_is_a_divergence() -> None:
    story = Story(clients=["c0", "c1"])
    story.acquire("c0", 0.1, 0.2).fault(0, "client-pause", ["c0"], 0.2, 3.2)
    story.call("c1", "acquire", 0.5, 2.5, "fail", error="busy").release("c0", 3.3)
    found = divergence_from_overrun(story.history())
    assert found == Divergence(
        "On the simulator c1 was granted k0 while c0 held it at 2.200 s (step 3); "
        "here c1's acquire of k0 failed: busy (at 2.500 s)", 3, 2_200_000_000, 2_500_000_000,
    )  # fmt: skip


def test_the_number_of_failed_requests_is_no_divergence() -> None:
    """But the presence of a failed request is one: the key was held in one history, and free in the other."""
    one, two = Story(clients=["c0", "c1"]), Story(clients=["c0", "c1"])
    for story, vain in ((one, (0.5,)), (two, (0.5, 0.7, 0.9))):
        story.acquire("c0", 0.1, 0.2)
        for at in vain:
            story.call("c1", "acquire", at, at + 0.1, "fail", error="busy")
        story.release("c0", 1.0).acquire("c1", 1.1, 1.2)
    assert first_divergence(one.history(), two.history()) is None
    never = Story(clients=["c0", "c1"]).acquire("c0", 0.1, 0.2).release("c0", 1.0).acquire("c1", 1.1, 1.2)
    found = first_divergence(one.history(), never.history())
    assert found is not None
    assert "c1's acquire of k0 failed: busy at 0.600 s (step 2); here c1 was granted k0" in found.sentence


def test_a_missing_fault_is_a_divergence() -> None:
    story = Story(clients=["c0", "c1"])
    story.acquire("c0", 0.1, 0.2).acquire("c1", 0.5, 2.2).release("c1", 3.0).release("c0", 3.3)
    found = divergence_from_overrun(story.history())
    assert found == Divergence(
        "On the simulator client-pause struck c0 at 0.200 s (step 2); here that never happened", 2, 200_000_000, None
    )


def test_a_fault_without_effect_or_on_other_hosts_is_a_divergence() -> None:
    for hosts, error in ((["c0"], "no effect seen"), (["c1"], None)):
        story = Story(clients=["c0", "c1"]).acquire("c0", 0.1, 0.2)
        about = {"id": 0, "fault": "client-pause", "hosts": hosts}
        story.nemesis(0.2, "inject", "invoke", {**about, "disturbs": False, "params": {}})
        story.nemesis(0.3, "inject", "fail" if error else "ok", {**about, "observed": {}}, error)
        story.acquire("c1", 0.5, 2.2).release("c1", 3.0).release("c0", 3.3)
        found = divergence_from_overrun(story.history())
        assert found is not None
        expected = f"client-pause struck {hosts[0]}{f', {error}' if error else ''} (at 0.200 s)"
        assert found.sentence == f"On the simulator client-pause struck c0 at 0.200 s (step 2); here {expected}"


def test_another_order_of_grants_is_a_divergence() -> None:
    story = Story(clients=["c0", "c1"])
    story.acquire("c1", 0.1, 0.15).release("c1", 0.2).acquire("c0", 0.2, 0.3)
    story.fault(0, "client-pause", ["c0"], 0.35, 3.2).release("c0", 3.3)
    found = divergence_from_overrun(story.history())
    assert found is not None
    assert (
        found.sentence == "On the simulator c0 was granted k0 at 0.200 s (step 1); here c1 was granted k0 (at 0.150 s)"
    )


def test_a_grant_after_instead_of_before_a_release_is_a_divergence() -> None:
    story = Story(clients=["c0", "c1"])
    story.acquire("c0", 0.1, 0.2).fault(0, "client-pause", ["c0"], 0.2, 1.2)
    story.release("c0", 1.3).acquire("c1", 0.5, 1.4).release("c1", 3.0)
    found = divergence_from_overrun(story.history())
    assert found is not None
    assert found.sentence.endswith(
        "c1 was granted k0 while c0 held it at 2.200 s (step 3); here c0 began to release k0 (at 1.300 s)"
    )


def test_a_fault_after_a_later_step_is_a_divergence() -> None:
    story = Story(clients=["c0", "c1"])
    story.acquire("c0", 0.1, 0.2).acquire("c1", 0.5, 2.2).fault(0, "client-pause", ["c0"], 2.3, 2.9)
    found = divergence_from_overrun(story.release("c1", 3.0).release("c0", 3.3).history())
    assert found is not None
    assert found.sentence.endswith(
        "client-pause struck c0 at 0.200 s (step 2); here c1 was granted k0 while c0 held it (at 2.200 s)"
    )


def test_divergence_after_the_violation_is_ignored() -> None:
    story = Story(clients=["c0", "c1"])
    story.acquire("c0", 0.1, 0.2).fault(0, "client-pause", ["c0"], 0.2, 3.2).acquire("c1", 0.5, 2.2)
    history = story.release("c1", 3.0, 3.1, "info").history()
    assert divergence_from_overrun(history, until_s=2.5) is None
    found = divergence_from_overrun(history)
    assert found is not None
    assert "c1's release of k0 succeeded at 3.001 s (step 4); here c1's release of k0 ended without an answer" in (
        found.sentence
    )


def mutations() -> dict[str, Callable[[Op], Op | None]]:
    """Functions that change a simulated history entry by entry; None drops an entry."""

    def ended(op: Op) -> Op:
        failed = op.f == "acquire" and op.node == "c1" and op.type == "ok"
        return msgspec.structs.replace(op, type="fail", value=None, error="busy") if failed else op

    def renamed(op: Op) -> Op:
        names = {"c0": "c1", "c1": "c0"}
        return msgspec.structs.replace(op, node=names.get(op.node or "", op.node))

    def unseen(op: Op) -> Op:
        return (
            msgspec.structs.replace(op, type="fail", error="no effect") if op.f == "inject" and op.type == "ok" else op
        )

    return {
        "no fault": lambda op: None if op.f in ("inject", "heal") else op,
        "a fault without effect": unseen,
        "another ending": ended,
        "others granted": renamed,
    }


@pytest.mark.few(2)
@pytest.mark.parametrize("name", list(mutations()))
def test_each_kind_of_divergence_is_found(name: str) -> None:
    simulated = simulate(plan(faults=(FaultSpec("client-pause", on="acquire", client=0, for_=3.0),))).history
    changed = [op for op in map(mutations()[name], simulated) if op is not None]
    history = History(msgspec.structs.replace(op, index=index) for index, op in enumerate(changed))
    assert first_divergence(simulated, simulated) is None
    assert first_divergence(simulated, history) is not None
    assert differs_at(simulated, history) is not None


def test_differs_at_returns_the_first_different_entry() -> None:
    one = overrun().history()
    assert differs_at(one, one) is None
    assert differs_at(one, History(one[:4])) == 4
    other = [*one[:2], msgspec.structs.replace(one[2], wall=0), *one[3:]]
    assert differs_at(one, History(other)) == 2
