"""The folders in which another process of this run, perhaps with another Python, finds the user's modules."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from typing import Final

from harness.plugins import search_working_directory

HARNESS_CODE: Final = str(Path(__file__).resolve().parents[2])
"""The folder of the package ``harness``."""
IMPORTED_FROM: Final = str(Path(__file__).parents[2])
"""The same as Python names it: through a symbolic link in a checkout."""
LIBRARIES: Final = tuple(dict.fromkeys(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")))


def search_path(interpreter: str) -> tuple[str, ...]:
    """Return ``sys.path`` for a process that runs the code under test. Another ``interpreter`` (a path, "" for this
    Python) has libraries of its own, and gets the user's folders alone."""
    search_working_directory()
    if not interpreter:
        return tuple(sys.path)
    ours = (*LIBRARIES, sys.prefix, sys.base_prefix, str(Path(HARNESS_CODE).parent))
    return tuple(path for path in sys.path if path and not path.startswith(ours))
