"""Releases are those that the configured index lists, and their changelogs are read from their archives."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from harness.environments import changelog, releases, store, uv
from harness.errors import MISSING, EnvironmentLacking, UsageError

from .index import PackageIndex, sdist, wheel

JSON = "application/vnd.pypi.simple.v1+json"
Serve = Callable[..., PackageIndex]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    started = []

    def start(pages: dict[str, tuple[str, bytes]], user: str = "") -> PackageIndex:
        index = PackageIndex(pages)
        started.append(index)
        monkeypatch.setattr(releases, "indexes", lambda: (f"http://{user}{index.address}/simple",))
        return index

    yield start
    for index in started:
        index.close()


def page(*files: dict[str, Any]) -> tuple[str, bytes]:
    return JSON, json.dumps({"meta": {"api-version": "1.0"}, "name": "locker", "files": files}).encode()


def file(name: str, **more: Any) -> dict[str, Any]:
    return {"filename": name, "url": f"../../files/{name}", "hashes": {}, **more}


def versions(*args: Any, **options: Any) -> list[str]:
    return [str(one) for one in releases.releases(*args, **options)]


def test_releases_are_in_the_order_of_their_versions(serve: Serve) -> None:
    names = ("locker-1.10.0.tar.gz", "locker-1.9.tar.gz", "locker-1.9-py3-none-any.whl", "locker-0.1.zip")
    serve({"/simple/locker/": page(*map(file, names))})
    assert versions("Locker") == ["0.1", "1.9", "1.10.0"]
    assert [f.name for f in releases.releases("locker")[1].files] == [
        "locker-1.9-py3-none-any.whl",
        "locker-1.9.tar.gz",
    ]


def test_prereleases_and_yanked_releases_are_left_out_unless_requested(serve: Serve) -> None:
    partly = file("locker-2.0.tar.gz", yanked="broken")
    listed = [
        file("locker-1.0.tar.gz"), file("locker-1.1.tar.gz", yanked=True), file("locker-2.0b1.tar.gz"),
        partly, file("locker-2.0-py3-none-any.whl", yanked=False),
    ]  # fmt: skip
    serve({"/simple/locker/": page(*listed)})
    assert versions("locker") == ["1.0", "2.0"]
    assert versions("locker", yanked=True) == ["1.0", "1.1", "2.0"]
    assert versions("locker", prereleases=True) == ["1.0", "2.0b1", "2.0"]


def test_an_index_may_answer_with_html(serve: Serve) -> None:
    text = """<a href="/f/locker-1.0.tar.gz#sha256=00">locker-1.0.tar.gz</a>
        <a href="/f/locker-1.1.tar.gz" data-yanked="">x</a><a name="no-link">y</a>
        <a href="/f/locker-0.9%2Blocal-py3-none-any.whl">z</a>"""
    index = serve({"/simple/locker/": ("text/html", text.encode())})
    assert versions("locker") == ["0.9+local", "1.0"]
    assert releases.releases("locker")[1].files[0].url == f"http://{index.address}/f/locker-1.0.tar.gz"


def test_files_of_other_formats_and_other_packages_are_left_out(serve: Serve) -> None:
    names = ("locker-1.0.exe", "locker-1.0.tar.gz.asc", "locker-x.tar.gz", "locker_more-1.0.tar.gz", "locker-3.tar.gz")
    serve({"/simple/locker/": page(*map(file, names))})
    assert versions("locker") == ["3"]


def test_the_first_index_that_has_the_package_decides(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    first = serve({})
    second = serve({"/simple/locker/": page(file("locker-1.0.tar.gz"))})
    monkeypatch.setattr(releases, "indexes", lambda: tuple(f"http://{i.address}/simple/" for i in (first, second)))
    assert versions("locker") == ["1.0"]
    assert [path for path, _ in first.asked] == ["/simple/locker/"]


def test_the_user_of_an_index_is_sent_to_its_host_only(serve: Serve) -> None:
    foreign = file("locker-2.0.tar.gz") | {"url": "http://files.invalid/locker-2.0.tar.gz"}
    index = serve({"/simple/locker/": page(file("locker-1.0.tar.gz"), foreign)}, user="ann:s%40me@")
    old, new = releases.releases("locker")
    assert index.asked == [("/simple/locker/", "Basic YW5uOnNAbWU=")]
    assert old.files[0].url == f"http://ann:s%40me@{index.address}/files/locker-1.0.tar.gz"
    assert new.files[0].url == "http://files.invalid/locker-2.0.tar.gz"


def test_an_unknown_package_is_a_usage_error(serve: Serve) -> None:
    serve({})
    with pytest.raises(UsageError, match="no package 'locker'"):
        releases.releases("locker")


@pytest.mark.parametrize("answer", [(JSON, b"{}"), (JSON, b'{"files": [{}]}'), (JSON, b"not json"), (JSON, b"[]")])
def test_an_answer_that_is_no_list_of_files_is_one_error(serve: Serve, answer: tuple[str, bytes]) -> None:
    serve({"/simple/locker/": answer})
    with pytest.raises(EnvironmentLacking, match="does not answer as a package index"):
        releases.releases("locker")


def test_without_a_network_the_error_is_one_line_and_something_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setattr(releases, "indexes", lambda: (f"http://ann:secret@127.0.0.1:{port}/simple",))
    with pytest.raises(EnvironmentLacking, match=r"127\.0\.0\.1 cannot be reached") as caught:
        releases.releases("locker")
    assert caught.value.exit_status == MISSING
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_file_of_this_machine_is_not_read() -> None:
    with pytest.raises(EnvironmentLacking, match="over http and https only"):
        releases.fetch("file:///etc/hostname")


def test_an_answer_that_is_too_large_is_not_read_to_its_end(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(releases, "LARGEST", 1000)
    serve({"/simple/locker/": (JSON, b"x" * 300_000)})
    with pytest.raises(EnvironmentLacking, match="more than 1,000 bytes"):
        releases.releases("locker")


DEFAULT, EXTRA, OTHER = (f"http://ann:secret@{name}.invalid/simple" for name in ("one", "two", "other"))


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({"UV_DEFAULT_INDEX": DEFAULT, "UV_INDEX": EXTRA}, (EXTRA, DEFAULT)),
        ({"PIP_INDEX_URL": DEFAULT, "PIP_EXTRA_INDEX_URL": f"{EXTRA} {OTHER}"}, (EXTRA, OTHER, DEFAULT)),
        ({"PIP_INDEX_URL": DEFAULT, "UV_INDEX": "", "PIP_EXTRA_INDEX_URL": ""}, (DEFAULT,)),
        ({"UV_DEFAULT_INDEX": DEFAULT, "PIP_INDEX_URL": OTHER, "PIP_EXTRA_INDEX_URL": OTHER}, (DEFAULT,)),
        ({"UV_INDEX_URL": DEFAULT, "PIP_INDEX_URL": OTHER}, (DEFAULT,)),
    ],
    ids=["uv", "pip", "pip-default", "uv-before-pip", "earlier-name"],
)
def test_indexes_are_those_of_uv_or_else_those_of_pip(
    without_indexes: pytest.MonkeyPatch, variables: dict[str, str], found: tuple[str, ...]
) -> None:
    for name, value in variables.items():
        without_indexes.setenv(name, value)
    assert releases.indexes() == found


@pytest.mark.parametrize("name", ["PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_DEFAULT_INDEX"])
def test_a_malformed_index_is_named_without_its_password(without_indexes: pytest.MonkeyPatch, name: str) -> None:
    without_indexes.setenv(name, "http://ann:secret@one.invalid:port/simple")
    with pytest.raises(EnvironmentLacking, match=r"http://\*{4}@one\.invalid:port/simple") as caught:
        releases.indexes()
    assert "ann" not in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["PIP_FIND_LINKS", "UV_FIND_LINKS"])
def test_a_page_of_packages_that_cannot_be_read_is_named_without_its_password(
    new_environments: pytest.MonkeyPatch, name: str
) -> None:
    new_environments.setenv(name, "http://ann:secret@one.invalid:port/wheels")
    with pytest.raises(EnvironmentLacking, match=r"\*{4}@one\.invalid:port/wheels") as caught:
        store.environment(sys.executable, ["locker==1.0"])
    assert "secret" not in str(caught.value)


@pytest.fixture
def without_indexes(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in (*uv.INDEXES, *uv.PIP_INDEXES, uv.UV_LINKS, uv.PIP_LINKS, "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    return monkeypatch


LOCKER, ABOUT_LOCKER = "locker-1.0-py3-none-any.whl", "locker-1.0.dist-info"
LOCKER_FILES = {
    "locker.py": "",
    f"{ABOUT_LOCKER}/METADATA": "Metadata-Version: 2.1\nName: locker\nVersion: 1.0\n",
    f"{ABOUT_LOCKER}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    f"{ABOUT_LOCKER}/RECORD": "".join(
        f"{path},,\n" for path in ("locker.py", f"{ABOUT_LOCKER}/METADATA", f"{ABOUT_LOCKER}/WHEEL")
    ),
}


@pytest.fixture
def new_environments(without_indexes: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    without_indexes.setenv("UV_CACHE_DIR", str(tmp_path / "cache"))
    without_indexes.setenv(store.FOLDER, str(tmp_path / "environments"))
    return without_indexes


def test_an_environment_is_built_from_the_folder_of_pip(new_environments: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    (wheels / LOCKER).write_bytes(wheel(LOCKER_FILES))
    index = PackageIndex({})
    new_environments.setenv("PIP_INDEX_URL", f"http://{index.address}/simple")
    new_environments.setenv("PIP_NO_INDEX", "1")
    new_environments.setenv("PIP_FIND_LINKS", f"{tmp_path / 'none'} {wheels}")
    (tmp_path / "none").mkdir()
    try:
        built = store.environment(sys.executable, ["locker==1.0"])
        with pytest.raises(EnvironmentLacking, match="without a package index"):
            releases.indexes()
    finally:
        index.close()
    assert list(built.folder.rglob("locker.py"))
    assert index.asked == []


def test_a_folder_of_uv_goes_before_the_variables_of_pip(new_environments: pytest.MonkeyPatch, tmp_path: Path) -> None:
    new_environments.setenv("UV_FIND_LINKS", str(tmp_path))
    new_environments.setenv("PIP_INDEX_URL", DEFAULT)
    new_environments.setenv("PIP_NO_INDEX", "1")
    assert DEFAULT not in releases.indexes()


def test_an_environment_is_built_from_the_index_of_pip(new_environments: pytest.MonkeyPatch) -> None:
    index = PackageIndex(
        {
            "/simple/locker/": page(file(LOCKER, **{"core-metadata": True})),
            f"/files/{LOCKER}": ("application/zip", wheel(LOCKER_FILES)),
            f"/files/{LOCKER}.metadata": ("text/plain", LOCKER_FILES[f"{ABOUT_LOCKER}/METADATA"].encode()),
        }
    )
    new_environments.setenv("PIP_INDEX_URL", f"http://ann:secret@{index.address}/simple")
    try:
        built = store.environment(sys.executable, ["locker==1.0"])
        with pytest.raises(UsageError, match="there is no version of locker==2"):
            store.environment(sys.executable, ["locker==2"])
    finally:
        index.close()
    assert list(built.folder.rglob("locker.py"))
    assert {path for path, user in index.asked if user is not None} >= {"/simple/locker/", f"/files/{LOCKER}"}
    about_it = (built.folder / store.ABOUT).read_text()
    assert "secret" not in about_it


def test_without_an_index_releases_cannot_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uv, "run", lambda *_: "\n")
    with pytest.raises(EnvironmentLacking, match="without a package index"):
        releases.indexes()


# A range of releases.


def some(*texts: str) -> tuple[releases.Release, ...]:
    return tuple(releases.Release(Version(text)) for text in texts)


def test_a_range_has_both_ends_and_the_direction_of_the_question() -> None:
    listed = some("1.0", "1.1", "2.0", "3.0")
    assert [str(one) for one in releases.between(listed, "1.1", "3", "locker")] == ["1.1", "2.0", "3.0"]
    assert [str(one) for one in releases.between(listed, "2.0.0", "1.0", "locker")] == ["2.0", "1.1", "1.0"]


def test_a_release_that_is_not_listed_is_named_with_similar_ones() -> None:
    with pytest.raises(UsageError, match=r"unknown release of locker '1\.2': did you mean"):
        releases.between(some("1.0", "1.1"), "1.0", "1.2", "locker")
    with pytest.raises(UsageError, match="expected a version"):
        releases.between(some("1.0"), "1.0", "newest", "locker")


# Changelogs.

RST = """Changes
=======

