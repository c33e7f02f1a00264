"""Chubby: a cell of replicas. Google never published the program; containers run the simulator's server."""

from __future__ import annotations

from typing import Final

from harness.clusters.server_options import SECONDS

from .kind import Kind

CHUBBY: Final = Kind(
    name="chubby",
    about="a Chubby cell, whose server is our own: Google never published it",
    rank=6,
    port=2400,
    nodes=5,
    sim="harness.clusters.sim.services.chubby:ChubbyServers",
    docker="harness.clusters.docker.services.chubby:ChubbyServers",
    options={"lease": SECONDS, "grace": SECONDS, "lock_delay": SECONDS},
    own_image=True,
)
