"""Calls of ``uv``, which finds Python interpreters and builds environments."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from uv import find_uv_bin

from harness.errors import EnvironmentLacking, HarnessError, UsageError
from harness.worker.lifetime import end_with_parent

UNSATISFIABLE: Final = "No solution found"
"""uv's word for requirements that contradict each other, or that no release satisfies."""
INDEXES: Final = ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL")
"""Variables with uv's package indexes, also by their earlier names."""
PIP_INDEXES: Final = {"PIP_INDEX_URL": "UV_DEFAULT_INDEX", "PIP_EXTRA_INDEX_URL": "UV_INDEX"}
"""pip's variable, which uv does not read → uv's for the same."""
UV_LINKS, PIP_LINKS = "UV_FIND_LINKS", "PIP_FIND_LINKS"
"""Variables with folders and pages of packages; uv's has commas between them, and pip's spaces."""
YES: Final = ("1", "true", "yes", "on", "y", "t")
"""Values of a variable of pip that switch something on."""


def find_python(wanted: str) -> Path:
    """Return the interpreter for a version, a specifier or a path; uv may download it. Raises EnvironmentLacking."""
    try:
        return Path(run("python", "find", "--system", "--no-project", wanted).strip())
    except HarnessError as error:
        raise EnvironmentLacking(f"there is no Python {wanted} for the lock: {error}") from error


def run(*arguments: str) -> str:
    """Run uv and return its output.

    Raises:
        UsageError: the requirements cannot be satisfied.
        EnvironmentLacking: uv failed for another reason.
    """
    if arguments[0] == "pip" and _without_index(os.environ):
        arguments = (*arguments[:2], "--no-index", *arguments[2:])
    done = subprocess.run(
        [_binary(), "--no-progress", "--color", "never", *arguments],
        env=_environment(os.environ), stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
        check=False, preexec_fn=partial(end_with_parent, os.getpid()),
    )  # fmt: skip
    if done.returncode == 0:
        return done.stdout
    reason = brief(_without_credentials(done.stderr, os.environ))
    if UNSATISFIABLE in done.stderr and "network was disabled" not in done.stderr:
        raise UsageError(reason)
    raise EnvironmentLacking(f"uv failed: {reason}")


def brief(text: str) -> str:
    """Return uv's explanation in one line: what failed, why, and uv's hint."""
    lines = [re.sub(r"^[\s×╰─▶│├]+", "", line).strip() for line in text.splitlines()]
    relevant = [line for line in lines if line and not line.startswith(("Using Python", "warning:", "Resolved "))]
    joined = (
        " ".join(relevant).removeprefix("error: ").replace("No solution found when resolving dependencies cause: ", "")
    )
    return joined[:1].lower() + joined[1:1000] if joined else "it gave no reason"


def _without_credentials(text: str, variables: Mapping[str, str]) -> str:
    """Return a text in which the users and passwords of the configured indexes and pages of packages are hidden: uv
    shows those of a URL that it cannot parse."""
    for secret in _credentials(variables):
        text = text.replace(secret, "****")
    return text


def _credentials(variables: Mapping[str, str]) -> Iterator[str]:
    for name in (*INDEXES, *PIP_INDEXES, UV_LINKS, PIP_LINKS):
        value = variables.get(name, "")
        for url in (value.replace(",", " ") if name == UV_LINKS else value).split():
            credentials = url.rpartition("@")[0].rpartition("://")[2]
            if credentials:
                yield credentials


def _binary() -> str:
    try:
        return find_uv_bin()
    except FileNotFoundError as error:
        raise EnvironmentLacking("environments need uv, which is not installed here: pip install uv") from error


def _pip_counts(variables: Mapping[str, str]) -> bool:
    """Return whether pip's variables say where packages come from: they do unless one of uv's does."""
    return not any(variables.get(name) for name in (*INDEXES, UV_LINKS))


def _without_index(variables: Mapping[str, str]) -> bool:
    """Return whether pip is configured to ask no index; uv has no variable for that."""
    return _pip_counts(variables) and variables.get("PIP_NO_INDEX", "").lower() in YES


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for uv: without those that point to another environment, with pip's indexes and folders of
    packages unless there are uv's own, and with pyenv's interpreters.

    pyenv has a program for every version on the path, which fails unless the version is active, and then uv gives up.
    """
    left_out = ("VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "PYTHONHOME", "UV_PYTHON", "UV_PROJECT_ENVIRONMENT")
    remaining = {name: value for name, value in variables.items() if name not in left_out}
    if _pip_counts(variables):
        remaining |= {equal: variables[name] for name, equal in PIP_INDEXES.items() if variables.get(name)}
        if links := variables.get(PIP_LINKS, "").split():
            remaining[UV_LINKS] = ",".join(links)
    root = Path(variables.get("PYENV_ROOT") or Path.home() / ".pyenv")
    versions = sorted((root / "versions").glob("3.*/bin"), reverse=True)
    folders = [folder for folder in remaining.get("PATH", "").split(os.pathsep) if Path(folder) != root / "shims"]
    return {**remaining, "PATH": os.pathsep.join([*folders, *map(str, versions)])}
