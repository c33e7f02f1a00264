"""Hunts through their public function: found failures are stored and tried first the next time, and the report names
what was never reached."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import redis
from msgspec.structs import replace as with_

from harness import LockFails, hunt
from harness.errors import UsageError
from harness.plan import FaultSpec, Plan, load
from harness.run.runs import run
from harness.run.store import FAILURES
from harness.scenarios import catalogue
from harness.search import hunt as hunts
from harness.search.findings import FoundFailure, known_failures, remember
from harness.search.request import HuntRequest
from harness.search.rounds import ShrunkFailure
from harness.search.stories.story import story_of
from harness.search.trials import FailureKind, run_trial
from harness.search.vocabulary import Vocabulary

JUMPS = HuntRequest(lock="redlock", faults=("clock-jump",), clients=2, stop_at_first=True)


def harness(*arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "harness", *arguments], capture_output=True, text=True, timeout=600, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_a_failure_is_stored_and_tried_first_by_the_next_hunt(tmp_path: Path) -> None:
    hunted = hunt(JUMPS, rounds=3, store=tmp_path, command="harness hunt redlock")
    assert hunted.exit_status == 1
    (found,) = hunted.findings
    assert found.folder is not None
    assert len(found.story.steps) <= 8
    assert "wall clock" in str(hunted)
    with pytest.raises(LockFails, match="c1 acquires k0"):
        hunted.check()
    document = json.loads((found.folder / "results.json").read_text())
    assert document["story"]["steps"][0]["number"] == 1
    assert "How it breaks" in (found.folder / "report.html").read_text()
    scenario = catalogue.find(str(found.folder / "counterexample.toml")).plan
    result = run(scenario)
    assert result.document["scenario"]["state"] == "as-expected"
    assert hunted.folder is not None
    assert json.loads((hunted.folder / "hunt.json").read_text())["findings"][0]["broken"][0] == "mutual-exclusion"

    again = hunt(JUMPS, rounds=3, store=tmp_path)
    assert again.findings[0].round == 0
    assert again.document["schedules"] == 0
    assert "known from an earlier hunt" in str(again)
    assert load(again.findings[0].folder / "counterexample.toml").faults == scenario.faults  # type: ignore[operator]

    fresh = hunt(JUMPS, rounds=1, store=tmp_path, fresh=True)
    assert fresh.document["schedules"] > 0


@pytest.mark.slow
def test_known_failures_are_tried_only_by_hunts_that_could_find_them(tmp_path: Path) -> None:
    hunt(JUMPS, rounds=3, store=tmp_path)
    other = HuntRequest(lock="redlock", faults=("latency",), clients=2, schedules=3, look_for=("mutual-exclusion",))
    assert hunt(other, rounds=1, store=tmp_path).findings == ()


def test_known_failures_are_selected_by_the_hunts_options(tmp_path: Path) -> None:
    """Every command stores a failure in the same file format. A hunt skips failures outside its own search space."""
    plan = Plan(lock="redis-token", kind="redis-single", nodes=1, clients=2, hold=1.0)
    paused = with_(plan, faults=(FaultSpec("client-pause", on="acquire", client=0, for_=3.0),))
    overrun = with_(plan, hold=2.5)
    folder = tmp_path / FAILURES / "redis-token"
    for number, known in enumerate((paused, paused, overrun)):
        told = story_of(run_trial(known), "mutual-exclusion")
        failure = ShrunkFailure(plan=known, kind=FailureKind("mutual-exclusion"), kinds=(), schedule=1, shrinks=1)
        scenario = with_(known, source=f"harness hunt redis-token --budget {number}")
        remember(FoundFailure(scenario, failure, 1, told.story, ""), tmp_path)
    assert len(list(folder.iterdir())) == 2
    (folder / "0.toml").write_text('lock = "redis-tok')

    def known_to(**options: Any) -> list[Plan]:
        return list(known_failures(HuntRequest(lock="redis-token", **options).completed(), tmp_path))

    assert known_to() == known_to(ttl=2.0) == known_to(faults=("client-pause",)) == [paused]
    assert known_to(faults=("none",)) == [overrun]
    assert known_to(ttl=8.0) == known_to(faults=("latency",)) == known_to(most_faults=0) == known_to(clients=1) == []


@pytest.mark.slow
def test_a_hunt_without_findings_reports_its_coverage() -> None:
    request = HuntRequest(
        lock="redis-fenced", faults=("client-pause", "kill"), fencing="on", look_for=("resource",), schedules=4
    )
    hunted = hunt(request, rounds=2)
    assert hunted.exit_status == 0
    assert hunted.folder is None
    document = hunted.document
    assert (document["rounds"], document["schedules"], document["found"]) == (2, 8, False)
    assert document["coverage"]["states"] > 5
    assert document["never"]
    text = str(hunted)
    assert text.startswith("NO FAILURE FOUND: redis-fenced")
    assert "8 schedules in 2 rounds" in text
    assert "never reached:" in text
    assert hunted.check() is hunted


@pytest.mark.slow
def test_a_hunt_that_keeps_going_finds_one_failure_of_each_kind(tmp_path: Path) -> None:
    request = HuntRequest(lock="redis-setnx", faults=("client-crash", "kill-amnesia"), clients=2)
    hunted = hunt(request, rounds=2, keep_going=True, store=tmp_path)
    kinds = [found.failure.broken[0] for found in hunted.findings]
    assert "deadlock" in kinds
    assert "mutual-exclusion" in kinds
    signatures = {
        (f.failure.broken[0], tuple(s.fault for s in f.plan.faults), f.plan.workload) for f in hunted.findings
    }
    assert len(signatures) == len(hunted.findings)


class NeverLocks:
    """A mutant that grants every request."""

    def __init__(self, redis: redis.Redis) -> None:
        self.redis = redis

    def acquire(self, timeout: float) -> bool:
        return bool(self.redis.ping())

    def release(self) -> None:
        pass


class CannotBeOpened:
    def __init__(self) -> None:
        raise RuntimeError("no such server")

    def acquire(self, timeout: float) -> bool:
        return True

    def release(self) -> None:
        pass


@pytest.mark.slow
def test_a_user_class_can_be_hunted() -> None:
    hunted = hunt(NeverLocks, faults=("none",), rounds=1)
    assert hunted.findings[0].failure.broken[0] == "mutual-exclusion"
    assert hunted.findings[0].plan.faults == ()


@pytest.mark.slow
def test_a_budget_ends_a_hunt() -> None:
    began = time.monotonic()
    request = HuntRequest(
        lock="redis-fenced", faults=("client-pause",), fencing="on", look_for=("resource",), schedules=3
    )
    hunted = hunt(request, budget_s=2.0)
    assert hunted.document["rounds"] >= 1
    assert time.monotonic() - began < 120


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"budget_s": "5s"}, "budget must be a number of seconds, got '5s'"),
        ({"budget_s": 0.0}, "budget must be more than 0"),
        ({"rounds": 0}, "rounds must be at least 1"),
        ({"workers": 0}, "workers must be at least 1"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        hunt("redlock", **settings)


def test_families_are_named_as_on_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hunts, "_search", lambda *_, **__: None)
    assert hunt("redis-token", faults="latency, client-pause").request.faults == ("latency", "client-pause")
    assert hunt("redis-token", faults="").request.faults == HuntRequest(lock="redis-token").completed().faults


@pytest.mark.slow
def test_an_interrupted_hunt_returns_its_partial_result(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(round_: Any, progress: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(hunts, "search", interrupted)
    hunted = hunt(JUMPS, rounds=2)
    assert hunted.document["interrupted"]
    assert hunted.exit_status == 3
    assert "interrupted" in str(hunted)


class Interrupts(NeverLocks):
    def acquire(self, timeout: float) -> bool:
        raise KeyboardInterrupt


def test_an_interrupt_before_the_first_round_ends_the_hunt(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: HuntRequest) -> Vocabulary:
        signal.raise_signal(signal.SIGINT)
        return Vocabulary(events=(), commands=(), renews=False)

    monkeypatch.setattr(hunts, "learn_vocabulary", interrupted)
    hunted = hunt("redis-token", faults=("none",), rounds=1)
    assert hunted.document["interrupted"]
    assert (hunted.exit_status, hunted.document["schedules"]) == (3, 0)


@pytest.mark.slow
def test_a_lock_that_raises_keyboard_interrupt_does_not_end_the_hunt() -> None:
    hunted = hunt(Interrupts, faults=("none",), rounds=1)
    assert not hunted.document["interrupted"]
    assert (hunted.exit_status, hunted.document["judged"]) == (3, 0)
    assert any("acquire of the lock raised KeyboardInterrupt" in error for error in hunted.document["errors"])


@pytest.mark.slow
def test_an_interrupted_round_counts_its_completed_schedules() -> None:
    def interrupted(_share: float, text: str) -> None:
        if "3 schedules" in text:
            signal.raise_signal(signal.SIGINT)

    request = HuntRequest(lock="redis-token", faults=("latency",), schedules=20)
    hunted = hunt(request, rounds=1, progress=interrupted)
    assert hunted.document["interrupted"]
    assert 4 <= hunted.document["schedules"] < 20
    assert hunted.document["coverage"]["states"] > 0


def test_an_unwritable_store_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hunts, "learn_vocabulary", None)
    (tmp_path / "store").write_text("no folder")
    with pytest.raises(UsageError, match="cannot write to the store"):
        hunt(JUMPS, rounds=1, store=tmp_path / "store")


@pytest.mark.slow
def test_the_number_of_workers_does_not_change_the_findings() -> None:
    request = HuntRequest(lock="redis-token", faults=("client-pause", "clock-jump"), schedules=20)
    one, two = (hunt(request, rounds=4, workers=workers, keep_going=True) for workers in (1, 2))
    assert [found.plan for found in one.findings] == [found.plan for found in two.findings]
    assert one.findings
    for name in ("schedules", "rounds", "best", "coverage", "never", "findings"):
        assert one.document[name] == two.document[name], name


@pytest.mark.slow
def test_the_hunt_command_finds_and_prints_failures(tmp_path: Path) -> None:
    status, out, _ = harness(
        "hunt", "redlock", "--faults", "clock-jump,1", "--clients", "2", "--rounds", "3", "--stop-at-first",
        "--out", str(tmp_path),
    )  # fmt: skip
    assert status == 1
    found = out.splitlines()[0]
    assert found.startswith("KNOWN LIMIT FOUND: redlock: mutual-exclusion (clock), ")
    counterexample = next(line for line in out.splitlines() if line.startswith("counterexample: ")).split()[1]
    status, out, _ = harness("scenario", "run", counterexample, "--out", str(tmp_path))
    assert status == 0, "as expected"
    quietly = ("--stop-at-first", "--quiet", "--out", str(tmp_path))
    status, out, _ = harness("hunt", "redlock", "--faults", "clock-jump", *quietly)
    assert (status, out.strip()) == (1, found), "the failure of the hunt before is tried first"
    status, out, _ = harness(
        "hunt", "redis-token", "--faults", "none", "--json", "--rounds", "1", "--out", str(tmp_path)
    )
    assert json.loads(out)["lock"] == "redis-token"


@pytest.mark.slow
def test_the_exhaustive_option_prints_the_number_of_interleavings() -> None:
    status, out, _ = harness("hunt", "redis-token", "--exhaustive", "--clients", "2", "--faults", "0")
    assert status == 0
    assert out.startswith("No violation in all 90 interleavings")
    status, out, _ = harness("hunt", "redis-token", "--exhaustive", "--faults", "1", "--stop-at-first")
    assert status == 1
    assert out.startswith("No violation beyond the documented limits of the lock in the first ")
    assert "Known limit (a holder may go on after its lease), first in interleaving " in out
    assert "pause c0" in out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("redlok",), "redlock"),
        (("redlock", "--faults", "clock-jmp"), "clock-jump"),
        (("redlock", "--faults", "1,2"), "one number"),
        (("redlock", "--budget", "soon"), "budget"),
        (("redlock", "--exhaustive", "--faults", "kill"), "kill-amnesia"),
        (("redlock", "--exhaustive", "--budget", "0"), "budget must be more than 0"),
        (("redlock", "--exhaustive", "--workers", "2"), "no rounds"),
        (("redlock", "--exhaustive", "--lease", "soon"), "lease: expected ttl, a duration"),
        (("redlock", "--exhaustive", "--stop-at-first", "--keep-going"), "exclude each other"),
        (("redlock", "--lease", "soon"), "lease: expected ttl, a duration"),
        (("redlock", "--keep-going", "--stop-at-first"), "exclude each other"),
        (("redlock", "--ttl", "0"), "ttl must be more than 0"),
        (("tests.hunting.test_hunts:Nobody",), "Nobody"),
    ],
)
def test_invalid_arguments_are_one_line(arguments: tuple[str, ...], told: str, tmp_path: Path) -> None:
    status, out, error = harness("hunt", *arguments, "--out", str(tmp_path))
    assert (status, out) == (2, "")
    assert told in error
    assert len(error.strip().splitlines()) == 1


def catches(pid: int, number: signal.Signals) -> bool:
    """Say whether a process has a handler for this signal, as a hunt has from its beginning to its end."""
    (mask,) = re.findall(r"^SigCgt:\s*(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return bool(int(mask, 16) >> (number - 1) & 1)


@pytest.mark.slow
@pytest.mark.parametrize("later_s", [0.0, 0.1, 0.6])
def test_sigterm_ends_a_hunt_with_a_report(tmp_path: Path, later_s: float) -> None:
    """It arrives before the first run, while its worker imports the simulator, or in that run."""
    command = [sys.executable, "-m", "harness", "hunt", "redis-fenced", "--fencing", "on", "--look-for", "resource",
               "--faults", "client-pause", "--budget", "100s", "--schedules", "5", "--out", str(tmp_path)]  # fmt: skip
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not catches(child.pid, signal.SIGTERM):
        assert child.poll() is None
        time.sleep(0.02)
    time.sleep(later_s)
    child.send_signal(signal.SIGTERM)
    out, error = child.communicate(timeout=300)
    assert child.returncode == 3
    assert "the hunt was interrupted" in out
    assert "Traceback" not in error


@pytest.mark.slow
def test_a_hunt_that_accepts_known_limits_does_not_fail_by_them() -> None:
    request = HuntRequest(lock="redlock", faults=("clock-jump",), schedules=30, stop_at_first=True)
    assert hunt(request, rounds=1).findings
    accepting = hunt(with_(request, accept=("known-limits",)), rounds=1)
    assert (accepting.results.new, accepting.exit_status) == ((), 0)
