"""Damage to the files of servers on machines."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.clusters.conversation import Refused
from harness.clusters.ssh.connection import HostConnection
from harness.clusters.ssh.data_files import DataFiles
from harness.clusters.ssh.hosts import HostServer
from harness.clusters.ssh.services.etcd import EtcdServers
from harness.clusters.ssh.services.redis import RedisServers

from .bench import Bench, on_bench
from .machines import Machines

WRITTEN = 10


def test_the_newest_file_of_a_server_is_damaged(local_host: HostConnection) -> None:
    server = SimpleNamespace(host=local_host, starts=2)
    files = DataFiles(lambda _: cast(HostServer, server), RedisServers.NEWEST)
    assert files.newest_file("n1") is None
    for name in ("n1/data/appendonlydir/a.1.incr.aof", "n1/data/other", "n2/data/appendonly.aof"):
        local_host.ask("write", path=name, text="abcdef")
    files.damage_file("n1", "truncate", 2, 0)
    found = files.newest_file("n1")
    assert found is not None
    assert (found["path"], found["size"]) == ("/data/appendonlydir/a.1.incr.aof", 4)
    files.damage_file("n1", "flip", 2, 7)
    flipped = files.newest_file("n1")
    assert flipped is not None
    assert flipped["size"] == 4
    assert flipped["sha256"] != found["sha256"]
    untouched = files.newest_file("n2")
    assert untouched is not None
    assert untouched["size"] == 6
    assert files.starts("n1") == 2
    with pytest.raises(Refused, match=r"n1: no file in /data matches etcd/member/wal/\*.wal"):
        DataFiles(lambda _: cast(HostServer, server), EtcdServers.NEWEST).damage_file("n1", "flip", 2, 0)


@pytest.mark.docker
def test_a_truncated_log_loses_the_last_acknowledged_write(hosts: Machines) -> None:
    def keys(bench: Bench, command: str) -> str:
        return hosts.sh(bench.machine("n1"), f"redis-cli -p {bench.cluster._endpoints['n1'].ports[0]} {command}")

    def check(bench: Bench) -> None:
        for number in range(WRITTEN):
            keys(bench, f"set key-{number} x")
        with bench.fault("file-truncation", target="n1", bytes=5) as record:
            assert record.seen, record
        assert bench.record().healed_ns is not None
        assert keys(bench, "dbsize") == str(WRITTEN - 1)
        assert keys(bench, f"exists key-{WRITTEN - 1}") == "0"

    on_bench(hosts, "redis-token", check, ("file-truncation",), hosts=("h1",), clients=1)
    assert hosts.remains("h1") == ""


@pytest.mark.docker
def test_a_member_of_etcd_that_refuses_a_flipped_bit_is_recorded_as_such(hosts: Machines) -> None:
    found: dict[str, Any] = {}

    def check(bench: Bench) -> None:
        with bench.fault("bit-flip", target="n3") as record:
            assert record.seen, record
        found.update(bench.record().observed["after_heal"])

    on_bench(hosts, "etcd-mutex", check, ("bit-flip",), hosts=("h1", "h2", "h3"), clients=1)
    assert found["refused"] == ["n3"]
    assert found["state"] == {"n3": "dead"}
