"""ZooKeeper ensemble in containers: configuration, start command and probes."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import re
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from harness.clusters.docker.containers.server_tools import SHELL
from harness.clusters.docker.kinds import ANSWER_S, RealPeers
from harness.clusters.key_watch import KeyReader

PEER_PORT: Final = 2888
ELECTION_PORT: Final = 3888
TICK_MS: Final = 500
"""Session time-outs are 2 to 20 ticks, 1 to 10 s. The leader drops a follower that is silent for 4 ticks."""
ACCOUNT: Final = "super:harness"
"""User and password of the administrator, who may change the members."""
CHANGE_S: Final = 2.0
"""Time limit for a request of the administrator, seconds."""
CONFIG: Final = "/zookeeper/config"
OWN_NODES: Final = 5
"""Node count of an empty tree: the root under two names, and three nodes of the server's own."""
_DIGEST: Final = base64.b64encode(hashlib.sha1(ACCOUNT.encode(), usedforsecurity=False).digest()).decode()
_JAVA: Final = (
    "java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
    "-Dzookeeper.preAllocSize=1024",  # KB; the default of 64 MB would be memory here
    "-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
    "-Dorg.slf4j.simpleLogger.showShortLogName=true", "-Dlogback.configurationFile=/tmp/logback.xml",
    f"-Dzookeeper.DigestAuthenticationProvider.superDigest=super:{_DIGEST}",
)  # fmt: skip
_LOGBACK: Final = """<configuration>
<appender name="out" class="ch.qos.logback.core.ConsoleAppender">
<encoder><pattern>%d{HH:mm:ss.SSS} [%thread] %level %logger{0} - %msg%n</pattern></encoder>
</appender>
<root level="info"><appender-ref ref="out"/></root>
</configuration>
"""
"""Without a configuration, Logback prints each request."""
# Runs at every start: a member that lost its data has lost its number, too. Debian logs through SLF4J's own logger, the
# official image through Logback.
_START: Final = """
printf "%s" "$CONF" >/tmp/zoo.cfg
printf "%s" "$LOGBACK" >/tmp/logback.xml
printf "%s" "$NUMBER" >/data/myid
classes=/usr/share/java/zookeeper.jar
if [ -e "$classes" ]; then classes=$classes:/usr/share/java/slf4j-simple.jar
else classes=$(echo /apache-zookeeper-*-bin)/lib/*
fi
exec "$@" -cp "$classes" org.apache.zookeeper.server.quorum.QuorumPeerMain /tmp/zoo.cfg
"""


