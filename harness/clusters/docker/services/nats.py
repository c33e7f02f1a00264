"""NATS servers with JetStream in containers: configuration, probes, and the leader as the servers report it.

Probes go to the servers' monitoring port. One server alone has no cluster, and so no leader.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from harness.clusters.docker.containers.server_tools import SHELL
from harness.clusters.docker.kinds import ANSWER_S, RealPeers
from harness.clusters.key_watch import KeyReader
from harness.clusters.kinds import ACCOUNT
from harness.clusters.kinds.nats import NATS

PORT: Final = NATS.port
ROUTE_PORT: Final = 6222
MONITOR_PORT: Final = 8222
CONFIGURATION: Final = """server_name: {host}
listen: "0.0.0.0:{port}"
http: "0.0.0.0:{monitor}"
jetstream {{ store_dir: "/data", max_mem: 64MB, max_file: 256MB{sync} }}
"""
CLUSTER: Final = """cluster {{ name: {name}, listen: "0.0.0.0:{port}", no_advertise: true, routes: [{routes}] }}
"""
# The official image without a shell has the program in the root folder.
_START: Final = 'PATH=$PATH:/; printf "%s" "$CONF" >/tmp/nats.conf && exec nats-server --config /tmp/nats.conf'


class NatsServers(RealPeers):
    """See :class:`harness.clusters.docker.kinds.RealServers`. A server that restarts without its data keeps its name,
    and is given the data again by the others."""

    START = 40.0
    KNOCK = b"PING".ljust(62) + b"\r\n"
    GREETS = True

    def program(self, host: str) -> tuple[list[str], dict[str, str]]:
        sync = ", sync_interval: always" if self.options.get("sync_always") else ""
        configuration = CONFIGURATION.format(host=host, port=PORT, monitor=MONITOR_PORT, sync=sync)
        if len(self.data_hosts) > 1:
            others = [f'"nats://{ip}:{ROUTE_PORT}"' for name, ip in self.addresses.items() if name in self.data_hosts]
            configuration += CLUSTER.format(name=ACCOUNT, port=ROUTE_PORT, routes=", ".join(others))
        return [*SHELL, "-c", _START], {"CONF": configuration}

    # Probes.

    def _ask(self, host: str, path: str) -> dict[str, Any] | None:
        """Return the answer to a request to the monitoring port, ``None`` if there was none or an error."""
        connection = http.client.HTTPConnection(*self.reached(host, MONITOR_PORT), timeout=ANSWER_S)
        try:
            with self.gate.open():
                connection.request("GET", f"/{path}")
                answer = connection.getresponse()
                response: dict[str, Any] = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()
        return response if answer.status == http.HTTPStatus.OK else None

    def answers(self, host: str) -> bool:
        return self._ask(host, "varz") is not None

    def key_count(self, host: str) -> int | None:
        """Number of messages in the server's copies of all buckets, markers of deletions included."""
        response = self._ask(host, "jsz")
        return None if response is None else int(response["messages"])

    def leader(self) -> str | None:
        """The leader of the first bucket, or of the cluster if there is no bucket. Servers that were cut off may name
        another one than the majority does."""
        votes = [name for host in self.data_hosts if (name := _leader(self._ask(host, "jsz?streams=true")))]
        return max(votes, key=votes.count) if votes else None

    def key_reader(self, host: str) -> Callable[[], KeyReader]:
        from .nats_keys import NatsKeyReader

        return partial(NatsKeyReader, *self.reached(host))

    def version(self) -> str:
        response = self._ask(self.data_hosts[0], "varz")
        return f"nats-server {response['version']}" if response else ""

    def ready(self, host: str) -> bool:
        """Return whether JetStream works on the host, and knows the leader and all the other servers."""
        health, state = self._ask(host, "healthz"), self._ask(host, "jsz")
        if not (health and health.get("status") == "ok" and state):
            return False
        cluster = state.get("meta_cluster", {})
        return len(self.data_hosts) == 1 or (bool(cluster.get("leader")) and self._all_joined())

    def _all_joined(self) -> bool:
        """Return whether the leader counts all servers as its peers. Before that, a bucket with so many replicas cannot
        be made."""
        leader = self.leader()
        state = self._ask(leader, "jsz") if leader else None
        replicas = state["meta_cluster"].get("replicas", ()) if state else ()
        return len(replicas) == len(self.data_hosts) - 1 and not any(peer.get("offline") for peer in replicas)


def _leader(state: dict[str, Any] | None) -> str:
    """Return the leader that a server's report of JetStream names, empty if none."""
    if state is None:
        return ""
    streams = [stream for account in state.get("account_details", ()) for stream in account.get("stream_detail", ())]
    named = [str(stream.get("cluster", {}).get("leader", "")) for stream in streams]
    return (named[0] if named else "") or str(state.get("meta_cluster", {}).get("leader", ""))
