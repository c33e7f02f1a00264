"""A simulated Chubby cell for stories told on client hosts, with the client library or over a raw connection."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from typing import Any

from harness.clusters.sim import SimCluster
from harness.faults.partition import between
from harness.sim.servers.chubby.protocol import PORT
from harness.sim.servers.chubby.server import ChubbyServer
from lock_impls.chubby_client import Handle, Session
from tests.clusters.bench import make, on

REPLICAS = ("n1", "n2", "n3", "n4", "n5")
LEASE = 4.0
NAME = "/ls/cell/lock"


class Cell:
    """Five replicas and the clients c0, c1 and c2; with a lease of 4 s and a lock-delay of 1 s, if nothing else is
    said. Stories run on c0."""

    def __init__(self, seed: int = 0, **options: Any) -> None:
        self.cluster: SimCluster = make(
            "chubby", clients=3, seed=seed, **{"lease": LEASE, "grace": 15.0, "lock_delay": 1.0, **options}
        )
        self.two_masters = False

    def tell(self, story: Callable[[Cell], Any]) -> Any:
        """Run a story on c0, and watch all the while that no two replicas serve as masters; what it returned."""
        over: list[Any] = []

        def watch() -> None:
            while not over:
                self.two_masters |= len(self.serving()) > 1
                time.sleep(0.02)

        def main() -> Any:
            join = self.cluster.spawn("c0", lambda checkpoint: over.append(story(self)))
            watch()
            assert join(1)

        on(self.cluster, main)
        return over[0]

    def on(self, client: str, act: Callable[[], Any]) -> list[Any]:
        """Start something on another client's host; its result appears in the list that this returns."""
        results: list[Any] = []
        self.cluster.spawn(client, lambda checkpoint: results.append(act()))
        return results

    # The replicas.

    def server(self, name: str) -> ChubbyServer:
        found = self.cluster._machines[name].host.services[PORT]
        assert isinstance(found, ChubbyServer)
        return found

    def serving(self) -> list[str]:
        """Who would answer as the master, if asked now."""
        found = [(name, self.server(name).replica) for name in REPLICAS]
        return [
            name
            for name, replica in found
            if replica is not None and self.cluster._machines[name].host.life.state == 0 and replica.serves()
        ]

    def master(self, within: float = 5.0) -> str:
        deadline = time.monotonic() + within
        while not (found := self.serving()) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert len(found) == 1, found
        return found[0]

    def others(self, *names: str) -> list[str]:
        return [name for name in REPLICAS if name not in names]

    def cut(self, some: list[str], others: list[str]) -> Callable[[], None]:
        """Cut hosts from others; returns what mends it."""
        links = between(some, others)
        self.cluster.cut(links)
        return lambda: self.cluster.mend(links)

    def kill_master(self) -> str:
        name = self.master()
        self.cluster.kill(name)
        return name

    # Clients.

    def session(self, **more: Any) -> Session:
        return Session([(name, PORT) for name in REPLICAS], **more)

    def raw(self, name: str, **message: Any) -> dict[str, Any]:
        """One request to one replica, and its answer."""
        with socket.create_connection((name, PORT), 5) as link:
            link.settimeout(20)
            link.sendall(json.dumps({"n": 1, **message}).encode() + b"\n")
            answer: dict[str, Any] = json.loads(link.makefile("rb").readline())
            return answer


def soon(seconds: float = 10.0) -> float:
    return time.monotonic() + seconds


def opened(session: Session, name: str = NAME, **more: Any) -> Handle:
    return session.open(name, soon(), **more)


def acquired(session: Session, handle: Handle, *, mode: str = "exclusive", wait: float = 0.0) -> bool:
    return bool(session.call("Acquire", soon(wait + 10), wait, handle=handle, mode=mode)["held"])


def sequencer(session: Session, handle: Handle) -> str:
    return str(session.call("GetSequencer", soon(), handle=handle)["sequencer"])


def release(session: Session, handle: Handle) -> None:
    session.call("Release", soon(), handle=handle)


def is_valid(session: Session, shown: str) -> bool:
    return bool(session.call("CheckSequencer", soon(), sequencer=shown)["valid"])


def stat(session: Session, handle: Handle) -> Any:
    return session.call("GetContentsAndStat", soon(), handle=handle)["stat"]
