"""A real ZooKeeper ensemble."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from functools import partial
from typing import Final

from .docker_keys import Eye
from .docker_kinds import ASK, RealServers
from .kinds import KINDS

PEER_PORT: Final = 2888
ELECTION_PORT: Final = 3888
TICK_MS: Final = 500
"""Sessions last 2 to 20 ticks: 1 to 10 s. A follower that the leader has not heard of for 4 ticks is given up."""
OWN_NODES: Final = 5
"""What an empty tree counts: the root under two names, and the server's own three."""
_JAVA: Final = (
    "java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
    "-Dzookeeper.preAllocSize=1024",  # KB; 64 MB otherwise, of memory here
    "-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.showShortLogName=true",
    "-cp", "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar",
    "org.apache.zookeeper.server.quorum.QuorumPeerMain",
)  # fmt: skip
# Every start: whoever comes back without data has lost its number, too.
_START: Final = """
printf "%s" "$CONF" > /tmp/zoo.cfg
printf "%s" "$NUMBER" > /data/myid
exec "$@" /tmp/zoo.cfg
"""


class Family(RealServers):
    """See :class:`harness.clusters.docker_kinds.RealServers`. Questions are four-letter words (ZooKeeper
    Administrator's Guide, "The Four Letter Words"), which a member also answers while there is no leader."""

    @classmethod
    def abilities(cls, kind: str) -> set[str]:  # noqa: ARG003
        return {"leader", "peers"}

    def program(self, host: str) -> tuple[list[str], dict[str, str]]:
        tick = self.options.get("tick_ms", TICK_MS)
        conf = [
            "dataDir=/data", f"clientPort={KINDS[self.kind].port}", "maxClientCnxns=0",
            f"tickTime={tick}", "initLimit=10", "syncLimit=4",
            "admin.enableServer=false", "4lw.commands.whitelist=srvr",
        ]  # fmt: skip
        if len(self.roles) > 1:
            conf += [f"server.{self._number(name)}={self.addresses[name]}:{PEER_PORT}:{ELECTION_PORT}"
                     for name in self.roles]  # fmt: skip
        environment = {"CONF": "\n".join(conf) + "\n", "NUMBER": self._number(host)}
        return ["sh", "-c", _START, "start", *_JAVA], environment

    @staticmethod
    def _number(host: str) -> str:
        return host.removeprefix("n")

    # Questions.

    def _told(self, host: str) -> str:
        """What a member says of itself; empty if it does not answer in time."""
        address = self.addresses[host], self.port(host)
        try:
            with self.gate.open(), socket.create_connection(address, ASK) as connection:
                connection.settimeout(ASK)
                connection.sendall(b"srvr")
                return b"".join(iter(lambda: connection.recv(4096), b"")).decode()
        except OSError:
            return ""

    def _field(self, host: str, name: str) -> str:
        found = re.search(rf"^{name}: (.*)$", self._told(host), re.MULTILINE)
        return found[1].strip() if found else ""

    def answers(self, host: str) -> bool:
        return bool(self._told(host))

    def size(self, host: str) -> int | None:
        """How many znodes; None also while there is no leader."""
        count = self._field(host, "Node count")
        return int(count) - OWN_NODES if count else None

    def primary(self) -> str | None:
        """The member that calls itself leader. A leader that has lost the others says so until it notices; then there
        may be two, and the one that the followers follow is the new one: its epoch is higher."""
        leaders = [name for name in self.roles if self._field(name, "Mode") == "leader"]
        return max(leaders, key=self._epoch, default=None)

    def _epoch(self, host: str) -> int:
        """The upper half of the last transaction's number; 0 if it does not answer any more."""
        zxid = self._field(host, "Zxid")
        return int(zxid, 16) >> 32 if zxid else 0

    def eye(self, host: str) -> Callable[[], Eye]:
        from .docker_zookeeper_keys import ZooKeeperEye

        return partial(ZooKeeperEye, self.addresses[host], self.port(host))

    def version(self) -> str:
        """What the first member says it is."""
        return f"zookeeper {self._field('n1', 'Zookeeper version').partition('-')[0]}"

    def ready(self, host: str) -> bool:
        """It serves: it leads, or follows the leader."""
        return self._field(host, "Mode") in ("leader", "follower", "standalone")
