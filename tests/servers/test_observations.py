"""Damage that is not done is noticed: each method that damages is replaced by one that does nothing."""

from __future__ import annotations

from typing import Any

import pytest

from harness import Plan, run
from harness.clusters.servers.cluster import ServersCluster
from harness.faults.catalogue import default_specs, fault_class
from harness.fidelity.processes import ServerProcess

from .own_redis import url

FAULTS = [
    "black-hole", "client-crash", "client-hang", "client-pause", "connection-reset", "delayed-request", "latency",
    "lost-reply", "packet-loss", "partition-clients", "slow-link",
]  # fmt: skip


class NoTrap:
    used = False

    def cancel(self) -> None: ...


NOTHING: dict[str, Any] = {
    "pause": lambda *_: None,
    "kill": lambda *_, **__: None,
    "hang": lambda *_: None,
    "cut": lambda *_: None,
    "shape": lambda *_: lambda: None,
    "trap_message": lambda *_: NoTrap(),
    "black_hole": lambda *_: NoTrap(),
    "break_streams": lambda *_: 0,
}


def outcome(server: ServerProcess, fault: str) -> bool | None:
    """Run with a fault, and return the verdict of the checker that asks whether it took effect."""
    result = run(
        Plan(
            lock="redis-token",
            cluster="servers",
            servers=(url(server),),
            ttl=1.0,
            clients=3,
            time_limit=10.0,
            faults=tuple(default_specs(fault, 1.0)),
        )
    )
    return result.verdicts["faults"].valid


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_the_effect_of_each_fault_is_confirmed(redis_server: ServerProcess, fault: str) -> None:
    assert outcome(redis_server, fault) is True


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_that_does_nothing_is_not_confirmed(
    redis_server: ServerProcess, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = fault_class(fault).damages_with
    monkeypatch.setattr(ServersCluster, method, NOTHING[method])
    assert outcome(redis_server, fault) is not True
