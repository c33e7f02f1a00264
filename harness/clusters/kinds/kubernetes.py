"""Kubernetes: one API server, on an etcd of its own."""

from __future__ import annotations

from typing import Final

from .kind import Kind

KUBERNETES: Final = Kind(
    name="kubernetes",
    about="one API server of Kubernetes",
    rank=7,
    port=6443,
    docker="harness.clusters.docker.services.kubernetes:KubernetesServers",
    packages=("kubernetes",),
    own_image=True,
)
