"""The cache of client files on a host: used again, bounded, and safe for runs at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest

from harness.clusters.ssh.client_files import FileSet
from harness.clusters.ssh.helper.cache import KEPT, MARK, STALE_S, ClientCache

CODE = """
import sys
from pathlib import Path
from harness.clusters.ssh.helper.cache import ClientCache
home, name, archive = sys.argv[1:]
cache = ClientCache(Path(home))
folder = cache.find(name) or cache.add(name, Path(archive))
print((folder / "a.py").read_text(), flush=True)
input()
"""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "files.zip"
    path.write_bytes(FileSet("harness", lambda: [("a.py", b"x = 1"), ("b/c.py", b"")], "1").archive())
    return path


def names(home: Path) -> set[str]:
    return {path.name for path in home.iterdir()}


def age(home: Path, name: str, seconds: float) -> None:
    """Make a folder, or a file in it, look last used some time ago."""
    at = time.time() - seconds
    os.utime(home / name, (at, at))


def test_a_folder_is_found_by_later_runs(tmp_path: Path, archive: Path) -> None:
    home = tmp_path / "cache"
    assert ClientCache(home).find("harness-1") is None
    assert not home.exists()
    added = ClientCache(home).add("harness-1", archive)
    assert added == home / "harness-1" == ClientCache(home).find("harness-1")
    assert (added / "b" / "c.py").exists()
    assert names(home) == {"harness-1"}
    assert home.stat().st_mode & 0o777 == 0o700


def test_only_the_last_used_folders_of_a_kind_are_kept(tmp_path: Path, archive: Path) -> None:
    home = tmp_path / "cache"
    for number in range(KEPT):
        ClientCache(home).add(f"harness-{number}", archive)
        age(home, f"harness-{number}/{MARK}", 1000 - number)
    ClientCache(home).add("libraries-0", archive)
    age(home, f"libraries-0/{MARK}", 9000)
    ClientCache(home).find("harness-0")  # so harness-1 is the one that was not used for the longest time
    ClientCache(home).add("harness-new", archive)
    assert names(home) == {"harness-0", "harness-2", "harness-3", "harness-new", "libraries-0"}


def test_a_folder_in_use_is_not_removed(tmp_path: Path, archive: Path) -> None:
    home = tmp_path / "cache"
    command = [sys.executable, "-c", CODE, str(home), "harness-used", str(archive)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as user:
        assert user.stdin is not None
        assert user.stdout is not None
        assert user.stdout.readline() == b"x = 1\n"
        age(home, f"harness-used/{MARK}", 9000)
        for number in range(KEPT):
            ClientCache(home).add(f"harness-{number}", archive)
        assert "harness-used" in names(home)
        user.kill()  # the kernel ends its lock
        user.wait()
    ClientCache(home).add("harness-last", archive)
    assert names(home) == {"harness-1", "harness-2", "harness-3", "harness-last"}


def test_runs_at_the_same_time_share_one_folder(tmp_path: Path, archive: Path) -> None:
    home = tmp_path / "cache"
    together, found = threading.Barrier(8), list[Path | None]()

    def begin() -> None:
        together.wait()
        found.append(ClientCache(home).add("harness-1", archive))

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [home / "harness-1"] * 8
    assert names(home) == {"harness-1"}


def test_a_folder_that_is_removed_while_it_is_looked_up_is_not_used(
    tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another run removes and makes the folder again, before the lock on its mark is had."""
    home, cached = tmp_path / "cache", ClientCache(tmp_path / "cache")
    ClientCache(home).add("harness-1", archive)

    def replace(*_: object) -> None:
        (home / "harness-1").rename(tmp_path / "old")
        (home / "harness-1").mkdir()
        (home / "harness-1" / MARK).touch()

    monkeypatch.setattr("fcntl.flock", replace)
    assert cached.find("harness-1") is None
    monkeypatch.undo()
    assert cached.find("harness-1") == home / "harness-1"


def test_what_a_killed_process_left_unfinished_is_removed_later(tmp_path: Path, archive: Path) -> None:
    home = tmp_path / "cache"
    for name, seconds in ((".unfinished-old", STALE_S + 60), (".unfinished-new", 60.0)):
        (home / name).mkdir(parents=True)
        age(home, name, seconds)
    ClientCache(home).add("harness-1", archive)
    assert names(home) == {".unfinished-new", "harness-1"}


def test_a_cache_that_cannot_be_written_to_is_not_used(tmp_path: Path, archive: Path) -> None:
    (tmp_path / "file").touch()
    assert ClientCache(tmp_path / "file" / "cache").add("harness-1", archive) is None


def test_a_folder_on_a_full_disk_does_not_appear(
    tmp_path: Path, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "cache"

    def fill(packed: zipfile.ZipFile, folder: Path) -> None:
        (folder / "a.py").touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "extractall", fill)
    assert ClientCache(home).add("harness-1", archive) is None
    assert names(home) == set()
