"""Consul servers in containers: start command, probes, and the keys of locks.

Probes go to the HTTP API. A server answers most requests with an error until it has a leader, which is itself.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from harness.clusters.docker.kinds import ANSWER_S, RealServers
from harness.clusters.key_watch import KeyReader
from harness.clusters.kinds.consul import CONSUL

PORT: Final = CONSUL.port
CONFIGURATION: Final = ("performance {raft_multiplier = 1}", "disable_update_check = true")
"""Configuration of the agent. With a ``raft_multiplier`` of 5, Consul's default, a server needs ten seconds to become
leader."""


class ConsulServers(RealServers):
    """See :class:`harness.clusters.docker.kinds.RealServers`. The agent of a server is the agent of all clients too.
    Its data survive a restart; lock-delays do not, and each session's time-to-live begins anew."""

    KNOCK = b"GET /v1/status/leader HTTP/1.1\r\nHost: server\r\nX-Filler: ".ljust(60, b"x") + b"\r\n\r\n"

    def program(self, host: str) -> tuple[list[str], dict[str, str]]:
        address = self.addresses[host]
        command = ["consul", "agent", "-server", "-bootstrap-expect=1", f"-node={host}", f"-bind={address}"]
        command += [f"-http-port={PORT}", "-client=0.0.0.0", "-data-dir=/data/consul"]
        return [*command, *(f"-hcl={line}" for line in CONFIGURATION)], {}

    # Probes.

    def _ask(self, host: str, path: str) -> Any:
        """Return the answer to a GET request, ``None`` if there was none or an error."""
        connection = http.client.HTTPConnection(*self.reached(host), timeout=ANSWER_S)
        try:
            with self.gate.open():
                connection.request("GET", f"/v1/{path}")
                answer = connection.getresponse()
                response = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()
        return response if answer.status == http.HTTPStatus.OK else None

    def answers(self, host: str) -> bool:
        return self._ask(host, "status/leader") is not None

    def key_count(self, host: str) -> int | None:
        keys = self._ask(host, "kv/?keys=true&stale=true")
        return None if keys is None else len(keys)

    def key_reader(self, host: str) -> Callable[[], KeyReader]:
        from .consul_keys import ConsulKeyReader

        return partial(ConsulKeyReader, *self.reached(host))

    def version(self) -> str:
        response = self._ask(self.data_hosts[0], "agent/self")
        return f"consul {response['Config']['Version']}" if response else ""

    def ready(self, host: str) -> bool:
        """Return whether the server is the leader and has registered its own node, which sessions belong to."""
        return bool(self._ask(host, "status/leader")) and bool(self._ask(host, f"health/node/{host}"))
