"""Answers of the members of etcd about themselves through their JSON gateway (etcd's manual, "gRPC gateway")."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Final

EVERYTHING: Final = {"key": "AA==", "range_end": "AA==", "count_only": True, "serializable": True}
"""Range request that counts all keys in the member's own copy (``serializable``)."""


class EtcdGateway:
    """Base of the members of a cluster, which only differ in the way to them."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._members: dict[str, str] = {}

    @abstractmethod
    def member_names(self) -> Sequence[str]:
        """Return the hosts of the members."""

    @abstractmethod
    def _ask(self, host: str, path: str, question: dict[str, Any] | None = None) -> dict[str, Any] | None:
        """Send a request and return its answer, ``None`` if there was none."""

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
        """Return the leader of the highest term that any member reports: a leader that lost its majority still claims
        the role for a while. See :class:`harness.clusters.abilities.servers.Elections`."""
        statuses = [status for host in self.member_names() if (status := self._status(host)) and _leader(status)]
        if not statuses:
            return None
        return self._members.get(_leader(max(statuses, key=lambda status: int(status["header"]["raft_term"]))))

    def ready(self, host: str) -> bool:
        """Return whether the member reports the same leader as the others."""
        status, leader = self._status(host), self.leader()
        return status is not None and leader is not None and self._members.get(_leader(status)) == leader

    def version(self) -> str:
        response = self._status(self.member_names()[0])
        return f"etcd {response['version']}" if response else ""


def _leader(status: dict[str, Any]) -> str:
    """Return the id of the leader that a member reports, empty if none; the gateway omits zeros."""
    found: str = status.get("leader", "")
    return found
