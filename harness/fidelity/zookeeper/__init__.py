"""ZooKeeper: one server, or an ensemble of three."""

from __future__ import annotations

from contextlib import AbstractContextManager
from importlib.util import find_spec

from harness.fidelity.comparison import ServerPair
from harness.fidelity.processes import missing_program


class ZooKeeperComparison:
    """See :class:`harness.fidelity.comparison.Server`."""

    def __init__(self, members: int = 1) -> None:
        self.name = "zookeeper" if members == 1 else f"zookeeper-{members}"
        self._members = members

    def missing(self) -> str:
        from .pair import JAR

        if find_spec("kazoo") is None:
            return "kazoo is not installed: pip install 'lock-harness[zookeeper]'"
        if not JAR.exists():
            return f"{JAR} does not exist: apt-get install libzookeeper-java"
        return missing_program("java", "default-jre-headless")

    def start(self) -> AbstractContextManager[ServerPair]:
        from .pair import start

        return start(self._members)
