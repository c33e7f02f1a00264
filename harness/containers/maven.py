"""The one jar that an image is made of and no distribution packages: Maven fetches it on the host."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from ..errors import EnvironmentLacking

HAZELCAST: Final = "com.hazelcast:hazelcast:5.3.8"
"""The last line of releases whose open-source edition has the CP subsystem."""
COPY: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
INSTALL: Final = "apt-get install maven"
TAIL: Final = 15


def fetch(artifact: str, target: Path) -> None:
    """Put the jar of ``group:name:version`` at ``target``, from Maven's own cache or from where it is set up to look.

    Raises:
        EnvironmentLacking: Maven is missing, or cannot get it; the message has its last lines.
    """
    command = [
        "mvn", "--batch-mode", "--quiet", COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={target.parent}",
        "-Dmdep.stripVersion=true",
    ]  # fmt: skip
    try:
        done = subprocess.run(command, cwd=target.parent, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise EnvironmentLacking(f"{artifact} is fetched by Maven, which is not installed: {INSTALL}") from error
    jar = target.parent / f"{artifact.split(':')[1]}.jar"
    if done.returncode or not jar.is_file():
        last = "\n".join((done.stdout + done.stderr).splitlines()[-TAIL:])
        raise EnvironmentLacking(f"Maven could not fetch {artifact}; it says:\n{last}")
    jar.rename(target)
