"""A violation is compared with the mechanism that a scenario states for it: cause, clients, order of events."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.base import Verdict
from harness.checkers.mutual_exclusion import MutualExclusionChecker
from harness.checkers.resource import ResourceChecker
from harness.errors import UsageError
from harness.history import History
from harness.plan import Mechanism, decode
from harness.run.verdicts.decision import Decision
from harness.run.verdicts.expectation import judge
from harness.run.verdicts.mechanism import mismatch
from tests.checkers.story import Story

STORY = ("c0 acquire", "client-pause inject", "c0 key-expired", "second acquire", "client-pause heal", "c0 write")


def fault(story: Story, at: float, until: float, name: str = "client-pause", host: str = "c0") -> Story:
    value = {"id": 1, "fault": name, "hosts": [host], "observed": {}, "disturbs": True, "params": {}}
    story.nemesis(at, "inject", "invoke", value)
    story.nemesis(at, "inject", "ok", value)
    story.nemesis(until, "heal", "ok", value)
    return story


def paused_holder() -> History:
    """c0 is paused in its critical section until its lease has ended and c1 holds the key."""
    story = Story().acquire("c0", 0.1, 0.11, valid_for=2.0).access("c0", "read", 0.12, 0, 0)
    story.server_key(0.105, "token-0", by="c0", left=2.0)
    fault(story, 0.2, 3.0)
    story.server_key(2.105, None).server_key(2.2, "token-1", by="c1", left=2.0)
    story.acquire("c1", 0.2, 2.21, valid_for=2.0).access("c1", "read", 2.22, 1, 0)
    story.access("c0", "write", 3.1, 2, 1).release("c0", 3.2).release("c1", 3.5)
    return story.history()


def double_grant() -> History:
    """The service grants the key to c1 while c0's lease lasts."""
    story = Story().acquire("c0", 0.1, 0.11, valid_for=9.0).acquire("c1", 0.2, 0.3, valid_for=9.0)
    return story.release("c0", 1.0).release("c1", 1.1).history()


def why(history: History, cause: str = "client", order: tuple[str, ...] = STORY, **fields: Any) -> str:
    """Compare the first overlap of a history with a mechanism."""
    violation = MutualExclusionChecker().check(history).evidence[0]
    return mismatch(Mechanism(cause=cause, order=order, **fields), violation, history)  # type: ignore[arg-type]


def test_a_violation_with_the_stated_mechanism_fits() -> None:
    assert why(paused_holder(), between=("c0", "any"), never=("c0 release:invoke",)) == ""


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"cause": "service"}, "the cause is client, expected service"),
        ({"between": ("c1", "any")}, "it concerns c0 and c1, expected c1 and any"),
        ({"between": ("c0", "c2")}, "it concerns c0 and c1, expected c0 and c2"),
        ({"between": ("c0", "c1", "c2")}, "it concerns c0 and c1, expected c0 and c1 and c2"),
        (
            {"order": ("second acquire", "c0 key-expired")},
            "there is no 'c0 key-expired' after 'second acquire' (2.210 s)",
        ),
        ({"order": ("c0 crash",)}, "there is no 'c0 crash' after the start (0.000 s)"),
        ({"order": ("c0 key-lost",)}, "there is no 'c0 key-lost' after the start (0.000 s)"),
        ({"order": ("c0 key-gone@n2",)}, "there is no 'c0 key-gone@n2' after the start (0.000 s)"),
        ({"order": ("client-pause inject@c1",)}, "there is no 'client-pause inject@c1' after the start (0.000 s)"),
        (
            {"never": ("c0 lease-end",)},
            "there is a 'c0 lease-end' at 2.110 s, which excludes this mechanism",
        ),
        ({"order": ("c1 acquire", "c1 acquire")}, "there is no 'c1 acquire' after 'c1 acquire' (2.210 s)"),
    ],
    ids=str,
)
def test_what_differs_from_the_mechanism_is_named(fields: dict[str, Any], expected: str) -> None:
    assert why(paused_holder(), **fields) == expected


def test_the_same_violation_for_another_reason_does_not_fit() -> None:
    assert why(double_grant()) == "the cause is service, expected client"
    assert why(double_grant(), "service", ("first acquire", "second acquire", "first release:invoke")) == ""
    assert why(double_grant(), "service", ("first lease-end", "second acquire")).startswith("there is no 'first lease")


