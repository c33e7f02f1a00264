from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.clusters.ssh import connection
from harness.clusters.ssh.connection import HostConnection

from .machines import Machines, machines


@pytest.fixture(scope="package")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """Five machines, for all tests here."""
    with machines(tmp_path_factory.mktemp("machines")) as found:
        yield found


SSH = '#!/bin/sh\nfor command; do :; done\nSSH_CONNECTION="1.1.1.1 1 127.0.0.1 22" exec sh -c "exec $command"\n'


@pytest.fixture
def local_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program called ``ssh`` runs its last argument on this machine. The helper and its cache are in ``tmp_path``."""
    ssh = tmp_path / "ssh"
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def local_host(local_ssh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HostConnection]:
    monkeypatch.setattr(connection, "BEAT_S", 0.05)
    monkeypatch.setattr(connection, "SILENCE_S", 0.3)
    host = HostConnection("h1", tmp_path, 0)
    yield host
    host.close()
    shutil.rmtree(host.facts["folder"], ignore_errors=True)  # a killed helper leaves it
