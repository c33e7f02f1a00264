"""The wheel, installed beside a project whose own packages are called like folders of our repository."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.installed
ROOT = Path(__file__).parents[2]
FOLDERS = ("reports", "scenarios", "checkers", "lock_impls")
LOCK = '''
import redis
from reports import audit
import checkers, lock_impls, scenarios


class MyLock:
    """A lock with a lease and a token, released by a script."""

    def __init__(self, redis: redis.Redis, key: str, ttl: float) -> None:
        assert {checkers.OWNER, lock_impls.OWNER, scenarios.OWNER, audit.OWNER} == {"the user"}
        self.lock = redis.lock(key, timeout=ttl)

    def acquire(self, timeout: float) -> bool:
        return self.lock.acquire(blocking_timeout=timeout)

    def release(self) -> None:
        self.lock.release()
'''
TEST = """
import pytest
from mylock import MyLock


@pytest.mark.hunt(lock=MyLock, faults="client-pause", budget_s=600)
def test_my_lock():
    pass
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's project, with a lock that uses the user's packages."""
    folder = tmp_path_factory.mktemp("project")
    for name in FOLDERS:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("OWNER = 'the user'\n")
    (folder / "reports" / "audit.py").write_text("OWNER = 'the user'\n")
    (folder / "mylock.py").write_text(LOCK)
    (folder / "test_mylock.py").write_text(TEST)
    return folder


def harness(environment: Path, project: Path, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [environment / "harness", *arguments], cwd=project, capture_output=True, text=True, check=False, env={}
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


def test_the_package_comes_from_the_wheel_and_has_no_other_names(environment: Path, tmp_path: Path) -> None:
    code = (
        "import harness.checkers, importlib.util, json, pathlib; "
        f"others = [name for name in {FOLDERS} if importlib.util.find_spec(name)]; "
        "print(json.dumps([harness.__file__, others]))"
    )
    done = subprocess.run(
        [environment / "python", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    file, others = json.loads(done.stdout)
    assert Path(file).is_relative_to(environment.parent)
    assert others == []


def test_the_wheel_has_the_site_that_was_built_before_it(tmp_path: Path) -> None:
    """The release builds the site into ``harness/site``; ``tests/docs/test_site.py`` tests the site."""
    source, code = tmp_path / "source", tmp_path / "code"
    left_out = shutil.ignore_patterns(".*", "__pycache__", "store", "site", "tests", "docs")
    shutil.copytree(ROOT, source, ignore=left_out, symlinks=True)
    (source / "harness" / "site").mkdir()
    (source / "harness" / "site" / "index.html").write_text("<h1>harness</h1>")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", "wheel", "--no-deps"]
    subprocess.run([*pip, "-w", str(tmp_path), str(source)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(code)
    libraries = os.pathsep.join((str(code), sysconfig.get_path("purelib")))
    done = subprocess.run(
        [sys.executable, "-P", "-m", "harness", "docs"], cwd=tmp_path, env={"PYTHONPATH": libraries},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == (code / "harness" / "site" / "index.html").as_uri()


def test_type_checkers_use_the_types_of_the_installed_package(environment: Path) -> None:
    (package,) = environment.parent.glob("lib/*/site-packages/harness")
    assert (package / "py.typed").is_file()


def test_runs_and_checks(environment: Path, project: Path) -> None:
    assert harness(environment, project, "run", "mylock:MyLock", "--time-limit", "5s")[0] == 0
    assert harness(environment, project, "run", "redlock", "--nemesis", "clock-skew")[0] == 1
    assert harness(environment, project, "check", "store/latest", "--model", "mutex")[0] in (0, 1)


def test_hunts(environment: Path, project: Path) -> None:
    status, said = harness(environment, project, "hunt", "mylock:MyLock", "--faults", "client-pause", "--rounds", "2")
    assert (status, "FAILURE FOUND: mylock:MyLock" in said) == (1, True), said


def test_compares(environment: Path, project: Path) -> None:
    arguments = ("compare", "--locks", "mylock:MyLock,redis-token", "--nemeses", "latency", "--runs", "1")
    status, said = harness(environment, project, *arguments)
    assert status == 0, said


def test_runs_the_nightly_suite(environment: Path, project: Path) -> None:
    status, said = harness(environment, project, "nightly", "--suite", "smoke", "--only", "rl-*")
    assert status == 0, said


def test_serves_the_store(environment: Path, project: Path) -> None:
    harness(environment, project, "run", "mylock:MyLock", "--time-limit", "5s")
    for line in served(environment, project):
        if "http://" in line:
            address = next(word for word in line.split() if word.startswith("http://"))
            with urllib.request.urlopen(address) as page:
                assert "MyLock" in page.read().decode()
            return
    raise AssertionError("serve printed no address")


def served(environment: Path, project: Path) -> Iterator[str]:
    with subprocess.Popen(
        [environment / "harness", "serve", "--port", "0"], cwd=project, stdout=subprocess.PIPE, text=True, env={}
    ) as process:
        try:
            assert process.stdout is not None
            yield from process.stdout
        finally:
            process.kill()


def test_the_pytest_marker_hunts_the_lock(environment: Path, project: Path) -> None:
    command = [str(environment / "python"), "-m", "pytest", "-q", "test_mylock.py"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, env={})
    assert done.returncode == 1, done.stdout
    assert "FAILURE FOUND: mylock:MyLock" in done.stdout
