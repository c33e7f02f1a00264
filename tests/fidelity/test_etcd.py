"""Random steps get the same answers from the simulated etcd and from a real one.

Responses, refusals, revisions, the events in each response of a watch, and the v2 API are compared.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from harness.fidelity.comparison import Step
from harness.fidelity.etcd import EtcdComparison
from harness.fidelity.etcd.pair import SIMULATED
from harness.fidelity.etcd.player import Player, rounded_ttl
from harness.fidelity.etcd.requests import LATEST
from harness.fidelity.etcd.steps import FORGOTTEN, LENGTH, StepGenerator, from_text
from harness.fidelity.etcd.v2 import random_request
from harness.fidelity.members import simulate
from harness.sim.servers.etcd import apply, v2_store
from harness.sim.servers.etcd.store import EtcdStore
from harness.sim.servers.etcd.watch import WatchService
from tests.fidelity.real import assert_agreement, same, started


def answers(steps: Sequence[Step], members: int = 1) -> list[str]:
    return simulate(SIMULATED, members, lambda found: Player(found).run(steps))


def without_restarts(seed: int) -> list[Step]:
    return [step for step in StepGenerator(seed).steps() if step[0] != "restart"]


@pytest.mark.real
def test_real_server_gives_the_same_answers() -> None:
    with started(EtcdComparison()) as pair:
        assert_agreement(pair, range(1), LENGTH)


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize("members", [1, 3])
def test_real_servers_give_the_same_answers_for_many_seeds(members: int) -> None:
    with started(EtcdComparison(members)) as pair:
        assert_agreement(pair, range(100, 110), LENGTH * 10)


REFUSED_BY_ONE_MEMBER: list[Step] = [
    ("call", "Txn", 'success { request_put { key: "a" } } '
     f'success {{ request_range {{ key: "b" revision: {LATEST} }} }}'),
    ("restart", "with data"),
    ("call", "Range", 'key: "a"'),
]  # fmt: skip
"""The member that refuses the transaction is the one that restarts; the last request goes to another member."""


@pytest.mark.real
@pytest.mark.slow
def test_real_members_apply_a_transaction_that_one_member_refuses() -> None:
    with started(EtcdComparison(3)) as pair:
        refused, _, found = same(pair, *REFUSED_BY_ONE_MEMBER)
    assert refused.startswith("OUT_OF_RANGE")
    assert "count: 1" in found


def test_other_members_apply_a_transaction_that_one_member_refuses() -> None:
    """See https://github.com/etcd-io/etcd/issues/18667: the members differ from then on."""
    refused, _, found = answers(REFUSED_BY_ONE_MEMBER, 3)
    assert refused.startswith("OUT_OF_RANGE")
    assert "count: 1" in found
    assert "count" not in answers(REFUSED_BY_ONE_MEMBER)[2]


@pytest.mark.slow
def test_steps_for_several_members_have_no_transaction_that_one_member_refuses() -> None:
    for members, refused in ((1, True), (3, False)):
        steps = [step for seed in range(5) for step in StepGenerator(seed, members).steps()]
        requests = [from_text("Txn", step[2]) for step in steps if step[:2] == ("call", "Txn")]
        ops = [op for request in requests for op in [*request.success, *request.failure]]
        assert any(op.request_range.revision for op in ops) == refused


@pytest.mark.slow
def test_a_lone_member_does_not_restart_with_its_data_soon_after_a_refusal() -> None:
    restarts = 0
    for seed in range(40):
        since = FORGOTTEN
        for step in StepGenerator(seed).steps(1000):
            since += 1
            if step[:2] == ("call", "Txn"):
                request = from_text("Txn", step[2])
                refusable = any(op.request_range.revision for op in [*request.success, *request.failure])
                since = 0 if refusable else since
            elif step == ("restart", "with data"):
                restarts += 1
                assert since >= FORGOTTEN, seed
    assert restarts > 5


