"""Compile the project's Go programs on this machine, so that images need neither a network nor a compiler."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from harness.errors import UsageError
from harness.wording import listed as listed_words

from .tools import NO_RELEASES, Releases, Tool

GO: Final = Tool("Go", "go", "apt-get install golang-go")
BUILD: Final = ("build", "-trimpath", "-o")
STATIC: Final = {"CGO_ENABLED": "0", "GOOS": "linux", "GOARCH": "amd64"}
"""An image from scratch has no C library, and its architecture is the engine's, not this machine's."""
_MAJOR: Final = re.compile(r"/v(\d+)$")
_REQUIRED: Final = re.compile(r"^\s*(?:require )?(?P<module>\S+) v(?P<version>\S+)$", re.MULTILINE)
"""A line of go.mod without a comment: a module that the program itself imports."""


def compile_go(module: Path, program: Path, package: str = ".", *, releases: Releases = NO_RELEASES) -> None:
    """Compile the Go module in a folder to one static program; or ``package``, which that module requires.

    ``releases`` are versions of required modules that take the place of those in go.mod. Go gives each major version
    of a module a path of its own; the source for another one than go.mod's has the build tag ``NAME_vMAJOR``.

    Raises:
        EnvironmentLacking: Go is missing or refuses; the message names the program and has Go's last lines.
        UsageError: there is no source for that major version.
    """
    tags = [_tag(module, library, version) for library, version in releases.items() if _is_other(library, version)]
    wanted = [f"{module_path(library, version)}@v{version}" for library, version in releases.items()]
    with tempfile.TemporaryDirectory(prefix="lock-harness-go-") as folder:
        copy = Path(folder) / "module"  # Go may write go.sum, and the checkout is not ours to change
        shutil.copytree(module, copy)
        task = f"compile {' with '.join([program.name, *wanted])}"
        chosen = ["-tags", ",".join(tags)] if tags else []
        if wanted:
            GO.run(["get", *chosen, *wanted, package], copy, task)  # the package, for what its new imports require
        GO.run([*BUILD, str(program), *chosen, package], copy, task, environment=STATIC)


def libraries(module: Path) -> dict[str, str]:
    """Return the modules that the Go module in a folder requires itself, with their versions."""
    return {one["module"]: one["version"] for one in _REQUIRED.finditer((module / "go.mod").read_text("utf-8"))}


def listed(library: str) -> Sequence[str]:
    """Return the published versions of a module, of all its major versions."""
    found = GO.output(["list", "-m", "-versions", library], f"list the versions of {library}")
    return [one.removeprefix("v") for one in found.split()[1:]]


def module_path(library: str, version: str) -> str:
    """Return the path of a module in this version: from the second major version on it ends with ``/vMAJOR``."""
    major = _major(version)
    return _MAJOR.sub("", library) + (f"/v{major}" if major > 1 else "")


def _major(version: str) -> int:
    number = version.partition(".")[0]
    if not number.isdecimal():
        raise UsageError(f"expected a version of a Go module such as 4.15.0, got {version!r}")
    return int(number)


def _is_other(library: str, version: str) -> bool:
    return module_path(library, version) != library


def _tag(module: Path, library: str, version: str) -> str:
    """Return the build tag of the source for another major version than go.mod's."""
    name = re.sub(r"\W", "_", _MAJOR.sub("", library).rpartition("/")[2])
    tag = f"{name}_v{_major(version)}"
    sources = [path.read_text("utf-8") for path in sorted(module.glob("*.go"))]
    known = sorted({one for text in sources for one in re.findall(rf"^//go:build ({name}_v\d+)$", text, re.MULTILINE)})
    if tag not in known:
        own = _MAJOR.search(library)
        majors = [f"v{own[1] if own else 1}", *(one.rpartition("_")[2] for one in known)]
        raise UsageError(f"{library} {version}: the lock program is written for {listed_words(majors)} of it only")
    return tag
