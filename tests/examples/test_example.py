"""The tests of the example projects end as their READMEs say, and detect a broken lock."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STEPS = re.compile(r"^  1\. At [\d.]+ s .+\n(  \d+\. At .+\n)+  \S.*\.$", re.MULTILINE)
"""The explanation of a failure: numbered steps, then their result."""


def copied(name: str, tmp_path: Path) -> Path:
    """Copy an example without files of earlier runs."""
    ignored = shutil.ignore_patterns(".*", "__pycache__")
    return shutil.copytree(ROOT / "examples" / name, tmp_path / name, ignore=ignored)


@pytest.fixture
def mylock(tmp_path: Path) -> Path:
    return copied("mylock", tmp_path)


def suite(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run the tests of a project and return its exit status and output."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--color", "no", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "CI": "true"}  # pytest does not shorten its output in CI
    environment.pop("PYTEST_ADDOPTS", None)
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600)
    return ran.returncode, ran.stdout + ran.stderr


@pytest.mark.slow
def test_suite_of_mylock_passes(mylock: Path) -> None:
    status, output = suite(mylock, "-rx", "--harness-budget", "5s")
    assert status == 0, output
    assert "3 passed, 2 xfailed" in output
    assert re.search(r"^harness: 4 hunts, [\d,]+ schedules, 1 run, 2 failures \(reports in \.harness\)$", output, re.M)


@pytest.mark.slow
def test_suite_of_mylock_fails_with_a_naive_lock(mylock: Path) -> None:
    """Replace FencedLock by NaiveLock, to check that the passing tests can fail."""
    source = mylock / "src/mylock/__init__.py"
    mutant = source.read_text().replace("class FencedLock:", "class OriginalFencedLock:")
    source.write_text(f"{mutant}\n\nclass FencedLock(NaiveLock):\n    fence = 1\n")
    status, output = suite(mylock, "-k", "lost or fenced")
    assert status == 1, output
    assert "2 failed, 3 deselected" in output
    assert len(STEPS.findall(output)) == 2, output
    assert "Traceback" not in output
    for counterexample in re.findall(r"^counterexample: (.+)$", output, re.M):
        assert 'lock = "' in (mylock / counterexample).read_text()


# asynclock


@pytest.mark.slow
def test_suite_of_a_lock_with_coroutines_passes_and_tells_the_story_of_its_failure(tmp_path: Path) -> None:
    folder = copied("asynclock", tmp_path)
    status, output = suite(folder)
    assert status == 0, output
    assert "1 passed, 1 xfailed" in output
    status, output = suite(folder, "--runxfail", "-k", "paused")  # tries the stored failure first
    assert status == 1, output
    assert "FAILURE FOUND: asynclock:AsyncLock: mutual-exclusion" in output
    assert len(STEPS.findall(output)) == 1, output


def test_the_page_has_the_lock_with_coroutines_as_it_is_tested() -> None:
    lock = (ROOT / "examples" / "asynclock" / "asynclock.py").read_text()
    assert f'```python title="asynclock.py"\n{lock}```' in (ROOT / "docs" / "how-to" / "asyncio.md").read_text()
