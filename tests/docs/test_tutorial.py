"""The tutorial's workflow, and the comparison of a page's outputs; ``tests/installed`` executes the tutorial."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from .scripts import DOCS, script


@pytest.fixture(scope="module")
def run_page() -> ModuleType:
    return script("run_page")


def executed(run_page: ModuleType, text: str, tmp_path: Path) -> tuple[list[tuple[str, list[str]]], int, str]:
    folder, programs = tmp_path / "folder", tmp_path / "programs"
    folder.mkdir()
    programs.mkdir()
    page = run_page.Page(text, folder, run_page.environment_with(programs))
    result = page.execute()
    return [tuple(one) for one in page.differences], page.executed, result


# The workflow of the step "Run it in CI"


TUTORIAL = DOCS / "tutorial.md"
INSTALL = "pip install lock-harness pytest"


def project(run_page: ModuleType, folder: Path, *, repaired: bool) -> list[str]:
    """Write the files of the tutorial, with the first or the last version of the lock. Return the workflow's shell
    steps."""
    for language, title, contents in run_page.BLOCK.findall(TUTORIAL.read_text(encoding="utf-8")):
        if title and (repaired or not (folder / title).exists()):
            (folder / title).parent.mkdir(parents=True, exist_ok=True)
            (folder / title).write_text(contents, encoding="utf-8")
            assert language in ("python", "yaml")
    document = yaml.safe_load((folder / ".github" / "workflows" / "lock.yml").read_text(encoding="utf-8"))
    assert document[True] == ["push", "pull_request"]  # YAML reads the key "on" as a Boolean
    return [step["run"] for step in document["jobs"]["lock"]["steps"] if "run" in step]


def step(run_page: ModuleType, folder: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run a step as GitHub does."""
    (folder / "programs").mkdir(exist_ok=True)
    environment = {**run_page.environment_with(folder / "programs"), "GITHUB_ACTIONS": "true"}
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command]
    return subprocess.run(shell, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_the_workflow_installs_what_the_tutorial_installs(run_page: ModuleType, tmp_path: Path) -> None:
    """The wheel that pip installs is tested in ``tests/installed``."""
    install, *_ = project(run_page, tmp_path, repaired=True)
    assert install == INSTALL
    assert TUTORIAL.read_text(encoding="utf-8").count(f"\n{INSTALL}\n") == 1


@pytest.mark.slow
def test_the_workflow_of_the_repaired_lock_passes(run_page: ModuleType, tmp_path: Path) -> None:
    for command in project(run_page, tmp_path, repaired=True)[1:]:
        ran = step(run_page, tmp_path, command)
        assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.slow
def test_the_workflow_of_the_first_lock_fails_and_marks_the_line(run_page: ModuleType, tmp_path: Path) -> None:
    _, tests, run = project(run_page, tmp_path, repaired=False)
    assert step(run_page, tmp_path, tests).returncode == 1
    failed = step(run_page, tmp_path, run)
    assert failed.returncode == 1
    assert re.search(r"^::error file=mylock.py,line=\d+", failed.stdout + failed.stderr, re.MULTILINE)
    assert list((tmp_path / ".harness" / "ci").rglob("report.html"))


PAGE = """
```python title="said.py"
print("a", 1)
print("b")
```

```console
$ python said.py
{output}
$ exit 3
$ echo $?
3
```
"""


@pytest.mark.parametrize("output", ["a 1\nb", "...\nb", "a 1\n..."])
def test_an_output_as_on_the_page_is_accepted(run_page: ModuleType, tmp_path: Path, output: str) -> None:
    text = PAGE.format(output=output)
    assert executed(run_page, text, tmp_path) == ([], 3, text)


@pytest.mark.parametrize("output", ["a 1", "a 2\nb", "b\na 1", "...\nc"])
def test_another_output_is_noticed_and_can_be_written(run_page: ModuleType, tmp_path: Path, output: str) -> None:
    differences, _, result = executed(run_page, PAGE.format(output=output), tmp_path)
    assert [command for command, _ in differences] == ["python said.py"]
    assert result == PAGE.format(output="a 1\nb")


def test_times_and_names_of_runs_do_not_count(run_page: ModuleType) -> None:
    assert run_page.matches(
        "repeat: store/20261126T205552Z-0 (0.8 s real)\n", "repeat: store/20261127T000000Z-0 (9 s real)"
    )
    assert not run_page.matches("found 2 (0.8 s real)\n", "found 3 (0.8 s real)\n")
