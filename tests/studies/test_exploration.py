"""Exploration visits the least explored pairs, remembers what it found, and knows it again in the next night."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace as with_

from harness.documents import NightlyDocument, decode
from harness.documents.exploration import Exploration, Explored, ExploredFailure, ExploredPair, Pair, PairVisit
from harness.errors import UsageError
from harness.plan import Expect, Mechanism, Plan, load
from harness.run.runs import run
from harness.run.verdicts.expectation import first_violation
from harness.run.verdicts.mechanism import mismatch
from harness.run.verdicts.observed_mechanism import observed_mechanism
from harness.scenarios import catalogue
from harness.studies import exploration, results_db
from harness.studies.exploration import ExplorationState, explore, pairs, visits
from harness.studies.exploration.pairs import Queue, explorable
from harness.studies.exploration.visits import CANDIDATES, VisitResult, repeat
from harness.studies.nightly import ExploreRequest, nightly
from harness.studies.nightly_cases import FRESH, SEEDS, cases
from tests.reports import nights

ROOT = Path(__file__).parents[2]
STARTED = datetime(2026, 11, 25, 2, tzinfo=UTC)
A, B = Pair("redis-token", "client-pause", "redis 8.1.0"), Pair("redlock", "clock-jump", "redis 8.1.0")


def failure(
    lock: str = A.lock, name: str = "redis-token-mutual-exclusion-0", plan: Plan | None = None
) -> ExploredFailure:
    return ExploredFailure(
        name=name, lock=lock, fault=A.fault, release=A.release, found_at=STARTED, checker="mutual-exclusion",
        mechanism=Mechanism(cause="client", order=("violation",)), summary="Two clients held k0.",
        lines=("1. c0 is paused.",), plan=plan or Plan(lock=A.lock),
    )  # fmt: skip


# Pairs and their order.


def test_pairs_have_the_faults_that_can_strike_their_lock() -> None:
    found = {(pair.lock, pair.fault) for pair in explorable()}
    assert ("redis-token", "failover") in found, "on Sentinel"
    assert ("zookeeper-sequential", "leader-loss") in found
    assert ("mysql-get-lock", "leader-loss") not in found
    assert ("redis-py-asyncio-lock", "task-cancel") in found
    assert ("redis-py-lock", "task-cancel") not in found
    assert not any(lock == "redisson-lock" for lock, _ in found), "a Java lock cannot be simulated"
    with pytest.raises(UsageError, match="no lock that can be simulated matches 'redisson-\\*'"):
        explorable("redisson-*")


def test_the_release_changes_with_the_source_of_the_lock_and_of_what_it_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = explorable("redis-fenced")[0].release
    assert before.startswith("redis ")
    shared = {path.name for path in pairs._files("harness.lock_impls.redis_fenced")}
    assert {"redis_fenced.py", "base.py"} < shared
    changed = tmp_path / "base.py"
    changed.write_text("x = 1", encoding="utf-8")
    monkeypatch.setattr(pairs, "_files", lambda _module: frozenset([changed]))
    assert explorable("redis-fenced")[0].release != before


def test_the_least_explored_pair_comes_first() -> None:
    found = [Pair(lock, fault, "") for lock in ("a", "b") for fault in ("client-pause", "kill", "latency")]
    queue = Queue.of(found, {found[0]: Explored(1, 12, 9), found[3]: Explored(1, 12, 9), found[4]: Explored(1, 12, 9)})
    order = [queue.next() for _ in range(4)]
    assert [(pair.lock, pair.fault) for pair, _ in order[:3]] == [("a", "latency"), ("b", "latency"), ("a", "kill")]
    assert {number for _, number in order[:3]} == {1}
    assert order[3][1] == 2


def test_families_of_many_documented_failures_come_first() -> None:
    queue = Queue.of([Pair("a", fault, "") for fault in ("clock-strobe", "client-pause")], {})
    assert queue.next()[0].fault == "client-pause"


# Failures that were found.


class Visits:
    """Stands in for the visits: each takes a second, and ``found`` says what it finds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, found: dict[Pair, VisitResult]) -> None:
        self.made: list[tuple[Pair, int]] = []
        self._found = found
        monkeypatch.setattr(exploration, "visit", self._visit)
        monkeypatch.setattr(ExplorationState, "seconds", property(lambda _state: float(len(self.made))))

    def _visit(self, pair: Pair, number: int, seed: int, found_at: datetime, store: Path) -> VisitResult:
        del found_at, store
        self.made.append((pair, number))
        done = PairVisit(**pair._asdict(), seed=seed, round=number, schedules=12, judged=10, seconds=1.0)
        return self._found.get(pair, VisitResult(visit=done))


