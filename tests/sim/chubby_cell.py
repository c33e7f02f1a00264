"""A simulated Chubby cell for tests that run on client hosts, with the client library or over raw connections."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from typing import Any

from harness.clusters.sim.cluster import SimCluster
from harness.faults.partition import links_between
from harness.lock_impls.chubby_client import ChubbySession, Handle
from harness.sim.servers.chubby.protocol import PORT
from harness.sim.servers.chubby.server import ChubbyServer
from tests.clusters.bench import make, on

REPLICAS = ("n1", "n2", "n3", "n4", "n5")
LEASE = 4.0
NAME = "/ls/cell/lock"


class Cell:
    """Five replicas and the clients c0, c1 and c2. Default: a lease of 4 s, a lock-delay of 1 s, a grace period of
    15 s."""

    def __init__(self, seed: int = 0, **options: Any) -> None:
        self.cluster: SimCluster = make(
            "chubby", clients=3, seed=seed, **{"lease": LEASE, "grace": 15.0, "lock_delay": 1.0, **options}
        )
        self.two_masters = False

    def run(self, behaviour: Callable[[Cell], Any]) -> Any:
        """Call ``behaviour`` on c0 and return its result; meanwhile watch whether two replicas serve as masters."""
        results: list[Any] = []

        def watch() -> None:
            while not results:
                self.two_masters |= len(self.serving()) > 1
                time.sleep(0.02)

        def main() -> Any:
            join = self.cluster.spawn("c0", lambda checkpoint: results.append(behaviour(self)))
            watch()
            assert join(1)

        on(self.cluster, main)
        return results[0]

    def on(self, client: str, action: Callable[[], Any]) -> list[Any]:
        """Start ``action`` on another client's host; its result appears in the list that this returns."""
        results: list[Any] = []
        self.cluster.spawn(client, lambda checkpoint: results.append(action()))
        return results

    # The replicas.

    def server(self, name: str) -> ChubbyServer:
        found = self.cluster._machines[name].host.services[PORT]
        assert isinstance(found, ChubbyServer)
        return found

    def serving(self) -> list[str]:
        """Return the replicas that would answer as the master now."""
        found = [(name, self.server(name).replica) for name in REPLICAS]
        return [
            name
            for name, replica in found
            if replica is not None and self.cluster._machines[name].host.life.state == 0 and replica.serves()
        ]

    def master(self, within: float = 5.0) -> str:
        """Wait at most ``within`` seconds for a master, and return its name."""
        deadline = time.monotonic() + within
        while not (found := self.serving()) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert len(found) == 1, found
        return found[0]

    def others(self, *names: str) -> list[str]:
        return [name for name in REPLICAS if name not in names]

    def cut(self, some: list[str], others: list[str]) -> Callable[[], None]:
        """Cut hosts from others; returns a function that heals the cut."""
        links = links_between(some, others)
        self.cluster.cut(links)
        return lambda: self.cluster.heal(links)

    def kill_master(self) -> str:
        name = self.master()
        self.cluster.kill(name)
        return name

    # Clients.

    def session(self, **more: Any) -> ChubbySession:
        return ChubbySession([(name, PORT) for name in REPLICAS], **more)

    def raw(self, name: str, **message: Any) -> dict[str, Any]:
        """Send one request to one replica over a connection of its own, and return the answer."""
        with socket.create_connection((name, PORT), 5) as link:
            link.settimeout(20)
            link.sendall(json.dumps({"n": 1, **message}).encode() + b"\n")
            answer: dict[str, Any] = json.loads(link.makefile("rb").readline())
            return answer


def deadline_in(seconds: float = 10.0) -> float:
    return time.monotonic() + seconds


def open_file(session: ChubbySession, name: str = NAME, **more: Any) -> Handle:
    return session.open(name, deadline_in(), **more)


def acquire(session: ChubbySession, handle: Handle, *, mode: str = "exclusive", wait: float = 0.0) -> bool:
    return bool(session.call("Acquire", deadline_in(wait + 10), wait, handle=handle, mode=mode)["held"])


def sequencer(session: ChubbySession, handle: Handle) -> str:
    return str(session.call("GetSequencer", deadline_in(), handle=handle)["sequencer"])


def release(session: ChubbySession, handle: Handle) -> None:
    session.call("Release", deadline_in(), handle=handle)


def is_valid(session: ChubbySession, shown: str) -> bool:
    return bool(session.call("CheckSequencer", deadline_in(), sequencer=shown)["valid"])


def stat(session: ChubbySession, handle: Handle) -> Any:
    return session.call("GetContentsAndStat", deadline_in(), handle=handle)["stat"]
