"""Histories of fault-free runs of all locks, as they are and damaged, against a judge that shares no code with the
checkers.

No checker calls a history broken that no fault and no damage touched, and none calls a history valid that the judge
calls wrong. Slow tests have 2,000 histories of each sort.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import pytest
from msgspec.structs import replace

from harness.checkers import catalogue as checkers
from harness.checkers.base import Verdict
from harness.checkers.mutual_exclusion import MutualExclusionChecker
from harness.clusters.kinds import kinds
from harness.history import History
from harness.lock_impls import catalogue
from harness.plan import Plan
from harness.run.plans.completion import complete
from harness.run.runs import run
from harness.run.verdicts.judging import Result
from tests.checkers import brute_force
from tests.checkers.damage import KINDS, damage

LOCKS = [info.name for info in catalogue.infos() if info.simulated and set(info.kinds) & set(kinds("sim"))]
FEW = ("etcd-mutex", "mysql-ttl", "redis-fenced", "zookeeper-sequential")
"""Locks with tokens, one for each service, whose tests are not slow."""
SEEDS = 8
"""Fault-free runs of each lock, a third of what is made once."""
DAMAGES = 25
MANY_DAMAGES = 50
"""Damaged histories of each lock: 2,000 for 40 locks."""


@dataclass(frozen=True)
class Disagreement:
    """A finding of the judge, and the verdict of the checker concerned."""

    what: str
    checker: str
    reason: str
    verdict: Verdict | None
    """None if the checker refused the history."""


@cache
def fault_free(lock: str, seed: int = 0) -> Result:
    """Run a lock without faults. The number of clients and keys and the hold time change with the seed."""
    varied = {"clients": 2 + (seed + 1) % 4, "keys": 1 + (seed % 5 == 4), "hold": (0.1, 0.02, 0.4)[seed % 3]}
    plan = Plan(lock=lock, seed=seed, time_limit=4.0, settle=1.0, **varied)  # type: ignore[arg-type]
    return run(complete(plan), store=None, command="test")


def findings(history: History, seeds: range) -> Iterator[Disagreement]:
    """Yield what the judge finds in damaged copies of a history. A malformed one must not pass all checkers."""
    for seed in seeds:
        damaged = damage(history, seed)
        try:
            wrong = brute_force.wrong(damaged.history)
        except brute_force.Malformed as error:
            verdicts = [verdict_on(damaged.history, checker.name) for checker in checkers.all()]
            passed = all(verdict is not None and verdict.valid is not False for verdict in verdicts)
            if passed and any(verdict is not None and verdict.valid for verdict in verdicts):
                yield Disagreement(damaged.what, "all", str(error), Verdict(True, "malformed, and not refused"))
            continue
        for checker, reason in wrong.items():
            yield Disagreement(damaged.what, checker, reason, verdict_on(damaged.history, checker))


def verdict_on(history: History, checker: str) -> Verdict | None:
    try:
        return checkers.find(checker).check(history)
    except ValueError:  # with HistoryError: the history is malformed
        return None


def kept(found: list[Disagreement]) -> list[Disagreement]:
    return [one for one in found if one.verdict is not None and one.verdict.valid]


@pytest.mark.few(1)
@pytest.mark.parametrize("lock", FEW)
def test_no_checker_keeps_what_the_judge_calls_wrong(lock: str) -> None:
    found = list(findings(fault_free(lock).history, range(DAMAGES)))
    assert len(found) >= DAMAGES // 3, "otherwise the test would prove little"
    assert kept(found) == []


@pytest.mark.slow
@pytest.mark.parametrize("lock", LOCKS)
def test_no_checker_keeps_what_the_judge_calls_wrong_of_any_lock(lock: str) -> None:
    found = list(findings(fault_free(lock).history, range(DAMAGES, DAMAGES + MANY_DAMAGES)))
    assert len(found) >= MANY_DAMAGES // 4
    assert kept(found) == []


@pytest.mark.slow
def test_damage_of_each_kind_concerns_several_checkers() -> None:
    found = list(findings(fault_free("redis-fenced").history, range(150)))
    assert {one.what.partition(",")[0] for one in found} == set(KINDS)
    assert {"mutual-exclusion", "release", "fencing", "resource"} <= {one.checker for one in found}


def test_a_blind_checker_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MutualExclusionChecker, "check", lambda *_: Verdict(True, "all is well"))
    found = kept(list(findings(fault_free("redis-fenced").history, range(DAMAGES))))
    assert {one.checker for one in found} == {"mutual-exclusion"}


@pytest.mark.few(2)
@pytest.mark.parametrize("lock", FEW)
def test_a_fault_free_run_breaks_nothing(lock: str) -> None:
    assert broken_in(lock, range(1)) == {}


@pytest.mark.slow
@pytest.mark.parametrize("lock", LOCKS)
def test_fault_free_runs_of_any_lock_break_nothing(lock: str) -> None:
    """Each history is judged as it is and after a harmless change."""
    assert broken_in(lock, range(SEEDS)) == {}


@pytest.mark.long
@pytest.mark.parametrize("lock", LOCKS)
def test_many_fault_free_runs_of_any_lock_break_nothing(lock: str) -> None:
    """More than 1,000 runs of all locks: 2,000 undamaged histories."""
    assert broken_in(lock, range(SEEDS, 3 * SEEDS)) == {}


def broken_in(lock: str, seeds: range) -> dict[str, str]:
    """Return the properties that fault-free runs broke, and those that a harmless change of their histories breaks."""
    found: dict[str, str] = {}
    for seed in seeds:
        result = fault_free(lock, seed)
        assert brute_force.wrong(result.history) == {}, f"seed {seed}"
        changed = {checker.name: checker.check(renamed(result.history)) for checker in checkers.all()}
        for name, verdict in (*result.verdicts.items(), *changed.items()):
            if verdict.valid is False:
                found[f"{name}, seed {seed}"] = verdict.explanation
    return found


def renamed(history: History) -> History:
    """Return a history that means the same: an hour later, on another key, and entries of other processes."""
    hour = 3600 * brute_force.SECOND
    return History(
        replace(
            op,
            time=op.time + hour,
            wall=op.wall + hour,
            key=None if op.key is None else op.key.replace("k", "key-"),
            process=op.process if op.process < 0 else op.process + 7_000,
        )
        for op in history
    )
