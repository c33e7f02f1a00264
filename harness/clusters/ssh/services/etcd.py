"""etcd members on hosts. They are asked through their JSON gateway (etcd's manual, "gRPC gateway")."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from harness.clusters.key_watch import KeyReader
from harness.clusters.kinds.etcd import member_flags

from .base import HostServers, ServerProgram

EVERYTHING: Final = {"key": "AA==", "range_end": "AA==", "count_only": True, "serializable": True}
"""Range request that counts all keys in the member's own copy (``serializable``)."""


class EtcdServers(HostServers):
    """See :class:`.base.HostServers`. A member that has lost its data would have to be replaced by a new one, which is
    not done here."""

    PROGRAM = "etcd"
    PORTS = 2
    WIPES = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._members: dict[str, str] = {}

    def _url(self, host: str, which: int) -> str:
        return f"http://{self.addresses[host]}:{self.ports[host][which]}"

    def program(self, host: str, folder: str) -> ServerProgram:
        client, peer = self.ports[host]
        command = [
            "etcd", "--name", host, "--data-dir", f"{folder}/data/etcd",
            "--initial-cluster", ",".join(f"{name}={self._url(name, 1)}" for name in self.names),
            "--initial-cluster-state", "new",
            "--initial-advertise-peer-urls", self._url(host, 1),
            *member_flags(self.options, self._url(host, 0), client, peer),
        ]  # fmt: skip
        return ServerProgram(command, {})

    # Probes.

    def _ask(self, host: str, path: str, question: dict[str, Any] | None = None) -> dict[str, Any] | None:
        body = json.dumps(question or {})
        lines = [f"POST /v3/{path} HTTP/1.1", "Host: member", "Connection: close", f"Content-Length: {len(body)}"]
        answer = self._converse(host, "\r\n".join([*lines, "", body]).encode(), True)
        head, _, data = (b"" if answer is None else answer.data).partition(b"\r\n\r\n")
        if not head.startswith((b"HTTP/1.1 200", b"HTTP/1.0 200")):
            return None
        if b"chunked" in head:
            data = data.partition(b"\r\n")[2].partition(b"\r\n")[0]
        try:
            found: dict[str, Any] = json.loads(data)
        except ValueError:
            return None
        return found

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

    def peers(self) -> list[str]:
        """See :class:`harness.clusters.abilities.Peers`."""
        return list(self.names)

    def leader(self) -> str | None:
        """Return the leader of the highest term that a member reports; see
        :class:`harness.clusters.abilities.Elections`."""
        statuses = [status for host in self.names if (status := self._status(host)) and status.get("leader")]
        if not statuses:
            return None
        return self._members.get(max(statuses, key=lambda status: int(status["header"]["raft_term"]))["leader"])

    def ready(self, host: str) -> bool:
        """Return whether the member reports the same leader as the others."""
        status, leader = self._status(host), self.leader()
        return status is not None and leader is not None and self._members.get(status.get("leader", "")) == leader

    def version(self) -> str:
        response = self._status(self.names[0])
        return f"etcd {response['version']}" if response else ""

    def key_reader(self, port: int) -> Callable[[], KeyReader]:
        from harness.clusters.key_readers.etcd import EtcdKeyReader

        return partial(EtcdKeyReader, "127.0.0.1", port)