def explored(tmp_path: Path, known: tuple[ExploredFailure, ...] = (), **options: object) -> Exploration:
    return explore([A, B], tmp_path, seed=77, budget_s=12.0, started=STARTED, known=known, **options)  # type: ignore[arg-type]


def test_each_pair_is_visited_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Visits(monkeypatch, {})
    document = explored(tmp_path, explored={A: Explored(1, 12, 10)})
    assert made.made[:2] == [(B, 1), (A, 2)]
    by_lock = {pair.lock: pair for pair in document.pairs}
    assert by_lock[A.lock].visits == 1 + sum(pair == A for pair, _ in made.made)
    assert by_lock[A.lock].judged == 10 * by_lock[A.lock].visits
    assert document.share == 1.0
    assert document.bound is not None
    assert 0.01 < document.bound < 0.3


def test_a_failure_is_new_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = VisitResult(visit=PairVisit(**A._asdict(), seed=77, round=1, schedules=12, judged=9), failures=(failure(),))
    Visits(monkeypatch, {A: found})
    first = explored(tmp_path)
    assert [one.state for one in first.failures] == ["new"]
    Visits(monkeypatch, {A: found})
    monkeypatch.setattr(exploration, "repeat", lambda one: with_(one, state="known"))
    second = explored(tmp_path, first.failures)
    assert [one.state for one in second.failures] == ["known"]
    assert not second.new
    Visits(monkeypatch, {A: found})
    monkeypatch.setattr(exploration, "repeat", lambda one: with_(one, state="gone"))
    third = explored(tmp_path, first.failures)
    assert [one.state for one in third.failures] == ["known"], "its schedule does not show it, but a new one does"


def test_a_lock_that_cannot_be_run_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = VisitResult(visit=PairVisit(**A._asdict(), seed=77, round=1, error="there is no module 'x'"))
    made = Visits(monkeypatch, {A: broken})
    document = explored(tmp_path)
    assert sum(pair == A for pair, _ in made.made) in (exploration.GIVE_UP, exploration.GIVE_UP + 1)
    assert document.share == 0.5


def test_a_broken_visit_or_run_is_an_error_and_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **_options: object) -> None:
        raise ValueError("no")

    monkeypatch.setattr(visits, "search", broken)
    monkeypatch.setattr(visits, "run", broken)
    monkeypatch.setattr(visits, "_vocabulary", lambda _lock, _kind: None)
    monkeypatch.setattr(visits, "Round", lambda **_options: None)
    assert visits.visit(A, 1, 7, STARTED, tmp_path).visit.error == "ValueError: no"
    again = repeat(failure(plan=catalogue.find("del-foreign").plan))
    assert (again.state, again.why) == ("error", "ValueError: no")


def test_an_interrupt_keeps_what_was_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Visits(monkeypatch, {})

    def interrupt(visit: PairVisit, state: ExplorationState) -> None:
        del visit
        if len(state.visits) == 2:
            raise KeyboardInterrupt

    document = explored(tmp_path, on_visit=interrupt)
    assert document.interrupted
    assert len(document.visits) == 2


def test_a_stored_failure_with_foreign_code_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Visits(monkeypatch, {})
    document = explored(tmp_path, (failure(plan=Plan(lock="elsewhere:Lock")),))
    assert document.failures == ()


def test_a_repeated_failure_is_known_or_gone() -> None:
    scenario = catalogue.find("del-foreign").plan
    mechanism = Mechanism(cause="service", order=("violation",))
    expect = Expect(safe=False, invalid=("ownership",), mechanism=mechanism)
    again = repeat(failure(plan=with_(scenario, expect=expect)))
    assert again.state == "known", again.why
    repaired = with_(catalogue.find("del-foreign.safe").plan, expect=expect)
    assert repeat(failure(plan=repaired)).state == "gone"


