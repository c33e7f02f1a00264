"""Disk faults on container servers: effects of stalls and power losses on clients and files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from harness.clusters.abilities import DISKS
from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.container_needs import Clients
from harness.clusters.docker.containers.engine import HOST, OWNER, RUN, connect, find_clusters, remove
from harness.clusters.kinds.redis import SINGLE
from harness.clusters.server_options import completed
from harness.errors import UsageError
from harness.faults.base import Damage
from harness.faults.catalogue import default_specs
from harness.plan import Plan
from harness.run.runs import run
from tests.clusters.bench import fault, make, scene, until_healed

PROGRAM = """
from harness.plan import FaultSpec, Plan
from harness.run.runs import run
stall = FaultSpec("disk-stall", at=0.5, for_=50.0)
run(Plan(lock="redis-token", cluster="docker", time_limit=60.0, faults=(stall,)))
"""


def start(kind: str, **options: Any) -> DockerCluster:
    cluster = DockerCluster(
        kind=kind,
        nodes=0,
        clients=Clients(1),
        seed=0,
        resource='{"fencing": "off", "stock": {}}',
        options=options,
        needs=frozenset({DISKS}),
    )
    try:
        cluster.start_all()
    except BaseException:
        cluster.stop_all()
        raise
    return cluster


@pytest.fixture(scope="module", params=["always", "everysec"])
def cluster(request: pytest.FixtureRequest) -> Iterator[DockerCluster]:
    cluster = start("redis-single", persistence=request.param)
    yield cluster
    cluster.stop_all()


def client(cluster: DockerCluster, timeout: float = 5.0) -> redis.Redis:
    return redis.Redis(cluster.servers.addresses["n1"], socket_timeout=timeout, decode_responses=True)


def persistence(cluster: DockerCluster) -> str:
    answer: Any = client(cluster).config_get("appendfsync")
    return str(answer["appendfsync"])


def inject(cluster: DockerCluster, name: str) -> Damage:
    return fault(name).inject(scene(cluster))


@pytest.mark.docker
@pytest.mark.xdist_group("docker")
class TestStall:
    def test_a_write_hangs_and_is_applied_afterwards(self, cluster: DockerCluster) -> None:
        damage = inject(cluster, "disk-stall")
        seen = damage.observe()
        assert seen.effective, seen
        # A log that is synced once a second is written by the same thread as the answers, before them.
        with pytest.raises(redis.TimeoutError):
            client(cluster, 0.5).set("hung", "x")
        assert damage.healed().effective is False
        damage.heal()
        assert until_healed(damage.healed).effective
        assert client(cluster).get("hung") == "x"

    def test_a_fault_without_effect_is_reported(self, cluster: DockerCluster, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(DISKS.of(cluster), "stall", lambda host: None)
        assert inject(cluster, "disk-stall").observe().effective is False

    def test_a_stall_that_does_not_heal_is_reported(
        self, cluster: DockerCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        damage = inject(cluster, "disk-stall")
        with monkeypatch.context() as patch:
            patch.setattr(DISKS.of(cluster), "unstall", lambda host: None)
            damage.heal()
            assert damage.healed().effective is False
        DISKS.of(cluster).unstall("n1")
        assert damage.healed().effective

    def test_each_stall_needs_its_own_end(self, cluster: DockerCluster) -> None:
        first, second = inject(cluster, "disk-stall"), inject(cluster, "disk-stall")
        first.heal()
        assert DISKS.of(cluster).disk("n1") == "hangs"
        second.heal()
        assert DISKS.of(cluster).disk("n1") == "works"

    def test_a_server_that_waits_for_its_disk_can_be_killed(self, cluster: DockerCluster) -> None:
        stall = inject(cluster, "disk-stall")
        writer = threading.Thread(target=_ignore, args=(lambda: client(cluster, 2).set("dying", "x"),))
        writer.start()
        time.sleep(0.1)
        cluster.kill("n1")
        writer.join()
        assert (cluster.state("n1"), DISKS.of(cluster).disk("n1")) == ("dead", "hangs")
        cluster.start("n1", wiped=False)
        stall.heal()
        assert until_healed(stall.healed).effective

    def test_a_stall_ends_with_power_loss_and_returns_with_power(self, cluster: DockerCluster) -> None:
        stall, loss = inject(cluster, "disk-stall"), inject(cluster, "power-loss")
        assert (cluster.state("n1"), DISKS.of(cluster).disk("n1")) == ("dead", "fails")
        loss.heal()
        assert DISKS.of(cluster).disk("n1") == "hangs"
        stall.heal()
        assert until_healed(loss.healed).effective


@pytest.mark.docker
@pytest.mark.xdist_group("docker")
class TestSlowFsync:
    def test_a_synced_write_is_late_until_the_heal(self) -> None:
        cluster = start("redis-single", persistence="always")
        try:
            damage = inject(cluster, "slow-fsync")
            seen = damage.observe()
            assert seen.effective, seen
            assert min(_set_times(cluster, 4)[1:]) > 0.2
            assert damage.healed().effective is False
            damage.heal()
            assert until_healed(damage.healed).effective
            assert sorted(_set_times(cluster, 5))[2] < 0.2
        finally:
            cluster.stop_all()

    def test_a_fault_without_effect_is_reported(self, cluster: DockerCluster, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(DISKS.of(cluster), "slow", lambda host, rate: lambda: None)
        assert inject(cluster, "slow-fsync").observe().effective is False

    def test_each_limit_needs_its_own_end(self, cluster: DockerCluster) -> None:
        first, second = inject(cluster, "slow-fsync"), inject(cluster, "slow-fsync")
        first.heal()
        first.heal()
        assert second.observe().effective
        second.heal()
        assert until_healed(first.healed).effective

    def test_a_slow_server_can_be_killed_and_is_still_slow_when_it_is_back(self, cluster: DockerCluster) -> None:
        slow, kill = inject(cluster, "slow-fsync"), inject(cluster, "kill")
        assert kill.observe().effective
        kill.heal()
        assert until_healed(kill.healed).effective
        assert slow.observe().effective
        slow.heal()
        assert until_healed(slow.healed).effective


def _set_times(cluster: DockerCluster, count: int) -> list[float]:
    """Return how long writes took, in seconds."""
    speaker, times = client(cluster), []
    for number in range(count):
        began = time.monotonic()
        speaker.set("timed", number)
        times.append(time.monotonic() - began)
    return times


@pytest.mark.docker
@pytest.mark.xdist_group("docker")
class TestFull:
    def test_redis_with_a_log_ends_or_refuses_writes_and_works_after_the_heal(self, cluster: DockerCluster) -> None:
        client(cluster).set("kept", "x")
        damage = inject(cluster, "disk-full")
        seen = damage.observe()
        assert seen.effective, seen
        # The last block of the log has room for some writes.
        _eventually(lambda: not _succeeds(lambda: client(cluster).set("filling", "x" * 1000)), 60)
        assert damage.healed().effective is False
        damage.heal()
        healed = until_healed(damage.healed)
        assert healed.effective, healed
        assert healed.facts["ended"] == (["n1"] if persistence(cluster) == "always" else [])
        assert client(cluster).get("kept") == "x"
        _eventually(lambda: _succeeds(lambda: client(cluster).set("after", "x")), 60)

    def test_a_fault_without_effect_is_reported(self, cluster: DockerCluster, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(DISKS.of(cluster), "fill", lambda host: None)
        assert inject(cluster, "disk-full").observe().effective is False

    def test_each_filling_needs_its_own_end(self, cluster: DockerCluster) -> None:
        first, second = inject(cluster, "disk-full"), inject(cluster, "disk-full")
        first.heal()
        assert DISKS.of(cluster).disk("n1") == "full"
        second.heal()
        assert until_healed(second.healed).effective

    def test_a_stalled_disk_is_filled_when_the_stall_ends(self, cluster: DockerCluster) -> None:
        stall, full = inject(cluster, "disk-stall"), inject(cluster, "disk-full")
        assert full.observe().effective is False
        stall.heal()
        assert full.observe().effective
        full.heal()
        assert until_healed(full.healed).effective

    def test_a_disk_is_still_full_when_its_power_is_back(self, cluster: DockerCluster) -> None:
        full, loss = inject(cluster, "disk-full"), inject(cluster, "power-loss")
        loss.heal()
        assert DISKS.of(cluster).disk("n1") == "full"
        full.heal()
        assert until_healed(full.healed).effective
        assert until_healed(loss.healed).effective


@pytest.mark.docker
@pytest.mark.xdist_group("docker")
class TestPowerLoss:
    def test_power_loss_loses_acknowledged_writes_that_were_not_synced(self, cluster: DockerCluster) -> None:
        speaker = client(cluster)
        speaker.flushall()
        time.sleep(2.5)  # everysec has synced this, and begins its next second
        before = [speaker.set(f"key-{number}", "x") for number in range(300)]
        damage = inject(cluster, "power-loss")
        seen = damage.observe()
        assert seen.effective, seen
        assert (before, seen.facts["keys_before"]) == ([True] * 300, {"n1": 300})
        damage.heal()
        healed = until_healed(damage.healed)
        assert healed.effective, healed
        left = client(cluster).dbsize()
        assert healed.facts["keys_after"] == {"n1": left}
        assert left == 300 if persistence(cluster) == "always" else left < 300

    def test_a_postgresql_that_has_just_started_survives_a_power_loss(self) -> None:
        new = start("postgres-pgbouncer")
        try:
            damage = inject(new, "power-loss")
            assert damage.observe().effective
            damage.heal()
            assert until_healed(damage.healed).effective
        finally:
            new.stop_all()

    def test_a_kill_loses_nothing(self, cluster: DockerCluster) -> None:
        speaker = client(cluster)
        speaker.flushall()
        for number in range(300):
            speaker.set(f"key-{number}", "x")
        damage = inject(cluster, "kill")
        damage.heal()
        assert until_healed(damage.healed).facts["keys_after"] == {"n1": 300}

    def test_a_fault_without_effect_is_reported(self, cluster: DockerCluster, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(DISKS.of(cluster), "lose_power", lambda host: None)
        assert inject(cluster, "power-loss").observe().effective is False

    def test_a_power_loss_that_only_kills_is_reported(
        self, cluster: DockerCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(DISKS.of(cluster), "lose_power", cluster.kill)
        damage = inject(cluster, "power-loss")
        assert damage.observe().effective is False
        damage.heal()
        assert until_healed(damage.healed).effective

    def test_each_power_loss_needs_its_own_start(self, cluster: DockerCluster) -> None:
        first = inject(cluster, "power-loss")
        second = inject(cluster, "kill")
        first.heal()
        assert cluster.state("n1") == "dead"
        second.heal()
        assert until_healed(second.healed).effective
        assert DISKS.of(cluster).disk("n1") == "works"

    def test_a_paused_server_also_loses_unsynced_data(self, cluster: DockerCluster) -> None:
        cluster.pause("n1")
        damage = inject(cluster, "power-loss")
        assert damage.observe().effective
        cluster.resume("n1")
        damage.heal()
        assert until_healed(damage.healed).effective


def _succeeds(call: Callable[[], Any]) -> bool:
    try:
        call()
    except redis.RedisError:
        return False
    return True


def _ignore(call: Callable[[], Any]) -> None:
    try:
        call()
    except redis.RedisError:
        return


@pytest.mark.docker
@pytest.mark.xdist_group("docker")
@pytest.mark.parametrize(("mode", "valid"), [("everysec", False), ("always", True)])
def test_a_lock_on_a_log_that_is_synced_late_is_violated(mode: str, valid: bool) -> None:
    faults = tuple(default_specs("power-loss", 2.0))
    # A hold as long as redis-py waits before it connects again: somebody comes while it lasts.
    plan = Plan(lock="redis-token", cluster="docker", hold=1.5, time_limit=18.0, faults=faults)
    plan.server_options["persistence"] = mode
    result = run(plan)
    assert result.verdicts["faults"].valid is True
    assert result.verdicts["mutual-exclusion"].valid is valid


@pytest.mark.docker
@pytest.mark.xdist_group("docker")
def test_a_run_killed_during_a_disk_stall_leaves_no_remains(tmp_path: Path) -> None:
    engine = connect()
    program = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.DEVNULL)
    try:
        server = _eventually(lambda: _server_of(engine, program.pid), 60)
        mine = server.labels[RUN]
        pid = _eventually(lambda: _pid(server), 60)
        mounted = Path(f"/proc/{pid}/mounts")
        device = _eventually(lambda: _disk(mounted), 60)
        _eventually(lambda: _hangs(pid), 60)
        os.kill(program.pid, signal.SIGKILL)
        program.wait()
        _eventually(lambda: not _hangs(pid), 60)
        remove(engine, [mine])
        assert mine not in [run.id for run in find_clusters(engine)]
        backing = Path(f"/sys/block/{Path(device).name}/loop/backing_file")
        _eventually(lambda: not backing.exists(), 60)
    finally:
        program.kill()
        program.wait()


def _eventually(look: Callable[[], Any], within: float) -> Any:
    deadline = time.monotonic() + within
    while not (seen := look()):
        assert time.monotonic() < deadline, look
        time.sleep(0.02)
    return seen


def _server_of(engine: Any, owner: int) -> Any:
    """Return the server container of the run of a process. Other runs may be active on this machine."""
    servers = engine.containers.list(filters={"label": f"{HOST}=n1"}, ignore_removed=True)
    return next((box for box in servers if box.labels[OWNER].startswith(f"{owner}:")), None)


def _pid(container: Any) -> int:
    container.reload()
    return int(container.attrs["State"]["Pid"])


def _disk(mounts: Path) -> str | None:
    """Return the device that is mounted on /data."""
    lines = [line.split() for line in mounts.read_text().splitlines()]
    return next((line[0] for line in lines if line[1:3] == ["/data", "ext4"]), None)


def _hangs(pid: int) -> bool:
    """Return whether a write hangs. It is made in a thread, because a process that writes to such a disk cannot be
    killed."""
    path = Path(f"/proc/{pid}/root/data/.look")
    writer = threading.Thread(target=path.write_text, args=("x",), daemon=True)
    writer.start()
    writer.join(2.0)
    return writer.is_alive()


@pytest.mark.parametrize("wrong", ["sometimes", "", 1])
def test_an_unknown_persistence_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match=f"persistence must be one of always, everysec, no, got {wrong!r}"):
        completed(SINGLE.options, {"persistence": wrong}, "docker")


def test_the_simulator_refuses_what_it_cannot_do() -> None:
    with pytest.raises(UsageError, match="everysec"):
        run(Plan(lock="redis-token", server_options={"persistence": "everysec"}))
    with pytest.raises(UsageError, match="needs disk"):
        run(Plan(lock="redis-token", faults=tuple(default_specs("power-loss", 2.0))))
    assert DISKS.find(make("redis-single")) is None
    with pytest.raises(UsageError, match="redis-single on sim does not have the ability 'disk'"):
        DISKS.of(make("redis-single"))
