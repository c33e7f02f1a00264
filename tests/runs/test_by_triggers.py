"""Plans for real clusters, whose faults strike on events, derived from simulated runs."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import UsageError
from harness.history import SECOND, History
from harness.plan import Delay, Expect, FaultSpec, Plan
from harness.run.plans.completion import complete
from harness.run.runs import run
from harness.scenarios import catalogue
from harness.search.replay import by_triggers, judge, prepare, simulate, without_races
from harness.search.replay.turns import pause_rivals

from .replayed_plans import UNSAFE, plan


def translate(given: Plan) -> tuple[Plan, tuple[str, ...]]:
    simulated = simulate(given)
    return by_triggers(simulated.plan, simulated.history, simulated.commands)


def pauses(history: History) -> list[float]:
    """Return when clients were paused, in ms."""
    found = [op for op in history.nemesis("inject") if op.type == "invoke" and op.value["fault"] == "client-pause"]
    return [round((op.time - history.origin) / 1e6, 1) for op in found]


def test_recording_commands_does_not_change_the_history() -> None:
    pause = FaultSpec("client-pause", on="reply:SET", client=0, for_=1.0)
    given = plan(time_limit=3.0, faults=(pause,))
    simulated = simulate(given)
    assert list(simulated.history) == list(run(given).history)
    assert {(said.phase, said.name) for said in simulated.commands} >= {("request", "SET"), ("reply", "SET")}


def test_a_time_becomes_an_event_and_a_delay() -> None:
    given = plan(faults=(FaultSpec("client-pause", at=0.2, for_=3.0),))
    real, notes = translate(given)
    pause = {"target": "c0"}  # chosen at random on the simulator, by name here
    assert real.faults == (FaultSpec("client-pause", on="read", client=0, delay=0.198, for_=3.0, params=pause),)
    assert notes == (
        "client-pause strikes 0.198 s after c0's read, not at 0.2 s; "
        "client-pause strikes the same hosts as on the simulator: c0",
    )
    assert real.cluster == "docker"
    assert complete(real)
    before, after = simulate(given), simulate(real)
    assert before.violated() == after.violated() == ("mutual-exclusion", "resource")
    assert pauses(after.history) == pytest.approx(pauses(before.history), abs=1.0)


def test_a_time_equal_to_that_of_an_event_needs_no_delay() -> None:
    real, _ = translate(plan(faults=(FaultSpec("client-pause", at=0.3004, for_=3.0, params={"target": "c0"}),)))
    [fault] = real.faults
    assert (fault.on, fault.client, fault.nth, fault.delay) == ("acquire:invoke", 1, 1, 0.0)


def test_events_are_counted_like_in_the_nemesis() -> None:
    given = plan(time_limit=8.0, faults=(FaultSpec("client-pause", at=3.1, for_=3.0, params={"target": "c0"}),))
    real, _ = translate(given)
    [fault] = real.faults
    assert fault.nth > 1
    assert pauses(simulate(real).history) == pytest.approx([3100], abs=1.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("nth", "client", "own", "words"), [(2, 1, 1, "c1's acquire:invoke"), (3, 0, 2, "c0's 2nd acquire:invoke")]
)
def test_an_event_of_any_client_becomes_one_of_the_client_that_caused_it(
    nth: int, client: int, own: int, words: str
) -> None:
    given = plan(faults=(FaultSpec("client-pause", on="acquire:invoke", nth=nth, for_=3.0),))
    real, notes = translate(given)
    assert real.faults == (FaultSpec("client-pause", on="acquire:invoke", client=client, nth=own, for_=3.0),)
    assert notes == (f"client-pause strikes on {words}, which triggered it on the simulator",)
    assert pauses(simulate(real).history) == pauses(simulate(given).history)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "fault",
    [
        FaultSpec("clock-jump", at=0.0, params={"target": "n1"}),
        FaultSpec("client-pause", on="acquire", client=0, nth=2, for_=3.0),
        FaultSpec("client-pause", on="acquire", nth=2, times=3, every=2.0, for_=1.0),
        FaultSpec("kill", on="release", client=1, nth=900),
    ],
)
def test_a_fault_with_a_usable_trigger_is_unchanged(fault: FaultSpec) -> None:
    real, notes = translate(plan(faults=(fault,)))
    assert (real.faults, notes) == ((fault,), ())


@pytest.mark.few(1)
@pytest.mark.parametrize("moment", [{"at": 0.0}, {"on": "acquire", "client": 0}])
def test_randomly_chosen_targets_are_named(moment: dict[str, Any]) -> None:
    given = plan(lock="redlock", faults=(FaultSpec("kill", for_=0.5, params={"target": "majority"}, **moment),))
    real, [note] = translate(given)
    [inject] = [op for op in simulate(given).history.nemesis("inject") if op.type == "invoke"]
    assert real.faults[0].params == {"target": ",".join(inject.value["hosts"])}
    assert note == f"kill strikes the same hosts as on the simulator: {', '.join(inject.value['hosts'])}"


def test_periodic_faults_stay_periodic_with_a_note() -> None:
    fault = FaultSpec("client-pause", every=3.0, for_=1.0, params={"target": "one"})
    real, [note] = translate(plan(time_limit=8.0, faults=(fault,)))
    assert real.faults == (fault,)
    assert "strikes every 3 s" in note


@pytest.mark.slow
def test_a_pause_between_two_commands_delays_the_second_one() -> None:
    """Its GET of the key has returned, and its DEL has not arrived yet."""
    fault = FaultSpec("client-pause", on="reply:GET", client=0, for_=3.0)
    given = plan(
        lock="redis-token-getdel", clients=3, hold=1.5, holds={"c0": 0.1}, stagger=0.2, time_limit=10.0,
        faults=(fault,), expect=Expect(safe=False, invalid=("ownership",)),
    )  # fmt: skip
    ready = prepare(simulate(given))
    held, pause = ready.plan.faults
    assert (held.fault, held.on, held.params["containing"]) == ("delayed-request", "release:invoke", "DEL")
    assert held.params["delay"] > 3.0 == pause.for_
    assert pause.delay > 0
    assert ready.notes == (
        "client-pause strikes while the DEL of c0 to n1 after c0's release:invoke is held back for 3.2 s, "
        "not on reply:GET",
    )
    assert "ownership" in ready.simulated.violated()


@pytest.mark.slow
def test_a_server_fault_on_the_last_reply_strikes_at_the_end_of_the_call() -> None:
    jump = FaultSpec("clock-jump", on="reply:SET", client=0, nth=5, params={"target": "n1,n2,n3"})
    given = plan(lock="redlock", faults=(jump,), expect=UNSAFE)
    simulated = simulate(given)
    real, [note] = by_triggers(simulated.plan, simulated.history, simulated.commands)
    [fault] = real.faults
    assert (fault.on, fault.client, fault.delay) == ("acquire", 0, 0.0)
    assert note == "clock-jump strikes on c0's acquire, not on reply:SET: that entry ended the call"
    assert "mutual-exclusion" in simulate(real).violated()


@pytest.mark.slow
def test_a_server_fault_during_a_call_strikes_while_a_command_is_delayed() -> None:
    jump = FaultSpec("clock-jump", on="reply:SET", client=0, nth=7, params={"target": "n1,n5"})
    simulated = simulate(plan(lock="redlock", faults=(jump,)))
    real, [note] = by_triggers(simulated.plan, simulated.history, simulated.commands)
    held, fault = real.faults
    assert (held.fault, held.params["server"], held.params["containing"]) == ("delayed-request", "n5", "SET")
    assert 0 < fault.delay < held.params["delay"]
    assert "while the SET of c0 to n5" in note


@pytest.mark.slow
def test_without_recorded_commands_a_fault_strikes_at_the_nearest_event() -> None:
    simulated = simulate(plan(lock="redis-token-getdel", faults=(FaultSpec("client-pause", on="reply:GET", for_=3.0),)))
    real, [note] = by_triggers(simulated.plan, simulated.history)
    [fault] = real.faults
    assert (fault.on, fault.client, fault.delay) == ("release:invoke", 0, 0.0)
    assert note == "client-pause strikes on c0's release:invoke, not on reply:GET"


def test_a_fault_on_a_command_that_never_came_is_left_out() -> None:
    real, [note] = translate(plan(faults=(FaultSpec("client-pause", on="request:LPUSH", for_=3.0),)))
    assert real.faults == ()
    assert "it never struck on the simulator" in note


def test_long_delays_become_faults_and_short_ones_are_left_out() -> None:
    late = (Delay("c0", "resource", 2, 3.0), Delay("c1", "n1", 1, 0.01), Delay("n1", "n1", 1, 1.0))
    given = plan(delays=late, shuffle=7)
    real, notes = translate(given)
    assert (real.delays, real.shuffle) == ((), 0)
    [fault] = real.faults
    assert (fault.fault, fault.on, fault.client) == ("delayed-request", "write:invoke", 0)
    assert fault.params == {"client": "c0", "server": "resource", "delay": 3.0}
    assert notes == (
        "1 of the late messages are left out: they are late by at most 10 ms",
        "the message from c0 to resource that comes 3 s late is held back: the message of c0's write:invoke",
        "the message from n1 to n1 that comes 1 s late is left out: real messages can only be held back on their way "
        "from a client",
        "the machine schedules the threads: only the simulator can shuffle them",
    )
    assert simulate(given).violated() == simulate(real).violated() == ("mutual-exclusion", "resource")


def test_a_late_request_becomes_a_delay_and_a_late_reply_becomes_a_pause() -> None:
    simulated = simulate(plan())
    on_link = [said for said in simulated.commands if said.client == "c0"]
    requests = [said.name for said in on_link if said.phase == "request"]
    nth = requests.index("SET") + 1
    real, _ = translate(plan(delays=(Delay("c0", "n1", nth, 0.4),)))
    [fault] = real.faults
    assert (fault.on, fault.params["containing"], fault.params["delay"]) == ("acquire:invoke", "SET", 0.4)
    real, _ = translate(plan(delays=(Delay("n1", "c0", nth, 0.4),)))
    [fault] = real.faults
    assert (fault.fault, fault.on, fault.client, fault.for_) == ("client-pause", "acquire", 0, 0.4)


@pytest.mark.slow
def test_simultaneous_clients_are_staggered_if_the_failure_remains() -> None:
    given = plan(stagger=0.0, faults=(FaultSpec("client-pause", on="acquire", for_=3.0),), expect=UNSAFE)
    ready = prepare(simulate(given))
    assert ready.plan.stagger == 0.2
    assert ready.notes[-1] == "clients start 0.2 s apart, not 0 s, so that they start in a fixed order"
    assert ready.plan.faults[0].client == 0, "whoever was the first when they started together"


@pytest.mark.slow
def test_the_first_client_stays_first_because_others_are_delayed() -> None:
    """On the simulator all messages of c0 are a little late, so c1 acquires first. c1 is paused during its hold."""
    late = tuple(Delay("c0", "n1", nth, 0.045) for nth in range(1, 5))
    pause = FaultSpec("client-pause", on="acquire", client=1, for_=3.0)
    given = plan(stagger=0.1, delays=late, sections=2, wait=1.5, time_limit=8.0, faults=(pause,), expect=UNSAFE)
    ready = prepare(simulate(given))
    assert [fault.fault for fault in ready.plan.faults] == ["client-pause", "delayed-request"]
    assert ready.plan.faults[1].params == {"client": "c0", "server": "n1", "containing": "HELLO", "delay": 0.4}
    assert ready.notes[-1] == "the first requests of the clients before c1 are delayed, so that c1 is granted first"
    assert "mutual-exclusion" in ready.simulated.violated()


@pytest.mark.slow
def test_a_time_during_a_call_is_placed_between_its_commands() -> None:
    simulated = simulate(plan(lock="redis-token-getdel"))
    [looked] = [said.time for said in simulated.commands if said.phase == "reply" and said.name == "GET"][:1]
    at = (looked - simulated.history.origin) / SECOND + 1e-5
    real, [note] = translate(
        plan(lock="redis-token-getdel", faults=(FaultSpec("client-pause", at=at, for_=1.0, params={"target": "c0"}),))
    )
    assert [(fault.fault, fault.on) for fault in real.faults] == [
        ("delayed-request", "release:invoke"), ("client-pause", "release:invoke")
    ]  # fmt: skip
    assert note.startswith("client-pause strikes while the DEL of c0 to n1 after c0's release:invoke is held back")


@pytest.mark.slow
def test_a_long_delay_after_a_command_counts_from_the_nearest_event() -> None:
    jump = FaultSpec("clock-jump", on="request:SET", client=0, delay=0.5, params={"target": "n1"})
    given = plan(faults=(jump,))
    real, [note] = translate(given)
    [fault] = real.faults
    assert (fault.on, fault.client, fault.delay) == ("read", 0, 0.499)
    assert note == "clock-jump strikes 0.499 s after c0's read, not 0.5 s after request:SET"


@pytest.mark.slow
def test_a_plan_whose_triggers_lose_the_failure_gets_a_note() -> None:
    """Its client gives up waiting for an answer after a second, just when it resumes."""
    given = catalogue.find("getset-unlock-late").plan
    ready = prepare(simulate(given))
    assert ready.notes[-1].startswith("with these triggers the failure does not happen on the simulator")
    assert "ownership" in ready.simulated.violated(), "what it is held against is the run that was found"
    real = simulate(ready.plan)
    attempt = judge(ready, real.history, real.verdicts)
    assert attempt.reproduced is False
    assert "delayed-request" not in attempt.where, "which is a means, and no part of the story"


def test_faults_that_only_the_simulator_has_are_refused() -> None:
    given = plan(workload="reuse", faults=(FaultSpec("thread-interrupt", on="acquire", client=0),))
    with pytest.raises(UsageError, match="redis-single on docker cannot do; --cluster sim can"):
        prepare(simulate(given))


# The next holder.


def plan_with_restart() -> Plan:
    """c0 releases the lock and requests it again while c1 waits. On the simulator c1 acquires it."""
    return plan(
        lock="redlock", hold=1.0, stagger=0.1, sections=2, time_limit=4.0, expect=UNSAFE,
        faults=(FaultSpec("kill-amnesia", on="read", client=1, for_=0.0, params={"target": "n1,n2,n5"}),),
    )  # fmt: skip


@pytest.mark.slow
def test_a_releasing_client_is_paused_until_the_next_holder_acquires() -> None:
    ready = prepare(simulate(plan_with_restart()))
    turns = without_races(ready)
    assert turns.notes == ("c0 is paused for 0.8 s, so that c1 is granted k0",)
    [pause] = turns.plan.faults[1:]
    assert pause == FaultSpec("client-pause", on="release", client=0, for_=0.8, params={"target": "c0"})
    assert turns.simulated.violated() == ready.simulated.violated()


def test_competing_waiters_are_paused_until_the_right_one_acquires() -> None:
    found = simulate(plan(clients=3, hold=0.5, stagger=0.05, sections=1))

    def grants(history: History) -> list[str | None]:
        return [op.node for op in history if op.f == "acquire" and op.type == "ok"]

    first, second, third = grants(found.history)
    assert first == "c0"
    real, [note] = pause_rivals(found.plan, found.history, None, 0.2)
    assert note.endswith(f"so that {second} is granted k0")
    again = simulate(real).history
    assert grants(again) == [first, second, third]
    [paused] = [op for op in again.nemesis("inject") if op.type == "invoke"]
    [resumed] = again.nemesis("heal")
    [granted] = [op for op in again if op.f == "acquire" and op.type == "ok" and op.node == second]
    assert paused.value["hosts"] == [third]
    assert paused.time < granted.time < resumed.time


@pytest.mark.slow
def test_no_client_is_paused_without_a_race() -> None:
    simulated = simulate(plan(clients=1, time_limit=3.0))
    assert pause_rivals(simulated.plan, simulated.history, None) == (simulated.plan, ())
    alone = prepare(simulate(plan(faults=(FaultSpec("client-pause", on="acquire", client=0, for_=3.0),), sections=1)))
    assert without_races(alone) is alone, "who waits alone races with nobody"
