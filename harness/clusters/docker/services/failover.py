"""Replicated database servers in containers, with a failover manager that promotes one of the replicas.

Clients connect to the name ``db``. It stands for whatever an operator moves at a failover: a virtual address, a DNS
record, an entry of a service registry. The manager runs on the sentinel host and announces the primary in a line of
JSON on stdout; the control side writes its address into the hosts files of all clients. Existing connections stay where
they are; new ones go to the new primary.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from typing import Any, ClassVar, Final

from harness.clusters.base import ClusterEndpoints
from harness.clusters.docker.images.images import Images
from harness.clusters.docker.kinds import RealPeers

NAME: Final = "db"
"""Host name by which clients address the primary."""
HOSTS: Final = "/etc/hosts"


class ManagedServers(RealPeers):
    """Mixin for a primary with replicas, and a manager that promotes one of them; before the class of the servers."""

    MANAGER: ClassVar[str]
    """Module of the manager's program, which is called with :meth:`manager_config` as JSON."""

    _primary: str | None = None

    def manager_config(self) -> dict[str, Any]:
        return {"servers": {name: self.addresses[name] for name in self.data_hosts}}

    def image(self, images: Images, host: str) -> str:
        return images.client() if self.roles[host] == "sentinel" else super().image(images, host)

    def program(self, host: str) -> tuple[list[str], dict[str, str]]:
        if self.roles[host] == "sentinel":
            return ["python3", "-u", "-m", self.MANAGER, json.dumps(self.manager_config())], {}
        return self.server_program(host)

    @abstractmethod
    def server_program(self, host: str) -> tuple[list[str], dict[str, str]]:
        """Return (command, environment) of a server."""

    def address(self) -> ClusterEndpoints:
        # Without clients no hosts file contains the name.
        return ClusterEndpoints(self.kind, ((NAME if self.helper else self.addresses["n1"], self.port("n1")),))

    def primary(self) -> str | None:
        """The host to whose address the clients' name ``db`` currently points."""
        return self._primary

    def on_log_line(self, host: str, line: str) -> None:
        if self.roles[host] == "sentinel":
            if line.startswith("{"):
                self._move_name(json.loads(line)["primary"])
        else:
            super().on_log_line(host, line)

    def _move_name(self, primary: str) -> None:
        assert self.helper is not None, "a cluster without clients ignores the manager"
        clients = {name: box for name, box in self.boxes.items() if name.startswith("c")}
        own = {name: f"127.0.0.1\tlocalhost\n{box.ip}\t{name}\n" for name, box in clients.items()}
        named = f"{self.addresses[primary]}\t{NAME}\n"
        self.helper.write(HOSTS, {box: own[name] + named for name, box in clients.items()})
        self._primary = primary

    # Probes.

    def answers(self, host: str) -> bool:
        if self.roles[host] == "sentinel":
            return self.helper is None or bool(self.helper.members(self.boxes[host]))
        return self.server_answers(host)

    @abstractmethod
    def server_answers(self, host: str) -> bool:
        """Return whether a server answers."""

    def key_count(self, host: str) -> int | None:
        return None if self.roles[host] == "sentinel" else super().key_count(host)

    def clock(self, host: str) -> int | None:
        return None if self.roles[host] == "sentinel" else super().clock(host)

    def ready(self, host: str) -> bool:
        if self.roles[host] == "server":
            return self.answers(host)
        return (self._primary is not None or self.helper is None) and all(map(self.is_linked, self.data_hosts))

    @abstractmethod
    def is_linked(self, host: str) -> bool:
        """Return whether n1 works as the primary, or another server as its replica."""