2.1.0 (2020-01-02)
------------------

* Fixed the lock.

2.0.0
-----
* Old.
"""
MARKDOWN = (
    '<a name="2.1.0"></a>\n## [2.1.0] - 2020-01-02\n- Fixed 3.0.0 of x\n\n<a name="2.0.0"></a>\n## v2.0.0\n- Old\n'
)
PLAIN = "* 2.1.0 (Jan 2)\n    * Fixed it\n      for 1.0 users\n* 2.0.0\n    * Old\n"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (RST, ("2.1.0 (2020-01-02)", "", "* Fixed the lock.")),
        (MARKDOWN, ("## [2.1.0] - 2020-01-02", "- Fixed 3.0.0 of x")),
        (PLAIN, ("* 2.1.0 (Jan 2)", "    * Fixed it", "      for 1.0 users")),
        ("nothing about releases", ()),
    ],
)
def test_the_section_of_a_release_is_found_in_several_styles(text: str, lines: tuple[str, ...]) -> None:
    assert changelog.section(text, [Version("2.1")]) == lines


def test_a_long_section_is_reduced_to_the_items_about_locks() -> None:
    lines = ["* 2.0.0", *(f"    * Item {n}" for n in range(60)), "    * Renamed the", "      LuaLock", "    * Last"]
    assert changelog.shortened(lines, "lock") == ("* 2.0.0", "    * Renamed the", "      LuaLock")
    assert changelog.shortened(lines, "semaphore") == tuple(lines[: changelog.MAX_LINES])
    assert changelog.shortened(lines[:40], "lock") == tuple(lines[:40])


def release(index: PackageIndex, version: str, *names: str) -> releases.Release:
    files = tuple(releases.File(name, f"http://{index.address}/{name}") for name in names)
    return releases.Release(Version(version), files)


def test_a_changelog_is_read_from_the_source_distribution(serve: Serve) -> None:
    data = sdist({"locker-2.1/docs/changelog.rst": "see above", "locker-2.1/CHANGES.rst": RST})
    index = serve({"/locker-2.1.tar.gz": ("application/octet-stream", data)})
    found = changelog.changelog([release(index, "2.1", "locker-2.1.tar.gz")])
    assert found == changelog.Changelog(
        "locker-2.1.tar.gz: locker-2.1/CHANGES.rst", ("2.1.0 (2020-01-02)", "", "* Fixed the lock."), 0
    )


def test_a_changelog_is_read_from_the_wheel_if_the_source_has_none(serve: Serve) -> None:
    pages = {
        "/locker-2.1.tar.gz": ("application/octet-stream", sdist({"locker-2.1/README": RST})),
        "/locker-2.1-py3-none-any.whl": ("application/octet-stream", wheel({"locker/HISTORY.md": MARKDOWN})),
    }
    index = serve(pages)
    found = changelog.changelog(
        [release(index, "2.0"), release(index, "2.1", "locker-2.1-py3-none-any.whl", "locker-2.1.tar.gz")]
    )
    assert found is not None
    assert found.source == "locker-2.1-py3-none-any.whl: locker/HISTORY.md"
    assert found.lines[0] == "## [2.1.0] - 2020-01-02"
    assert "## v2.0.0" in found.lines


@pytest.mark.parametrize("data", [b"", b"damaged", sdist({"locker-2.1/CHANGES": "2.0\nOld\n"})])
def test_without_a_readable_changelog_there_is_none(serve: Serve, data: bytes) -> None:
    index = serve({"/locker-2.1.tar.gz": ("application/octet-stream", data)})
    names = ("locker-2.1.tar.gz", "locker-2.1.zip")
    assert changelog.changelog([release(index, "2.1", *names)]) is None
