"""Copies of the client's files to a host: only those that its cache lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.clusters.ssh import client_files
from harness.clusters.ssh.client_files import ClientFiles
from harness.clusters.ssh.connection import HostConnection
from harness.clusters.ssh.preparation import at_once
from harness.errors import EnvironmentLacking
from harness.plan import Plan
from harness.run.opening import open_ssh
from harness.run.plans.completion import complete

from .machines import Machines

Copies = list[str]


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> Copies:
    """The names of all files that are copied, without their hashes."""
    found: Copies = []
    copy = HostConnection.copy

    def note(host: HostConnection, path: Path, target: str) -> None:
        found.append(Path(target).stem.partition("-")[0])
        copy(host, path, target)

    monkeypatch.setattr(HostConnection, "copy", note)
    return found


def test_a_second_run_copies_the_users_modules_only(
    local_host: HostConnection, tmp_path: Path, copies: Copies, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "source"
    source.mkdir()
    monkeypatch.setattr(client_files, "CHECK", "import ours, mine; ours.check(mine)")

    def copy(ours: bytes, mine: str) -> None:
        monkeypatch.setattr(client_files, "sources", lambda: {"ours.py": ours})
        (source / "mine.py").write_text(mine)
        ClientFiles([], source, "python3", lambda line: None).copy_to(local_host, "mine")

    old, new = b"def check(mine): assert mine.x == 1, mine.x", b"def check(mine): assert mine.x == 12"
    copy(old, "x = 1")
    copy(old, "x = 1")
    assert copies == ["harness", "user", "user"]
    assert [path.read_bytes() for path in (tmp_path / "cache").rglob("*.py")] == [old]
    with pytest.raises(EnvironmentLacking, match="AssertionError: 12"):
        copy(old, "x = 12")
    copy(new, "x = 12")
    assert copies[3:] == ["user", "harness", "user"]


def test_links_to_nothing_hidden_files_and_virtual_environments_are_not_sent(tmp_path: Path) -> None:
    for name in ("mine.py", "shop/data.txt", ".env", ".git/config", "__pycache__/mine.pyc", "env/lib.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "env" / "pyvenv.cfg").write_text("")
    (tmp_path / "gone.py").symlink_to("nowhere.py")
    found = client_files._modules(tmp_path)
    assert found == [(tmp_path / "mine.py", "mine.py"), (tmp_path / "shop" / "data.txt", "shop/data.txt")]


@pytest.mark.docker
def test_runs_share_the_libraries_on_a_machine(hosts: Machines, copies: Copies) -> None:
    """The first two begin at the same time. Each of them may copy what the other one has not finished."""
    hosts.sh("h1", "rm -rf .cache/lock-harness")
    fields: dict[str, Any] = {"hosts": ("h1",), "clients": 1, "ssh_config": str(hosts.config)}
    plan = complete(Plan(lock="redis-token", cluster="ssh", **fields).check())
    ended: list[str] = []
    for cluster in at_once([lambda: open_ssh(plan)] * 2):
        cluster.run(lambda: ended.append("run"))
    assert set(copies) == {"harness", "libraries"}
    copies.clear()
    open_ssh(plan).run(lambda: ended.append("run"))
    assert ended == ["run"] * 3
    assert copies == []
    assert hosts.remains("h1") == ""
    kept = hosts.sh("h1", "ls -A .cache/lock-harness/clients").split()
    assert sorted(name.partition("-")[0] for name in kept) == ["harness", "libraries"]
