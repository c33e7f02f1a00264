"""Programs of ours in the containers of servers: a shell of their own, and the scripts that start members.

They are mounted, so that any image of a server works as it is, also one that has no shell (``docker/server-tools``).
"""

from __future__ import annotations

from typing import Any, Final

IMAGE: Final = "server-tools"
"""Folder of the Dockerfile."""
FOLDER: Final = "/lock-harness"
"""Where a server's container has them; the volume of the image."""
SHELL: Final = (f"{FOLDER}/busybox", "sh")
"""BusyBox's shell. A command that BusyBox has, such as ``cp``, is its own; any other one is looked for in PATH."""
IMAGE_SHELL: Final = "/bin/sh"
"""The image's own shell, for scripts that use other programs of the image. Called ``sh``, it would be BusyBox's."""
IDLE: Final = (f"{FOLDER}/busybox", "sleep", "infinity")
"""First process of a container."""
_CONTAINER: Final = {
    "user": "0",
    "command": list(IDLE),
    "healthcheck": {"test": ["NONE"]},  # its processes would be taken for the server's
    "tmpfs": {"/data": "mode=777", "/tmp": "mode=1777,exec"},  # an image need not have a /tmp
}


def script(name: str) -> tuple[str, ...]:
    """Return the command that runs one of the scripts."""
    return (*SHELL, f"{FOLDER}/{name}.sh")


def settings(provider: str) -> dict[str, Any]:
    """Return the settings of a server's container, as of the SDK's ``containers.run``; ``provider`` is the name of the
    container whose volume has the tools."""
    return {**_CONTAINER, "volumes_from": [f"{provider}:ro"]}
