"""Terminal output during and after a command, and what goes to a file in its place."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import IO

import msgspec
import pytest
from rich.console import Console

from harness.cli import options, terminal, verdicts
from harness.cli.display import Display
from harness.cli.start_lines import StartLines
from harness.history import History, Op
from harness.history.ongoing import Ongoing
from harness.plan import FaultSpec, Plan
from harness.run.progress import PHASES
from harness.run.runs import run
from harness.run.verdicts.judging import Result
from tests.cli.commands import harness

CODES = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|\r|\n|[^\x1b\r\n]+")
PLAN = Plan(lock="redis-token", faults=(FaultSpec("client-pause", on="acquire", for_=3.0),), time_limit=8.0)


class Screen:
    """The part of a terminal that Rich needs.

    ``seen`` are the contents just before something was erased: whole frames, though a frame may arrive in pieces.
    """

    def __init__(self) -> None:
        self.lines: list[str] = [""]
        self.row = 0
        self.seen: list[str] = []
        self._drawn = False
        self._rest = ""

    def feed(self, text: str) -> None:
        text = self._rest + text
        end = text.rfind("\x1b")
        cut = end if end >= 0 and CODES.match(text, end) is None else len(text)  # a control sequence in two pieces
        text, self._rest = text[:cut], text[cut:]
        for code in CODES.finditer(text):
            self._take(code[0], code[1], code[2])

    def wait_for(self, text: str) -> None:
        """Wait until the terminal has shown the text."""
        deadline = time.monotonic() + 60
        while not any(text in seen for seen in self.seen):
            assert time.monotonic() < deadline, f"{text} is never shown"
            time.sleep(0.005)

    def _take(self, text: str, number: str | None, letter: str | None) -> None:
        if letter == "A":
            self.row -= int(number or 1)
        elif letter == "K":
            if self._drawn:
                self.seen.append("\n".join(self.lines))
            self._drawn = False
            self.lines[self.row] = ""
        elif letter is None and text == "\n":
            self.row += 1
            self.lines += [""] * (self.row + 1 - len(self.lines))
        elif letter is None and text != "\r":
            self.lines[self.row] += text
            self._drawn = True


@contextlib.contextmanager
def terminal_file(columns: int = 80) -> Iterator[tuple[IO[str], Screen]]:
    """A file that is a terminal, and the screen contents after the context ends."""
    ours, theirs = pty.openpty()
    screen = Screen()

    def read() -> None:
        with contextlib.suppress(OSError):
            while data := os.read(ours, 65536):
                screen.feed(data.decode())

    reader = threading.Thread(target=read)
    reader.start()
    with os.fdopen(theirs, "w") as file, pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        patch.setenv("TERM", "xterm")
        yield file, screen
    reader.join()
    os.close(ours)


@pytest.fixture(scope="module")
def told() -> list[tuple[float, str]]:
    return []


@pytest.fixture(scope="module")
def result(told: list[tuple[float, str]], tmp_path_factory: pytest.TempPathFactory) -> Result:
    store = tmp_path_factory.mktemp("store")
    return run(PLAN, store=store, progress=lambda fraction, text: told.append((fraction, text)))


def test_progress_shows_phases_grants_holders_and_faults(result: Result, told: list[tuple[float, str]]) -> None:
    assert result.valid is False
    phases = [text.partition(": ")[0] for _, text in told]
    assert list(dict.fromkeys(phases)) == ["starting", "running", "checking"]
    assert set(phases) <= set(PHASES)
    fractions = [fraction for fraction, _ in told]
    assert fractions == sorted(fractions)
    assert fractions[-1] == 1.0
    running = [text for _, text in told if text.startswith("running")]
    assert any(re.search(r"· \d+ grants? · c\d holds k0 · client-pause on c\d", text) for text in running)
    assert sum("grant" in text for text in running) < 60, "so often that it takes no time"
    assert told[-1][1].startswith("checking: try-lock")


def test_a_progress_callback_does_not_change_the_history(result: Result) -> None:
    assert [*run(PLAN).history] == [*result.history]


def test_live_state_agrees_with_the_final_holds(result: Result) -> None:
    ongoing = Ongoing()
    most: set[str] = set()
    for op in result.history:
        ongoing.add(op)
        most = max(most, {f"{key} {client}" for key, held in ongoing.holders().items() for client in held}, key=len)
    assert ongoing.granted == result.document["stats"]["acquires_ok"]
    assert len(most) == 2, "the violation could be seen while it lasted"
    assert (ongoing.forces, ongoing.ended) == ({}, "time limit")


def test_a_checking_client_does_not_hold_beyond_its_lease() -> None:
    ongoing = Ongoing()

    def add(seconds: float, process: int, type_: str, f: str, value: object = None) -> None:
        node = None if process < 0 else f"c{process}"
        ongoing.add(Op(0, int(seconds * 1e9) + 1, 0, process, type_, f, "k0", value, None, node))  # type: ignore[arg-type]

    add(0, -1, "info", "start", {"discipline": "checking"})
    add(1, 0, "ok", "acquire", {"valid_for": 2.0})
    add(2.5, 1, "fail", "acquire")
    assert ongoing.holders() == {"k0": ["c0"]}
    add(2.8, 0, "ok", "extend", {"extended": True, "valid_for": 2.0})
    add(3.5, 1, "info", "acquire")
    assert ongoing.holders() == {"k0": ["c0"]}
    add(5.0, 1, "ok", "acquire", {"valid_for": 2.0})
    assert ongoing.holders() == {"k0": ["c1"]}
    add(5.1, -1, "info", "crash", {"host": "c1"})
    assert ongoing.holders() == {}
    assert (ongoing.granted, ongoing.refused, ongoing.unknown) == (2, 1, 1)


@pytest.mark.parametrize("columns", [80, 40])
def test_the_display_shows_each_phase_and_is_removed_afterwards(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "REFRESHES", 100)
    with terminal_file(columns) as (file, screen):
        console = Console(file=file)
        console.print("before")
        with options.progress_bar(console, "redlock") as progress:
            for fraction, text in (
                (0.0, "starting: redis image"),
                (0.5, "running: " + "x" * 200),
                (1.0, "checking: a"),
            ):
                progress(fraction, text)
                screen.wait_for(text.partition(":")[0])
        console.print("after")
    assert [line for line in screen.lines if line] == ["before", "after"]
    assert max(len(line) for seen in screen.seen for line in seen.splitlines()) <= columns
    assert {len(seen.splitlines()) for seen in screen.seen if "running" in seen} == {3}, "nothing jumps"


def test_the_progress_bar_never_decreases_and_accepts_any_text() -> None:
    display = Display("a sweep")
    for fraction, text in ((0.4, "running: a"), (0.2, "3 of 60 runs: running: [b]\nc"), (9.0, "")):
        display.tell(fraction, text)
        console = Console(file=StringIO(), width=70)
        console.print(display)
        assert console.file.getvalue().count("\n") == 2  # type: ignore[attr-defined]
        assert len(console.file.getvalue().splitlines()[0]) <= 70  # type: ignore[attr-defined]
        assert ("[b] c" in console.file.getvalue()) == ("[b]" in text)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("name", "value"), [("TERM", "dumb"), ("FORCE_COLOR", "1")])
def test_the_display_is_off_without_cursor_control(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(name, value)
    context = terminal_file() if name == "TERM" else None
    with (tmp_path / "log").open("w+") as plain:
        with contextlib.ExitStack() as stack:
            file, screen = (plain, None) if context is None else stack.enter_context(context)
            monkeypatch.setenv(name, value)
            with options.progress_bar(Console(file=file), "redlock") as progress:
                progress(0.5, "running: a")
        plain.seek(0)
        assert plain.read() == ""
        assert screen is None or screen.lines == [""]


def test_a_long_start_is_reported_by_lines_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with StartLines("redlock", every_s=0.02) as lines:
        lines.tell(0.0, "starting: compiling toxiproxy")
        said = ""
        while said.count("\n") < 2:  # although nothing new was told
            said += capsys.readouterr().err
        lines.tell(0.5, "running: 1 of 30 s")
        time.sleep(0.1)
        capsys.readouterr()
        time.sleep(0.1)
    assert said.startswith("redlock: starting for 0 s: compiling toxiproxy\n")
    assert capsys.readouterr().err == "", "a run has its own end to report"


def panel_text(result: Result, **settings: object) -> str:
    console = Console(file=StringIO(), highlight=False, **settings)  # type: ignore[arg-type]
    rows = list(terminal._rows(result))
    verdicts.print_panel(console, result.plan.lock, result.valid, result.document["summary"], rows)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize("columns", [140, 80, 40])
def test_the_panel_fits_the_width_and_is_complete(
    columns: int, result: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = panel_text(result, force_terminal=True, width=columns)
    assert re.findall(r"\x1b\[[\d;]*3\d[\d;]*m", text) == [], "no colour where none is wanted"
    lines = re.sub(r"\x1b\[[\d;]*m", "", text).splitlines()
    assert {len(line) for line in lines} == {min(columns, verdicts.WIDEST)}
    words = " ".join(" ".join(line.strip("│╭╮╰╯─ ") for line in lines).split())
    assert "✗ VIOLATION: redis-token" in words
    assert "mutual-exclusion" in words
    assert re.search(r"client-pause( \d+ times)?,\s+effect", words)


def test_a_file_gets_plain_lines_without_codes(result: Result, capsys: pytest.CaptureFixture[str]) -> None:
    terminal.print_result(replace(result, folder=None), json=False, quiet=False)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "VIOLATION: redis-token"
    assert lines[1] == result.document["summary"]
    assert {line.partition(": ")[0] for line in lines[2:]} == {
        "known limit",
        "kept",
        "not applicable",
        "faults",
        "figures",
    }
    assert "\x1b" not in "".join(lines)


def test_ascii_terminals_get_only_ascii(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    class Old(StringIO):
        encoding = "ascii"

    console = Console(file=Old(), force_terminal=True, width=80)
    verdicts.print_panel(console, "a", True, "b", [])
    assert console.file.getvalue().isascii()  # type: ignore[attr-defined]


def test_an_interrupted_run_is_reported_as_cut_short(result: Result) -> None:
    history = History(result.history)
    history.value[-1] = {"reason": "interrupted"}
    told = f"interrupted after {result.document['stats']['seconds']:.1f} of 8 s"
    assert ("cut short", [told]) in terminal._rows(replace(result, history=history))
    assert not any(label == "cut short" for label, _ in terminal._rows(result))


def test_a_checkers_sentence_is_shown_unless_the_story_has_it(result: Result) -> None:
    verdict = result.verdicts["mutual-exclusion"]
    first = verdict.evidence[0].sentence
    assert first in terminal._found("x", verdict, result.history.origin, "another story")
    harm = verdict.evidence[0].harm
    shown = terminal._found("x", verdict, result.history.origin, result.document["summary"])
    assert harm not in shown
    assert first.removeprefix(f"{harm}: ") in shown
    assert first not in terminal._found("x", verdict, result.history.origin, f"It began. {first}.")


# Commands with --json and with --quiet.

RUN = ["redis-token", "--time-limit", "2s", "--cluster", "sim"]


SWEEP = ["sweep", "redis-token", "--pause", "0", "--time-limit", "2s", "--seeds", "1", "--workers", "1"]
QUIET = [
    (["run", *RUN, "--runs", "2"], "VALID", 0),
    pytest.param(["nightly", "--only", "rl-restart", "--workers", "1"], "VALID", 0, marks=pytest.mark.slow),
    pytest.param(["run", *RUN, "--clients", "1", "--runs", "2"], "UNKNOWN", 3, marks=pytest.mark.slow),
    pytest.param(["run", *RUN], "VALID", 0, marks=pytest.mark.slow),
    pytest.param(["scenario", "run", "rl-restart"], "as-expected", 0, marks=pytest.mark.slow),
    pytest.param(SWEEP, "VALID", 0, marks=pytest.mark.slow),
    pytest.param(["check", "{run}", "--model", "mutex"], "VIOLATION", 1, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("command", "word", "status"), QUIET)
def test_quiet_prints_one_word(
    command: list[str],
    word: str,
    status: int,
    result: Result,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert harness(*(part.format(run=result.folder) for part in command), "--quiet") == status
    said = capsys.readouterr()
    assert (said.out, said.err) == (word + "\n", "")


JSON = [
    (["run", *RUN], 0),
    (["run", *RUN, "--runs", "2"], 0),
    (["scenario", "run", "rl-restart"], 0),
    (["scenario", "list", "rl-*"], 0),
    (["nightly", "--only", "rl-restart", "--workers", "1"], 0),
    (SWEEP, 0),
    (["check", "{run}", "--model", "mutex"], 1),
    (["list", "kinds"], 0),
]


@pytest.mark.slow
@pytest.mark.parametrize(("command", "status"), JSON)
def test_json_prints_one_document_and_overrides_quiet(
    command: list[str],
    status: int,
    result: Result,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    both = [] if command[0] == "list" or command[:2] == ["scenario", "list"] else ["--quiet"]
    assert harness(*(part.format(run=result.folder) for part in command), "--json", *both) == status
    said = capsys.readouterr()
    assert said.err == ""
    assert msgspec.json.decode(said.out)
