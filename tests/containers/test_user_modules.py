"""The archive of a folder with a user's modules."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from harness.clusters.docker import user_modules
from harness.clusters.docker.user_modules import pack
from harness.errors import UsageError


def names_in(folder: Path) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(pack(folder))) as archive:
        return sorted(archive.getnames())


def test_modules_and_their_data_are_packed_and_what_tools_leave_is_not(tmp_path: Path) -> None:
    for name in ("mine.py", "shop/lock.py", "shop/data.txt", ".git/config", "shop/__pycache__/lock.pyc", "env/lib.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "env" / "pyvenv.cfg").write_text("")
    (tmp_path / "gone.py").symlink_to("nowhere.py")
    assert names_in(tmp_path) == ["user/mine.py", "user/shop/data.txt", "user/shop/lock.py"]


def test_a_folder_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_modules, "MOST_BYTES", 10)
    (tmp_path / "mine.py").write_text("x" * 11)
    with pytest.raises(UsageError, match="put the lock's module into a folder of its own"):
        pack(tmp_path)
