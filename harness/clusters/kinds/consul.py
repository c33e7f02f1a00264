"""Consul: one server."""

from __future__ import annotations

from typing import Final

from .kind import Kind

CONSUL: Final = Kind(
    name="consul",
    about="one Consul server",
    rank=6,
    port=8500,
    sim="harness.clusters.sim.services.consul:ConsulServers",
    docker="harness.clusters.docker.services.consul:ConsulServers",
    packages=("py-consul", "requests"),
)