def test_a_fault_may_have_been_healed_before_that_was_observed() -> None:
    """c0 writes at 3.1 s; the heal is recorded at 3.0 s in one history, and 2 s later in the other."""
    story = Story().acquire("c0", 0.1, 0.11, valid_for=2.0).acquire("c1", 0.2, 2.21, valid_for=2.0)
    fault(story, 0.2, 5.0).access("c0", "write", 3.1, 2, 1).release("c0", 3.2).release("c1", 3.5)
    assert why(story.history(), order=("c1 acquire", "client-pause heal", "c0 write")) == ""


def test_keys_do_not_count_where_not_every_change_was_recorded() -> None:
    story = Story().acquire("c0", 0.1, 0.11, valid_for=1.0).acquire("c1", 0.2, 2.21, valid_for=2.0)
    history = story.release("c0", 3.2).release("c1", 3.5).history()
    assert why(history, order=("c0 acquire", "c0 key-expired", "second acquire")) == ""


def test_a_server_that_was_down_may_have_lost_a_key_at_any_moment_of_that_time() -> None:
    story = Story().acquire("c0", 0.1, 0.11).server_key(0.105, "token", by="c0")
    story.server_key(1.0, None, answers=False).server_key(3.0, None)
    story.acquire("c1", 1.5, 2.0).release("c0", 4.0).release("c1", 4.5)
    history = story.history()
    assert why(history, "service", ("c0 key-lost", "second acquire")) == ""
    assert why(history, "service", ("second acquire", "c0 key-lost")) == ""


@pytest.mark.parametrize(("lease", "cause"), [(1.0, "client"), (9.0, "service")])
def test_interleaved_writes_have_the_cause_of_their_grants(lease: float, cause: str) -> None:
    story = Story().acquire("c0", 0.1, 0.11, valid_for=lease).access("c0", "read", 0.2, 0, 0)
    story.acquire("c1", 1.9, 2.0, valid_for=9.0).access("c1", "read", 2.1, 1, 0).access("c1", "write", 2.2, 2, 1)
    history = story.access("c0", "write", 2.3, 3, 1).release("c0", 2.4).release("c1", 2.5).history()
    violation = ResourceChecker().check(history).evidence[0]
    assert violation.blame is None
    order = ("first read", "second write", "first write")
    assert mismatch(Mechanism(cause=cause, order=order), violation, history) == ""  # type: ignore[arg-type]


def plan_with(mechanism: dict[str, Any]) -> dict[str, Any]:
    return {
        "lock": "redis-token",
        "clients": 2,
        "faults": [{"fault": "client-pause", "at": 1}],
        "expect": {"safe": False, "invalid": ["mutual-exclusion"], "mechanism": mechanism},
    }


def test_a_run_with_another_mechanism_is_not_as_expected() -> None:
    history = double_grant()
    verdicts = {"mutual-exclusion": MutualExclusionChecker().check(history), "faults": Verdict(True, "all took effect")}
    states = []
    for cause in ("service", "client"):
        mechanism = {"cause": cause, "order": ["first acquire", "second acquire"]}
        expect = decode(plan_with(mechanism)).expect
        assert expect is not None
        states.append(judge(expect, verdicts, history, Decision({})).state)
    assert states == ["as-expected", "other-cause"]


@pytest.mark.parametrize(
    ("mechanism", "expected"),
    [
        ({"cause": "service"}, "order must name at least one event"),
        ({"cause": "sevice", "order": ["violation"]}, "cause"),
        (
            {"cause": "client", "order": ["c0 aquire"]},
            r"order\[0\]: unknown event of a client 'aquire': did you mean acq",
        ),
        ({"cause": "client", "order": ["c2 acquire"]}, "unknown client 'c2': did you mean c1 or c0"),
        ({"cause": "client", "order": ["frist acquire"]}, "unknown subject 'frist': did you mean first"),
        (
            {"cause": "client", "order": ["client-pause injekt"]},
            "unknown event of a fault 'injekt': did you mean inject",
        ),
        ({"cause": "client", "order": ["kill inject"]}, "unknown subject 'kill'"),
        ({"cause": "client", "order": ["acquire"]}, "expected a subject and an event"),
        ({"cause": "client", "order": ["c0 acquire@n1"]}, "only events of keys and faults name a host"),
        ({"cause": "client", "order": ["violation"], "never": ["c0 realease"]}, r"never\[0\]: .*did you mean release"),
        ({"cause": "client", "order": ["violation"], "between": ["c9"]}, "unknown client in expect.mechanism.between"),
        ({"cause": "client", "odrer": ["violation"]}, "did you mean expect.mechanism.order"),
    ],
)
def test_a_malformed_mechanism_is_refused_with_the_nearest_word(mechanism: dict[str, Any], expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        decode(plan_with(mechanism))
