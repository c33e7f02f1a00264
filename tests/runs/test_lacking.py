"""A run whose lock needs what a simulated server lacks is unknown, whatever the lock makes of the error."""

from __future__ import annotations

import pytest

from harness import run
from harness.errors import UNKNOWN
from harness.plan import Plan

MODULE = f"{__package__}.lacking_locks"


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("lock", "lacking"),
    [
        ("ReleasesByFunction", "the Redis command FCALL"),
        ("ReleasesByStreamInScript", "the Redis command XADD"),
        ("ReleasesByCase", "CASE WHEN"),
        ("ReleasesWithTransaction", "the SQL function txid_current()"),
        ("UsesMetaCommands", "the memcached command ms"),
        ("ListsAlarms", "the method /etcdserverpb.Maintenance/Alarm of etcd"),
        ("ListsNodes", "GET /v1/catalog/nodes of Consul"),
        ("ProtectsItsNode", "access control lists of ZooKeeper"),
    ],
)
def test_a_lock_that_needs_what_a_simulated_server_lacks_is_unknown(lock: str, lacking: str) -> None:
    result = run(Plan(lock=f"{MODULE}:{lock}", time_limit=3.0), store=None)
    assert result.exit_status == UNKNOWN
    assert f" called {lacking}" in result.reason
    assert ", which the simulator lacks" in result.reason
