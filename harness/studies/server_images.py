"""Images of servers that a study runs plans on: of a release, of the harness itself, or any other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from harness.clusters.kinds import KINDS, own_kinds
from harness.clusters.kinds.releases import ALL_RELEASES, RELEASES
from harness.errors import UsageError
from harness.plan import Plan
from harness.run.plans.completion import with_release
from harness.run.verdicts.judging import Result

DEFAULT: Final = "default"
"""Name of the image that the harness builds itself."""
PRODUCTS: Final[Mapping[str, str]] = {
    "valkey": "redis",
    "keydb": "redis",
    "dragonfly": "redis",
    "mariadb": "mysql",
    "percona": "mysql",
    "postgresql": "postgres",
}
"""Services of products that have another name."""


def images_named(text: str) -> tuple[str, ...]:
    """Return the images of a list with commas; raises UsageError unless there are at least two different ones."""
    found = tuple(name.strip() for name in text.split(","))
    if len(found) < 2 or len(set(found)) < len(found) or not all(found):
        raise UsageError(
            f"--images: expected at least two different ones, such as '{DEFAULT},{ALL_RELEASES[0]},redis:7.4', got "
            f"{text!r}"
        )
    return found


def plan_on(plan: Plan, image: str) -> Plan:
    """Return the plan with these servers."""
    return plan if image == DEFAULT else with_release(replace(plan, image=image))


def service_of(image: str) -> str:
    """Return the service that an image runs; empty for :data:`DEFAULT`, which all services have.

    Raises UsageError if its name does not say, as the last part of a repository does: ``redis:7.4``,
    ``quay.io/coreos/etcd:v3.5.17``, ``bitnami/valkey``.
    """
    if image == DEFAULT:
        return ""
    for service, releases in RELEASES.items():
        if image in releases:
            return service
    repository = image.partition("@")[0].rpartition("/")[2].partition(":")[0]
    known = {**PRODUCTS, **{kind.service: kind.service for kind in own_kinds() if kind.docker}}
    for word in (repository, *re.split(r"[-_.]", repository)):
        if word in known:
            return known[word]
    raise UsageError(
        f"--images: the name of {image!r} does not say which service it runs, so its repository must be called as one: "
        f"{', '.join(sorted(known))}"
    )


def runs_on(plan: Plan, image: str) -> bool:
    """Return whether the image has the servers of the plan's kind."""
    kind = KINDS.find(plan.kind)
    if image == DEFAULT:
        return True
    if service_of(image) != kind.service or kind.own_image:
        return False
    return image not in ALL_RELEASES or "release" in kind.options


def reported_server(result: Result) -> str:
    """Return product and version that a run's servers reported; empty if they reported none."""
    reported = result.results.cluster.server
    return reported if isinstance(reported, str) else ""
