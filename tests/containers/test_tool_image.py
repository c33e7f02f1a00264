"""The image of the harness itself: README's first command in it, and a run on containers with the engine's socket.

The image is built on our own Debian, and its wheels are collected on this machine, so no registry of images is asked.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import docker
import pytest

from harness.clusters.docker.images import base_image
from harness.clusters.docker.images.wheelhouse import PIP

pytestmark = [pytest.mark.docker, pytest.mark.long]
ROOT: Final = Path(__file__).parents[2]
SOCKET: Final = "/var/run/docker.sock"
PYTHON: Final = """FROM {base}
RUN apt-get update -q \\
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends python3 python3-venv
"""
LEFT_OUT: Final = shutil.ignore_patterns(
    ".git", ".venv", ".*_cache", ".hypothesis", "__pycache__", "store", "site", ".editable"
)
NEEDED: Final = ("hatchling>=1.27", PIP, "async-timeout==5.0.1")
"""Further requirements of a build, and those of redis-py on the Python of Debian 12."""


def engine_command(*arguments: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["docker", *arguments], input=given, capture_output=True, text=True, check=False)


def built(tag: str, *arguments: str, given: str | None = None) -> str:
    done = engine_command("build", "-q", "-t", tag, *arguments, given=given)
    assert done.returncode == 0, done.stdout + done.stderr
    return tag


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository, with the wheels of the extra ``docker`` in ``wheels``."""
    folder = tmp_path_factory.mktemp("tool") / "source"
    shutil.copytree(ROOT, folder, ignore=LEFT_OUT, symlinks=True)
    pip = [sys.executable, "-m", "pip", "download", "-q", "--dest", str(folder / "wheels"), "--only-binary", ":all:"]
    subprocess.run([*pip, "--python-version", "3.11", f"{folder}[docker]", *NEEDED], check=True)
    return folder


@pytest.fixture(scope="module")
def image(source: Path) -> Iterator[str]:
    base = base_image.base(docker.from_env(), lambda _: None)
    tags = ("lock-harness-test/python", "lock-harness-test/tool")
    built(tags[0], "-", given=PYTHON.format(base=base))
    offline = "PIP_OPTIONS=--no-index --find-links wheels"
    arguments = ("--build-arg", f"BASE={tags[0]}", "--build-arg", "EXTRAS=docker", "--build-arg", offline)
    yield built(tags[1], *arguments, str(source))
    engine_command("image", "rm", *tags)


def test_the_readmes_first_command_runs_in_the_image(image: str) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"bin/harness (run .*)$", readme, re.MULTILINE)
    done = engine_command("run", "--rm", image, *line.split())
    assert (done.returncode, done.stdout.partition("\n")[0]) == (1, "VIOLATION: redlock"), done.stderr


def test_a_folder_of_the_user_is_the_working_directory(image: str, tmp_path: Path) -> None:
    (tmp_path / "mylock.py").write_text((ROOT / "examples/mylock/src/mylock/__init__.py").read_text())
    tmp_path.chmod(0o777)  # the image's user has another number
    done = engine_command(
        "run", "--rm", "-v", f"{tmp_path}:/work", image, "run", "mylock:FencedLock", "--time-limit", "5s"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "store" / "latest" / "results.json").is_file()


def test_a_run_on_containers_uses_the_engine_of_the_socket(image: str, source: Path) -> None:
    offline = ("-e", "PIP_NO_INDEX=1", "-e", "PIP_FIND_LINKS=/wheels", "-v", f"{source / 'wheels'}:/wheels:ro")
    run = ("run", "redis-token", "--cluster", "docker", "--time-limit", "5s")
    done = engine_command("run", "--rm", "--user", "root", "-v", f"{SOCKET}:{SOCKET}", *offline, image, *run)
    assert (done.returncode, done.stdout.partition("\n")[0]) == (0, "VALID: redis-token"), done.stdout + done.stderr


def test_without_an_engine_the_message_says_so(image: str) -> None:
    done = engine_command("run", "--rm", image, "run", "redis-token", "--cluster", "docker")
    assert done.returncode == 4
    assert "Traceback" not in done.stderr
