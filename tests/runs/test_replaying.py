"""Plans for real clusters, made from simulated ones; and where two histories part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from harness.completion import complete
from harness.errors import UsageError
from harness.history import SECOND, History, Op
from harness.plan import Delay, Expect, FaultSpec, Plan
from harness.replaying import Parting, by_triggers, differs_at, expected_of, firmer, judged, parted, prepared, simulate
from harness.replaying.turns import in_turn
from harness.runs import run
from scenarios import catalogue
from tests.checkers.story import Story

UNSAFE = Expect(safe=False, invalid=("mutual-exclusion",))


def plan(**settings: Any) -> Plan:
    given: dict[str, Any] = {"lock": "redis-token", "clients": 2, "hold": 0.5, "stagger": 0.3, "time_limit": 5.0}
    return Plan(**{**given, **settings})


def translated(given: Plan) -> tuple[Plan, tuple[str, ...]]:
    simulated = simulate(given)
    return by_triggers(simulated.plan, simulated.history, simulated.commands)


def pauses(history: History) -> list[float]:
    """When clients were paused, in ms."""
    found = [op for op in history.nemesis("inject") if op.type == "invoke" and op.value["fault"] == "client-pause"]
    return [round((op.time - history.origin) / 1e6, 1) for op in found]


def test_listening_changes_nothing() -> None:
    pause = FaultSpec("client-pause", on="reply:SET", client=0, for_=1.0)
    given = plan(time_limit=3.0, faults=(pause,))
    simulated = simulate(given)
    assert list(simulated.history) == list(run(given).history)
    assert {(said.phase, said.name) for said in simulated.commands} >= {("request", "SET"), ("reply", "SET")}


def test_a_time_becomes_an_event_and_what_is_left_of_it() -> None:
    given = plan(faults=(FaultSpec("client-pause", at=0.2, for_=3.0),))
    real, notes = translated(given)
    pause = {"target": "c0"}  # by chance then, and by name now
    assert real.faults == (FaultSpec("client-pause", on="read", client=0, delay=0.198, for_=3.0, params=pause),)
    assert notes == (
        "client-pause strikes 0.198 s after c0's read, not at 0.2 s; client-pause strikes c0 again, by name",
    )
    assert real.cluster == "docker"
    assert complete(real)
    before, after = simulate(given), simulate(real)
    assert before.violated() == after.violated() == ("mutual-exclusion", "resource")
    assert pauses(after.history) == pytest.approx(pauses(before.history), abs=1.0)


def test_a_time_that_is_that_of_an_event_leaves_no_delay() -> None:
    real, _ = translated(plan(faults=(FaultSpec("client-pause", at=0.3004, for_=3.0, params={"target": "c0"}),)))
    [fault] = real.faults
    assert (fault.on, fault.client, fault.nth, fault.delay) == ("acquire:invoke", 1, 1, 0.0)


def test_the_event_is_counted_as_the_nemesis_counts() -> None:
    given = plan(time_limit=8.0, faults=(FaultSpec("client-pause", at=3.1, for_=3.0, params={"target": "c0"}),))
    real, _ = translated(given)
    [fault] = real.faults
    assert fault.nth > 1
    assert pauses(simulate(real).history) == pytest.approx([3100], abs=1.0)


@pytest.mark.parametrize(
    ("nth", "client", "own", "words"), [(2, 1, 1, "c1's acquire:invoke"), (3, 0, 2, "c0's 2nd acquire:invoke")]
)
def test_an_event_of_any_client_becomes_that_of_the_one_that_caused_it(
    nth: int, client: int, own: int, words: str
) -> None:
    given = plan(faults=(FaultSpec("client-pause", on="acquire:invoke", nth=nth, for_=3.0),))
    real, notes = translated(given)
    assert real.faults == (FaultSpec("client-pause", on="acquire:invoke", client=client, nth=own, for_=3.0),)
    assert notes == (f"client-pause waits for {words}: that caused it",)
    assert pauses(simulate(real).history) == pauses(simulate(given).history)


@pytest.mark.parametrize(
    "fault",
    [
        FaultSpec("clock-jump", at=0.0, params={"target": "n1"}),
        FaultSpec("client-pause", on="acquire", client=0, nth=2, for_=3.0),
        FaultSpec("client-pause", on="acquire", nth=2, times=3, every=2.0, for_=1.0),
        FaultSpec("kill", on="release", client=1, nth=900),
    ],
)
def test_what_has_its_trigger_stays_as_it_is(fault: FaultSpec) -> None:
    real, notes = translated(plan(faults=(fault,)))
    assert (real.faults, notes) == ((fault,), ())


@pytest.mark.parametrize("moment", [{"at": 0.0}, {"on": "acquire", "client": 0}])
def test_whom_chance_chose_is_chosen_again(moment: dict[str, Any]) -> None:
    given = plan(lock="redlock", faults=(FaultSpec("kill", for_=0.5, params={"target": "majority"}, **moment),))
    real, [note] = translated(given)
    [inject] = [op for op in simulate(given).history.nemesis("inject") if op.type == "invoke"]
    assert real.faults[0].params == {"target": ",".join(inject.value["hosts"])}
    assert note == f"kill strikes {', '.join(inject.value['hosts'])} again, by name"


def test_turns_stay_turns_and_it_is_said() -> None:
    fault = FaultSpec("client-pause", every=3.0, for_=1.0, params={"target": "one"})
    real, [note] = translated(plan(time_limit=8.0, faults=(fault,)))
    assert real.faults == (fault,)
    assert "strikes every 3 s" in note


def test_a_client_that_stands_still_between_two_commands_has_the_second_held_back() -> None:
    """Its check of the key is over, its DEL is not there yet."""
    fault = FaultSpec("client-pause", on="reply:GET", client=0, for_=3.0)
    given = plan(
        lock="redis-token-getdel", clients=3, hold=1.5, holds={"c0": 0.1}, stagger=0.2, time_limit=10.0,
        faults=(fault,), expect=Expect(safe=False, invalid=("ownership",)),
    )  # fmt: skip
    ready = prepared(simulate(given))
    held, pause = ready.plan.faults
    assert (held.fault, held.on, held.params["containing"]) == ("delayed-request", "release:invoke", "DEL")
    assert held.params["delay"] > 3.0 == pause.for_
    assert pause.delay > 0
    assert ready.notes == (
        "client-pause strikes while the DEL of c0 to n1 after c0's release:invoke is held back for 3.2 s, "
        "not on reply:GET",
    )
    assert "ownership" in ready.simulated.violated()


def test_a_fault_of_a_server_between_two_commands_strikes_on_the_end_of_the_call() -> None:
    jump = FaultSpec("clock-jump", on="reply:SET", client=0, nth=5, params={"target": "n1,n2,n3"})
    given = plan(lock="redlock", faults=(jump,), expect=UNSAFE)
    simulated = simulate(given)
    real, [note] = by_triggers(simulated.plan, simulated.history, simulated.commands)
    [fault] = real.faults
    assert (fault.on, fault.client, fault.delay) == ("acquire", 0, 0.0)
    assert note == "clock-jump strikes on c0's acquire, not on reply:SET: the call ended with that"
    assert "mutual-exclusion" in simulate(real).violated()


def test_a_fault_of_a_server_that_has_more_to_do_strikes_meanwhile() -> None:
    jump = FaultSpec("clock-jump", on="reply:SET", client=0, nth=7, params={"target": "n1,n5"})
    simulated = simulate(plan(lock="redlock", faults=(jump,)))
    real, [note] = by_triggers(simulated.plan, simulated.history, simulated.commands)
    held, fault = real.faults
    assert (held.fault, held.params["server"], held.params["containing"]) == ("delayed-request", "n5", "SET")
    assert 0 < fault.delay < held.params["delay"]
    assert "while the SET of c0 to n5" in note


def test_without_commands_a_strike_is_put_near_to_where_it_was() -> None:
    simulated = simulate(plan(lock="redis-token-getdel", faults=(FaultSpec("client-pause", on="reply:GET", for_=3.0),)))
    real, [note] = by_triggers(simulated.plan, simulated.history)
    [fault] = real.faults
    assert (fault.on, fault.client, fault.delay) == ("release:invoke", 0, 0.0)
    assert note == "client-pause strikes on c0's release:invoke, not on reply:GET"


def test_a_command_that_never_came_is_left_out() -> None:
    real, [note] = translated(plan(faults=(FaultSpec("client-pause", on="request:LPUSH", for_=3.0),)))
    assert real.faults == ()
    assert "it did not strike on the simulator either" in note


def test_long_delays_become_faults_and_short_ones_are_left_out() -> None:
    late = (Delay("c0", "resource", 2, 3.0), Delay("c1", "n1", 1, 0.01), Delay("n1", "n1", 1, 1.0))
    given = plan(delays=late, shuffle=7)
    real, notes = translated(given)
    assert (real.delays, real.shuffle) == ((), 0)
    [fault] = real.faults
    assert (fault.fault, fault.on, fault.client) == ("delayed-request", "write:invoke", 0)
    assert fault.params == {"client": "c0", "server": "resource", "delay": 3.0}
    assert notes == (
        "1 of the messages that come late are left out: by at most 10 ms",
        "the message from c0 to resource that comes 3 s late is held back: that of c0's write:invoke",
        "the message from n1 to n1 that comes 1 s late is left out: real ones can only be held back on their way from "
        "a client",
        "who runs next is left to the machine: only the simulator can shuffle it",
    )
    assert simulate(given).violated() == simulate(real).violated() == ("mutual-exclusion", "resource")


def test_a_late_request_is_held_back_and_a_late_answer_lets_its_client_stand_still() -> None:
    simulated = simulate(plan())
    on_link = [said for said in simulated.commands if said.client == "c0"]
    requests = [said.name for said in on_link if said.phase == "request"]
    nth = requests.index("SET") + 1
    real, _ = translated(plan(delays=(Delay("c0", "n1", nth, 0.4),)))
    [fault] = real.faults
    assert (fault.on, fault.params["containing"], fault.params["delay"]) == ("acquire:invoke", "SET", 0.4)
    real, _ = translated(plan(delays=(Delay("n1", "c0", nth, 0.4),)))
    [fault] = real.faults
    assert (fault.fault, fault.on, fault.client, fault.for_) == ("client-pause", "acquire", 0, 0.4)


def test_clients_that_start_together_are_put_apart_if_the_failure_stays() -> None:
    given = plan(stagger=0.0, faults=(FaultSpec("client-pause", on="acquire", for_=3.0),), expect=UNSAFE)
    ready = prepared(simulate(given))
    assert ready.plan.stagger == 0.2
    assert ready.notes[-1] == "clients start 0.2 s apart, not 0 s: that decides who comes first"
    assert ready.plan.faults[0].client == 0, "whoever was the first when they started together"


def test_who_came_first_by_chance_comes_first_because_others_are_held_back() -> None:
    """All messages of c0 are a little late, and so c1 is the first to get the lock, in which it stands still."""
    late = tuple(Delay("c0", "n1", nth, 0.045) for nth in range(1, 5))
    pause = FaultSpec("client-pause", on="acquire", client=1, for_=3.0)
    given = plan(stagger=0.1, delays=late, sections=2, wait=1.5, time_limit=8.0, faults=(pause,), expect=UNSAFE)
    ready = prepared(simulate(given))
    assert [fault.fault for fault in ready.plan.faults] == ["client-pause", "delayed-request"]
    assert ready.plan.faults[1].params == {"client": "c0", "server": "n1", "containing": "HELLO", "delay": 0.4}
    assert ready.notes[-1] == "that decides that c1 comes first"
    assert "mutual-exclusion" in ready.simulated.violated()


def test_a_time_in_the_middle_of_a_call_is_between_its_commands() -> None:
    simulated = simulate(plan(lock="redis-token-getdel"))
    [looked] = [said.time for said in simulated.commands if said.phase == "reply" and said.name == "GET"][:1]
    at = (looked - simulated.history.origin) / SECOND + 1e-5
    real, [note] = translated(
        plan(lock="redis-token-getdel", faults=(FaultSpec("client-pause", at=at, for_=1.0, params={"target": "c0"}),))
    )
    assert [(fault.fault, fault.on) for fault in real.faults] == [
        ("delayed-request", "release:invoke"), ("client-pause", "release:invoke")
    ]  # fmt: skip
    assert note.startswith("client-pause strikes while the DEL of c0 to n1 after c0's release:invoke is held back")


def test_long_after_a_command_is_so_long_after_its_call_began() -> None:
    jump = FaultSpec("clock-jump", on="request:SET", client=0, delay=0.5, params={"target": "n1"})
    given = plan(faults=(jump,))
    real, [note] = translated(given)
    [fault] = real.faults
    assert (fault.on, fault.client, fault.delay) == ("read", 0, 0.499)
    assert note == "clock-jump strikes 0.499 s after c0's read, not 0.5 s after request:SET"


def test_a_plan_that_does_not_show_it_by_triggers_is_run_with_a_doubt() -> None:
    """Its client gives up waiting for an answer after a second, just when it goes on."""
    given = catalogue.find("getset-unlock-late").plan
    ready = prepared(simulate(given))
    assert ready.notes[-1].startswith("by these triggers alone the failure does not come on the simulator")
    assert "ownership" in ready.simulated.violated(), "what it is held against is the run that was found"
    real = simulate(ready.plan)
    attempt = judged(ready, real.history, real.verdicts)
    assert attempt.reproduced is False
    assert "delayed-request" not in attempt.where, "which is a means, and no part of the story"


def test_what_real_clusters_cannot_do_is_refused() -> None:
    given = plan(lock="chubby", faults=(FaultSpec("client-pause", on="acquire", client=0, for_=30.0),))
    with pytest.raises(UsageError, match="exists only as a simulation"):
        prepared(simulate(given))


# Who comes next.


def restarted() -> Plan:
    """c0 gives the lock back and wants it again, and c1 has been waiting for it: on the simulator c1 gets it."""
    return plan(
        lock="redlock", hold=1.0, stagger=0.1, sections=2, time_limit=4.0, expect=UNSAFE,
        faults=(FaultSpec("kill-amnesia", on="read", client=1, for_=0.0, params={"target": "n1,n2,n5"}),),
    )  # fmt: skip


def test_who_has_given_a_lock_back_stands_still_until_the_right_one_has_got_it() -> None:
    ready = prepared(simulate(restarted()))
    turns = firmer(ready)
    assert turns.notes == ("c0 stands still for 0.8 s, so that c1 is granted k0",)
    [pause] = turns.plan.faults[1:]
    assert pause == FaultSpec("client-pause", on="release", client=0, for_=0.8, params={"target": "c0"})
    assert turns.simulated.violated() == ready.simulated.violated()


def test_who_waits_with_others_has_nobody_to_race_with() -> None:
    found = simulate(plan(clients=3, hold=0.5, stagger=0.05, sections=1))

    def grants(history: History) -> list[str | None]:
        return [op.node for op in history if op.f == "acquire" and op.type == "ok"]

    first, second, third = grants(found.history)
    assert first == "c0"
    real, [note] = in_turn(found.plan, found.history, None, 0.2)
    assert note.endswith(f"so that {second} is granted k0")
    again = simulate(real).history
    assert grants(again) == [first, second, third]
    [paused] = [op for op in again.nemesis("inject") if op.type == "invoke"]
    [resumed] = again.nemesis("heal")
    [granted] = [op for op in again if op.f == "acquire" and op.type == "ok" and op.node == second]
    assert paused.value["hosts"] == [third]
    assert paused.time < granted.time < resumed.time


def test_nobody_is_held_up_where_nobody_raced() -> None:
    simulated = simulate(plan(clients=1, time_limit=3.0))
    assert in_turn(simulated.plan, simulated.history, None) == (simulated.plan, ())
    alone = prepared(simulate(plan(faults=(FaultSpec("client-pause", on="acquire", client=0, for_=3.0),), sections=1)))
    assert firmer(alone) is alone, "who waits alone races with nobody"


# What is expected, and what is said of a try.


def test_what_is_expected_is_what_the_plan_says_else_what_was_found() -> None:
    pause = (FaultSpec("client-pause", on="acquire", client=0, for_=3.0),)
    assert expected_of(simulate(plan(faults=pause))) == ("mutual-exclusion", "resource")
    assert expected_of(simulate(plan(faults=pause, expect=UNSAFE))) == ("mutual-exclusion",)
    assert expected_of(simulate(plan(faults=pause, expect=Expect(safe=False, invalid=("deadlock",))))) == ()
    assert expected_of(simulate(plan(expect=Expect(safe=True)))) == ()


def test_a_try_is_judged_by_the_checkers_that_are_expected() -> None:
    given = plan(faults=(FaultSpec("client-pause", on="acquire", client=0, for_=3.0),), expect=UNSAFE)
    ready = prepared(simulate(given))
    again = simulate(ready.plan)
    assert judged(ready, again.history, again.verdicts).reproduced is True
    other = simulate(plan(faults=(FaultSpec("client-pause", on="acquire", client=1, for_=0.1),)))
    attempt = judged(ready, other.history, other.verdicts)
    assert attempt.reproduced is False
    assert attempt.parting is not None
    assert attempt.where.startswith("On the simulator client-pause struck c0 at 0.002 s (step 2); here client-pause")
    nothing = simulate(plan(time_limit=1.0, faults=(FaultSpec("client-pause", on="acquire", client=0, nth=99),)))
    assert judged(ready, nothing.history, nothing.verdicts).reproduced is None, "its fault never struck"


# Where two histories part. A story: c0's lease ends while it is paused, c1 is granted the key.


def overrun() -> Story:
    story = Story(clients=["c0", "c1"])
    story.acquire("c0", 0.1, 0.2).fault(0, "client-pause", ["c0"], 0.2, 3.2)
    return story.acquire("c1", 0.5, 2.2).release("c1", 3.0).release("c0", 3.3)


def told(history: History, until_s: float | None = None) -> Parting | None:
    return parted(overrun().told(), history, None if until_s is None else round(until_s * SECOND))


def test_the_same_steps_at_other_times_do_not_part() -> None:
    story = Story(clients=["c0", "c1"])
    story.acquire("c0", 0.15, 0.3).fault(0, "client-pause", ["c0"], 0.31, 3.4)
    story.acquire("c1", 0.4, 2.4).release("c1", 2.9).release("c0", 3.5)
    assert told(story.told()) is None


def test_another_ending_of_a_call() -> None:
    story = Story(clients=["c0", "c1"])
    story.acquire("c0", 0.1, 0.2).fault(0, "client-pause", ["c0"], 0.2, 3.2)
    story.call("c1", "acquire", 0.5, 2.5, "fail", error="busy").release("c0", 3.3)
    found = told(story.told())
    assert found == Parting(
        "On the simulator c1 was granted k0 while c0 held it at 2.200 s (step 3); "
        "here c1's acquire of k0 failed: busy (at 2.500 s)", 3, 2_200_000_000, 2_500_000_000,
    )  # fmt: skip


def test_how_often_somebody_asked_in_vain_is_no_parting() -> None:
    """But that it did is one: the key was taken where it was free before."""
    one, two = Story(clients=["c0", "c1"]), Story(clients=["c0", "c1"])
    for story, vain in ((one, (0.5,)), (two, (0.5, 0.7, 0.9))):
        story.acquire("c0", 0.1, 0.2)
        for at in vain:
            story.call("c1", "acquire", at, at + 0.1, "fail", error="busy")
        story.release("c0", 1.0).acquire("c1", 1.1, 1.2)
    assert parted(one.told(), two.told()) is None
    never = Story(clients=["c0", "c1"]).acquire("c0", 0.1, 0.2).release("c0", 1.0).acquire("c1", 1.1, 1.2)
    found = parted(one.told(), never.told())
    assert found is not None
    assert "c1's acquire of k0 failed: busy at 0.600 s (step 2); here c1 was granted k0" in found.sentence


def test_a_missing_fault() -> None:
    story = Story(clients=["c0", "c1"])
    story.acquire("c0", 0.1, 0.2).acquire("c1", 0.5, 2.2).release("c1", 3.0).release("c0", 3.3)
    found = told(story.told())
    assert found == Parting(
        "On the simulator client-pause struck c0 at 0.200 s (step 2); here that never happened", 2, 200_000_000, None
    )


def test_a_fault_that_had_no_effect_or_struck_others() -> None:
    for hosts, error in ((["c0"], "no effect seen"), (["c1"], None)):
        story = Story(clients=["c0", "c1"]).acquire("c0", 0.1, 0.2)
        about = {"id": 0, "fault": "client-pause", "hosts": hosts}
        story.nemesis(0.2, "inject", "invoke", {**about, "disturbs": False, "params": {}})
        story.nemesis(0.3, "inject", "fail" if error else "ok", {**about, "observed": {}}, error)
        story.acquire("c1", 0.5, 2.2).release("c1", 3.0).release("c0", 3.3)
        found = told(story.told())
        assert found is not None
        expected = f"client-pause struck {hosts[0]}{f', {error}' if error else ''} (at 0.200 s)"
        assert found.sentence == f"On the simulator client-pause struck c0 at 0.200 s (step 2); here {expected}"


def test_another_order_of_grants() -> None:
    story = Story(clients=["c0", "c1"])
    story.acquire("c1", 0.1, 0.15).release("c1", 0.2).acquire("c0", 0.2, 0.3)
    story.fault(0, "client-pause", ["c0"], 0.35, 3.2).release("c0", 3.3)
    found = told(story.told())
    assert found is not None
    assert (
        found.sentence == "On the simulator c0 was granted k0 at 0.200 s (step 1); here c1 was granted k0 (at 0.150 s)"
    )


def test_a_grant_after_a_release_instead_of_before_it() -> None:
    story = Story(clients=["c0", "c1"])
    story.acquire("c0", 0.1, 0.2).fault(0, "client-pause", ["c0"], 0.2, 1.2)
    story.release("c0", 1.3).acquire("c1", 0.5, 1.4).release("c1", 3.0)
    found = told(story.told())
    assert found is not None
    assert found.sentence.endswith(
        "c1 was granted k0 while c0 held it at 2.200 s (step 3); here c0 began to release k0 (at 1.300 s)"
    )


def test_a_fault_among_other_steps() -> None:
    story = Story(clients=["c0", "c1"])
    story.acquire("c0", 0.1, 0.2).acquire("c1", 0.5, 2.2).fault(0, "client-pause", ["c0"], 2.3, 2.9)
    found = told(story.release("c1", 3.0).release("c0", 3.3).told())
    assert found is not None
    assert found.sentence.endswith(
        "client-pause struck c0 at 0.200 s (step 2); here c1 was granted k0 while c0 held it (at 2.200 s)"
    )


def test_what_comes_after_the_violation_is_not_looked_at() -> None:
    story = Story(clients=["c0", "c1"])
    story.acquire("c0", 0.1, 0.2).fault(0, "client-pause", ["c0"], 0.2, 3.2).acquire("c1", 0.5, 2.2)
    history = story.release("c1", 3.0, 3.1, "info").told()
    assert told(history, until_s=2.5) is None
    found = told(history)
    assert found is not None
    assert "c1's release of k0 succeeded at 3.001 s (step 4); here c1's release of k0 ended without an answer" in (
        found.sentence
    )


def mutations() -> dict[str, Callable[[Op], Op | None]]:
    """Each makes another history out of a simulated one, entry by entry; None leaves an entry out."""

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


@pytest.mark.parametrize("name", list(mutations()))
def test_each_kind_of_divergence_is_found(name: str) -> None:
    simulated = simulate(plan(faults=(FaultSpec("client-pause", on="acquire", client=0, for_=3.0),))).history
    changed = [op for op in map(mutations()[name], simulated) if op is not None]
    history = History(msgspec.structs.replace(op, index=index) for index, op in enumerate(changed))
    assert parted(simulated, simulated) is None
    assert parted(simulated, history) is not None
    assert differs_at(simulated, history) is not None


def test_the_first_entry_that_differs() -> None:
    one = overrun().told()
    assert differs_at(one, one) is None
    assert differs_at(one, History(one[:4])) == 4
    other = [*one[:2], msgspec.structs.replace(one[2], wall=0), *one[3:]]
    assert differs_at(one, History(other)) == 2
