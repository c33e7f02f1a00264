"""The files of a user's modules that clients on other machines, or in containers, get a copy of."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

LEFT_OUT: Final = ("__pycache__", "node_modules")
"""Folders that are not copied, beside hidden ones and virtual environments."""


def user_files(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder that a lock's code may need, in a fixed order."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if _is_wanted(Path(parent, name)))
        yield from (path for name in sorted(names) if (path := Path(parent, name)).is_file())


def _is_wanted(folder: Path) -> bool:
    return not (folder.name.startswith(".") or folder.name in LEFT_OUT or (folder / "pyvenv.cfg").exists())
