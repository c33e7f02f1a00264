"""memcached: independent servers."""

from __future__ import annotations

from typing import Final

from harness.clusters.server_options import option

from .kind import Kind

MEMCACHED_MB: Final = 2
"""The smallest memory size that memcached accepts. It suffices for locks, and a small one is flooded sooner."""
MEMCACHED_CHUNK: Final = 1024
"""Bytes of the smallest item. A large one makes a flood quicker: a slab class then holds 2000 items, not 20 000."""
MEMCACHED: Final = Kind(
    name="memcached",
    about="a memcached",
    rank=3,
    port=11211,
    sim="harness.clusters.sim.services.memcached:MemcachedServers",
    docker="harness.clusters.docker.services.memcached:MemcachedServers",
    servers="harness.clusters.servers.services.memcached:MemcachedServer",
    floods="harness.clusters.memcached_flood:MemcachedFloods",
    options={
        "memory": option(
            f"a whole number of megabytes from {MEMCACHED_MB}",
            lambda value: type(value) is int and MEMCACHED_MB <= value <= 1_000_000,
        )
    },
    packages=("pymemcache",),
    one_command_per_message=True,
    lower_case=True,
)
