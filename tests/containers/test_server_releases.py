"""Releases of servers from wheels, Go modules and jars, and images of servers that have no shell."""

from __future__ import annotations

import io
import tarfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from harness.clusters.abilities import PROCESSES
from harness.clusters.base import names
from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.container_needs import Clients
from harness.clusters.docker.containers.engine import connect
from harness.clusters.docker.images import maven
from harness.clusters.docker.images.contexts import context_folder
from harness.clusters.docker.images.images import Images, build
from harness.clusters.docker.images.server_releases import SERVER_RELEASES
from harness.clusters.kinds import KINDS
from harness.clusters.kinds.redis import SINGLE
from harness.clusters.kinds.releases import ALL_RELEASES, RELEASES
from harness.clusters.server_options import completed
from harness.errors import UsageError
from harness.faults.catalogue import default_specs
from harness.lock_impls import catalogue
from harness.lock_impls.base import Endpoints
from harness.plan import Plan
from harness.run.plans.completion import complete
from tests.clusters.real import servers

NO_STOCK = '{"fencing": "off", "stock": {}}'


def test_each_release_has_a_source() -> None:
    assert tuple(SERVER_RELEASES) == ALL_RELEASES
    assert all("release" in KINDS.find(kind).options for kind in ("redis-sentinel", "etcd", "postgres", "zookeeper"))


def test_the_release_of_etcd_is_the_one_in_its_module() -> None:
    for release in RELEASES["etcd"]:
        version = release.removeprefix("etcd-")
        module = (context_folder("etcd-release") / version.rpartition(".")[0] / "go.mod").read_text()
        assert f"\tgo.etcd.io/etcd/server/v3 v{version} " in module
        assert f"\tgo.etcd.io/etcd/etcdctl/v3 v{version} " in module


def test_a_release_of_postgresql_is_unpacked_where_debian_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(artifact: str, target: Path) -> None:
        assert artifact.endswith(":16.15.0")
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:xz") as archive:
            archive.addfile(tarfile.TarInfo("bin/postgres"))
        with zipfile.ZipFile(target, "w") as jar:
            jar.writestr("META-INF/MANIFEST.MF", "")
            jar.writestr("postgres-linux-x86_64.txz", packed.getvalue())

    monkeypatch.setattr(maven, "fetch", fetch)
    SERVER_RELEASES["postgres-16.15"].fill(tmp_path)
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("postgres")] == [
        "postgresql/16/bin/postgres"
    ]


def test_an_unknown_release_and_a_simulated_one_are_refused() -> None:
    with pytest.raises(UsageError, match="release must be one of redis-6"):
        completed(SINGLE.options, {"release": "redis-7.4"}, "docker")
    with pytest.raises(UsageError, match="release needs real servers"):
        completed(SINGLE.options, {"release": RELEASES["redis"][0]}, "sim")


def test_an_image_that_is_called_as_a_release_is_that_release() -> None:
    plan = complete(Plan(lock="etcd-mutex", cluster="docker", image="etcd-3.6.16"))
    assert (plan.image, plan.server_options) == ("", {"release": "etcd-3.6.16"})
    with pytest.raises(UsageError, match="release must be one of etcd-"):
        complete(Plan(lock="etcd-mutex", cluster="docker", image="valkey-9.1.2"))


def test_servers_of_several_programs_are_not_taken_from_an_image_of_one_product() -> None:
    with pytest.raises(UsageError, match=r"--image: chubby is a Chubby cell, .* no image of one product"):
        complete(Plan(lock="chubby", cluster="docker", image="redis:7"))
    with pytest.raises(UsageError, match="--image: postgres-pgbouncer is a PostgreSQL behind PgBouncer"):
        complete(Plan(lock="postgres-advisory", kind="postgres-pgbouncer", cluster="docker", image="postgres:16"))


def test_nothing_is_upgraded_to_a_release_that_needs_its_own_image() -> None:
    upgrade = default_specs("rolling-upgrade", 2.0)
    (spec,) = (msgspec.structs.replace(one, params={**one.params, "to": "redis-8.0.2"}) for one in upgrade)
    plan = Plan(lock="redis-token", kind="redis-single", cluster="docker", time_limit=60.0, faults=(spec,))
    with pytest.raises(UsageError, match=r"redis-8\.0\.2 needs the libraries of its own image"):
        complete(plan)


