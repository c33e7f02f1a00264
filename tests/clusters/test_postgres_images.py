"""PostgreSQL in images other than ours: the start scripts, and runs on images with the paths of the official one."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.clusters.abilities import CLOCKS, PROCESSES, Needs, leader_of
from harness.clusters.docker.cluster import DockerCluster
from harness.clusters.docker.containers.engine import connect
from harness.clusters.docker.containers.server_tools import FOLDER
from harness.clusters.docker.images.images import Images, build
from harness.clusters.docker.services.postgres import PostgresServers
from harness.clusters.docker.services.postgres_replicated import ReplicatedPostgresServers
from harness.clusters.kinds.postgres import POOLED, POSTGRES, REPLICATED
from harness.clusters.kinds.releases import RELEASES
from harness.clusters.server_options import completed
from harness.errors import UsageError
from harness.faults.catalogue import default_specs
from harness.plan import Plan
from harness.run.runs import run
from tests.clusters.real import servers_with_clients, until

DEBIAN = "15"
TOOLS = ("chmod", "chown", "cp", "date", "env", "mkdir", "mv", "rm", "sync")
BUSYBOX = '[ "$1 $2 $3 $4 $5 $6" = "su -m -s /bin/sh -- postgres" ] || exit 9\nshift 6\nexec /bin/sh "$@"\n'
"""Stands for BusyBox's su, and changes no user."""
PROGRAMS = {
    "chown": "",
    "initdb": 'echo "initdb $*" >>CALLS; : >"$2/pg_hba.conf"\n',
    "postgres": 'case $1 in --single) read -r sql; set -- "$@" "$sql" ;; esac; echo "postgres $*" >>CALLS\n',
    "psql": "echo f\n",
    "pg_basebackup": 'echo "pg_basebackup $*" >>CALLS\n',
}


def test_the_data_of_a_first_start_is_made_once_in_an_image_that_has_none(tmp_path: Path) -> None:
    found = _run_script(tmp_path, PostgresServers("postgres", 1, {}))
    assert found.returncode == 0, found.stdout
    made, filled, started = _calls(tmp_path)
    assert made.startswith(f"initdb -D {tmp_path}/unfinished -U harness --auth=trust ")
    assert filled == f"postgres --single -D {tmp_path}/unfinished postgres CREATE DATABASE harness"
    assert started.startswith(f"postgres -D {tmp_path}/data/db -c autovacuum=off ")
    hosts = (tmp_path / "data/db/pg_hba.conf").read_text()
    assert hosts == "host all all all trust\nhost replication all all trust\n"
    shutil.rmtree(tmp_path / "data")
    assert _run_script(tmp_path, PostgresServers("postgres", 1, {})).returncode == 0
    assert _calls(tmp_path)[3:] == [started], "a start without data copies what was made"
    assert (tmp_path / "data/db/pg_hba.conf").read_text() == hosts


def test_data_that_were_not_made_to_the_end_are_made_again(tmp_path: Path) -> None:
    broken = {**PROGRAMS, "initdb": 'echo "initdb: no space"; exit 1\n'}
    found = _run_script(tmp_path, PostgresServers("postgres", 1, {}), broken)
    assert found.returncode == 1
    assert not (tmp_path / "data/whole").exists()
    assert _run_script(tmp_path, PostgresServers("postgres", 1, {})).returncode == 0
    assert (tmp_path / "data/db/pg_hba.conf").exists()


def test_an_image_without_postgresql_says_so(tmp_path: Path) -> None:
    found = _run_script(tmp_path, PostgresServers("postgres", 1, {}), {"chown": ""})
    assert (found.returncode, found.stdout) == (1, "the image has no postgres in PATH\n")


@pytest.mark.parametrize("has_data", [True, False])
def test_a_standby_copies_the_primary_if_its_image_has_no_data(has_data: bool, tmp_path: Path) -> None:
    servers = ReplicatedPostgresServers("postgres-replicated", 2, {})
    servers.addresses = {"n1": "10.0.0.1", "n2": "10.0.0.2"}
    if has_data:
        (tmp_path / "prepared").mkdir()
    _run_script(tmp_path, servers, host="n2")
    copied = f"pg_basebackup -h 10.0.0.1 -D {tmp_path}/data/db -R -c fast"
    assert (copied in _calls(tmp_path)) is not has_data
    assert (tmp_path / "data/db/standby.signal").exists() is has_data, "pg_basebackup -R makes it otherwise"


def _run_script(
    folder: Path, servers: PostgresServers, programs: dict[str, str] = PROGRAMS, host: str = "n1"
) -> subprocess.CompletedProcess[str]:
    """Run the start script with programs that write down how they were called, and all paths below a folder."""
    shutil.rmtree(folder / "bin", ignore_errors=True)
    for one in ("bin", "data", "tools"):
        (folder / one).mkdir(exist_ok=True)
    for tool in TOOLS:
        (folder / "bin" / tool).symlink_to(str(shutil.which(tool)))
    for path, script in {"tools/busybox": BUSYBOX, **{f"bin/{name}": text for name, text in programs.items()}}.items():
        (folder / path).unlink(missing_ok=True)
        (folder / path).write_text(f"#!/bin/sh\n{script}".replace("CALLS", f"{folder}/calls"))
        (folder / path).chmod(0o755)
    command, environment = servers.program(host)
    words = [word.replace("/tmp/joined", f"{folder}/joined") for word in command]
    for path in ("/data", "/prepared", "/unfinished"):
        words = [word.replace(path, f"{folder}{path}") for word in words]
    words[2] = words[2].replace(FOLDER, f"{folder}/tools").replace("FAKETIME_LIBRARY=/", "FAKETIME_LIBRARY=/nowhere/")
    everything = {**environment, "PATH": f"{folder}/bin"}
    return subprocess.run(words, env=everything, capture_output=True, text=True, check=False, timeout=30)


