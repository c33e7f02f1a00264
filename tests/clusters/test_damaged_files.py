"""Files of stopped servers that are damaged: what changes, and how servers start with that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from harness.clusters.abilities import DATA_FILES
from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.container_needs import Clients
from harness.clusters.docker.helper import files
from harness.faults.base import Damage
from harness.plan import FaultSpec, Plan
from harness.run.runs import run
from tests.clusters.bench import fault, scene, until_healed

SUFFIX = b"\0" * 100


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return the data folder of a server whose files are in a temporary folder."""
    data = tmp_path / "data"
    (data / "log").mkdir(parents=True)
    return data


def test_the_newest_file_is_described_without_its_unused_end(data: Path) -> None:
    (data / "log" / "1").write_bytes(b"abc" + SUFFIX)
    (data / ".lock-harness-fill").write_bytes(b"x")
    (data / "empty").write_bytes(SUFFIX)
    found = files.newest(data.parent, ["**/*"])
    assert found is not None
    assert (found["path"], found["size"], found["used"]) == ("/data/log/1", 103, 3)
    assert files.newest(data.parent, ["other/*"]) is None


def test_a_truncation_cuts_off_used_bytes(data: Path) -> None:
    (data / "log" / "1").write_bytes(b"abcdef" + SUFFIX)
    files.damage(data.parent, ["log/*"], flip=False, size=2, seed=0)
    assert (data / "log" / "1").read_bytes() == b"abcd"


@pytest.mark.parametrize("seed", range(9))
def test_a_flip_changes_one_bit_of_the_used_end(data: Path, seed: int) -> None:
    (data / "log" / "1").write_bytes(b"abcdef" + SUFFIX)
    files.damage(data.parent, ["log/*"], flip=True, size=2, seed=seed)
    left = (data / "log" / "1").read_bytes()
    assert left[:4] + left[6:] == b"abcd" + SUFFIX
    assert (int.from_bytes(left[4:6], "big") ^ int.from_bytes(b"ef", "big")).bit_count() == 1


def test_a_server_without_such_a_file_is_named(data: Path) -> None:
    assert list(data.iterdir())
    with pytest.raises(files.FileError, match=r"no file in /data matches wal/\*"):
        files.damage(data.parent, ["wal/*"], flip=True, size=2, seed=0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[DockerCluster]:
    yield from _started("redis-single")


def _started(kind: str) -> Iterator[DockerCluster]:
    cluster = DockerCluster(
        kind=kind,
        nodes=0,
        clients=Clients(1),
        seed=0,
        resource='{"fencing": "off", "stock": {}}',
        options={},
        needs=frozenset({DATA_FILES}),
    )
    try:
        cluster.start_all()
        yield cluster
    finally:
        cluster.stop_all()


def client(cluster: DockerCluster) -> redis.Redis:
    return redis.Redis(cluster.servers.addresses["n1"], socket_timeout=5.0, decode_responses=True)


def inject(cluster: DockerCluster, name: str, **params: Any) -> Damage:
    return fault(name, target="n1", **params).inject(scene(cluster))


@pytest.mark.docker
@pytest.mark.xdist_group("docker")
class TestRedis:
    @pytest.fixture(autouse=True)
    def _anew(self, cluster: DockerCluster) -> Iterator[None]:
        yield
        damage = fault("kill-amnesia", target="n1").inject(scene(cluster))
        damage.heal()
        assert until_healed(damage.healed).effective

    def test_a_truncated_log_loses_the_last_acknowledged_write(self, cluster: DockerCluster) -> None:
        for number in range(10):
            client(cluster).set(f"key-{number}", "x")
        damage = inject(cluster, "file-truncation", bytes=5)
        seen = damage.observe()
        assert seen.effective, seen
        damage.heal()
        healed = until_healed(damage.healed)
        assert healed.effective, healed
        assert (healed.facts["keys_before"], healed.facts["keys_after"]) == ({"n1": 10}, {"n1": 9})

    def test_a_server_that_refuses_a_flipped_bit_is_recorded_as_such(self, cluster: DockerCluster) -> None:
        for number in range(10):
            client(cluster).set(f"key-{number}", "x")
        damage = inject(cluster, "bit-flip", bytes=32)  # with this seed, the $ before the length of the last key
        assert damage.observe().effective
        assert damage.healed().effective is False
        damage.heal()
        healed = until_healed(damage.healed)
        assert healed.effective, healed
        assert healed.facts["refused"] == ["n1"]
        assert "Bad file format" in cluster.logs(0)["n1"]

    @pytest.mark.parametrize("name", ["file-truncation", "bit-flip"])
    def test_a_fault_without_effect_is_reported(
        self, name: str, cluster: DockerCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        client(cluster).set("key", "x")
        with monkeypatch.context() as patch:
            patch.setattr(DATA_FILES.of(cluster), "damage_file", lambda *arguments: None)
            damage = inject(cluster, name)
        assert damage.observe().effective is False
        damage.heal()
        assert until_healed(damage.healed).facts["refused"] == []


@pytest.mark.docker
@pytest.mark.xdist_group("docker")
@pytest.mark.parametrize("kind", ["etcd", "postgres"])
def test_the_log_of_other_servers_is_damaged_and_the_outcome_recorded(kind: str) -> None:
    for cluster in _started(kind):
        damage = inject(cluster, "bit-flip")
        seen = damage.observe()
        assert seen.effective, seen
        damage.heal()
        healed = until_healed(damage.healed)
        assert healed.effective, healed
        # etcd insists on the checksums of its log; PostgreSQL takes a record with a wrong one for the end of the log.
        assert healed.facts["refused"] == (["n1"] if kind == "etcd" else [])


@pytest.mark.docker
@pytest.mark.xdist_group("docker")
def test_a_lock_on_a_truncated_log_is_granted_twice() -> None:
    """The grant is the last write of the server: without it, the next client is granted the lock, too."""
    cut = FaultSpec("file-truncation", on="acquire", nth=5, times=1000, every=6.0, for_=0.05)
    result = run(Plan(lock="redis-token", cluster="docker", hold=1.5, time_limit=24.0, faults=(cut,)))
    assert result.verdicts["faults"].valid is True
    assert result.verdicts["mutual-exclusion"].valid is False