@pytest.mark.long
@pytest.mark.parametrize("release", RELEASES["redis"])
@pytest.mark.parametrize("kind", ["redis-single", "redis-sentinel", "redis-cluster"])
def test_the_servers_are_of_the_release_and_serve_locks(kind: str, release: str) -> None:
    _serve_a_lock(kind, release, "redis-token")


@pytest.mark.long
@pytest.mark.timeout(1800)  # the first time, Go compiles for minutes
@pytest.mark.parametrize("release", RELEASES["etcd"])
def test_members_of_an_image_without_a_shell_serve_locks(release: str) -> None:
    _serve_a_lock("etcd", release, "etcd-mutex")


@pytest.mark.long
@pytest.mark.parametrize("release", RELEASES["zookeeper"])
def test_members_of_jars_serve_locks(release: str) -> None:
    _serve_a_lock("zookeeper", release, "zookeeper-sequential")


@pytest.mark.long
@pytest.mark.parametrize("release", RELEASES["mysql"])
def test_another_mysql_or_mariadb_serves_locks(release: str) -> None:
    _serve_a_lock("mysql-single", release, "mysql-get-lock")


def _serve_a_lock(kind: str, release: str, lock: str) -> None:
    with servers(kind, release=release) as cluster:
        assert cluster.servers.version().startswith(release.replace("-", " "))
        where = Endpoints(kind, cluster.endpoints().addresses)
        mine, other = (catalogue.find(lock).open(where, "k", 5.0) for _ in range(2))
        assert mine.acquire(0)
        assert other.acquire(0) is None
        mine.release()
        assert other.acquire(5)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("release", RELEASES["etcd"])
def test_a_member_without_a_shell_is_replaced_when_it_has_lost_its_data(release: str) -> None:
    cluster = DockerCluster(
        kind="etcd", nodes=0, clients=Clients(1), seed=0, resource=NO_STOCK, options={"release": release},
        needs=frozenset({PROCESSES}),
    )  # fmt: skip
    try:
        cluster.start_all()
        lost = next(name for name in names(cluster.hosts, "server") if name != cluster.servers.leader())  # type: ignore[attr-defined]
        before = cluster.incarnation(lost)
        cluster.kill(lost)
        cluster.start(lost, wiped=True)
        deadline = time.monotonic() + 120
        while not (cluster.servers.answers(lost) and cluster.servers.ready(lost)):
            assert time.monotonic() < deadline, cluster.logs(0)[lost][-2000:]
            time.sleep(0.2)
        assert cluster.incarnation(lost) not in (None, before)
        assert "has lost its data" in cluster.logs(0)[lost]
    finally:
        cluster.stop_all()


@pytest.fixture
def bare_nats(tmp_path: Path) -> Iterator[str]:
    """An image with nothing but the program, in the place and with the PATH of the official one without a shell."""
    engine, tag = connect(), "lock-harness-test/nats:scratch"
    source = engine.containers.create(Images(engine).server("nats"), ["-"])
    try:
        packed = b"".join(source.get_archive("/usr/local/bin/nats-server")[0])
    finally:
        source.remove()
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(tmp_path, filter="data")
    (tmp_path / "Dockerfile").write_text(
        'ARG BASE=scratch\nFROM ${BASE}\nCOPY nats-server /nats-server\nENTRYPOINT ["/nats-server"]\nCMD ["-js"]\n'
    )
    build(engine, tmp_path, tag, "scratch", lambda line: None)
    yield tag
    engine.images.remove(tag)


@pytest.mark.docker
@pytest.mark.timeout(600)
def test_a_server_starts_dies_and_restarts_in_an_image_that_has_nothing_but_its_program(bare_nats: str) -> None:
    cluster = DockerCluster(
        kind="nats", nodes=1, clients=Clients(1), seed=0, resource=NO_STOCK, options={}, needs=frozenset({PROCESSES}),
        image=bare_nats,
    )  # fmt: skip
    try:
        cluster.start_all()
        assert cluster.about()["image"] == bare_nats
        assert str(cluster.about()["server"]).startswith("nats-server ")
        before = cluster.incarnation("n1")
        cluster.kill("n1")
        assert cluster.incarnation("n1") is None
        cluster.start("n1", wiped=True)
        deadline = time.monotonic() + 60
        while not cluster.servers.ready("n1"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert cluster.incarnation("n1") not in (None, before)
    finally:
        cluster.stop_all()