class ZooKeeperServers(RealPeers):
    """See :class:`harness.clusters.docker.kinds.RealServers`. Probes are four-letter words (ZooKeeper
    Administrator's Guide, "The Four Letter Words"), which a member answers even without a leader."""

    NEWEST = ("version-2/log.*",)

    def program(self, host: str) -> tuple[list[str], dict[str, str]]:
        tick = self.options.get("tick_ms", TICK_MS)
        conf = [
            "dataDir=/data", "maxClientCnxns=0",
            f"tickTime={tick}", "initLimit=10", "syncLimit=4",
            "admin.enableServer=false", "4lw.commands.whitelist=srvr",
        ]  # fmt: skip
        if len(self.roles) > 1:
            conf += ["reconfigEnabled=true", *map(self._member, self.roles)]
        else:
            conf.append(f"clientPort={self.port(host)}")
        environment = {"CONF": "\n".join(conf) + "\n", "LOGBACK": _LOGBACK, "NUMBER": self._number(host)}
        return [*SHELL, "-c", _START, "start", *_JAVA], environment

    def _member(self, host: str) -> str:
        """Return the line of the configuration that makes a host a voting member."""
        where = f"{self.addresses[host]}:{PEER_PORT}:{ELECTION_PORT}"
        return f"server.{self._number(host)}={where}:participant;{self.port(host)}"

    @staticmethod
    def _number(host: str) -> str:
        return host.removeprefix("n")

    # Probes.

    def _status(self, host: str) -> str:
        """Status text of a member; empty if it does not answer in time."""
        try:
            with self.gate.open(), socket.create_connection(self.reached(host), ANSWER_S) as connection:
                connection.settimeout(ANSWER_S)
                connection.sendall(b"srvr")
                return b"".join(iter(lambda: connection.recv(4096), b"")).decode()
        except OSError:
            return ""

    def _field(self, host: str, name: str) -> str:
        found = re.search(rf"^{name}: (.*)$", self._status(host), re.MULTILINE)
        return found[1].strip() if found else ""

    def answers(self, host: str) -> bool:
        return bool(self._status(host))

    def key_count(self, host: str) -> int | None:
        """Number of znodes; ``None`` also while there is no leader."""
        count = self._field(host, "Node count")
        return int(count) - OWN_NODES if count else None

    def leader(self) -> str | None:
        """The member that reports to be leader. A leader that lost its followers still does until it notices; of two
        leaders the new one has the higher epoch."""
        leaders = [name for name in self.roles if self._field(name, "Mode") == "leader"]
        return max(leaders, key=self._epoch, default=None)

    def _epoch(self, host: str) -> int:
        """Epoch of the member's last transaction (upper half of its zxid); 0 if it does not answer."""
        zxid = self._field(host, "Zxid")
        return int(zxid, 16) >> 32 if zxid else 0

    # Members. See :class:`harness.clusters.abilities.servers.Membership`.

    def members(self, host: str) -> dict[str, str] | None:
        found = self._administer(host, lambda client: client.get_async(CONFIG))
        if found is None:
            return None
        voters = re.findall(r"^server\.(\d+)=\S+:participant;", found[0].decode(), re.MULTILINE)
        return {f"n{number}": number for number in voters}

    def remove_member(self, host: str) -> None:
        self._change(host, None, self._number(host))

    def ends_when_removed(self) -> bool:
        return False

    def add_member(self, host: str) -> None:
        self._change(host, self._member(host), None)

    def _change(self, host: str, joining: str | None, leaving: str | None) -> None:
        """Ask another member than ``host`` to change the members. It is not known whether one that gave no answer did
        it, so no other one is asked."""
        for other in self.roles:
            if other != host and self.ready(other):
                self._administer(other, lambda client: client.reconfig_async(joining, leaving, None, -1))
                return

    def _administer(self, host: str, ask: Callable[[Any], Any]) -> Any:
        """Send a request of the administrator and return its answer, ``None`` if there was none or it was refused."""
        from kazoo.client import KazooClient
        from kazoo.exceptions import KazooException
        from kazoo.handlers.threading import KazooTimeoutError
        from kazoo.retry import KazooRetry

        from harness.clusters.key_readers.zookeeper import QUIET

        never = KazooRetry(max_tries=0)
        with contextlib.ExitStack() as closing:
            try:
                closing.enter_context(self.gate.open())
                address, port = self.reached(host)
                client = KazooClient(
                    f"{address}:{port}", timeout=4.0, connection_retry=never, command_retry=never,
                    auth_data=[("digest", ACCOUNT)], logger=QUIET,
                )  # fmt: skip
                closing.callback(client.close)
                closing.callback(client.stop)
                client.start(timeout=CHANGE_S)
                return ask(client).get(timeout=CHANGE_S)
            except (KazooException, KazooTimeoutError, OSError):
                return None

    def key_reader(self, host: str) -> Callable[[], KeyReader]:
        from harness.clusters.key_readers.zookeeper import ZooKeeperKeyReader

        return partial(ZooKeeperKeyReader, *self.reached(host))

    def version(self) -> str:
        """Name and version that the first member reports."""
        return f"zookeeper {self._field('n1', 'Zookeeper version').partition('-')[0]}"

    def ready(self, host: str) -> bool:
        """Return whether the member serves clients: it leads, or follows the leader."""
        return self._field(host, "Mode") in ("leader", "follower", "standalone")
