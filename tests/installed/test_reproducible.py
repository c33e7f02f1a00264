"""The archives are the same bytes whenever and from whatever they are built."""

from __future__ import annotations

import os
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
from uv import find_uv_bin

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


def build(source: Path, kind: str, folder: Path) -> Path:
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    command = [find_uv_bin(), "build", "-q", f"--{kind}", "--out-dir", str(folder), str(source)]
    subprocess.run(command, check=True, env=environment)
    (archive,) = [path for path in folder.iterdir() if path.name.endswith((".whl", ".tar.gz"))]
    return archive


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(ROOT, "sdist", tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def unpacked(sdist: Path) -> Path:
    folder = sdist.parent / "unpacked"
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (root,) = folder.iterdir()
    return root


def test_the_source_archive_is_the_same_twice(sdist: Path, tmp_path: Path) -> None:
    assert build(ROOT, "sdist", tmp_path).read_bytes() == sdist.read_bytes()


def test_a_source_archive_gives_the_same_wheel_twice_and_so_does_the_repository(unpacked: Path, tmp_path: Path) -> None:
    once, again, direct = (
        build(source, "wheel", tmp_path / name)
        for name, source in (("once", unpacked), ("again", unpacked), ("direct", ROOT))
    )
    assert once.read_bytes() == again.read_bytes() == direct.read_bytes()
    with zipfile.ZipFile(once) as wheel:
        names = wheel.namelist()
    assert {"LICENSE", "NOTICE"} <= {Path(name).name for name in names if ".dist-info/licenses/" in name}


def test_another_file_gives_another_wheel(unpacked: Path, tmp_path: Path) -> None:
    """The control: the comparison can fail."""
    before = build(unpacked, "wheel", tmp_path / "before").read_bytes()
    with (unpacked / "harness" / "wording.py").open("a") as file:
        file.write("# changed\n")
    assert build(unpacked, "wheel", tmp_path / "after").read_bytes() != before
