"""An environment with the wheel of this project."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="package")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel. The libraries are those of this one: what is tested is the wheel,
    and an editable install of ours beside them is not seen, since a path file within a path file is not read."""
    folder = tmp_path_factory.mktemp("environment")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", str(folder / "dist"), str(ROOT)], check=True)
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "venv" / "lib" / version / "site-packages"
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (wheel,) = (folder / "dist").glob("*.whl")
    subprocess.run([*pip, "--python", str(folder / "venv"), "install", "--no-deps", str(wheel)], check=True)
    return folder / "venv" / "bin"
