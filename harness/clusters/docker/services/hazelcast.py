"""Hazelcast members in containers, all of them in the CP subsystem: start command, probes, and forming the CP group.

Probes go to the members' REST interface (manual, "CP Subsystem Management"). It does not report the leader, which is
read from the members' logs.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from typing import Any, Final

import requests
from hazelcast.client import HazelcastClient
from hazelcast.errors import HazelcastError

from harness.clusters.docker.containers.server_tools import FOLDER
from harness.clusters.docker.kinds import ANSWER_S, RealPeers
from harness.clusters.kinds import ACCOUNT
from harness.clusters.kinds.hazelcast import HAZELCAST
from harness.errors import EnvironmentLacking, UsageError

PORT: Final = HAZELCAST.port
SESSION_TTL: Final = 5
SESSION_HEARTBEAT: Final = 1
"""Seconds; Hazelcast's own defaults are 300 and 5."""
GROUP: Final = "default"
"""CP group that contains the locks."""
PROBE: Final = "lock-harness:probe"
LOCAL: Final = "rest/cp-subsystem/members/local"
SCRIPT: Final = f"{FOLDER}/hazelcast-member.sh"
GROUPS: Final = "rest/cp-subsystem/groups"
RESET_PATH: Final = "rest/cp-subsystem/reset"
RESET: Final = 20.0
"""Seconds within which a CP subsystem forms its groups; after that it is reset."""
MAKING: Final = 15.0
"""Seconds for one request to make the locks' group. Members that exclude each other answer it after two minutes."""
JAVA: Final = (
    "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m",
    "-Dhazelcast.config=/data/hazelcast.yaml", "-Dhazelcast.phone.home.enabled=false",
    "-Dhazelcast.wait.seconds.before.join=0", "-Djava.util.logging.SimpleFormatter.format=%3$s: %5$s%6$s%n",
)  # fmt: skip
"""Log lines have the format: class(CP group): message."""
_LEADS: Final = re.compile(rf"\({GROUP}\): .* We are the LEADER!")
_CONF: Final = """
hazelcast:
  cluster-name: {cluster}
  network:
    port: {{port: {port}, auto-increment: false}}
    join:
      auto-detection: {{enabled: false}}
      multicast: {{enabled: false}}
      tcp-ip: {{enabled: true, member-list: [{members}]}}
    rest-api:
      enabled: true
      endpoint-groups: {{CP: {{enabled: true}}, HEALTH_CHECK: {{enabled: true}}}}
  cp-subsystem:
    cp-member-count: {count}
    group-size: {group}
    session-time-to-live-seconds: {ttl}
    session-heartbeat-interval-seconds: {heartbeat}
    missing-cp-member-auto-removal-seconds: 0
    raft-algorithm:
      leader-election-timeout-in-millis: 1000
      leader-heartbeat-period-in-millis: 1000
      max-missed-leader-heartbeat-count: 3
"""
FEWEST: Final = 3
"""Minimum number of members of a CP subsystem. A group has an odd number of members."""


