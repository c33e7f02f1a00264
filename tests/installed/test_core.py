"""The core alone: what can be installed beside it, how large it is, and what it can do. These tests ask the index."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sysconfig
from pathlib import Path

import pytest
from uv import find_uv_bin

pytestmark = pytest.mark.installed
ROOT = Path(__file__).parents[2]
INSTALL = ROOT / "docs" / "how-to" / "install.md"
PYTHON = sysconfig.get_python_version()
BESIDE = (
    "celery[redis]==5.4.*", "django redis<8", "protobuf>=5 grpcio", "SQLAlchemy>=2.1.0b1", "urllib3>=2.6",
    "kazoo==2.10.0", "tenacity>=8", "langchain-core",
)  # fmt: skip
"""Requirements of users' projects that earlier pins of ours excluded."""
LARGEST_MB = 150
MB = 1 << 20


def uv(*arguments: str, given: str | None = None) -> str:
    done = subprocess.run(
        [find_uv_bin(), "--no-progress", *arguments], input=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("beside", BESIDE)
def test_the_core_resolves_beside_what_users_have(beside: str) -> None:
    lines = [f"lock-harness @ {ROOT.as_uri()}", *beside.split(" ")]
    uv("pip", "compile", "-q", "--python-version", PYTHON, "-", given="\n".join(lines))


def test_a_tool_runner_runs_the_wheel_without_an_installation(tmp_path: Path) -> None:
    """As on the page about installation, with the wheel in the place of the package's name."""
    uv("build", "-q", "--wheel", "--out-dir", str(tmp_path), str(ROOT))
    (wheel,) = tmp_path.glob("*.whl")
    (line,) = re.findall(
        r"^uvx --from lock-harness (harness run .*)$", INSTALL.read_text(encoding="utf-8"), re.MULTILINE
    )
    command = [find_uv_bin(), "tool", "run", "--python", PYTHON, "--from", str(wheel), *line.split()]
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=variables)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("VIOLATION: redlock"), done.stdout
    assert (tmp_path / "store" / "latest" / "report.html").is_file()


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with this project and no extra."""
    folder = tmp_path_factory.mktemp("core") / "venv"
    uv("venv", "-q", "--python", PYTHON, str(folder))
    uv("pip", "install", "-q", "--compile-bytecode", "--python", str(folder), str(ROOT))
    return folder


def harness(core: Path, at: Path, *arguments: str) -> tuple[int, str]:
    # Without a network and without a cache, so that no environment has what the core lacks.
    variables = {"UV_OFFLINE": "1", "XDG_CACHE_HOME": str(at / "cache")}
    done = subprocess.run(
        [core / "bin" / "harness", *arguments], cwd=at, capture_output=True, text=True, check=False, env=variables
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


def test_the_core_is_small(core: Path) -> None:
    files = {path: path.stat().st_size for path in core.rglob("*") if path.is_file() and not path.is_symlink()}
    compiled = sum(size for path, size in files.items() if path.suffix == ".pyc") / MB
    installed = sum(files.values()) / MB - compiled
    print(f"the core is {installed:.0f} MB, and Python adds {compiled:.0f} MB of compiled files")
    assert installed < LARGEST_MB


def test_the_core_runs_hunts_and_checks_redlock(core: Path, tmp_path: Path) -> None:
    status, said = harness(core, tmp_path, "run", "redlock", "--nemesis", "clock-skew")
    assert status == 1, said
    assert "VIOLATION: redlock" in said
    page = (tmp_path / "store" / "latest" / "report.html").read_text(encoding="utf-8")
    assert "pip install 'lock-harness[plots]'" in page
    assert harness(core, tmp_path, "check", "store/latest", "--model", "mutex")[0] in (0, 1)
    assert harness(core, tmp_path, "hunt", "redlock", "--faults", "clock-jump", "--rounds", "2")[0] == 1
    status, said = harness(core, tmp_path, "nightly", "--suite", "smoke", "--only", "rl-*")
    assert status == 0, said
    assert "not run: rl-orphan-minority on sim: pottery-redlock: " in said, said
    assert "pip install 'pottery==" in said, said
    status, said = harness(core, tmp_path, "nightly", "--suite", "smoke", "--only", "ttl-pause-write*")
    assert status == 0, said
    for extra in ("mysql", "memcached"):
        assert f"not run: ttl-pause-write.{extra}" in said, said
        assert f"pip install 'lock-harness[{extra}]'" in said, said


def test_a_fault_of_containers_is_refused_where_their_extra_is_missing(core: Path, tmp_path: Path) -> None:
    status, said = harness(core, tmp_path, "run", "redis-token", "--nemesis", "packet-corruption")
    assert status == 2, said
    assert "'packet-corruption' needs packets, which redis-single on sim cannot do" in said, said


def test_the_core_lists_every_lock_and_the_libraries_that_each_requires(core: Path, tmp_path: Path) -> None:
    status, said = harness(core, tmp_path, "list", "locks", "--json")
    assert status == 0
    rows = {row["name"]: row for row in json.loads(said)}
    assert rows["etcd-mutex"]["requires"] == "etcd3>=0.12, protobuf<3.21"


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (("run", "zookeeper-herd"), "zookeeper"),
        (("run", "mysql-unique"), "mysql"),
        (("run", "redlock", "--cluster", "docker"), "docker"),
        (("doctor",), "docker"),
        (("serve", "--port", "0"), "serve"),
    ],
)
def test_a_command_that_needs_an_extra_names_it(
    core: Path, tmp_path: Path, arguments: tuple[str, ...], extra: str
) -> None:
    status, said = harness(core, tmp_path, *arguments)
    assert status == 4, said
    assert f"pip install 'lock-harness[{extra}]'" in said.splitlines()[-1]
