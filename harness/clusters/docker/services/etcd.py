"""etcd members in containers: start command, probes, and the leader as the members report it.

Probes go to the members' JSON gateway (etcd's manual, "gRPC gateway"), which needs no gRPC on the control side.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final

from harness.clusters.docker.containers.server_tools import script
from harness.clusters.docker.kinds import ANSWER_S, RealPeers
from harness.clusters.etcd_gateway import EtcdGateway
from harness.clusters.key_watch import KeyReader
from harness.clusters.kinds.etcd import ETCD, MEMBER_ENVIRONMENT, NEWEST_FILES, member_flags

PORT: Final = ETCD.port
PEER_PORT: Final = 2380


class EtcdServers(EtcdGateway, RealPeers):
    """See :class:`harness.clusters.docker.kinds.RealServers`. A member that restarts without its data is removed and
    added again by its start command (``docker/server-tools/etcd-member.sh``), which needs a majority of the others."""

    PROGRAMS: ClassVar[Mapping[str, str]] = {"etcd": "etcd", "etcdctl": "etcdctl"}
    NEWEST = NEWEST_FILES
    KNOCK = b"GET /version HTTP/1.1\r\nHost: member\r\nX-Filler: ".ljust(60, b"x") + b"\r\n\r\n"

    def program(self, host: str) -> tuple[list[str], dict[str, str]]:
        urls = {name: f"http://{ip}:{PEER_PORT}" for name, ip in self.addresses.items()}
        others = ",".join(f"http://{ip}:{PORT}" for name, ip in self.addresses.items() if name != host)
        cluster = ",".join(f"{name}={url}" for name, url in urls.items())
        flags = member_flags(self.options, f"http://{self.addresses[host]}:{PORT}", PORT, PEER_PORT)
        return [*script("etcd-member"), host, urls[host], others, cluster, *flags], MEMBER_ENVIRONMENT

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

    def member_names(self) -> Sequence[str]:
        return self.data_hosts

    # Releases. See :class:`harness.clusters.abilities.servers.ServerReleases`.

    def version_of(self, host: str) -> str:
        response = self._status(host)
        return f"etcd {response['version']}" if response else ""

    def serves(self, host: str) -> bool:
        return self.ready(host)

    def hand_over(self, host: str, within_s: float) -> bool:
        """Let the leader transfer its leadership, as ``etcdctl move-leader`` does."""
        deadline = time.monotonic() + within_s
        while (leader := self.leader()) in (None, host) and time.monotonic() < deadline:
            ids = self.members(host) or {}
            follower = next((member for name, member in ids.items() if name != host and self.ready(name)), None)
            if follower is not None:
                self._ask(host, "maintenance/transfer-leadership", {"targetID": str(int(follower, 16))})
            time.sleep(0.05)
        return leader not in (None, host)

    # Members. See :class:`harness.clusters.abilities.servers.Membership`.

    def members(self, host: str) -> dict[str, str] | None:
        """A member that was added and has not started has no name yet, so members are known by their addresses."""
        response = self._ask(host, "cluster/member/list")
        if response is None:
            return None
        hosts = {f"http://{ip}:{PEER_PORT}": host for host, ip in self.addresses.items()}
        voting = [member for member in response["members"] if not member.get("isLearner")]
        return {hosts[url]: f"{int(member['ID']):x}" for member in voting for url in member["peerURLs"]}

    def remove_member(self, host: str) -> None:
        for other in self.member_names():
            if other == host or (there := self.members(other)) is None:
                continue
            if host in there:
                self._ask(other, "cluster/member/remove", {"ID": str(int(there[host], 16))})
            return

    def ends_when_removed(self) -> bool:
        return True

    def add_member(self, host: str) -> None:
        """Its start command adds it, because a member takes its id and the names of the others from the answer."""

    def key_reader(self, host: str) -> Callable[[], KeyReader]:
        from harness.clusters.key_readers.etcd import EtcdKeyReader

        return partial(EtcdKeyReader, *self.reached(host))
