"""Files of other containers are written in place; the helper's own files are refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.clusters.docker.helper import files


@pytest.fixture
def not_foreign(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that this process is in a container of its own."""
    monkeypatch.setattr(files, "foreign", lambda kind: set())


@pytest.mark.parametrize("old", ["", "a", "a longer text than the new one\n"])
@pytest.mark.usefixtures("not_foreign")
def test_the_text_is_replaced_and_the_file_stays_the_same(old: str, tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text(old)
    number = file.stat().st_ino
    files.write(os.getpid(), str(file), "10.0.0.1\tdb\n")
    assert file.read_text() == "10.0.0.1\tdb\n"
    assert file.stat().st_ino == number, "a file that is bind-mounted must not be replaced by another"


def test_the_helpers_own_files_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("mine")
    with pytest.raises(files.FileError, match="no files of its own"):
        files.write(os.getpid(), str(file), "x")
    assert file.read_text() == "mine"


@pytest.mark.usefixtures("not_foreign")
def test_a_missing_file_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(files.FileError, match="No such file"):
        files.write(os.getpid(), str(tmp_path / "new"), "x")
    assert not list(tmp_path.iterdir())


def test_a_missing_process_is_reported() -> None:
    with pytest.raises(files.FileError, match="no mnt namespace"):
        files.write(2**22 + 1, "/etc/hosts", "x")
