"""Requirements of a user's lock in its container, and package archives of the base image."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.clusters.docker.images.base_image import Source, apt_sources, debian_archives
from harness.clusters.docker.images.requirements import requirements_of
from harness.errors import UsageError
from harness.lock_impls import catalogue

# What a user's lock needs


@pytest.mark.parametrize(
    ("lock", "names"),
    [
        ("redlock", ()),
        ("redis-set-ex", ()),
        ("redlock-py", ()),
        ("sherlock-redis", ("sherlock",)),
        ("redlock-ng", ("pydantic",)),
        ("mutex", ()),  # a workload's name
        ("harness.lock_impls.redlock:Redlock", ()),
        ("harness.scenarios.locks.python_redis_lock:Renewed", ("python-redis-lock",)),
        ("harness.scenarios.locks.tooz:ReleasesAgain", ("stevedore", "tooz")),  # through the adapter that it extends
        ("harness.scenarios.locks.etcd:ForgetsItsKey", ()),  # grpcio, of the shared client, comes with etcd3
        ("redis.lock:Lock", ()),
        ("redis_lock:Lock", ("python-redis-lock",)),
        ("pottery:Redlock", ("pottery",)),
    ],
)
def test_locks_of_installed_distributions(lock: str, names: tuple[str, ...]) -> None:
    assert requirements_of(lock) == (names, None)


def test_a_catalogue_name_needs_what_its_class_needs() -> None:
    for name in catalogue.names():
        lock = catalogue.find(name)
        assert requirements_of(name) == requirements_of(f"{lock.__module__}:{name}"), name


@pytest.fixture
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Change into a user's working directory; restore ``sys.path`` afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path.resolve()
    sys.path_importer_cache.pop(str(tmp_path), None)


def test_a_lock_in_the_working_directory(working_folder: Path) -> None:
    (working_folder / "my_lock_of_mine.py").write_text(
        "import json, redis\nfrom harness.lock_impls.base import Grant\nclass Mine: ...\n"
    )
    assert requirements_of("my_lock_of_mine:Mine") == ((), working_folder)


def test_imports_of_a_users_source_are_required_also_through_its_other_files(working_folder: Path) -> None:
    package = working_folder / "locks_of_mine"
    (package / "deep").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "deep" / "__init__.py").write_text("from .. import helper\n")
    (package / "deep" / "lock.py").write_text("class Mine: ...\n")
    (package / "helper.py").write_text("def late():\n    import redis_lock.signals\n")
    (package / "unused.py").write_text("import pottery\n")
    assert requirements_of("locks_of_mine.deep.lock:Mine") == (("python-redis-lock",), working_folder)


def test_a_missing_module_is_refused(working_folder: Path) -> None:
    with pytest.raises(UsageError, match="there is no module 'no_such_module'"):
        requirements_of("no_such_module.lock:Lock")
    with pytest.raises(UsageError, match="part of Python itself"):
        requirements_of("threading:Lock")


# Where packages come from

DEB822 = """\
# URIs: http://snapshot.example/debian/2020
Types: deb deb-src
URIs: http://mirror.example/debian
Suites: bookworm
 bookworm-updates
Components: main contrib

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
Enabled: no
URIs: http://off.example/debian
Suites: bookworm
Components: main
"""


def apt(folder: Path, **files: str) -> tuple[Source, ...]:
    (folder / "sources.list.d").mkdir()
    for name, text in files.items():
        path = name.replace("_", ".")
        (folder / ("" if path == "sources.list" else "sources.list.d") / path).write_text(text)
    return apt_sources(folder)


def test_apt_sources_in_both_formats(tmp_path: Path) -> None:
    lines = (
        "# deb http://no.example/debian bookworm main\n"
        "deb [ arch=amd64 signed-by=/k ] http://other.example/apt stable main # tools\n"
        "deb-src http://mirror.example/debian bookworm main\n"
    )
    found = apt(tmp_path, sources_list=lines, debian_sources=DEB822)
    assert [source.line for source in found] == [
        "deb http://other.example/apt stable main",
        "deb http://mirror.example/debian bookworm main contrib",
        "deb http://mirror.example/debian bookworm-updates main contrib",
        "deb http://mirror.example/debian-security bookworm-security main",
    ]
    assert [source.line.split()[2:] for source in debian_archives(found)] == [
        ["bookworm", "main"],
        ["bookworm-security", "main"],
        ["bookworm-updates", "main"],
    ]


def test_another_debian_s_mirror_serves_and_another_distribution_s_does_not() -> None:
    trixie = Source("http://mirror.example/debian/", "trixie", ("main",))
    other = Source("http://mirror.example/ubuntu", "noble", ("main", "universe"))
    disc = Source("cdrom:[Debian 12]/", "bookworm", ("main",))
    assert [source.suite for source in debian_archives([other, trixie])] == ["bookworm", "bookworm-updates"]
    assert debian_archives([other, disc]) == ()
