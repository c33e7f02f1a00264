"""A simulated MySQL server on a host, and clients that use PyMySQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pymysql

from harness.fidelity.mysql.connections import connect_to
from harness.sim.hosts import SimHost
from harness.sim.servers.mysql.server import MysqlServer
from tests.sim.world import TwoHostWorld


class MysqlBench:
    """A simulated server on host ``db1``, and clients on hosts of their own."""

    def __init__(self, seed: int = 0, **options: Any) -> None:
        self.world = TwoHostWorld(seed)
        self.server = MysqlServer(**options)
        self.host = SimHost(self.world.network, "db1")
        self.host.install(self.server)

    def run(self, *mains: Callable[[], Any]) -> list[Any]:
        return self.world.run(*mains)

    def connect(self, **options: Any) -> pymysql.connections.Connection[Any]:
        return connect_to("db1", **options)
