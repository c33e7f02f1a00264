"""The present Python is used if it has what a lock requires; otherwise an environment with that and little else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

import pytest

from harness.environments import interpreters
from harness.environments.interpreters import Interpreter, interpreter_for
from harness.environments.runtime import RUNTIME, search_runtime
from harness.environments.store import Contents, Environment
from harness.errors import UsageError

REDIS = f"redis=={metadata.version('redis')}"
LOCK = "import redis\n\n\nclass MyLock:\n    def acquire(self, timeout): ...\n    def release(self): ...\n"


@pytest.fixture
def requested_environments(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Sequence[str]]]:
    """(Python, requirements) of each environment that would be built."""
    calls: list[tuple[str, Sequence[str]]] = []

    def environment(python: str, requirements: Sequence[str], _: object) -> Environment:
        calls.append((python, requirements))
        return Environment(Path("/cache/key"), Contents(python=python, requirements=(), harness=""), 0.0)

    monkeypatch.setattr(interpreters, "environment", environment)
    monkeypatch.setattr(interpreters, "find_python", lambda wanted: Path(f"/pythons/{wanted}"))
    return calls


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return tmp_path


@pytest.mark.parametrize(("lock", "with_"), [("redlock", []), ("redlock", [REDIS]), ("pottery-redlock", ["redis>=4"])])
def test_the_present_python_is_used_if_it_has_all(
    requested_environments: list[tuple[str, Sequence[str]]], lock: str, with_: list[str]
) -> None:
    assert interpreter_for(lock, with_) == Interpreter(Path(sys.executable))
    assert requested_environments == []


def test_another_release_is_in_an_environment_with_the_small_runtime(
    requested_environments: list[tuple[str, Sequence[str]]],
) -> None:
    found = interpreter_for("redlock", ["redis==5.2.1"])
    assert (found.path, found.key) == (Path("/cache/key/bin/python"), "key")
    assert requested_environments == [(str(Path(sys.executable).resolve()), ["redis==5.2.1", *RUNTIME])]


def test_an_environment_for_a_search_also_has_what_draws_and_judges_schedules(
    requested_environments: list[tuple[str, Sequence[str]]],
) -> None:
    interpreter_for("redlock", ["redis==5.2.1"], search=True)
    ((_, requirements),) = requested_environments
    assert [name for name in requirements if name.startswith("hypothesis")] == [
        f"hypothesis=={metadata.version('hypothesis')}"  # another release draws other schedules
    ]
    assert set(requirements) == {"redis==5.2.1", *RUNTIME, *search_runtime()}


def test_another_python_has_what_the_catalogue_requires(
    requested_environments: list[tuple[str, Sequence[str]]],
) -> None:
    interpreter_for("kazoo-lock", python="3.99")
    assert requested_environments == [("/pythons/3.99", ["kazoo>=2.8", *RUNTIME])]


def test_a_requested_release_overrides_the_pin_of_the_catalogue(
    requested_environments: list[tuple[str, Sequence[str]]],
) -> None:
    interpreter_for("pottery-redlock", ["Redis==6.0.0"])
    assert requested_environments[0][1][:2] == ["Redis==6.0.0", "pottery==3.0.1"]


def test_the_libraries_that_a_users_lock_imports_keep_their_releases(
    requested_environments: list[tuple[str, Sequence[str]]], project: Path
) -> None:
    (project / "my_first_lock.py").write_text(f"import kazoo\n{LOCK}")
    found = interpreter_for("my_first_lock:MyLock", ["redis==5.2.1"])
    assert found.folder == project
    assert requested_environments[0][1][:2] == ["redis==5.2.1", f"kazoo=={metadata.version('kazoo')}"]


def test_inline_metadata_of_a_users_file_decides(
    requested_environments: list[tuple[str, Sequence[str]]], project: Path
) -> None:
    block = "# /// script\n# requires-python = '>=3.99'\n# dependencies = ['redis==5.2.1']\n# ///\n"
    (project / "my_second_lock.py").write_text(f"{block}{LOCK}")
    interpreter_for("my_second_lock:MyLock")
    assert requested_environments[0][0] == "/pythons/>=3.99"
    assert requested_environments[0][1][0] == "redis==5.2.1"
    with pytest.raises(UsageError, match=r"--python 3\.12: .*my_second_lock\.py requires Python >=3\.99"):
        interpreter_for("my_second_lock:MyLock", python="3.12")


def test_a_python_that_is_too_old_for_the_harness_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--python 3\.9: the harness needs Python 3\.11 or later"):
        interpreter_for("redlock", python="3.9")


def test_a_library_that_only_the_environment_will_have_is_accepted(
    requested_environments: list[tuple[str, Sequence[str]]],
) -> None:
    interpreter_for("no_such_library:Lock", ["no-such-library==1"])
    assert requested_environments[0][1][0] == "no-such-library==1"


@pytest.mark.parametrize(
    ("lock", "with_", "said"),
    [
        ("redis-tokne", [], r"no lock is called 'redis-tokne'; did you mean redis-token"),
        ("redis-tokne", ["redis==1.0", "six==1.0"], r"no lock is called 'redis-tokne'; did you mean redis-token"),
        ("pottery-redlok", ["pottery==1.0"], r"no lock is called 'pottery-redlok'; did you mean pottery-redlock"),
        ("my_file:MyLokc", [], r"^my_file:MyLokc: my_file has no class called 'MyLokc'; did you mean MyLock\?$"),
        ("no_such_file:MyLock", ["redis==1.0"], "no_such_file:MyLock: there is no module 'no_such_file'"),
        (":MyLock", ["redis==1.0"], "':MyLock' is not of the form package.module:Class"),
    ],
)
@pytest.mark.parametrize("needs", [interpreter_for, interpreters.container_requirements])
def test_a_misspelled_lock_is_refused_before_an_environment_is_built(
    requested_environments: list[tuple[str, Sequence[str]]],
    project: Path,
    lock: str,
    with_: list[str],
    said: str,
    needs: Callable[[str, Sequence[str], str], object],
) -> None:
    (project / "my_file.py").write_text(LOCK)
    with pytest.raises(UsageError, match=said):
        needs(lock, with_, "" if needs is interpreters.container_requirements else "3.99")
    assert requested_environments == []


@pytest.mark.parametrize(
    ("lock", "text"),
    [
        ("a-plug-in", ""),  # of the distribution that is required
        ("my_file:Made", f"{LOCK}\nMade = MyLock\n"),
        ("my_file:Made", f"{LOCK}\nfrom somewhere import Made\n"),
        ("my_file:Made", f"{LOCK}\nfrom somewhere import *\n"),
        ("my_file:Made", f"{LOCK}\nglobals()['Made'] = MyLock\n"),
        ("my_file:Made", f"{LOCK}\ndef __getattr__(name):\n    return MyLock\n"),
        ("my_file:Made", "def broken(:\n"),
    ],
)
def test_a_lock_that_the_environment_may_have_is_not_refused(
    requested_environments: list[tuple[str, Sequence[str]]], project: Path, lock: str, text: str
) -> None:
    (project / "my_file.py").write_text(text)
    interpreter_for(lock, ["no-such-library==1"])
    assert len(requested_environments) == 1
