"""Run Maven on this machine: fetch the Hazelcast jar, which Debian does not package, and build Java projects
(see :mod:`.java`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from harness.errors import EnvironmentLacking

from .tools import Tool

HAZELCAST: Final = "com.hazelcast:hazelcast:5.3.8"
"""Last release line whose open-source edition has the CP subsystem."""
COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
MAVEN: Final = Tool("Maven", "mvn", "apt-get install maven")
QUIETLY: Final = ("--batch-mode", "--quiet")


def run(arguments: Sequence[str], folder: Path, task: str) -> None:
    """Run Maven in a folder, without its progress; as :meth:`.tools.Tool.run`."""
    MAVEN.run([*QUIETLY, *arguments], folder, task)


def fetch(artifact: str, target: Path) -> None:
    """Write the jar of ``group:name:version`` to ``target``, from Maven's cache or its configured repositories.

    Raises:
        EnvironmentLacking: Maven is missing, or cannot get it; the message has its last lines.
    """
    arguments = [COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={target.parent}", "-Dmdep.stripVersion=true"]
    run(arguments, target.parent, f"fetch {artifact}")
    jar = target.parent / f"{artifact.split(':')[1]}.jar"
    if not jar.is_file():
        raise EnvironmentLacking(f"Maven says that it fetched {artifact}, and there is no {jar.name}")
    jar.rename(target)