class HazelcastServers(RealPeers):
    """See :class:`harness.clusters.docker.kinds.RealServers`. Nothing is stored on disk, which needs the Enterprise
    edition. A restarted member is a new one. ``docker/server-tools/hazelcast-member.sh`` promotes it to a CP member."""

    START = 90.0
    DISKS = None

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        if len(self.data_hosts) < FEWEST:
            raise UsageError(f"Hazelcast's CP subsystem needs {FEWEST} members: --nodes {FEWEST}")
        self._ttl = self.options.get("session_ttl", SESSION_TTL)
        self._heartbeat = self.options.get("session_heartbeat", SESSION_HEARTBEAT)
        if self._ttl <= self._heartbeat:
            raise UsageError(
                "server_options: session_ttl must be more than session_heartbeat, "
                f"got {self._ttl} and {self._heartbeat}"
            )
        self._leader: str | None = None

    def program(self, host: str) -> tuple[list[str], dict[str, str]]:
        count = len(self.data_hosts)
        conf = _CONF.format(
            cluster=ACCOUNT,
            port=PORT,
            members=", ".join(self.addresses[name] for name in self.data_hosts),
            count=count,
            group=_group_size(count),
            ttl=self._ttl,
            heartbeat=self._heartbeat,
        )
        others = ",".join(ip for name, ip in self.addresses.items() if name != host and name in self.data_hosts)
        return ["/bin/bash", SCRIPT, self.addresses[host], others, ACCOUNT, *JAVA], {"CONF": conf}

    def on_log_line(self, host: str, line: str) -> None:
        if _LEADS.search(line):
            self._leader = host

    # Probes.

    def _url(self, host: str, path: str) -> str:
        address, port = self.reached(host)
        return f"http://{address}:{port}/hazelcast/{path}"

    def _ask(self, host: str, path: str) -> Any:
        """Send a request and return its answer, ``None`` if there was none."""
        try:
            with self.gate.open():
                answer = requests.get(self._url(host, path), timeout=ANSWER_S)
                return answer.json() if answer.ok else None
        except (requests.RequestException, OSError):
            return None

    def answers(self, host: str) -> bool:
        """Return whether the member is a CP member; before its promotion it cannot serve locks."""
        return bool(self._ask(host, LOCAL))

    def leader(self) -> str | None:
        """The member that was last elected leader of the locks' group."""
        return self._leader

    def version(self) -> str:
        """Name and version that the first member reports."""
        response = self._ask(self.data_hosts[0], "rest/cluster")
        return f"hazelcast {response['members'][0]['memberVersion']}" if response else ""

    # Readiness.

    def ready(self, host: str) -> bool:
        """Return whether the host is a CP member and all groups have all their members. (A new CP member joins the
        groups a moment later; until then they tolerate fewer failures.)"""
        groups = [self._ask(host, f"{GROUPS}/{group['name']}") for group in self._ask(host, GROUPS) or ()]
        size = _group_size(len(self.data_hosts))
        return self.answers(host) and bool(groups) and all(group and len(group["members"]) == size for group in groups)

    @property
    def stages(self) -> list[list[str]]:
        """Start one member at a time. Members that start together may each form a cluster of their own. When these
        merge, a member gets a new identity, and the CP subsystem lacks a member from the start."""
        return [[name] for name in self.data_hosts]

    def await_stage(self, hosts: list[str]) -> None:
        """Wait until the member has joined; after the last one, form the locks' CP group.

        A group is formed on first use, which takes seconds and may be refused by members that have just joined, so it
        is used here.
        """
        deadline = time.monotonic() + self.START
        there = self.data_hosts.index(hosts[-1]) + 1
        while self._joined(hosts[-1]) < there:
            if time.monotonic() >= deadline:
                raise EnvironmentLacking(f"{hosts[-1]} has not joined within {self.START:g} s; see the servers' logs")
            time.sleep(0.05)
        if there == len(self.data_hosts):
            self._await_groups()

    def _await_groups(self) -> None:
        """Wait until all groups have their members and the group of the locks exists. On a busy machine members exclude
        each other while they join, and stay so: they are reset."""
        deadline, patience = time.monotonic() + self.START, time.monotonic() + RESET
        while (lacking := self._lacking()) is not None:
            if time.monotonic() >= deadline:
                raise EnvironmentLacking(f"no CP groups within {self.START:g} s: {lacking}; see the servers' logs")
            if time.monotonic() >= patience:
                self.reset_cp_subsystem()
                patience = time.monotonic() + RESET
            time.sleep(0.05)

    def _lacking(self) -> str | None:
        late = [host for host in self.data_hosts if not self.ready(host)]
        return f"{', '.join(late)} not ready" if late else self._make_group()

    def reset_cp_subsystem(self) -> None:
        """Reset the CP subsystem to its initial state (manual, "Reset"); the leading member does it."""
        for host in self.data_hosts:
            with contextlib.suppress(requests.RequestException, OSError), self.gate.open():
                requests.post(self._url(host, RESET_PATH), data=f"{ACCOUNT}&", timeout=10)

    def _joined(self, host: str) -> int:
        """Number of members in the host's cluster; 0 if it does not answer."""
        response = self._ask(host, "rest/cluster")
        return len(response["members"]) if response else 0

    def _make_group(self) -> str | None:
        """Make the CP group; return the reason if that failed, ``None`` if the group exists."""
        members = [f"{address}:{port}" for address, port in map(self.reached, self.data_hosts)]
        try:
            with self.gate.open():
                client = HazelcastClient(
                    cluster_name=ACCOUNT, cluster_members=members, cluster_connect_timeout=5, invocation_timeout=10,
                    smart_routing=False,  # it would connect to the addresses that members announce
                )  # fmt: skip
                late = threading.Timer(MAKING, client.shutdown)  # the request itself has no limit; this ends it
                late.start()
                try:
                    client.cp_subsystem.get_atomic_long(PROBE).blocking().get()
                finally:
                    late.cancel()
                    client.shutdown()
        except HazelcastError as error:
            return str(error).partition("\n")[0]
        return None


def _group_size(members: int) -> int:
    """The largest odd number of members."""
    return members if members % 2 else members - 1
