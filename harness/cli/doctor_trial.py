"""Try on the engine what every run on containers needs: an internal network, a container that this machine reaches, and
the helper container."""

from __future__ import annotations

import contextlib
import socket
import time
from dataclasses import dataclass
from typing import Final

import docker
from docker.errors import DockerException
from requests.exceptions import RequestException

from harness.clusters.conversation import Refused, Unanswered
from harness.clusters.docker.containers.engine import Deployment
from harness.clusters.docker.containers.helper_client import Helper
from harness.clusters.docker.images.base_image import explanation
from harness.errors import EnvironmentLacking

KIND: Final = "doctor"
CLOSED: Final = 9
"""A port on which nothing listens: a container that is reached refuses the connection."""
REACHED_WITHIN_S: Final = 3.0
ELSEWHERE: Final = "run harness where the engine's container networks are: on its machine, or with --network host"


@dataclass(frozen=True, slots=True)
class Trial:
    """Outcome of a trial. ``failed`` is what did not work, empty if all did; ``advice`` is what to do then."""

    seen: str
    failed: str = ""
    advice: str = ""


def try_run(engine: docker.DockerClient, base: str, client: str) -> Trial:
    """Start a container of the image ``base``, reach it, and let a helper of the image ``client`` look at it ("" if
    there is none yet). Everything is removed again."""
    began = time.monotonic()
    deployment = Deployment(engine, KIND)
    with contextlib.ExitStack() as closing:
        closing.callback(_remove, deployment)
        try:
            deployment.open()
            box = deployment.box("n1", base, "server")
        except (DockerException, RequestException) as error:
            return Trial("", f"no container starts on an internal network: {explanation(error)}")
        if (unreached := _unreached(box.ip)) is not None:
            seen = f"a container started, but this machine does not reach its address {box.ip}: {unreached}"
            return Trial("", seen, ELSEWHERE)
        if not client:
            return Trial(
                "a container started on an internal network and was reached; the helper was not tried, since its image "
                "is not built yet"
            )
        try:
            helper = Helper(deployment, client, disks=False)
            closing.callback(helper.close)
            helper.members(box)
        except (DockerException, RequestException, Refused, Unanswered, OSError) as error:
            reason = explanation(error) if isinstance(error, DockerException) else str(error)
            return Trial("", f"the helper container, which injects faults, does not work: {reason}")
    return Trial(f"a container on an internal network and the helper answered, in {time.monotonic() - began:.1f} s")


def _unreached(address: str) -> str | None:
    """Return why a container's address is not reached, None if it is."""
    try:
        socket.create_connection((address, CLOSED), REACHED_WITHIN_S).close()
    except ConnectionRefusedError:
        return None
    except OSError as error:
        return str(error)
    return None


def _remove(deployment: Deployment) -> None:
    with contextlib.suppress(DockerException, RequestException, EnvironmentLacking):
        deployment.close()
