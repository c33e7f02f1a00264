"""Choose releases for the client image when a user requires some: one resolution by uv, kept on disk."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from harness.clusters.docker.images.wheelhouse import IMAGE_PYTHON, LIBRARIES, cache_dir, pins
from harness.errors import UsageError
from harness.files import write_file

from . import uv

PATCH: Final = f"{IMAGE_PYTHON}.2"
"""Python of Debian 12."""
ALWAYS: Final = ("msgspec",)
"""What our own code in a client needs."""


def resolved(stated: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Return pinned requirements, sorted: those that are ``stated``, the distributions ``names`` and the usual
    libraries of a client image, and all that these require.

    The releases that are installed here are preferred. A usual library that contradicts what is stated is left out.
    Raises UsageError for a contradiction, EnvironmentLacking if uv fails for another reason. The result is kept, so
    that the same image can be made without a network.
    """
    installed = pins(names)
    key = hashlib.sha256("\n".join([PATCH, *stated, "", *names, "", *installed]).encode()).hexdigest()[:16]
    kept = cache_dir() / "resolved" / f"{key}.txt"
    if not kept.exists():
        pinned = {one.partition("==")[0] for one in installed}
        usual = [name for name in LIBRARIES if name in pinned]
        found = _compiled(stated, [*names, *usual], [*names, *ALWAYS], installed)
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_file(kept, "\n".join(found) + "\n")
    return tuple(kept.read_text(encoding="utf-8").split("\n")[:-1])


def _compiled(
    stated: Sequence[str], wanted: Sequence[str], needed: Sequence[str], installed: Sequence[str]
) -> tuple[str, ...]:
    try:
        return _compile([*stated, *wanted], installed)
    except UsageError:
        return _compile([*stated, *needed], installed)


def _compile(requirements: Sequence[str], preferred: Sequence[str]) -> tuple[str, ...]:
    with tempfile.TemporaryDirectory() as folder:
        wanted, found = Path(folder, "wanted.in"), Path(folder, "found.txt")
        wanted.write_text("\n".join(requirements), encoding="utf-8")
        found.write_text("\n".join(one for one in preferred if "==" in one), encoding="utf-8")  # uv prefers these
        options = ("--no-header", "--no-annotate", "--no-strip-extras", "--python-version", PATCH)
        uv.run("pip", "compile", "-q", *options, "-o", str(found), str(wanted))
        lines = found.read_text(encoding="utf-8").splitlines()
    return tuple(sorted(line.strip() for line in lines if line.strip() and not line.startswith("#")))
