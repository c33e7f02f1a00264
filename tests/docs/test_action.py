"""The steps of ``action.yml``, run as GitHub runs them, with the inputs of the examples."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))


def example() -> dict[str, str]:
    """Return the inputs of the example for users."""
    document = yaml.safe_load((ROOT / "examples/github/lock.yml").read_text(encoding="utf-8"))
    (given,) = [step["with"] for step in document["jobs"]["lock"]["steps"] if "lock-harness" in step.get("uses", "")]
    return dict(given)


class Runner:
    """Runs the shell steps of the action in a copy of a project, with GitHub's files and variables."""

    def __init__(self, folder: Path, given: dict[str, str]) -> None:
        self.folder = folder
        self.values = {f"inputs.{name}": str(one.get("default", "")) for name, one in ACTION["inputs"].items()}
        self.values |= {f"inputs.{name}": value for name, value in given.items()}
        self.values["github.action_path"] = str(ROOT)
        programs = folder / "programs"
        programs.mkdir()
        (programs / "harness").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m harness "$@"\n')
        (programs / "harness").chmod(0o755)
        self.environment = {
            **os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "RUNNER_TEMP": str(folder / "temp"),
            "GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(folder),
            "GITHUB_OUTPUT": str(folder / "output"), "GITHUB_STEP_SUMMARY": str(folder / "summary"),
            "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[:1]]),
        }  # fmt: skip
        (folder / "temp").mkdir()

    def step(self, name: str) -> subprocess.CompletedProcess[str]:
        (step,) = [one for one in ACTION["runs"]["steps"] if one.get("id") == name]
        variables = {key: self._filled(value) for key, value in step.get("env", {}).items()}
        where = self.folder / self._filled(step["working-directory"]) if "working-directory" in step else self.folder
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        ran = subprocess.run(
            command, cwd=where, env={**self.environment, **variables}, capture_output=True, text=True, check=False
        )
        outputs = self.folder / "output"
        for line in outputs.read_text().splitlines() if outputs.exists() else []:
            key, _, value = line.partition("=")
            self.values[f"steps.{name}.outputs.{key}"] = value
        outputs.unlink(missing_ok=True)
        return ran

    def _filled(self, text: str) -> str:
        return re.sub(r"\$\{\{ (\S+) \}\}", lambda found: self.values[found[1]], text)


def project(folder: Path) -> Path:
    """Make the project of the example: its lock lies in ``src``."""
    (folder / "src").mkdir()
    source = (ROOT / "examples" / "mylock" / "src" / "mylock" / "__init__.py").read_text()
    (folder / "src" / "mylock.py").write_text(source)
    return folder


@pytest.mark.slow
def test_the_example_for_users_passes(tmp_path: Path) -> None:
    runner = Runner(project(tmp_path), example())
    ran = runner.step("test")
    assert (ran.returncode, runner.values["steps.test.outputs.status"]) == (0, "0"), ran.stdout
    assert runner.step("summary").stdout.startswith("::notice title=harness mylock:FencedLock::")
    assert runner.step("verdict").returncode == 0
    assert list((tmp_path / "temp" / "harness").rglob("report.html"))


@pytest.mark.slow
def test_a_violation_becomes_an_error_in_one_line_and_the_step_fails(tmp_path: Path) -> None:
    given = {**example(), "lock": "mylock:NaiveLock", "arguments": "--nemesis client-pause --hold 3s --time-limit 10s"}
    runner = Runner(project(tmp_path), given)
    ran = runner.step("test")
    assert ran.returncode == 0, ran.stderr
    (annotation,) = [line for line in ran.stderr.splitlines() if line.startswith("::")]
    assert annotation.startswith("::error file=src/mylock.py,line=")
    assert "Two clients held k0 at the same time" in annotation
    assert runner.step("summary").stdout == ""
    assert "VIOLATION" in (tmp_path / "summary").read_text()
    assert runner.step("verdict").returncode == 1
    assert list((tmp_path / "temp" / "harness").rglob("report.html"))


def test_a_wrong_argument_is_an_error(tmp_path: Path) -> None:
    runner = Runner(project(tmp_path), {**example(), "arguments": "--nemesis nothing"})
    runner.step("test")
    assert runner.step("summary").stdout.startswith("::error title=harness mylock:FencedLock::harness: ")
    assert runner.step("verdict").returncode == 2


@pytest.mark.installed
def test_the_action_installs_the_harness_and_the_project(tmp_path: Path) -> None:
    """This needs a package index."""
    runner = Runner(project(tmp_path), {**example(), "install": "redis==5.2.1"})
    (tmp_path / "programs" / "harness").unlink()
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    runner.environment["PATH"] = f"{tmp_path / 'venv' / 'bin'}{os.pathsep}{runner.environment['PATH']}"
    del runner.environment["PYTHONPATH"]
    installed: Any = runner.step("install")
    assert installed.returncode == 0, installed.stderr
    runner.step("test")
    assert runner.step("verdict").returncode == 0
