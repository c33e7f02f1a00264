"""Simulated hosts of a cluster in their roles."""

from __future__ import annotations

from harness.clusters.base import Role
from harness.sim.hosts import SimHost


class SimMachine:
    """A simulated host in its role."""

    def __init__(self, host: SimHost, role: Role) -> None:
        self.host = host
        self.name = self.address = host.name
        self.role = role
        self.hang_wanted = False
        self.hung = False
