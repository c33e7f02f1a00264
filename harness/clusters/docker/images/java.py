"""Build the project's Java programs on this machine with Maven, so that images need neither a network nor a
compiler."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from harness.errors import EnvironmentLacking, UsageError

from . import maven
from .tools import NO_RELEASES, Releases

PACKAGE: Final = ("package",)
BUILT: Final = "target"
"""Folder in which Maven puts the project's jar and those of its dependencies."""
COPIED_FOLDER: Final = "run"
"""Folder whose files (the start script) are copied beside the jars."""


PROJECT: Final = "pom.xml"
_NAMES: Final = {"m": "http://maven.apache.org/POM/4.0.0"}


def package(source: Path, target: Path, releases: Releases = NO_RELEASES) -> None:
    """Build the Maven project in a folder, and copy its jars and the files beside them into a new folder.

    ``releases`` are versions of artifacts that take the place of those in the project; the version of such an artifact
    must be a property there, such as ``${redisson.version}``.

    Raises:
        EnvironmentLacking: Maven is missing or refuses; the message has its last lines.
    """
    with tempfile.TemporaryDirectory(prefix="lock-harness-java-") as folder:
        copy = Path(folder) / "project"  # Maven writes into it, and the checkout is not ours to change
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns(BUILT))
        properties = _properties(source, releases)
        task = " with ".join([f"build the project {source.name}", *releases.values()])
        maven.run([*PACKAGE, *(f"-D{name}={version}" for name, version in properties.items())], copy, task)
        jars = sorted((copy / BUILT).glob("*.jar"))
        if not jars:
            raise EnvironmentLacking(f"Maven built the project {source.name}, and there is no jar in {BUILT}/")
        shutil.copytree(copy / COPIED_FOLDER, target)
        for jar in jars:
            shutil.copy2(jar, target)


def libraries(source: Path) -> dict[str, str]:
    """Return the artifacts that the project in a folder requires itself, as ``group:name``, with their versions."""
    project = ElementTree.parse(source / PROJECT).getroot()
    values = {one.tag.partition("}")[2]: str(one.text) for one in project.iterfind("m:properties/*", _NAMES)}
    return {name: values.get(version.strip("${}"), version) for name, version in _stated(project).items()}


def listed(library: str) -> Sequence[str]:
    """Refuse: Maven has no command that lists the versions of an artifact."""
    raise EnvironmentLacking(f"Maven cannot list the versions of {library}: name them with --releases")


def _stated(project: ElementTree.Element) -> dict[str, str]:
    """Return the artifacts and their versions as the project writes them."""
    found = project.iterfind("m:dependencies/m:dependency", _NAMES)
    return {
        ":".join(one.findtext(f"m:{part}", "", _NAMES) for part in ("groupId", "artifactId")): one.findtext(
            "m:version", "", _NAMES
        )
        for one in found
    }


def _properties(source: Path, releases: Releases) -> dict[str, str]:
    """Return the properties of a project that choose releases; raises UsageError for an artifact without one."""
    stated = _stated(ElementTree.parse(source / PROJECT).getroot())
    for library in releases:
        if not stated[library].startswith("${"):
            raise UsageError(f"{library} can be tested in version {stated[library]} only")
    return {stated[library].strip("${}"): version for library, version in releases.items()}
