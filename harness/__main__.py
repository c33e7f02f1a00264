"""``python -m harness``, and the ``harness`` command: to load it takes half a second, which may be interrupted too."""

from __future__ import annotations

import sys

from .errors import INTERRUPTED


def main() -> None:
    """Run the command line."""
    try:
        from .cli import main as command
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    command()


if __name__ == "__main__":
    main()
