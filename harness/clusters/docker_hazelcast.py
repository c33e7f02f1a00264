"""Real Hazelcast members, all of them in the CP subsystem.

Questions go to the members' REST interface (manual, "CP Subsystem Management"); who leads, none of them answers: it is
read from what they log.
"""

from __future__ import annotations

import contextlib
import re
import time
from typing import Any, Final

import requests
from hazelcast.client import HazelcastClient
from hazelcast.errors import HazelcastError

from ..errors import EnvironmentLacking, UsageError
from .docker_kinds import ASK, RealServers
from .kinds import ACCOUNT, KINDS

PORT: Final = KINDS["hazelcast"].port
SESSION_TTL: Final = 5
SESSION_HEARTBEAT: Final = 1
"""Seconds; Hazelcast's own defaults are 300 and 5."""
GROUP: Final = "default"
"""The CP group of the locks."""
PROBE: Final = "lock-harness:probe"
LOCAL: Final = "rest/cp-subsystem/members/local"
GROUPS: Final = "rest/cp-subsystem/groups"
ANEW: Final = "rest/cp-subsystem/reset"
RESET: Final = 20.0
"""Seconds in which a CP subsystem has its first group, if it ever has one."""
JAVA: Final = (
    "-XX:SharedArchiveFile=/hazelcast/classes.jsa", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m",
    "-Dhazelcast.config=/data/hazelcast.yaml", "-Dhazelcast.phone.home.enabled=false",
    "-Dhazelcast.wait.seconds.before.join=0", "-Djava.util.logging.SimpleFormatter.format=%3$s: %5$s%6$s%n",
)  # fmt: skip
"""A line of the log is: class(CP group): message."""
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
"""Members without which there is no CP subsystem; and a group has an odd number."""


class Family(RealServers):
    """See :class:`harness.clusters.docker_kinds.RealServers`. Nothing is kept on disk (that is for the other edition):
    a member that comes back is a new one, and is promoted to a CP member by ``docker/hazelcast/member.sh``."""

    START = 90.0
    RESTORE = "rm -f /var/lib/member-joined"

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

    @classmethod
    def abilities(cls, kind: str) -> set[str]:  # noqa: ARG003
        return {"leader", "peers"}

    @classmethod
    def inabilities(cls, kind: str) -> set[str]:  # noqa: ARG003
        return {"disk"}

    def program(self, host: str) -> tuple[list[str], dict[str, str]]:
        """Command and environment."""
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
        return ["member", self.addresses[host], others, ACCOUNT, *JAVA], {"CONF": conf}

    def heard(self, host: str, line: str) -> None:
        if _LEADS.search(line):
            self._leader = host

    # Questions.

    def _ask(self, host: str, path: str) -> Any:
        """The answer, None if there was none."""
        try:
            with self.gate.open():
                answer = requests.get(f"http://{self.addresses[host]}:{PORT}/hazelcast/{path}", timeout=ASK)
                return answer.json() if answer.ok else None
        except (requests.RequestException, OSError):
            return None

    def answers(self, host: str) -> bool:
        """As a CP member: before it is promoted, a member that has come back is of no use to the locks."""
        return bool(self._ask(host, LOCAL))

    def primary(self) -> str | None:
        """Who was elected last to lead the group of the locks."""
        return self._leader

    def version(self) -> str:
        """What the servers say they are."""
        told = self._ask(self.data_hosts[0], "rest/cluster")
        return f"hazelcast {told['members'][0]['memberVersion']}" if told else ""

    # Readiness.

    def ready(self, host: str) -> bool:
        """Is it a CP member, and are all of them in all groups that there are? (A new one is added to the groups a
        moment later, and until then they have fewer to lose.)"""
        groups = [self._ask(host, f"{GROUPS}/{group['name']}") for group in self._ask(host, GROUPS) or ()]
        size = _group_size(len(self.data_hosts))
        return self.answers(host) and bool(groups) and all(group and len(group["members"]) == size for group in groups)

    @property
    def stages(self) -> list[list[str]]:
        """One after the other: members that start at once may each found a cluster of its own. When these merge, one
        gets another identity, and the CP subsystem has lost a member before it began."""
        return [[name] for name in self.data_hosts]

    def await_stage(self, hosts: list[str]) -> None:
        """The group of the locks is made when it is first asked for, which takes seconds: it is asked for here. Members
        that have just found each other may refuse it for a moment."""
        deadline = time.monotonic() + self.START
        there = self.data_hosts.index(hosts[-1]) + 1
        while self._joined(hosts[-1]) < there:
            if time.monotonic() >= deadline:
                raise EnvironmentLacking(f"{hosts[-1]} has not joined within {self.START:g} s; see the servers' logs")
            time.sleep(0.05)
        if there < len(self.data_hosts):
            return
        super().await_stage(self.data_hosts)
        patience = time.monotonic() + RESET
        while (refused := self._make_group()) is not None:
            if time.monotonic() >= deadline:
                raise EnvironmentLacking(f"the CP group of the locks was not formed: {refused}")
            if time.monotonic() >= patience:
                self.begin_anew()
                patience = time.monotonic() + RESET
            time.sleep(0.2)

    def begin_anew(self) -> None:
        """The CP subsystem as if all members had just started (manual, "Reset"): the leading member does it. On a busy
        machine they may take one of them for lost while they find each other, and then it stays out for good."""
        for host in self.data_hosts:
            with contextlib.suppress(requests.RequestException, OSError), self.gate.open():
                requests.post(f"http://{self.addresses[host]}:{PORT}/hazelcast/{ANEW}", data=f"{ACCOUNT}&", timeout=10)

    def _joined(self, host: str) -> int:
        """How many members are in the cluster that it is in; 0 if it does not answer."""
        told = self._ask(host, "rest/cluster")
        return len(told["members"]) if told else 0

    def _make_group(self) -> str | None:
        """Why it could not be made, None if it is there."""
        members = [f"{ip}:{port}" for ip, port in self.address().addresses]
        try:
            with self.gate.open():
                client = HazelcastClient(
                    cluster_name=ACCOUNT, cluster_members=members, cluster_connect_timeout=5, invocation_timeout=10
                )
                try:
                    client.cp_subsystem.get_atomic_long(PROBE).blocking().get()
                finally:
                    client.shutdown()
        except HazelcastError as error:
            return str(error).partition("\n")[0]
        return None


def _group_size(members: int) -> int:
    """Of all members, or all but one: it is odd."""
    return members if members % 2 else members - 1
