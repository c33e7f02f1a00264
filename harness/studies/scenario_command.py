"""The command that runs a scenario."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from .server_images import DEFAULT


def scenario_command(
    scenario: str, cluster: str, *, image: str = "", seed: int | None = None, options: Sequence[str] = ()
) -> str:
    """Return the command that runs a scenario, a name or a file, on a cluster.

    ``image`` is a release or an image of the servers; it is left out if it is empty or that of the harness. ``options``
    are further ones.
    """
    words = ["harness", "scenario", "run", scenario, "--cluster", cluster]
    if image not in ("", DEFAULT):
        words += ["--image", image]
    if seed is not None:
        words += ["--seed", str(seed)]
    return shlex.join([*words, *options])
