"""Try on the engine what every run on containers needs: an internal network, a container on it, the helper container,
and a way to the programs in containers."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import Final

import docker
from docker.errors import DockerException
from requests.exceptions import RequestException

from harness.clusters.conversation import Refused
from harness.clusters.docker.containers.engine import Box, ContainerError, Deployment
from harness.clusters.docker.containers.helper_client import Helper
from harness.clusters.docker.control import VARIABLE, ControlRoute, forced_way, open_route, refuses, unreached
from harness.clusters.docker.images.base_image import explanation
from harness.errors import EnvironmentLacking

KIND: Final = "doctor"
PING_S: Final = 3.0
WAYS: Final = {
    "direct": "programs in containers are reached by their addresses",
    "engine": "programs in containers are reached through the engine",
}
NO_ROUTE: Final = "this machine does not reach the addresses of containers"


@dataclass(frozen=True, slots=True)
class Trial:
    """Outcome of a trial. ``failed`` is what did not work, empty if all did; ``advice`` is what to do then."""

    seen: str
    failed: str = ""
    advice: str = ""


def try_run(engine: docker.DockerClient, base: str, client: str) -> Trial:
    """Start a container of the image ``base``, let a helper of the image ``client`` look at it ("" if there is none
    yet), and find the way to it. Everything is removed again. Raises UsageError for a wrong way in the environment."""
    began = time.monotonic()
    deployment = Deployment(engine, KIND)
    with contextlib.ExitStack() as closing:
        closing.callback(_remove, deployment)
        try:
            deployment.open()
            box = deployment.box("n1", base, "server")
        except (DockerException, RequestException) as error:
            return Trial("", f"no container starts on an internal network: {explanation(error)}")
        if not client:
            way = forced_way() or ("direct" if refuses(box.ip) else "engine")
            return Trial(
                f"a container started on an internal network; {WAYS[way]}, which was not tried, since the helper's "
                "image is not built yet"
            )
        try:
            helper = Helper(deployment, client)
            closing.callback(helper.close)
            trial = _try_helper(helper, box, began)
        except (DockerException, RequestException, ContainerError, Refused, OSError) as error:
            reason = explanation(error) if isinstance(error, DockerException) else str(error)
            return Trial("", f"the helper container, which injects faults, does not work: {reason}")
    return trial


def _try_helper(helper: Helper, box: Box, began: float) -> Trial:
    if helper.ping(box, box.ip, PING_S) is None:
        return Trial("", "a container does not answer a ping inside its own network namespace")
    reason = unreached(helper)
    if forced_way() == "direct" and reason:
        return Trial("", f"{VARIABLE}=direct, but {NO_ROUTE}: {reason}", f"unset {VARIABLE}, to go through the engine")
    try:
        helper.check_machine()
        route = open_route({"n1": box}, lambda: helper, has_helper=True)
    except EnvironmentLacking as error:
        return Trial("", str(error))
    route.close()
    seen = f"a container on an internal network and the helper answered, in {time.monotonic() - began:.1f} s"
    return Trial(f"{seen}; {_explained(route, reason)}")


def _explained(route: ControlRoute, reason: str) -> str:
    """Return the chosen way, and why it was chosen if it was not the direct one."""
    if route.way == "direct":
        return WAYS["direct"]
    why = f"{VARIABLE} demands it" if forced_way() == "engine" else f"{NO_ROUTE} ({reason})"
    return f"{WAYS['engine']}, since {why}"


def _remove(deployment: Deployment) -> None:
    with contextlib.suppress(DockerException, RequestException, EnvironmentLacking):
        deployment.close()