def _calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


def test_the_image_of_a_release_has_no_psql_to_look_with() -> None:
    assert PostgresServers("postgres", 1, {}).look("n1")[0] == "psql"
    assert PostgresServers("postgres", 1, {"release": "postgres-16.15"}).look("n1") == []


def test_releases_are_for_single_servers() -> None:
    assert completed(POSTGRES.options, {"release": "postgres-16.15"}, "docker")
    for kind in (POOLED, REPLICATED):  # PgBouncer and pg_basebackup are in no release
        with pytest.raises(UsageError, match="unknown server_options 'release'"):
            completed(kind.options, {"release": "postgres-16.15"}, "docker")


OFFICIAL = """FROM {base}
RUN rm -rf /usr/local/bin/* /prepared /faketime /usr/lib/x86_64-linux-gnu/faketime
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/postgresql/{major}/bin
ENV PGDATA=/var/lib/postgresql/data LANG=en_US.utf8
VOLUME /var/lib/postgresql/data
ENTRYPOINT ["docker-entrypoint.sh"]
STOPSIGNAL SIGINT
CMD ["postgres"]
"""
"""The official image's settings and paths. There is no program at its entry point, which must not be started."""


@contextmanager
def official_image(release: str, folder: Path) -> Iterator[str]:
    """An image that is laid out like Docker's official one. Its programs are those of a release, or Debian's."""
    engine, major = connect(), release.removeprefix("postgres-").partition(".")[0]
    images, tag = Images(engine), f"lock-harness-test/postgres:{major}"
    base = images.server("postgres") if release == DEBIAN else images.server_release(release)
    (folder / "Dockerfile").write_text(OFFICIAL.format(base=base, major=major))
    build(engine, folder, tag, base, lambda line: None)
    try:
        yield tag
    finally:
        engine.images.remove(tag)


@pytest.mark.docker
@pytest.mark.timeout(900)  # the first time, Maven fetches the programs
@pytest.mark.parametrize("release", [RELEASES["postgres"][0], RELEASES["postgres"][-1]])
def test_a_lock_runs_on_an_official_image_while_its_clock_jumps(release: str, tmp_path: Path) -> None:
    context = tmp_path / "context"
    context.mkdir()
    with official_image(release, context) as image:
        plan = Plan(
            lock="postgres-advisory", kind="postgres", cluster="docker", image=image, time_limit=10.0,
            faults=tuple(default_specs("clock-jump", 2.0)),
        )  # fmt: skip
        result = run(plan, store=tmp_path)
    assert result.valid is True, result.document["summary"]
    assert result.results.cluster.server == release.replace("postgres-", "postgresql ")
    [clocks] = [op.value["observed"]["clock_ns"] for op in result.history.nemesis("inject") if op.type == "ok"]
    assert abs(clocks["n1"] - 3e9) < 50_000_000, "a new session has the clock that the server was given"


def with_a_table(cluster: DockerCluster) -> None:
    servers = cluster.servers
    assert isinstance(servers, PostgresServers)
    servers.ask("n1", lambda connection: connection.run("CREATE TABLE t AS SELECT 1 AS a"))


@pytest.mark.docker
@pytest.mark.timeout(900)
def test_a_server_of_an_official_image_dies_loses_its_data_and_restarts(tmp_path: Path) -> None:
    needs: Needs = frozenset({CLOCKS, PROCESSES})
    with (
        official_image(RELEASES["postgres"][1], tmp_path) as image,
        servers_with_clients("postgres", image=image, needs=needs, idle_session_timeout=60.0) as cluster,
    ):
        with_a_table(cluster)
        assert cluster.key_count("n1") == 1
        cluster.set_clock("n1", -5.0)
        cluster.kill("n1")
        assert cluster.incarnation("n1") is None
        cluster.start("n1", wiped=False)
        until(lambda: cluster.key_count("n1") == 1 and abs(cluster.read_clock("n1") + 5e9) < 50_000_000)
        cluster.kill("n1")
        cluster.start("n1", wiped=True)
        until(lambda: cluster.key_count("n1") == 0)
        assert "initdb" not in cluster.logs(0)["n1"]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_standby_of_an_official_image_copies_the_primary_and_is_promoted(tmp_path: Path) -> None:
    needs: Needs = frozenset({PROCESSES})
    with (
        official_image(DEBIAN, tmp_path) as image,
        servers_with_clients("postgres-replicated", image=image, needs=needs) as cluster,
    ):
        with_a_table(cluster)
        until(lambda: cluster.key_count("n2") == 1)
        cluster.kill("n1")
        until(lambda: leader_of(cluster) == "n2")
        cluster.start("n1", wiped=True)
        until(lambda: cluster.key_count("n1") == 1, 60.0)
