"""Kubernetes' API servers in containers: start command, probes, and the Leases of locks.

Probes go to the HTTPS API.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from harness.clusters.docker.kinds import RealServers
from harness.clusters.key_watch import KeyReader
from harness.clusters.kinds.kubernetes import KUBERNETES

from .kubernetes_api import LEASES, TOKEN, connect, request

PORT: Final = KUBERNETES.port


class KubernetesServers(RealServers):
    """See :class:`harness.clusters.docker.kinds.RealServers`. An etcd in the same container has the data."""

    START = 120.0
    # A server answers HTTP on its HTTPS port with an error.
    KNOCK = b"GET /version HTTP/1.1\r\nHost: server\r\nX-Filler: ".ljust(60, b"x") + b"\r\n\r\n"

    def program(self, host: str) -> tuple[list[str], dict[str, str]]:
        flags = [f"--secure-port={PORT}", f"--advertise-address={self.addresses[host]}"]
        return ["server", TOKEN, *flags], {}

    # Probes.

    def _ask(self, host: str, path: str) -> bytes | None:
        """Return the body of the answer to a GET request, ``None`` if there was none or an error."""
        connection = connect(*self.reached(host))
        try:
            with self.gate.open():
                status, body = request(connection, path)
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
        return body if status == http.HTTPStatus.OK else None

    def answers(self, host: str) -> bool:
        return self._ask(host, "/version") is not None

    def key_count(self, host: str) -> int | None:
        body = self._ask(host, LEASES)
        return None if body is None else len(json.loads(body)["items"])

    def key_reader(self, host: str) -> Callable[[], KeyReader]:
        from .kubernetes_keys import LeaseReader

        return partial(LeaseReader, *self.reached(host))

    def version(self) -> str:
        body = self._ask(self.data_hosts[0], "/version")
        about: dict[str, Any] = json.loads(body) if body else {}
        return f"kubernetes {about['gitVersion'].removeprefix('v')}" if about else ""

    def ready(self, host: str) -> bool:
        """Return whether the server answers for Leases, and has made the namespace that they are in. It then still
        registers APIs that no lock uses."""
        return self._ask(host, "/api/v1/namespaces/default") is not None and self.key_count(host) is not None
