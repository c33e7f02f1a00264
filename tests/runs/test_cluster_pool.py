"""The order of runs that reuse containers."""

from __future__ import annotations

from harness.faults.catalogue import default_specs
from harness.plan import Plan
from harness.run.containers.cluster_pool import sharing_key
from harness.run.plans.completion import complete


def plan(lock: str, fault: str = "") -> Plan:
    faults = tuple(default_specs(fault, 2.0)) if fault else ()
    return complete(Plan(lock=lock, cluster="docker", faults=faults))


def test_plans_that_can_share_containers_have_one_key() -> None:
    alike = [plan("redis-token"), plan("redis-setnx", "kill"), plan("redis-py-lock", "clock-jump")]
    assert len({sharing_key(one) for one in alike}) == 1
    others = [
        plan("redis-token", "disk-stall"), plan("redis-token", "file-truncation"), plan("redis-token", "lost-reply"),
        plan("redis-token", "cpu-starvation"), plan("pottery-redlock"), plan("python-redis-lock"), plan("etcd-mutex"),
    ]  # fmt: skip
    assert len({sharing_key(one) for one in [alike[0], *others]}) == 1 + len(others)


def test_sorted_plans_change_the_servers_containers_as_rarely_as_possible() -> None:
    """Those of clients are made again for the others of these plans."""
    plans = [
        plan(lock, fault) for fault in ("disk-stall", "kill", "lost-reply") for lock in ("redis-token", "redis-py-lock")
    ]
    faults = [one.faults[0].fault for one in sorted(plans, key=sharing_key)]
    assert faults == ["kill", "kill", "lost-reply", "lost-reply", "disk-stall", "disk-stall"]
