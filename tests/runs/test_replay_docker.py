"""Failures that the simulator found, reproduced on real containers by ``harness replay``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import main
from harness.plan import Delay, Expect, FaultSpec, Plan, dump

pytestmark = pytest.mark.docker

THREE = "n1,n2,n3"
UNSAFE = Expect(safe=False, invalid=("mutual-exclusion",))


def redlock(fault: FaultSpec) -> Plan:
    return Plan(lock="redlock", clients=2, hold=0.5, stagger=0.3, time_limit=8.0, faults=(fault,), expect=UNSAFE)


def get_del_gap() -> Plan:
    """A client is paused between its GET of the key and its DEL. The other clients start after the fault that delays
    the DEL on containers; an earlier request could be affected by that fault."""
    pause = FaultSpec("client-pause", on="reply:GET", client=0, for_=3.0)
    return Plan(
        lock="redis-token-getdel", clients=3, hold=1.5, holds={"c0": 0.1}, stagger=0.6, time_limit=10.0,
        faults=(pause,), expect=Expect(safe=False, invalid=("ownership",)),
    )  # fmt: skip


def plan_with_pause(fault: FaultSpec, **settings: Any) -> Plan:
    given: dict[str, Any] = {"lock": "redis-token", "clients": 2, "hold": 0.5, "time_limit": 8.0, **settings}
    return Plan(**given, faults=(fault,), expect=UNSAFE)


FOUND = {
    "a clock jump": redlock(FaultSpec("clock-jump", on="acquire", client=0, params={"target": THREE, "seconds": 3.0})),
    "restarts without data": redlock(
        FaultSpec("kill-amnesia", on="acquire", client=0, for_=0.0, params={"target": THREE})
    ),
    "a clock jump between two commands": redlock(
        FaultSpec("clock-jump", on="reply:SET", client=0, nth=5, params={"target": THREE, "seconds": 3.0})
    ),
    "a pause between two commands": get_del_gap(),
    "a pause at a time": plan_with_pause(FaultSpec("client-pause", at=0.2, for_=3.0, params={"target": "c0"})),
    "another client first": plan_with_pause(
        FaultSpec("client-pause", on="acquire", client=1, for_=3.0), stagger=0.1, wait=1.5, sections=2,
        delays=tuple(Delay("c0", "n1", nth, 0.045) for nth in range(1, 5)),
    ),
    "a race for what was given back": Plan(  # which c0 usually wins at the first try
        lock="redlock", clients=2, hold=1.0, stagger=0.1, sections=2, time_limit=6.0, expect=UNSAFE,
        faults=(FaultSpec("kill-amnesia", on="read", client=1, for_=0.0, params={"target": "n1,n2,n5"}),),
    ),
    "a late message": Plan(
        lock="redis-token", clients=2, hold=0.5, stagger=0.3, time_limit=8.0, shuffle=3,
        delays=(Delay("c0", "resource", 2, 3.0),), expect=UNSAFE,
    ),
}  # fmt: skip


def replay(plan: Plan, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict[str, Any]]:
    Path("counterexample.toml").write_text(dump(plan))
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["replay", "counterexample.toml", "--cluster", "docker", "--json", *options])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return int(ended.value.code or 0), document


@pytest.mark.parametrize("name", list(FOUND))
def test_a_simulated_failure_is_reproduced_on_containers(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    status, document = replay(FOUND[name], capsys)
    replayed = document["replayed"]
    assert (status, replayed["reproduced"]) == (1, True), replayed
    assert document["cluster"]["backend"] == "docker"
    assert all(fault["seen"] for fault in document["faults"]), document["faults"]


def test_a_failure_that_containers_cannot_show_is_reported_as_divergence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """c1 starts later, but is first on the simulator because a message of c0 is late. With real MySQL clients it is
    unknown which message that is."""
    monkeypatch.chdir(tmp_path)
    pause = FaultSpec("client-pause", on="acquire", client=1, for_=3.0)
    found = Plan(
        lock="mysql-ttl", clients=2, hold=0.5, stagger=0.3, sections=1, wait=2.5, time_limit=8.0, faults=(pause,),
        delays=(Delay("c0", "n1", 1, 1.0),), expect=UNSAFE,
    )  # fmt: skip
    status, document = replay(found, capsys, "--tries", "1")
    replayed = document["replayed"]
    assert (status, replayed["reproduced"], replayed["tries"]) == (0, False, 1), replayed
    assert replayed["parted"]["sentence"].startswith("On the simulator c1 was granted k0 at 0.30")
    assert "(step 1); here c0 was granted k0 (at 0." in replayed["parted"]["sentence"]
    assert replayed["notes"][-1].startswith("with these triggers")