def test_the_bound_follows_the_rule_of_three() -> None:
    pair = ExploredPair(**A._asdict(), visits=5, schedules=320, judged=300)
    assert pair.bound == pytest.approx(3 / 300, rel=0.01)
    assert with_(pair, failures=1).bound is None
    assert with_(pair, judged=0).bound is None


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "name", ["del-foreign", "ttl-pause-write", "rl-clock-jump", "etcd-11456", "redis-async-failover"]
)
def test_the_mechanism_that_is_written_down_is_one_that_the_violation_has(name: str) -> None:
    plan = catalogue.find(name).plan
    assert plan.expect is not None
    result = run(plan, store=None)
    first = first_violation(plan.expect.invalid, result.verdicts)
    assert first is not None
    found = observed_mechanism(first, result.history, tuple(spec.fault for spec in plan.faults))
    assert plan.expect.mechanism is not None
    assert found.cause == plan.expect.mechanism.cause
    assert not mismatch(found, first, result.history)
    assert len(found.order) > 1, "more than the violation itself"
    injections = {f"{spec.fault} inject" for spec in plan.faults}
    assert not plan.faults or injections & set(found.order)


# The database, and seeds.


def test_the_database_adds_up_the_nights(tmp_path: Path) -> None:
    database = tmp_path / "results.db"
    visit = PairVisit(**A._asdict(), seed=7, round=1, schedules=12, judged=9, limits=("late-client",))
    document = nights.read(nights.night(1, [nights.outcome("del-foreign")]))
    found = Exploration(seed=7, budget_s=60.0, seconds=60.0, visits=(visit,), pairs=(), failures=(failure(),))
    for _ in range(2):
        results_db.add(database, with_(document, seed=7, exploration=found))
    assert results_db.explored(database) == {A: Explored(2, 24, 18)}
    assert results_db.explored_failures(database) == [failure()]
    assert [night.seed for night in results_db.nights(database)] == [7, 7]


def test_an_interrupted_exploration_makes_no_night_incomplete() -> None:
    whole = nights.read(nights.night(1, [nights.outcome("del-foreign")]))
    found = Exploration(seed=7, budget_s=60.0, seconds=9.0, interrupted=True, visits=(), pairs=(), failures=())
    assert whole.comparable
    assert with_(whole, interrupted=True, exploration=found).comparable
    assert not with_(whole, interrupted=True).comparable


def test_fresh_seeds_come_after_the_fixed_ones() -> None:
    chosen = [catalogue.find("del-foreign")]
    for suite, fixed in SEEDS.items():
        found = [case.plan.seed for case in cases(suite, "sim", chosen, seed=900)]
        assert found == [*range(fixed), *range(900, 900 + FRESH[suite])]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": 3}, "seed must be at least 5, got 3"),
        ({"explore": ExploreRequest(5.0)}, "exploration needs a seed of its own"),
        ({"seed": 9, "explore": ExploreRequest(5.0, "nothing*")}, "no lock that can be simulated matches"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_runs(
    tmp_path: Path, options: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        nightly("smoke", "sim", store=tmp_path, **options)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


# Whole nights.


def night_of(tree: Path, store: Path, *arguments: str) -> NightlyDocument:
    done = subprocess.run(
        [
            sys.executable, "-m", "harness", "nightly", "--only", "del-foreign", "--seed", "auto", "--explore", "45s",
            "--explore-locks", "redis-tok*", "--workers", "1", "--out", str(store), "--json", *arguments,
        ],
        cwd=store.parent, env={**os.environ, "PYTHONPATH": str(tree)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    return decode(done.stdout.encode(), NightlyDocument, "the nightly document")


@pytest.mark.slow
def test_a_planted_bug_is_found_and_the_next_night_knows_it(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    linked = ("checkers", "harness", "lock_impls", "reports", "scenarios", "docker")
    for name in linked:
        shutil.copytree(ROOT / name, tree / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    source = tree / "lock_impls" / "redis_token.py"
    text = source.read_text(encoding="utf-8")
    checked = "self._delete_own(keys=[self.key], args=[self.token])"
    assert checked in text
    planted = text.replace(checked, "self.client.delete(self.key)")
    source.write_text(planted, encoding="utf-8")
    first = night_of(tree, tmp_path / "store")
    assert first.exploration is not None
    new = {one.name for one in first.exploration.new if one.lock == "redis-token"}
    assert new, first.exploration.visits
    for name in new:
        assert load(tmp_path / "store" / CANDIDATES / f"{name}.toml").expect is not None
    second = night_of(tree, tmp_path / "store")
    assert second.exploration is not None
    assert new <= {one.name for one in second.exploration.failures if one.state == "known"}
    assert second.seed != first.seed
    made = [{(one.lock, one.fault, one.round) for one in it.visits} for it in (first.exploration, second.exploration)]
    assert not made[0] & made[1], "a night continues where the last one ended"
