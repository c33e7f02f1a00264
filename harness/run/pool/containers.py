"""Containers that a worker reuses from one run to the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from .kept import keep

if TYPE_CHECKING:
    from harness.clusters.base import Cluster


def reused_cluster() -> Callable[..., Cluster]:
    """Return the ``open_cluster`` of :func:`harness.run` that reuses this worker's containers; they are removed
    when the worker ends. The pool must be a ``tidy`` one."""
    from harness.run.containers.cluster_pool import ClusterPool  # loads the Docker SDK

    return keep(ClusterPool).open
