"""Files appear whole or not at all, and streams of lines end with a whole line."""

from __future__ import annotations

import errno
import gzip
import io
import os
import stat
from pathlib import Path

import pytest

from harness import files
from harness.errors import EnvironmentLacking, UsageError
from harness.files import LineStream, require_place, whole_file, write_file
from harness.history import History, Op


def test_a_file_is_replaced_as_a_whole_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("before")
    path.chmod(0o640)
    with whole_file(path) as file:
        file.write(b"af")
        file.flush()
        assert path.read_text() == "before"
        file.write(b"ter")
    assert path.read_text() == "after"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_a_file_that_fails_half_way_leaves_the_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("before")
    with pytest.raises(TypeError), whole_file(path) as file:
        file.writelines([b"half", None])  # type: ignore[list-item]
    assert path.read_text() == "before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a"]


def test_a_new_file_has_the_usual_mode(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    write_file(tmp_path / "a", "text")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_link_is_followed_and_stays(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("target")
    write_file(tmp_path / "link", "text")
    assert (tmp_path / "target").read_text() == "text"
    assert (tmp_path / "link").is_symlink()


def test_a_device_is_written_to_directly() -> None:
    write_file(Path("/dev/null"), "text")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_full_device_is_an_error_of_the_machine() -> None:
    with pytest.raises(EnvironmentLacking, match="cannot write /dev/full: No space left on device") as raised:
        write_file(Path("/dev/full"), "text")
    assert raised.value.exit_status == 4


@pytest.mark.parametrize("path", ["nowhere/a", "file/a", "."])
def test_a_wrong_path_is_an_error_of_usage(tmp_path: Path, path: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot write") as raised:
        write_file(tmp_path / path, "text")
    assert raised.value.exit_status == 2


def test_a_place_is_checked_before_the_work_and_left_as_it_was(tmp_path: Path) -> None:
    require_place(tmp_path / "new" / "a.html")
    assert list((tmp_path / "new").iterdir()) == []
    require_place(Path("/dev/null"))
    with pytest.raises(UsageError):
        require_place(Path("/dev/null/a"))


class _Full(io.FileIO):
    """A file on a disk that has room for a number of bytes."""

    room = 0

    def write(self, data: bytes) -> int:  # type: ignore[override]
        taken = min(len(data), self.room)
        if not taken and data:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= taken
        return super().write(data[:taken])


@pytest.mark.parametrize("room", range(14))
@pytest.mark.parametrize("buffer", [0, 6])
def test_a_stream_on_a_full_disk_ends_with_a_whole_line(tmp_path: Path, room: int, buffer: int) -> None:
    path = tmp_path / "lines"
    stream = LineStream(path, buffer)
    stream._file.close()
    stream._file = full = _Full(path, "wb")
    full.room = room
    with pytest.raises(EnvironmentLacking, match=r"cannot write .*lines: No space left"):
        _write_all(stream, [b"one\n", b"two\n", b"three\n"])
    full.room = 100
    stream.write(b"four\n")
    stream.close()
    assert path.read_bytes() == b"one\ntwo\nthree\n"[: {0: 0, 1: 4, 2: 8, 3: 8}[room // 4]]


def _write_all(stream: LineStream, lines: list[bytes]) -> None:
    for line in lines:
        stream.write(line)
    stream.flush()


def test_a_stream_collects_lines_and_writes_whole_ones(tmp_path: Path) -> None:
    stream = LineStream(tmp_path / "lines", buffer=6)
    stream.write(b"one\n")
    assert (tmp_path / "lines").read_bytes() == b""
    stream.write(b"two\n")
    assert (tmp_path / "lines").read_bytes() == b"one\ntwo\n"
    stream.write(b"six\n")
    stream.close()
    assert (tmp_path / "lines").read_bytes() == b"one\ntwo\nsix\n"


def test_a_packed_history_is_read_again(tmp_path: Path) -> None:
    history = History([Op(0, 1, 2, 0, "invoke", "acquire", "k0")])
    history.save(tmp_path / "history.jsonl.gz")
    with gzip.open(tmp_path / "history.jsonl.gz") as packed:
        assert packed.read().count(b"\n") == 1
    assert list(History.load(tmp_path / "history.jsonl.gz")) == list(history)


def test_two_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    with whole_file(tmp_path / "a") as one, whole_file(tmp_path / "a") as two:
        one.write(b"one")
        two.write(b"two")
    assert (tmp_path / "a").read_bytes() == b"one"
    assert files.WRONG_PATH
