"""Descriptions of locks are read without their client libraries, and are those that the classes have."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from harness.lock_impls import catalogue, descriptions
from harness.lock_impls.base import LockInfo

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def unconditional(line: str) -> str:
    """Return the requirement without the versions of Python for which it can be installed."""
    requirement = Requirement(line)
    requirement.marker = None
    return str(requirement)


EXTRAS = {name: {unconditional(one) for one in lines} for name, lines in PROJECT["optional-dependencies"].items()}
CORE = {str(Requirement(one)) for one in PROJECT["dependencies"]}
LIBRARIES = (
    "redis",
    "kazoo",
    "etcd3",
    "grpc",
    "consul",
    "pymysql",
    "pymemcache",
    "hazelcast",
    "nats",
    "sqlalchemy",
    "pottery",
    "sherlock",
)
WITHOUT_LIBRARIES = f"""
import sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {LIBRARIES}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
"""
COMMAND = """
from harness.cli.main import main
main(sys.argv[1:])
"""
LOAD = """
from harness.errors import HarnessError
from harness.lock_impls.catalogue import find
try:
    find(sys.argv[1])
except HarnessError as error:
    print(error)
    sys.exit(error.exit_status)
"""


def without_libraries(*arguments: str, program: str = COMMAND) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_LIBRARIES + program, *arguments], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("name", catalogue.names())
def test_the_description_that_is_read_is_that_of_the_class(name: str) -> None:
    assert catalogue.description(name) == catalogue.find(name).info


@pytest.mark.slow
def test_list_names_every_lock_without_any_client_library() -> None:
    done = without_libraries("list", "locks")
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in catalogue.names())


def test_show_describes_a_lock_without_its_client_library() -> None:
    done = without_libraries("show", "zookeeper-sequential")
    assert done.returncode == 0, done.stderr
    assert "kazoo>=2.8" in done.stdout


@pytest.mark.parametrize(
    ("name", "install"),
    [("zookeeper-herd", "pip install 'lock-harness[zookeeper]'"), ("tooz-memcached", "pip install 'tooz==9.1.0'")],
)
def test_loading_a_lock_without_its_library_is_one_line_and_status_4(name: str, install: str) -> None:
    done = without_libraries(name, program=LOAD)
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (4, "", 1)
    assert install in done.stdout


@pytest.mark.parametrize("info", catalogue.infos(), ids=lambda info: info.name)
def test_a_lock_requires_what_an_extra_or_the_catalogue_of_this_project_has(info: LockInfo) -> None:
    service = info.kinds[0].partition("-")[0]
    known = CORE | EXTRAS.get(service, set()) | EXTRAS["catalogue"] | EXTRAS["catalogue-kubernetes"]
    known |= EXTRAS["catalogue-apscheduler"]
    assert {str(Requirement(one)) for one in info.requires} <= known


def test_a_description_that_needs_a_client_library_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
        import kazoo
        from harness.lock_impls.base import LockInfo

        class Lock:
            info = LockInfo(name="x", title=kazoo.__doc__, algorithm="", source="", safety="E", kinds=("zookeeper",))
    """
    (tmp_path / "described_lock.py").write_text(textwrap.dedent(source))
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(descriptions.DescriptionError, match="needs kazoo"):
        descriptions.infos_in("described_lock")
