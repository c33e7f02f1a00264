"""Hyperlinks to files on a terminal (OSC 8), so that a report opens with a click. Pipes and files get the plain path.

Terminals are recognised by what they set in the environment, because no terminal answers whether it can show a link:
https://gist.github.com/egmontkob/eb114294efbcd5adb1944c9f3cb5feda
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final
from urllib.parse import quote

FORCE: Final = "FORCE_HYPERLINK"
"""Environment variable by which a user says that the terminal shows links (or, with 0, that it does not)."""
OLDEST_VTE: Final = 5000
"""VTE_VERSION of the first release with links, 0.50; earlier ones show the address as text."""
PROGRAMS: Final = frozenset({"iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "rio", "Tabby"})
"""Values of TERM_PROGRAM with links."""
VARIABLES: Final = ("WT_SESSION", "KONSOLE_VERSION", "KITTY_WINDOW_ID", "DOMTERM", "ALACRITTY_WINDOW_ID")
"""Variables that only terminals with links set."""
TERMS: Final = ("xterm-kitty", "xterm-ghostty", "alacritty", "foot", "contour", "wezterm")
"""Beginnings of TERM of terminals with links."""


def shows_links(stream: IO[str], environment: Mapping[str, str]) -> bool:
    """Return whether a stream is a terminal that shows hyperlinks."""
    if not stream.isatty() or environment.get("NO_COLOR") or environment.get("TERM") in ("dumb", "linux"):
        return False
    if FORCE in environment:
        return environment[FORCE] != "0"
    vte = environment.get("VTE_VERSION", "")
    return (
        (vte.isdecimal() and int(vte) >= OLDEST_VTE)
        or environment.get("TERM_PROGRAM") in PROGRAMS
        or environment.get("TERM", "").startswith(TERMS)
        or any(name in environment for name in VARIABLES)
    )


def linked(path: Path) -> str:
    """Return a path for stdout: as a hyperlink to the file if stdout shows links, else as it is."""
    if not shows_links(sys.stdout, os.environ):
        return str(path)
    address = f"file://{socket.gethostname()}{quote(str(path.absolute()))}"
    return f"\x1b]8;;{address}\x1b\\{path}\x1b]8;;\x1b\\"


def print_place(label: str, path: Path) -> None:
    """Print where a file is, with a hyperlink if stdout shows links."""
    print(f"{label}: {linked(path)}")
