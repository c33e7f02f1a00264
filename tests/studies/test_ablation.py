"""``harness scenario ablate``: a failure that needs neither its fault nor its bug survives, and turns the study red."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as with_

from harness.cli.main import main
from harness.documents import AblationDocument
from harness.errors import UsageError
from harness.plan import FaultSpec
from harness.scenarios import catalogue
from harness.studies.ablation import ablate, ablations, differences

OVERRUN = """
lock = "redis-token"
clients = 3
hold = "3s"
time_limit = "12s"
{twin}

[[faults]]
fault = "client-pause"
on = "acquire"
for = "{pause}"
{decoration}

[expect]
safe = {safe}
{checkers}
"""
MECHANISM = """
[expect.mechanism]
cause = "client"
order = ["first acquire", "client-pause inject", "first lease-end", "second acquire"]
"""
STARTED = 'never = ["first read"]'
"""The first holder is paused before it begins its work."""


def write(
    folder: Path, *, decoration: str = "", fence: bool = True, twin: str = "", mechanism: str = "", pause: str = "1s"
) -> Path:
    """Write a failure that needs no fault, since its work outlasts its lease, and a cure that also has a fence."""
    failure, cure = folder / "overrun.toml", folder / "overrun.safe.toml"
    note = f'decoration = "{decoration}"' if decoration else ""
    failed = 'invalid = ["mutual-exclusion"]'
    failure.write_text(OVERRUN.format(decoration=note, safe="false", checkers=failed, twin="", pause=pause) + mechanism)
    text = OVERRUN.format(decoration="", safe="true", checkers="", twin=f'twin = "{twin}"' if twin else "", pause=pause)
    text = text.replace('"redis-token"', '"redis-watchdog"')
    cure.write_text(f'fencing = "on"\n{text}' if fence else text)
    return failure


def study(path: Path) -> AblationDocument:
    return ablate([catalogue.find(str(path))], workers=1)


def rows(found: AblationDocument) -> dict[str, str]:
    return {outcome.change: outcome.state for outcome in found.outcomes}


@pytest.mark.slow
def test_a_fault_and_a_change_that_are_not_needed_survive(tmp_path: Path) -> None:
    found = study(write(tmp_path))
    assert rows(found) == {
        "without client-pause": "survives",
        "lock = redis-watchdog": "vanishes",
        "fencing = on": "survives",
    }
    assert found.status == 1


@pytest.mark.slow
def test_what_the_scenario_explains_is_no_finding(tmp_path: Path) -> None:
    found = study(write(tmp_path, decoration="as in the article", twin="a fence, as in the article"))
    assert [outcome.state for outcome in found.outcomes if outcome.explained] == ["survives", "vanishes", "survives"]
    assert found.status == 0


@pytest.mark.slow
def test_a_mechanism_makes_a_failure_without_its_fault_another_one(tmp_path: Path) -> None:
    found = study(write(tmp_path, fence=False, mechanism=MECHANISM, pause="2.5s"))
    assert rows(found)["without client-pause"] == "survives", "a step of an absent fault does not count"
    assert all("client-pause inject" in outcome.reason for outcome in found.outcomes), "it is shown all the same"
    found = study(write(tmp_path, fence=False, mechanism=MECHANISM + STARTED, pause="2.5s"))
    without, _ = found.outcomes
    assert (without.state, "other-cause" in without.why) == ("vanishes", True)
    assert found.status == 0


def test_faults_of_one_kind_are_told_apart_by_their_moment() -> None:
    scenario = catalogue.find("ttl-pause-write")
    (pause,) = scenario.plan.faults
    later = FaultSpec(fault=pause.fault, at=3.0, for_=1.0)
    changed = replace(scenario, plan=with_(scenario.plan, faults=(pause, later)))
    first, second = (one.change for one in ablations(changed) if one.kind == "fault")
    assert "client-pause (on " in first
    assert second == "without client-pause (at 3 s)"


def test_keys_of_the_lock_are_one_difference() -> None:
    plan = catalogue.find("ttl-overrun").plan
    other = with_(plan, lock="redlock", nodes=5, fencing="on", title="another", time_limit=99.0)
    assert differences(plan, other) == [("lock", "nodes"), ("fencing",)]
    assert differences(plan, with_(plan, nodes=5, fencing="on")) == [("nodes",), ("fencing",)]
    assert differences(plan, plan) == []


def test_the_same_faults_at_commands_of_another_lock_belong_to_it() -> None:
    pause = FaultSpec(fault="client-pause", on="reply:GET", for_=1.0)
    plan = with_(catalogue.find("ttl-overrun").plan, faults=(pause,))
    moved = with_(pause, on="reply:GETS")
    assert differences(plan, with_(plan, lock="memcached-token", faults=(moved,))) == [("lock", "faults")]
    assert differences(plan, with_(plan, lock="memcached-token", faults=(pause, moved))) == [("lock",), ("faults",)]


@pytest.mark.slow
def test_a_cure_under_which_the_fault_cannot_strike_proves_nothing(tmp_path: Path) -> None:
    failure = write(tmp_path, fence=False)
    for path in (failure, failure.with_name("overrun.safe.toml")):
        text = path.read_text().replace('on = "acquire"', 'on = "request:EVALSHA"')
        path.write_text(text.replace('"redis-watchdog"', '"memcached-token"'))
    found = study(failure)
    assert rows(found)["lock = memcached-token"] == "unknown"
    assert found.outcomes[-1].unexplained


def test_a_failure_for_containers_only_is_not_run() -> None:
    outcomes = ablate([catalogue.find("etcd-pause.go")], workers=1).outcomes
    assert {outcome.state for outcome in outcomes} == {"not-run"}
    assert {outcome.why for outcome in outcomes} == {"a scenario for docker only"}


def test_a_cure_is_no_failure_to_ablate(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"only a known failure \(expect.safe = false\) can be ablated"):
        ablations(catalogue.find("ttl-overrun.safe"))
    alone = write(tmp_path)
    alone.with_name("overrun.safe.toml").unlink()
    with pytest.raises(UsageError, match=r"its cure would be overrun\.safe\.toml, which does not exist"):
        ablations(catalogue.find(str(alone)))


def command(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["scenario", "ablate", *arguments])
    return int(ended.value.code or 0)


@pytest.mark.slow
def test_the_command_prints_each_change_below_the_mechanism(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(write(tmp_path, fence=False))
    assert command(path, "--workers", "1") == 1
    shown = capsys.readouterr().out
    assert "overrun: no mechanism is stated" in shown
    assert "  survives without client-pause: as-expected: mutual-exclusion" in shown
    assert "1 failure, 2 changes: 1 survives, 1 vanishes; 1 unexplained" in shown
    assert command("ttl-overrun", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert [outcome["state"] for outcome in document["outcomes"]] == ["vanishes"]


@pytest.mark.parametrize("arguments", [(), ("ttl-overrun", "--all"), ("no-such-scenario",)], ids=str)
def test_a_wrong_request_is_refused(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert command(*arguments) == 2
    assert capsys.readouterr().err.count("\n") <= 2
