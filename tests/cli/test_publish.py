"""``harness publish``: what it prints, and its exit statuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.reports import nights

from .commands import harness


@pytest.fixture
def night(in_an_empty_folder: Path) -> None:
    nights.add(Path("store/results.db"), nights.night(21, [nights.outcome("ttl-pause-write")]))


@pytest.mark.usefixtures("night")
def test_the_document_is_printed_and_written(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("publish", "site", "--json") == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert json.loads(printed.out) == json.loads(Path("site/locks.json").read_bytes())


@pytest.mark.slow
@pytest.mark.usefixtures("night")
def test_quiet_prints_the_path_of_the_index(capsys: pytest.CaptureFixture[str]) -> None:
    assert harness("publish", "site", "--quiet") == 0
    assert capsys.readouterr().out == "site/index.html\n"


@pytest.mark.usefixtures("night")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("site", "--store", "nowhere"), "nowhere: expected the folder of a store"),
        (("site", "--store", "empty"), "empty: contains no stored result: 'harness nightly' makes and stores them"),
        (("site", "--store", "damaged"), "damaged/results.db: not a database of results"),
        (("mylock_cli.py",), "mylock_cli.py: expected a folder for the pages, got a file"),
        (("store",), "store: this is the store itself"),
        (("strange",), "strange/published.json"),
    ],
)
def test_a_wrong_argument_is_one_message(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("empty", "damaged", "strange"):
        Path(name).mkdir()
    Path("damaged/results.db").write_text("no database, and long enough to be looked at as one")
    Path("strange/published.json").write_text("[]")
    assert harness("publish", *arguments) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(f"harness: {said}")
    assert (printed.err.count("\n"), printed.out) == (1, "")
    assert not Path("site").exists()
