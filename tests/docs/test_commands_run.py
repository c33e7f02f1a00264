"""Each command of the pages is run, and ends as its page says.

A command that takes minutes is run in a shorter form (``SHORTER``). What cannot be run names the test that does the
same (``ELSEWHERE``). Documented failures on containers are run by the nightly suite."""

from __future__ import annotations

import re
import signal
import subprocess
import urllib.request
from pathlib import Path
from typing import Final

import pytest

from harness.scenarios import catalogue
from harness.studies.nightly_cases import cases

from .command_lines import complete, in_markdown
from .command_tables import ELSEWHERE, SHORTER, STATUSES, elsewhere, shorter
from .page_commands import (
    ROOT,
    RUN_PAGE,
    TUTORIAL,
    commands,
    run_by_the_tutorial,
    stated_output,
    stated_status,
    text_of,
)
from .surroundings import NEEDED, Surroundings, surroundings

SCENARIO_ON_CONTAINERS: Final = re.compile(r"^harness scenario run (\S+) --cluster docker$")
ON_CONTAINERS: Final = re.compile(r"--cluster docker\b|--run store/latest\b|^harness bisect node-redlock ")
UNTIL_INTERRUPTED: Final = ("harness serve", "harness docs --serve")
SEVERAL_IMAGES: Final = "harness bisect node-redlock"
"""A command on containers that builds an image for each release."""


def scenarios_on_containers() -> list[str]:
    return [command for command in commands() if SCENARIO_ON_CONTAINERS.match(command)]


def to_run(*, on_containers: bool) -> list[str]:
    """Return the commands that are run on containers, or all others that are run."""
    left_out = {*elsewhere(), *scenarios_on_containers()}
    return [one for one in commands() if one not in left_out and bool(ON_CONTAINERS.search(one)) == on_containers]


def short_name(command: str) -> str:
    """Return the name of a test's case: pytest takes no long text for one."""
    return command.removeprefix("harness ")


def ended(prepared: Surroundings, programs: Path) -> tuple[int, str]:
    """Type the command in a shell. Return its exit status and its output; errors of the program stand at the end."""
    line = f"{prepared.beside} & exec {prepared.command}" if prepared.beside else prepared.command
    environment = {**RUN_PAGE.environment_with(programs), "BROWSER": "true"}
    shell = subprocess.Popen(
        ["bash", "-c", line], cwd=prepared.folder, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with shell as process:
        assert process.stdout is not None
        first = ""
        if prepared.command.startswith(UNTIL_INTERRUPTED):
            first = process.stdout.readline()
            (address,) = re.findall(r"http://\S+", first)
            urllib.request.urlopen(address).close()
            process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=600)
    return process.returncode, f"{first}{output}{errors}"


def check_end(command: str, tmp_path: Path) -> None:
    """Run a command of a page, and compare its end with the page."""
    programs, folder = tmp_path / "programs", tmp_path / "folder"
    programs.mkdir()
    folder.mkdir()
    with surroundings(command, shorter(command), folder) as prepared:
        status, output = ended(prepared, programs)
    assert status == STATUSES.get(command, stated_status(command)), output
    shown = stated_output(command)
    if command.startswith("harness hunt "):
        shown = shown[:1]  # a later version may search in another order
    assert [line for line in shown if line not in ("...", *output.splitlines())] == []


@pytest.mark.slow
@pytest.mark.parametrize("command", to_run(on_containers=False), ids=short_name)
def test_a_command_of_a_page_ends_as_the_page_says(command: str, tmp_path: Path) -> None:
    check_end(command, tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(one, marks=pytest.mark.long if one.startswith(SEVERAL_IMAGES) else pytest.mark.docker)
        for one in to_run(on_containers=True)
    ],
    ids=short_name,
)
def test_a_command_on_containers_ends_as_the_page_says(command: str, tmp_path: Path) -> None:
    check_end(command, tmp_path)


@pytest.mark.parametrize("command", scenarios_on_containers())
def test_a_documented_failure_on_containers_is_run_by_the_nightly_suite(command: str) -> None:
    found = SCENARIO_ON_CONTAINERS.match(command)
    assert found is not None
    (case,) = cases("full", "docker", [catalogue.find(found[1])])
    assert case.refused == ""


def test_the_commands_of_the_tutorial_are_those_that_its_own_test_runs() -> None:
    lines = [complete(line) for line in in_markdown(text_of(TUTORIAL))]
    assert {line for line in lines if line} <= {complete(line) for line in run_by_the_tutorial()}


# The tables


def test_each_command_elsewhere_is_on_a_page_and_names_a_test_that_exists() -> None:
    assert [command for command in elsewhere() if command not in commands()] == []
    places = [place.split("::") for place in elsewhere().values()]
    assert [place for place in places if place[1] not in (ROOT / place[0]).read_text(encoding="utf-8")] == []
    assert sum(len(group.commands) for group in ELSEWHERE) == len(elsewhere())


def test_each_exit_status_is_of_a_command_that_is_run_and_is_not_stated_otherwise() -> None:
    run_here = {*to_run(on_containers=False), *to_run(on_containers=True)}
    assert [command for command in STATUSES if command not in run_here] == []
    assert [command for command, status in STATUSES.items() if stated_status(command) == status] == []


@pytest.mark.parametrize(("pattern", "replacement"), SHORTER)
def test_each_shorter_form_is_of_a_command(pattern: str, replacement: str) -> None:
    run_here = [*to_run(on_containers=False), *to_run(on_containers=True)]
    assert [command for command in run_here if re.sub(pattern, replacement, command) != command]


@pytest.mark.parametrize("text", NEEDED)
def test_what_is_prepared_is_needed_by_a_command(text: str) -> None:
    assert [command for command in to_run(on_containers=False) if text in shorter(command)]


def test_shorter_forms_are_complete_commands() -> None:
    forms = [shorter(command) for command in to_run(on_containers=False)]
    assert [form for form in forms if form.startswith("harness ") and not complete(form)] == []
