"""Build the images of runs on containers before the first run, so that a long build is seen and happens once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from harness.clusters.kinds.releases import ALL_RELEASES
from harness.errors import HarnessError
from harness.faults.catalogue import needs_of
from harness.plan import Plan
from harness.run.plans.completion import complete

Report = Callable[[str], None]


def build_images(plans: Iterable[Plan], report: Report) -> None:
    """Build the images of plans that are missing; other plans than those for containers are left out.

    ``report`` is called with each step. A plan whose images cannot be had is left to its own run, which says why.
    """
    from harness.run.opening import open_containers  # loads the Docker SDK

    seen: set[tuple[Any, ...]] = set()
    for plan in plans:
        if plan.cluster != "docker" or (key := _contents(plan)) in seen:
            continue
        seen.add(key)
        try:
            open_containers(complete(plan), report).build_images()
        except HarnessError as error:
            report(f"{plan.lock}: {error}")


def require_image(image: str, report: Report) -> None:
    """Build a release of servers or pull an image, if it is missing. Raises EnvironmentLacking if it cannot be had."""
    from harness.clusters.docker.containers.engine import connect
    from harness.clusters.docker.images.images import Images

    images = Images(connect(), report)
    if image in ALL_RELEASES:
        images.server_release(image)
    else:
        images.ensure(image)


def _contents(plan: Plan) -> tuple[Any, ...]:
    """Return what decides a plan's images."""
    release = plan.server_options.get("release")
    return plan.kind, plan.image, release, plan.lock, plan.requires, needs_of(plan.faults)
