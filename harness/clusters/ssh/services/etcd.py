"""etcd members on hosts. They are asked through their JSON gateway (etcd's manual, "gRPC gateway")."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from harness.clusters.etcd_gateway import EtcdGateway
from harness.clusters.key_watch import KeyReader
from harness.clusters.kinds.etcd import MEMBER_ENVIRONMENT, NEWEST_FILES, member_flags

from .base import HostServers, ServerProgram


class EtcdServers(EtcdGateway, HostServers):
    """See :class:`.base.HostServers`. A member that has lost its data would have to be replaced by a new one, which is
    not done here."""

    PROGRAM = "etcd"
    NEWEST = NEWEST_FILES
    PORTS = 2
    WIPES = False

    def _url(self, host: str, which: int) -> str:
        return f"http://{self.addresses[host]}:{self.ports[host][which]}"

    def program(self, host: str, folder: str) -> ServerProgram:
        client, peer = self.ports[host]
        command = [
            "env", *(f"{name}={value}" for name, value in MEMBER_ENVIRONMENT.items()),
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

    def member_names(self) -> Sequence[str]:
        return self.names

    def peers(self) -> list[str]:
        """See :class:`harness.clusters.abilities.servers.Peers`."""
        return list(self.names)

    def key_reader(self, port: int) -> Callable[[], KeyReader]:
        from harness.clusters.key_readers.etcd import EtcdKeyReader

        return partial(EtcdKeyReader, "127.0.0.1", port)
