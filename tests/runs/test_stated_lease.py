"""The lease of grants that do not say it: stated by a class, by its constructor or by the plan; ownership uses it."""

from __future__ import annotations

from typing import Any

import pytest
import redis
from msgspec.structs import replace as with_

from harness.documents.lock import LockFacts
from harness.errors import UsageError
from harness.plan import FaultSpec, Plan, decode, dump
from harness.run.plans.completion import complete
from harness.run.plans.lock_facts import find_facts
from harness.run.plans.stated_lease import stated_lease_s
from harness.run.runs import run
from harness.search.request import HuntRequest
from harness.search.trials import Trial, run_trial


class DeletesAnyKey:
    """A lock with a lease. Its release deletes the key, whoever owns it by then."""

    def __init__(self, redis: redis.Redis, key: str, ttl: float) -> None:
        self.redis, self.key, self.ttl = redis, key, ttl

    def acquire(self, blocking: bool = True) -> bool:
        return bool(self.redis.set(self.key, "locked", nx=True, px=round(self.ttl * 1000)))

    def release(self) -> None:
        self.redis.delete(self.key)


class StatesNone(DeletesAnyKey):
    lease = ""


class ByParameter(DeletesAnyKey):
    """Its constructor has a parameter for the lease that the harness does not know."""

    lease = "px:ms"

    def __init__(self, redis: redis.Redis, key: str, px: int = 2000) -> None:
        super().__init__(redis, key, px / 1000)


def trial_of(cls: type, **changed: Any) -> Trial:
    """Run three clients. The first one is paused until its lease has ended, so its release hits the second one's key.
    The third one requests the lock after that: nobody waits in vain, so only the lease shows that the second one held
    it."""
    pause = FaultSpec("client-pause", on="read", client=0, for_=1.0)
    plan = Plan(
        lock=f"{__name__}:{cls.__name__}",
        clients=3,
        hold=1.5,
        stagger=1.4,
        sections=1,
        wait=6.0,
        time_limit=12.0,
        faults=(pause,),
    )
    return run_trial(with_(plan, **changed))


@pytest.mark.parametrize("cls", [DeletesAnyKey, ByParameter])
def test_a_lock_that_deletes_anothers_key_breaks_ownership_without_saying_its_lease(cls: type) -> None:
    trial = trial_of(cls)
    assert trial.history.nemesis("start")[0].value["lease"] == 2.0
    grants = [call.done for call in trial.history.calls("acquire") if call.outcome == "ok"]
    assert all(grant is not None and grant.value["valid_for"] is None for grant in grants)
    ownership = trial.verdicts["ownership"]
    assert ownership.valid is False
    assert "c0's release ended c1's hold of k0" in ownership.explanation
    assert trial.decision.properties["ownership"].state == "broken"


def test_a_class_may_state_that_its_lease_is_not_known() -> None:
    trial = trial_of(StatesNone)
    assert "lease" not in trial.history.nemesis("start")[0].value
    assert trial.verdicts["ownership"].valid is not False


def test_a_plan_states_the_lease_of_a_class_that_does_not() -> None:
    trial = trial_of(StatesNone, lease="2s")
    assert trial.history.nemesis("start")[0].value["lease"] == 2.0
    assert trial.verdicts["ownership"].valid is False


def test_a_release_of_ones_own_key_is_no_violation() -> None:
    trial = trial_of(DeletesAnyKey, faults=())
    assert trial.verdicts["ownership"].valid is True


def lease_of(stated: str, lock: str = "redis-token", **plan: Any) -> float | None:
    return stated_lease_s(Plan(lock=lock, lease=stated, ttl=3.0, **plan), LockFacts(name=lock))


def test_a_lease_is_the_ttl_a_duration_or_an_option() -> None:
    assert lease_of("") is None
    assert lease_of("ttl") == 3.0
    assert lease_of("10s") == 10.0
    assert lease_of("px:ms", lock_options={"px": 1500}) == 1.5
    assert lease_of("expire", lock_options={"expire": 4}) == 4.0
    assert lease_of("expire", lock_options={"expire": False}) is None, "the option switches the lease off"


@pytest.mark.parametrize("stated", ["px", "px:ms", "soon", "-1s", "ttl:ms"])
def test_another_text_for_a_lease_is_refused(stated: str) -> None:
    with pytest.raises(UsageError, match="lease: expected ttl, a duration"):
        complete(Plan(lock="redis-token", lease=stated))


def test_facts_of_a_class_have_its_lease() -> None:
    facts = {cls: find_facts(f"{__name__}:{cls.__name__}") for cls in (DeletesAnyKey, StatesNone, ByParameter)}
    assert [(it.lease, it.lease_default) for it in facts.values()] == [("ttl", None), ("", None), ("px:ms", 2000.0)]
    assert find_facts("redis-token").lease == "", "its grants say their lease"


def test_plans_and_hunts_have_a_lease() -> None:
    plan = decode({"lock": "redis-token", "lease": "ttl"})
    assert 'lease = "ttl"' in dump(plan)
    assert "lease" not in dump(with_(plan, lease=""))
    assert HuntRequest(lock="redis-token", lease="ttl").plan().lease == "ttl"


def test_a_client_that_hangs_longer_than_the_stated_lease_is_late() -> None:
    """Its other threads go on, so only the lock can say that nothing renews the lease."""
    hang = FaultSpec("client-hang", on="acquire", client=0)
    result = run(
        Plan(lock="redis-py-lock", clients=2, hold=1.0, stagger=0.1, sections=1, time_limit=4.0, faults=(hang,))
    )
    overlap = result.decision.properties["mutual-exclusion"]
    assert (overlap.state, overlap.limits) == ("known-limit", ("late-client",))
    assert "c0's lease had ended" in result.verdicts["mutual-exclusion"].explanation


@pytest.mark.parametrize(("expires", "lease"), [(True, 2.0), (False, None)])
def test_an_option_says_whether_the_lock_has_a_lease(expires: bool, lease: float | None) -> None:
    plan = Plan(lock="redis-py-lock", ttl=2.0, lock_options={"expires": expires})
    assert stated_lease_s(complete(plan), find_facts("redis-py-lock")) == lease
