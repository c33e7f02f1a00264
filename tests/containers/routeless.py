"""Commands in a network namespace of their own, which has no route to any container. The engine's socket is a file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LOOPBACK_ONLY = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")


def without_a_route(*arguments: str, cwd: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``harness`` with these arguments there, and return its outcome."""
    command = [*LOOPBACK_ONLY, sys.executable, "-m", "harness", *arguments]
    variables = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=variables)
