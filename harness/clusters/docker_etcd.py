"""Real etcd members.

Questions go to the members' JSON gateway (etcd's manual, "gRPC gateway"), which needs no gRPC on the control side.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from .docker_keys import Eye
from .docker_kinds import ASK, RealServers
from .kinds import KINDS

PORT: Final = KINDS["etcd"].port
PEER_PORT: Final = 2380
HEARTBEAT_MS: Final = 100
ELECTION_MS: Final = 1000
EVERYTHING: Final = {"key": "AA==", "range_end": "AA==", "count_only": True, "serializable": True}
"""A range request for the number of all keys, answered by the member that is asked from what it has."""


class Family(RealServers):
    """See :class:`harness.clusters.docker_kinds.RealServers`. A member that comes back without its data is removed and
    added anew by its start command (``docker/etcd/member.sh``), which takes the others' majority."""

    KNOCK = b"GET /version HTTP/1.1\r\nHost: member\r\nX-Filler: ".ljust(60, b"x") + b"\r\n\r\n"

    RESTORE = "rm -f /var/lib/member-joined"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._members: dict[str, str] = {}

    @classmethod
    def abilities(cls, kind: str) -> set[str]:  # noqa: ARG003
        return {"leader", "peers"}

    def program(self, host: str) -> tuple[list[str], dict[str, str]]:
        """Command and environment."""
        urls = {name: f"http://{ip}:{PEER_PORT}" for name, ip in self.addresses.items()}
        others = ",".join(f"http://{ip}:{PORT}" for name, ip in self.addresses.items() if name != host)
        cluster = ",".join(f"{name}={url}" for name, url in urls.items())
        flags = [
            "--listen-client-urls", f"http://0.0.0.0:{PORT}",
            "--advertise-client-urls", f"http://{self.addresses[host]}:{PORT}",
            "--listen-peer-urls", f"http://0.0.0.0:{PEER_PORT}",
            "--heartbeat-interval", str(self.options.get("heartbeat_ms", HEARTBEAT_MS)),
            "--election-timeout", str(self.options.get("election_ms", ELECTION_MS)),
            "--enable-v2=true",  # sherlock's lock speaks it
            "--logger", "zap", "--log-outputs", "stderr",
        ]  # fmt: skip
        return ["member", host, urls[host], others, cluster, *flags], {}

    # Questions.

    def _ask(self, host: str, path: str, question: dict[str, Any] | None = None) -> dict[str, Any] | None:
        """The answer, None if there was none."""
        connection = http.client.HTTPConnection(self.addresses[host], PORT, timeout=ASK)
        try:
            with self.gate.open():
                connection.request("POST", f"/v3/{path}", json.dumps(question or {}))
                answer = connection.getresponse()
                told: dict[str, Any] = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()
        return told if answer.status == http.HTTPStatus.OK else None

    def _status(self, host: str) -> dict[str, Any] | None:
        """What a member knows of the cluster; remembers which id it has."""
        told = self._ask(host, "maintenance/status")
        if told is not None:
            self._members[told["header"]["member_id"]] = host
        return told

    def answers(self, host: str) -> bool:
        return self._status(host) is not None

    def size(self, host: str) -> int | None:
        """How many keys this member has; None if it does not say."""
        told = self._ask(host, "kv/range", EVERYTHING)
        return None if told is None else int(told.get("count", 0))

    def primary(self) -> str | None:
        """The leader of the highest term that any member knows of: one that was cut off believes in itself for a
        while."""
        told = [status for host in self.data_hosts if (status := self._status(host)) and _leader(status)]
        if not told:
            return None
        return self._members.get(_leader(max(told, key=lambda status: int(status["header"]["raft_term"]))))

    def eye(self, host: str) -> Callable[[], Eye]:
        from .docker_etcd_keys import EtcdEye

        return partial(EtcdEye, self.addresses[host], self.port(host))

    def version(self) -> str:
        told = self._status(self.data_hosts[0])
        return f"etcd {told['version']}" if told else ""

    def ready(self, host: str) -> bool:
        """Does it follow the leader that all follow?"""
        status = self._status(host)
        leader = self.primary()
        return status is not None and leader is not None and self._members.get(_leader(status)) == leader


def _leader(status: dict[str, Any]) -> str:
    """The leader's id, empty if a member knows of none; the gateway leaves zeros out."""
    found: str = status.get("leader", "")
    return found
