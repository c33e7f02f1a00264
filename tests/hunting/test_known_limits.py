"""A hunt reports each known limit of a lock once, and goes on to find failures that the lock does not document."""

from __future__ import annotations

import json
import re
import time
import uuid

import pytest
import redis
from msgspec.structs import replace as with_

from harness import HuntResult, LockFails, hunt
from harness.errors import UsageError
from harness.lock_impls.base import LockInfo
from harness.plan import FaultSpec, Plan
from harness.search.request import HuntRequest
from harness.search.rounds import ShrunkFailure
from harness.search.shrink import shrink
from harness.search.trials import FailureKind, run_trial

LATE = FailureKind("mutual-exclusion", "late-client")
PATIENCE = 2.2
"""Seconds after which the lock of this file claims to be acquired."""


class ImpatientLock:
    """A lease whose documentation mentions late clients. It has a mistake besides: whoever waits for long is granted
    the lock."""

    info = LockInfo("impatient", "", "", "", "E", ("redis-single",), limits=("late-client",))

    def __init__(self, redis: redis.Redis, key: str, ttl: float) -> None:
        self.redis, self.key, self.ttl, self.token = redis, key, ttl, uuid.uuid4().hex

    def acquire(self, timeout: float) -> bool:
        began = time.monotonic()
        while not self.redis.set(self.key, self.token, nx=True, px=round(self.ttl * 1000)):
            if time.monotonic() - began > PATIENCE:
                return True
            if time.monotonic() - began > timeout:
                return False
            time.sleep(0.05)
        return True

    def release(self) -> None:
        if self.redis.get(self.key) == self.token.encode():
            self.redis.delete(self.key)


IMPATIENT = HuntRequest(
    lock=f"{__name__}:{ImpatientLock.__name__}", faults=("client-pause",), workloads=("mutex",), clients=2
)
SHORT = with_(IMPATIENT, look_for=("mutual-exclusion",), schedules=12)
DOCUMENTED = HuntRequest(
    lock="redlock", faults=("clock-jump",), workloads=("mutex",), clients=2, most_faults=1, schedules=20
)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> HuntResult:
    """Two rounds that reach nothing but a documented limit of redlock."""
    return hunt(DOCUMENTED, rounds=2, store=tmp_path_factory.mktemp("store"))


@pytest.mark.slow
def test_a_known_limit_does_not_hide_a_failure_that_is_not_documented() -> None:
    stopped = hunt(SHORT, rounds=1, stop_at_first=True)
    assert [found.known for found in stopped.results.findings] == [True]

    hunted = hunt(SHORT, rounds=1)
    assert [found.known for found in hunted.results.findings] == [False, True]
    new, limit = hunted.results.findings
    assert new.limits == {}
    assert limit.limits == {"mutual-exclusion": ("late-client",)}
    assert str(hunted).startswith(f"FAILURE FOUND: {IMPATIENT.lock}: mutual-exclusion\n")
    assert f"KNOWN LIMIT FOUND: {IMPATIENT.lock}: mutual-exclusion (late-client)" in str(hunted)
    assert hunted.results.schedules > stopped.results.schedules


@pytest.mark.slow
def test_a_known_limit_is_reported_once_and_the_search_goes_on(known: HuntResult) -> None:
    assert known.results.rounds == 2
    kinds = [kind for found in known.findings for kind in found.failure.kinds]
    assert FailureKind("mutual-exclusion", "clock") in kinds
    assert len({found.failure.kind for found in known.findings}) == len(known.findings)
    assert all(found.known and found.round == 1 for found in known.results.findings)
    assert re.search(r"^NO OTHER FAILURE FOUND: redlock\n\d\d schedules in 2 rounds", str(known), re.MULTILINE)
    assert known.exit_status == 1, "as for a run: known limits count unless they are accepted"
    with pytest.raises(LockFails, match="KNOWN LIMIT FOUND: redlock"):
        known.check()


@pytest.mark.slow
def test_the_document_and_the_page_tell_known_limits_from_failures(known: HuntResult) -> None:
    assert known.folder is not None
    document = json.loads((known.folder / "hunt.json").read_text())
    assert document["findings"][0]["known"] is True
    assert document["findings"][0]["limits"]["mutual-exclusion"] == ["clock"]
    page = (known.folder / "hunt.html").read_text()
    assert "No failure was found in redlock, but" in page
    assert "Known limit" in page
    assert "mutual-exclusion (clock)" in page


@pytest.mark.slow
def test_accepted_limits_are_reported_and_do_not_fail_the_hunt() -> None:
    hunted = hunt(with_(DOCUMENTED, accept=("known-limits",)), rounds=1, stop_at_first=True)
    assert all(found.known for found in hunted.results.findings)
    assert str(hunted).startswith("KNOWN LIMIT FOUND, and accepted: redlock: mutual-exclusion (clock)")
    assert hunted.exit_status == 0
    assert hunted.check() is hunted


@pytest.mark.slow
def test_a_limit_of_an_earlier_hunt_is_excluded_from_the_start(known: HuntResult) -> None:
    assert known.folder is not None
    again = hunt(DOCUMENTED, rounds=1, store=known.folder.parent.parent)
    assert again.results.schedules > 0
    rounds = {found.failure.kind: found.round for found in again.findings}
    assert rounds[FailureKind("mutual-exclusion", "clock")] == 0
    assert len(rounds) == len(again.findings)


def test_keep_going_and_stop_at_first_are_refused_together() -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        hunt(DOCUMENTED, keep_going=True, stop_at_first=True)


@pytest.mark.slow
def test_shrinking_does_not_turn_a_new_failure_into_a_known_limit() -> None:
    """Without its faults the plan has the new failure; with a pause alone it would be the known limit."""
    pause = FaultSpec("client-pause", on="read", client=0, for_=3.0)
    plan = Plan(lock=IMPATIENT.lock, clients=2, stagger=0.1, hold=1.9, wait=4.0, time_limit=12.0, faults=(pause,))
    assert FailureKind("mutual-exclusion") in run_trial(plan).kinds()
    request = IMPATIENT.completed()
    shrunk = shrink(plan, FailureKind("mutual-exclusion"), request)
    assert FailureKind("mutual-exclusion") in shrunk.kinds
    late = with_(plan, hold=0.5)
    assert run_trial(late).kinds()[0] == LATE
    assert LATE in shrink(late, LATE, request).kinds


def test_a_failure_is_known_only_if_limits_explain_all_of_it() -> None:
    plan = Plan(lock="redis-token")
    kinds = (LATE, FailureKind("mutual-exclusion", "clock"), FailureKind("resource"))
    mixed = ShrunkFailure(plan=plan, kind=kinds[0], kinds=kinds, schedule=1, shrinks=0)
    assert not mixed.known
    assert mixed.broken == ("mutual-exclusion", "resource")
    assert mixed.limits == {"mutual-exclusion": ("late-client", "clock")}
    assert with_(mixed, kinds=kinds[:2]).known
