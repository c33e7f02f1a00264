"""Hyperlinks to reports on terminals that show them, and nowhere else."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from harness.cli import links


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


KITTY = {"TERM": "xterm-kitty"}


@pytest.mark.parametrize(
    ("environment", "shown"),
    [
        (KITTY, True),
        ({"TERM": "xterm-256color", "VTE_VERSION": "7006"}, True),
        ({"TERM": "xterm-256color", "VTE_VERSION": "4205"}, False),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "vscode"}, True),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "Apple_Terminal"}, False),
        ({"TERM": "xterm-256color"}, False),
        ({"TERM": "xterm-256color", "FORCE_HYPERLINK": "1"}, True),
        ({**KITTY, "FORCE_HYPERLINK": "0"}, False),
        ({**KITTY, "NO_COLOR": "1"}, False),
        ({"TERM": "dumb", "FORCE_HYPERLINK": "1"}, False),
    ],
)
def test_links_are_shown_by_terminals_that_can(environment: dict[str, str], shown: bool) -> None:
    assert links.shows_links(Terminal(), environment) is shown
    assert not links.shows_links(io.StringIO(), environment), "a pipe"


def test_a_link_has_the_address_of_the_file_and_shows_its_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setattr("os.environ", KITTY)
    text = links.linked(Path("store/a b;c/report.html"))
    opening, path, closing = text.replace("\x1b\\", "\x1b]").removeprefix("\x1b]").split("\x1b]")[0:3]
    assert opening.startswith("8;;file://")
    assert opening.endswith(f"{Path.cwd()}/store/a%20b%3Bc/report.html")
    assert (path, closing) == ("store/a b;c/report.html", "8;;")


def test_a_pipe_gets_the_path_alone(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-kitty")
    monkeypatch.setenv("FORCE_HYPERLINK", "1")
    links.print_place("report", Path("store/report.html"))
    assert capsys.readouterr().out == "report: store/report.html\n"
