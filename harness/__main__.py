"""Entry point of ``python -m harness`` and of the ``harness`` command."""

from __future__ import annotations

import sys

from .errors import INTERRUPTED


def main() -> None:
    """Run the command line. Ctrl-C while the command line is still being loaded gives no traceback either."""
    try:
        from harness.cli.main import main as command
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    command()


if __name__ == "__main__":
    main()
