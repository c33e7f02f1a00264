"""Random steps get the same answers from the simulated ZooKeeper and from a real one.

Results, errors, versions, relative zxids, and the order of watch events and replies are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from harness.fidelity.comparison import AnswerPair, Step
from harness.fidelity.members import in_pairs, simulate
from harness.fidelity.zookeeper import ZooKeeperComparison
from harness.fidelity.zookeeper.pair import CHILDREN, SIMULATED, known
from harness.fidelity.zookeeper.player import Player
from harness.fidelity.zookeeper.steps import LENGTH, StepGenerator
from harness.sim.servers.zookeeper import tree
from harness.sim.servers.zookeeper.prepare import Preparer
from harness.sim.servers.zookeeper.server import ZooKeeperServer
from harness.sim.servers.zookeeper.watches import WatchManager
from tests.fidelity.documented import documented
from tests.fidelity.real import assert_agreement, started


def answers(steps: Sequence[Step], members: int = 1) -> list[str]:
    return simulate(SIMULATED, members, lambda found: Player(found).run(steps))


def without_restarts(seed: int) -> list[Step]:
    return [step for step in StepGenerator(seed).steps() if step[0] != "restart"]


@pytest.mark.real
def test_real_server_gives_the_same_answers() -> None:
    with started(ZooKeeperComparison()) as pair:
        assert_agreement(pair, range(1), LENGTH)


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize(("members", "seeds"), [(1, 10), (3, 5)])
def test_real_servers_give_the_same_answers_for_many_seeds(members: int, seeds: int) -> None:
    """A restart of three members takes tens of seconds, so they get fewer seeds."""
    with started(ZooKeeperComparison(members)) as pair:
        assert_agreement(pair, range(100, 100 + seeds), LENGTH * seeds)


def test_ensemble_answers_like_one_server() -> None:
    steps = without_restarts(1)[:150]
    assert answers(steps, 3) == answers(steps)


def test_random_steps_get_the_same_answers_twice() -> None:
    assert answers(StepGenerator(0).steps(100)) == answers(StepGenerator(0).steps(100))


def test_step_that_fails_on_both_sides_is_a_difference() -> None:
    (pair,) = in_pairs(iter(["no answer: x"]), iter(["no answer: x"]))
    assert pair.real != pair.simulated


def test_all_steps_occur() -> None:
    kinds = {step[0] for seed in range(20) for step in StepGenerator(seed).steps()}
    assert kinds == {"send", "move", "close", "reopen", "expire", "pause", "restart"}


def test_restart_and_expiry_give_answers() -> None:
    steps: list[Step] = [
        ("send", 0, ("create", "/r/t/a", b"", 1)), ("restart", "with data"), ("send", 1, ("exists", "/r/t/a", "watch")),
        ("expire", 0), ("restart", "without data"), ("send", 1, ("exists", "/r/t/a", None)),
    ]  # fmt: skip
    got = answers(steps)
    assert len(got) == len(steps)
    assert "WatchEvent(kind=2, path='/r/t/a')" in got[3]
    assert "('exists', -101," in got[5]


def _ignore_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Preparer, "_next_version", staticmethod(lambda current, expected: current + 1))


def _sort_children(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "java_order", lambda names, capacity: sorted(names))


def _keep_triggered_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    real = WatchManager.trigger

    def trigger(self: WatchManager, kind: int, path: str) -> None:
        kept = dict(self._data.get(path, {}))
        real(self, kind, path)
        for each in kept:
            self.watch_data(path, each)

    monkeypatch.setattr(WatchManager, "trigger", trigger)


def _number_sequences_by_child_count(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Preparer._existing
    monkeypatch.setattr(
        Preparer, "_existing", lambda self, path: (found := real(self, path))._replace(creates=found.children)
    )


def _send_events_after_the_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    late: list[Any] = []
    notify, answer = ZooKeeperServer._notify, ZooKeeperServer._answer
    monkeypatch.setattr(ZooKeeperServer, "_notify", lambda *event: late.append(event))

    def _answer(self: ZooKeeperServer, client: Any) -> None:
        answer(self, client)
        events, late[:] = list(late), []
        for event in events:
            notify(*event)

    monkeypatch.setattr(ZooKeeperServer, "_answer", _answer)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "mutant",
    [
        _ignore_versions, _sort_children, _keep_triggered_watches, _number_sequences_by_child_count,
        _send_events_after_the_reply,
    ],
)  # fmt: skip
def test_random_steps_detect_mutant(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = without_restarts(0)[:150]
    before = answers(steps)
    mutant(monkeypatch)
    assert answers(steps) != before


def test_order_of_children_is_a_known_difference_and_their_names_are_not() -> None:
    answer = "[[('children', 0, (0, 308), ['a-0000000001', 'b'])], [('ping', 0, (0, 308), None)]]"
    other = answer.replace("['a-0000000001', 'b']", "['b', 'a-0000000001']")
    assert known(AnswerPair(answer, other)) == CHILDREN
    assert CHILDREN in documented("zookeeper")
    assert known(AnswerPair(answer, other.replace("'b'", "'c'"))) == ""
    assert known(AnswerPair(answer, other.replace("'ping', 0", "'ping', -4"))) == ""
