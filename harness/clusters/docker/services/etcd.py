"""etcd members in containers: start command, probes, and the leader as the members report it.

Probes go to the members' JSON gateway (etcd's manual, "gRPC gateway"), which needs no gRPC on the control side.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from harness.clusters.docker.kinds import ANSWER_S, RealPeers
from harness.clusters.key_watch import KeyReader
from harness.clusters.kinds.etcd import ETCD, member_flags

PORT: Final = ETCD.port
PEER_PORT: Final = 2380
EVERYTHING: Final = {"key": "AA==", "range_end": "AA==", "count_only": True, "serializable": True}
"""Range request that counts all keys in the member's own copy (``serializable``)."""


class EtcdServers(RealPeers):
    """See :class:`harness.clusters.docker.kinds.RealServers`. A member that restarts without its data is removed and
    added again by its start command (``docker/etcd/member.sh``), which needs a majority of the others."""

    KNOCK = b"GET /version HTTP/1.1\r\nHost: member\r\nX-Filler: ".ljust(60, b"x") + b"\r\n\r\n"

    NEWEST = ("etcd/member/wal/*.wal",)
    RESTORE = "rm -f /var/lib/member-joined"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._members: dict[str, str] = {}

    def program(self, host: str) -> tuple[list[str], dict[str, str]]:
        urls = {name: f"http://{ip}:{PEER_PORT}" for name, ip in self.addresses.items()}
        others = ",".join(f"http://{ip}:{PORT}" for name, ip in self.addresses.items() if name != host)
        cluster = ",".join(f"{name}={url}" for name, url in urls.items())
        flags = member_flags(self.options, f"http://{self.addresses[host]}:{PORT}", PORT, PEER_PORT)
        return ["member", host, urls[host], others, cluster, *flags], {}

    def look(self, host: str) -> list[str]:  # noqa: ARG002
        return ["env", "ETCDCTL_API=3", "etcdctl", "get", "--prefix", ""]

    # Probes.

    def _ask(self, host: str, path: str, question: dict[str, Any] | None = None) -> dict[str, Any] | None:
        """Send a request and return its answer, ``None`` if there was none."""
        connection = http.client.HTTPConnection(*self.reached(host), timeout=ANSWER_S)
        try:
            with self.gate.open():
                connection.request("POST", f"/v3/{path}", json.dumps(question or {}))
                answer = connection.getresponse()
                response: dict[str, Any] = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()
        return response if answer.status == http.HTTPStatus.OK else None

    def _status(self, host: str) -> dict[str, Any] | None:
        """Return a member's status, and remember its member id."""
        response = self._ask(host, "maintenance/status")
        if response is not None:
            self._members[response["header"]["member_id"]] = host
        return response

    def answers(self, host: str) -> bool:
        return self._status(host) is not None

    def key_count(self, host: str) -> int | None:
        response = self._ask(host, "kv/range", EVERYTHING)
        return None if response is None else int(response.get("count", 0))

    def leader(self) -> str | None:
        """The leader of the highest term that any member reports: a leader that lost its majority still claims the
        role for a while."""
        statuses = [status for host in self.data_hosts if (status := self._status(host)) and _leader(status)]
        if not statuses:
            return None
        return self._members.get(_leader(max(statuses, key=lambda status: int(status["header"]["raft_term"]))))

    def key_reader(self, host: str) -> Callable[[], KeyReader]:
        from harness.clusters.key_readers.etcd import EtcdKeyReader

        return partial(EtcdKeyReader, *self.reached(host))

    def version(self) -> str:
        response = self._status(self.data_hosts[0])
        return f"etcd {response['version']}" if response else ""

    def ready(self, host: str) -> bool:
        """Return whether the member reports the same leader as the others."""
        status = self._status(host)
        leader = self.leader()
        return status is not None and leader is not None and self._members.get(_leader(status)) == leader


def _leader(status: dict[str, Any]) -> str:
    """Id of the leader that a member reports, empty if none; the gateway omits zeros."""
    found: str = status.get("leader", "")
    return found
