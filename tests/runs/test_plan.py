"""Plans are data: they survive a round trip, and an invalid plan is refused with a message that names the place."""

from __future__ import annotations

import pickle
from datetime import date
from pathlib import Path

import msgspec
import pytest

from harness.errors import UsageError
from harness.faults.catalogue import build_fault, default_specs, fault_names, refuse_overlap, refuse_unknown_words
from harness.plan import FaultSpec, Plan, decode, dump, load, seconds
from harness.run.plans.completion import complete

FULL = Plan(
    lock="redlock",
    kind="redis-independent",
    nodes=5,
    clients=3,
    ttl=1.5,
    seed=7,
    faults=(FaultSpec("clock-jump", on="acquire", client=0, nth=2, for_=1.25, params={"target": "n3"}),),
    holds={"c0": 3.0},
)


def test_a_plan_survives_a_round_trip_through_toml(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(dump(FULL))
    assert load(path) == FULL
    assert "for = 1.25" in path.read_text()
    assert "hold =" not in path.read_text(), "defaults are left out"


@pytest.mark.parametrize(
    ("text", "value"),
    [("2", 2), ("2s", 2), ("150ms", 0.15), ("1.5m", 90), ("-1s", -1), (3, 3), ("10 us", 1e-5), ("1h", 3600)],
)
def test_durations_are_parsed(text: str, value: float) -> None:
    assert seconds(text) == pytest.approx(value)


def test_durations_in_toml_may_be_text(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text('lock = "x"\nttl = "1500ms"\nfaults = [{fault = "kill", every = "2s", for = "10ms"}]\n')
    plan = load(path)
    assert (plan.ttl, plan.faults[0].every, plan.faults[0].for_) == (1.5, 2.0, 0.01)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "a plan needs a lock"),
        ({"lock": "x", "ttl": -1}, "ttl must be more than 0 seconds, got -1"),
        ({"lock": "x", "ttl": date(2026, 1, 2)}, "ttl: expected a duration such as .* got '2026-01-02'"),
        ({"lock": "x", "ttl": "soon"}, "ttl: expected a duration such as 2, '2s' or '150ms', got 'soon'"),
        ({"lock": "x", "clients": 0}, "clients must be at least 1, got 0"),
        ({"lock": "x", "rest": -0.5}, "rest must not be negative, got -0.5"),
        ({"lock": "x", "colour": 1}, "unknown key .colour."),
        ({"lock": "x", "discipline": "brave"}, "discipline must be one of trusting, checking, got 'brave'"),
        ({"lock": "x", "ttl": float("nan")}, "ttl must be seconds, at most 1e.08, got nan"),
        ({"lock": "x", "time_limit": float("inf")}, "time_limit must be seconds, at most 1e.08, got inf"),
        ({"lock": "x", "holds": {"c9": 1.0}}, "holds: expected c0 to c4 and seconds from 0 to .*, got c9 = 1"),
        ({"lock": "x", "holds": {"c0": float("nan")}}, "holds: expected c0 to c4 .*, got c0 = nan"),
        ({"lock": "x", "holds": {"c0": 1e300}}, "holds: expected c0 to c4 .*, got c0 = 1e"),
        ({"lock": "x", "faults": [{"fault": "kill", "every": 0}]}, "fault 'kill': every must be from 0.001"),
        ({"lock": "x", "faults": [{"fault": "kill", "at": float("nan")}]}, "fault 'kill': at must be from 0"),
        (
            {"lock": "x", "faults": [{"fault": "latency", "at": 1, "params": {"jitter": float("nan")}}]},
            "fault 'latency': params: jitter must be a finite number, got nan",
        ),
        ({"lock": "x", "faults": [{"fault": "kill", "on": "read", "nth": 0}]}, "fault 'kill': nth must be from 1"),
        ({"lock": "x", "faults": [{"fault": "kill", "on": "read", "client": 5}]}, "client must be from 0 to 4, got 5"),
        ({"lock": "x", "faults": [{"fault": "kill"}]}, "fault 'kill': give one of 'at', 'every' and 'on'"),
        ({"lock": "x", "faults": [{"fault": "kill", "every": 2, "at": 1}]}, "give one of 'at', 'every' and 'on'"),
        ({"lock": "x", "faults": [{"fault": "kill", "on": "read", "at": 1}]}, "give one of 'at', 'every' and 'on'"),
        (
            {"lock": "x", "faults": [{"fault": "kill", "at": 1, "client": 0, "node": "n1", "nth": 2, "times": 3}]},
            r"fault 'kill': client, node, nth, times go with an event \('on'\), not with 'at'",
        ),
        ({"lock": "x", "faults": [{"fault": "kill", "every": 1, "delay": 1}]}, r"delay go with an event .*, not with"),
        ({"lock": "x", "faults": [{"fault": "kill", "every": "x"}]}, r"faults\[0\].every: expected a duration"),
    ],
)
def test_invalid_plans_are_refused_with_the_reason(data: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        decode(data)


def test_errors_in_plan_files_name_the_file(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    with pytest.raises(UsageError, match=r"cannot read the plan .*plan.toml: No such file"):
        load(path)
    path.write_text("lock = =\n")
    with pytest.raises(UsageError, match=r"plan.toml is not valid TOML: .*line 1"):
        load(path)
    path.write_text(f"lock = 'x'\nseed = {'1' * 5000}\n")
    with pytest.raises(UsageError, match=r"plan.toml is not valid TOML: Exceeds the limit"):
        load(path)
    path.write_text("lock = 'x'\nttl = -2")
    with pytest.raises(UsageError, match=r"plan.toml: ttl must be more than 0 seconds, got -2"):
        load(path)


@pytest.mark.parametrize("name", [name for name in fault_names() if name != "none"])
def test_every_fault_has_a_valid_default_schedule(name: str) -> None:
    specs = default_specs(name, ttl=2.0)
    Plan(lock="x", faults=tuple(specs)).check()
    assert build_fault(specs[0]).name == name
    for spec in specs:
        refuse_overlap(spec)


def test_unknown_faults_and_parameters_are_refused() -> None:
    assert default_specs("none", 2.0) == []
    with pytest.raises(UsageError, match="unknown nemesis 'clock-skwe': did you mean clock-skew"):
        default_specs("clock-skwe", 2.0)
    with pytest.raises(UsageError, match="unknown parameter of fault 'kill' 'how'"):
        build_fault(FaultSpec("kill", at=1, params={"how": "gently"}))


@pytest.mark.parametrize(
    ("spec", "fine"),
    [
        (FaultSpec("kill", every=2.0), False),
        (FaultSpec("kill", every=2.0, for_=3.0), False),
        (FaultSpec("kill", on="acquire", times=3, for_=1.0), False),
        (FaultSpec("kill", every=2.0, for_=2.0), True),
        (FaultSpec("kill", on="acquire", times=3, every=1.0, for_=1.0), True),
        (FaultSpec("kill", on="acquire"), True),
        (FaultSpec("clock-skew", every=2.0), True),
    ],
)
def test_a_fault_that_would_strike_while_it_lasts_is_refused(spec: FaultSpec, fine: bool) -> None:
    if fine:
        refuse_overlap(spec)
    else:
        with pytest.raises(UsageError, match="fault 'kill' would strike again while it lasts: give 'for'"):
            refuse_overlap(spec)


HOSTS = ["n1", "n2", "c0", "c1"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (FaultSpec("kill", on="aquire"), "unknown event of fault 'kill' 'aquire': did you mean acquire"),
        (FaultSpec("kill", on="acquire:oks"), "unknown ending in the event 'acquire:oks' 'oks': did you mean ok"),
        (FaultSpec("kill", on="reply:set"), "commands are in capitals: reply:SET, got 'reply:set'"),
        (FaultSpec("kill", at=1, params={"target": "n1,n9"}), "unknown target of fault 'kill' 'n9': did you mean n"),
        (
            FaultSpec("latency", at=1, params={"servers": "al"}),
            "target of fault 'latency' 'al': did you mean all",
        ),
        (
            FaultSpec("client-pause", at=1, params={"target": "n1"}),
            "fault 'client-pause' strikes clients, and target 'n1' names servers",
        ),
        (
            FaultSpec("kill", at=1, params={"target": "n1, c0"}),
            "fault 'kill' strikes servers or sentinels, and target 'n1, c0' names clients",
        ),
        (FaultSpec("server-pause", on="acquire", params={"target": "holder"}), "target 'holder' names clients"),
        (FaultSpec("client-crash", at=1, params={"target": "servers"}), "target 'servers' names servers"),
        (FaultSpec("kill", at=1, params={"target": "sentinels"}), "no host is among 'sentinels'; there are n1, n2, c0"),
        (FaultSpec("kill", on="reply:SET", node="n7"), r"node of fault 'kill' \(a server for this event\) 'n7'"),
        (FaultSpec("kill", on="acquire", node="n1"), r"node of fault 'kill' \(a client for this event\) 'n1'"),
    ],
)
def test_unknown_events_and_targets_are_refused(spec: FaultSpec, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        refuse_unknown_words(spec, HOSTS)


@pytest.mark.parametrize("spec", [FaultSpec("failover", at=1), FaultSpec("kill", at=1, params={"target": "replicas"})])
def test_replica_targets_are_refused_on_a_single_server(spec: FaultSpec) -> None:
    refuse_unknown_words(spec, HOSTS)
    with pytest.raises(UsageError, match=r"needs a replica: two nodes|no host is among 'replicas'"):
        refuse_unknown_words(spec, ["n1", "c0", "c1"])


def test_known_events_and_targets_are_accepted() -> None:
    for spec in (
        FaultSpec("kill", on="acquire", params={"target": "n1, n2"}),
        FaultSpec("kill", on="release:info", params={"target": "majority"}),
        FaultSpec("client-pause", on="reply:SET", node="n2"),
        FaultSpec("client-pause", on="read", node="c1", params={"target": "c0"}),
        FaultSpec("clock-jump", at=1, params={"target": "c0"}),
        FaultSpec("delayed-request", on="read", params={"server": "resource"}),
        FaultSpec("clock-skew", every=1.0),
    ):
        refuse_unknown_words(spec, HOSTS)


def test_durations_in_holds_and_params_may_be_text() -> None:
    jump = {"fault": "clock-jump", "at": "1s", "params": {"seconds": "90s"}}
    plan = decode({"lock": "x", "holds": {"c0": "300ms"}, "faults": [jump]})
    assert plan.holds == {"c0": 0.3}
    assert plan.faults[0].params == {"seconds": 90.0}


def test_unknown_lock_options_are_refused() -> None:
    with pytest.raises(
        UsageError, match="unknown lock_options of chubby-zookeeper 'lock_dealy': did you mean lock_delay"
    ):
        complete(Plan(lock="chubby-zookeeper", lock_options={"lock_dealy": 1.0}))
    complete(Plan(lock="chubby-zookeeper", lock_options={"lock_delay": 1.0}))


def test_acquire_events_are_refused_for_workloads_without_locks() -> None:
    plan = Plan(lock="redis-token", workload="optimistic", faults=(FaultSpec("client-pause", on="acquire", for_=1.0),))
    with pytest.raises(UsageError, match="takes no lock"):
        complete(plan)
    complete(msgspec.structs.replace(plan, faults=(FaultSpec("client-pause", on="read", for_=1.0),)))


def test_a_pickled_plan_is_written_unchanged() -> None:
    """Workers send plans. msgspec's ``omit_defaults`` compares defaults by identity, which pickling does not
    preserve."""
    plan = Plan(lock="redis-token", ttl=3.0, faults=(FaultSpec("clock-jump", at=1.0),))
    written = 'lock = "redis-token"\nttl = 3.0\nfaults = [\n    { fault = "clock-jump", at = 1.0 },\n]\n'
    assert dump(pickle.loads(pickle.dumps(plan))) == dump(plan) == written
