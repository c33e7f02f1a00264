"""Run the same plans and seeds on several images or releases of the servers, in containers, and say what differs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from harness.clusters.base import Cluster
from harness.documents import VersionsDocument
from harness.documents.versions import SCHEMA, VersionCell, VersionPlan, VersionRun
from harness.errors import HarnessError, UsageError
from harness.plan import Plan
from harness.run.containers.cluster_pool import ClusterPool
from harness.run.containers.container_images import build_images
from harness.run.plans.completion import complete
from harness.run.runs import run
from harness.run.store import writable
from harness.run.verdicts.judging import versions

from .compare_releases import cell_line
from .release_trials import OnLine, open_question, version_run
from .server_images import images_named, plan_on, reported_server
from .versions import cell, common, conclusion, differences, failures

PACKAGE: Final = "servers"
OpenCluster = Callable[[Plan, Callable[[str], None]], Cluster]


@dataclass(frozen=True, slots=True)
class ImagesRequest:
    """Plans of one lock, and the servers to run them on: images, names of releases, or
    :data:`.server_images.DEFAULT`."""

    plans: tuple[VersionPlan, ...]
    images: tuple[str, ...]

    def check(self) -> ImagesRequest:
        """Return the request itself; raises UsageError if it is invalid."""
        images_named(",".join(self.images))
        for named in self.plans:
            if named.plan.cluster != "docker":
                raise UsageError("--images compares real servers: add --cluster docker")
            for image in self.images:
                complete(plan_on(named.plan, image).check())
        return self


def compare_images(
    request: ImagesRequest,
    *,
    store: Path | None = None,
    command: str = "",
    on_line: OnLine | None = None,
    on_build: OnLine = lambda line: None,  # noqa: ARG005
) -> VersionsDocument:
    """Run every plan on every image. A cell of the document has the product and version that its servers reported.

    With a ``store`` all runs are kept there. ``on_line`` is called with lines of progress, and before that ``on_build``
    with each step while images are built. After KeyboardInterrupt the
    document has the results until then. Raises UsageError for a wrong request.
    """
    request.check()
    if store is not None:
        writable(store)
    began, started = time.monotonic(), datetime.now(UTC)
    cells: list[VersionCell] = []
    interrupted = False
    with ClusterPool() as pool:
        try:
            build_images((plan_on(one.plan, image) for image in request.images for one in request.plans), on_build)
            for found in _cells(request, store, command, pool.open):
                cells.append(found)
                if on_line is not None:
                    on_line(f"{cell_line(found, PACKAGE)}{f' ({found.server})' if found.server else ''}")
        except KeyboardInterrupt:
            interrupted = True
    cells.sort(key=lambda one: [named.name for named in request.plans].index(one.plan))
    found_failures = failures(cells)
    return VersionsDocument(
        schema=SCHEMA,
        lock=request.plans[0].plan.lock,
        package=PACKAGE,
        releases=request.images,
        plans=request.plans,
        cells=tuple(cells),
        differences=differences(found_failures),
        common=common(found_failures),
        conclusion=conclusion(cells, found_failures, PACKAGE),
        versions=dict(versions()),
        interrupted=interrupted,
        seconds=round(time.monotonic() - began, 1),
        command=command,
        started_at=f"{started:%Y-%m-%dT%H:%M:%SZ}",
    )


def _cells(
    request: ImagesRequest, store: Path | None, command: str, open_cluster: OpenCluster
) -> Iterator[VersionCell]:
    """Yield the results, those of one image after the other, since runs on the same image share containers."""
    for image in request.images:
        for named in request.plans:
            yield _cell(named, image, store, command, open_cluster)


def _cell(named: VersionPlan, image: str, store: Path | None, command: str, open_cluster: OpenCluster) -> VersionCell:
    runs: list[VersionRun] = []
    doubt = server = ""
    try:
        for seed in named.seeds:
            plan = replace(plan_on(named.plan, image), seed=seed)
            result = run(plan, store=store, command=command, open_cluster=open_cluster)
            if result.interrupted:
                raise KeyboardInterrupt
            server = server or reported_server(result)
            runs.append(version_run(result))
            doubt = doubt or ("" if runs[-1].invalid else open_question(result, ()))
    except HarnessError as error:
        doubt = doubt or str(error)
    return replace(cell(image, named.name, runs, doubt), server=server)