def test_leases_are_compared_in_order_until_a_restart() -> None:
    steps: list[Step] = [
        ("call", "LeaseGrant", "TTL: 5000 ID: 2"), ("call", "LeaseGrant", "TTL: 5000 ID: 1"),
        ("call", "LeaseLeases", ""), ("restart", "with data"), ("call", "LeaseLeases", ""),
    ]  # fmt: skip
    before, _, after = answers(steps)[2:]
    assert before.endswith("leases { ID: 2 } leases { ID: 1 }")
    assert after == "leases { ID: 1 } leases { ID: 2 }"


@pytest.mark.parametrize(("left_s", "compared_s"), [(-1, -1), (0, 0), (4915, 5000), (5000, 5000), (5001, 5000)])
def test_remaining_time_tolerates_a_slow_machine_and_an_election(left_s: int, compared_s: int) -> None:
    assert rounded_ttl(left_s) == compared_s


def test_three_members_answer_like_one() -> None:
    steps = [step for step in without_restarts(1)[:150] if step[:2] != ("call", "LeaseLeases")]
    assert answers(steps, 3) == answers(steps)


def test_random_steps_get_the_same_answers_twice() -> None:
    assert answers(StepGenerator(0).steps(100)) == answers(StepGenerator(0).steps(100))


def test_all_steps_occur() -> None:
    kinds = {step[0] for seed in range(30) for step in StepGenerator(seed).steps()}
    assert kinds == {"call", "v2", "events", "expire", "v2 expire", "pause", "restart"}


@pytest.mark.slow
def test_random_steps_cover_most_answers() -> None:
    """Requests that are always or never refused would make the comparison worthless."""
    steps = [without_restarts(seed) for seed in range(2)]
    lines = [line for each in steps for line in answers(each)]
    assert len({line for line in lines if "etcdserver:" in line}) >= 8
    assert sum("succeeded: true" in line for line in lines) >= 20
    assert sum("prev_kv" in line for line in lines if line.startswith("watch")) >= 1
    assert sum(line.startswith("header { revision") for line in lines) > 200


def test_random_steps_cover_all_answers_of_the_v2_api() -> None:
    rng = Random(1)
    steps: list[Step] = [("v2", *random_request(rng)) for _ in range(600)]
    found: list[Any] = [ast.literal_eval(line) for line in answers(steps)]
    codes = {one[1] for one in found if isinstance(one[1], int)}
    assert codes == set(v2_store.MESSAGES) - {300}
    actions = {one[1] for one in found if isinstance(one[1], str)}
    assert actions == {"get", "set", "create", "update", "compareAndSwap", "delete", "compareAndDelete"}


def test_restart_and_expiry_give_answers() -> None:
    steps: list[Step] = [
        ("call", "Watch", 'create_request { key: "a" }'), ("expire", b"a"), ("events",),
        ("v2 expire", "b"), ("call", "Put", 'key: "a"'), ("restart", "with data"), ("call", "Range", 'key: "a"'),
        ("restart", "without data"), ("call", "Range", 'key: "a"'), ("v2", "GET", "b", ()),
    ]  # fmt: skip
    got = answers(steps)
    assert len(got) == len(steps)
    assert "TTL: -1" in got[1]
    assert "type: DELETE" in got[2]
    assert "count: 1" in got[6]
    assert "count" not in got[8]


def _ignore_limits_of_revisions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "_passes_filters", lambda request, kv: True)


def _hide_deletions_from_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    real = WatchService.changed
    monkeypatch.setattr(
        WatchService, "changed", lambda self, changes: real(self, [change for change in changes if change.version])
    )


def _keep_compacted_revisions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EtcdStore, "compact", lambda self, revision: None)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "mutant", [_ignore_limits_of_revisions, _hide_deletions_from_watches, _keep_compacted_revisions]
)
def test_random_steps_detect_mutant(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = without_restarts(0)
    before = answers(steps)
    mutant(monkeypatch)
    assert answers(steps) != before
