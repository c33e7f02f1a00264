"""A simulated etcd cluster, and clients that run etcd3 unmodified on hosts of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import etcd3
import grpc
from etcd3 import etcdrpc

from harness.clusters.sim.services.etcd import EtcdServers
from harness.sim.hosts import SimHost
from harness.sim.kernel import BOOT, SECOND, Kernel
from harness.sim.network import SimNetwork
from harness.sim.patches import virtual
from harness.sim.servers.etcd.raft import Raft
from harness.sim.servers.etcd.server import CLIENT_PORT, EtcdServer


class EtcdWorld:
    """A cluster of ``nodes`` members n1, n2 and so on, and one client host c0, c1 ... per program that runs."""

    def __init__(self, nodes: int = 3, seed: int = 0, **options: Any) -> None:
        self.kernel = Kernel(seed)
        self.network = SimNetwork(self.kernel)
        self.hosts: dict[str, SimHost] = {}
        self.servers = EtcdServers(self.make, "etcd", nodes, options)

    def make(self, name: str, role: str = "client") -> SimHost:
        host = self.hosts[name] = SimHost(self.network, name)
        return host

    def run(self, *mains: Callable[[], Any]) -> list[Any]:
        """Run each of ``mains`` on a client host of its own, once there is a leader; return their results in order."""
        results: list[Any] = [None] * len(mains)
        seconds_left = len(mains)

        def wrap(number: int, main: Callable[[], Any]) -> None:
            nonlocal seconds_left
            task_sleep(0.5)
            results[number] = main()
            seconds_left -= 1
            if not seconds_left:
                self.kernel.finish()

        with virtual():
            from time import sleep as task_sleep

            for number, main in enumerate(mains):
                name = f"c{number}"
                host = self.hosts.get(name) or self.make(name)
                host.spawn(wrap, number, main)
            try:
                self.kernel.run()
            finally:
                self.kernel.close()
        return results

    def cut(self, one: str, other: str, *, heal: bool = False) -> None:
        for source, target in ((one, other), (other, one)):
            self.network.link(source, target).cuts += -1 if heal else 1

    def isolate(self, name: str, *, heal: bool = False, clients: bool = False) -> None:
        """Cut a member off from the others (and from the clients)."""
        for other in self.hosts:
            if other != name and (clients or other.startswith("n")):
                self.cut(name, other, heal=heal)

    def leader(self) -> str:
        found = self.servers.leader()
        assert found is not None
        return found

    def server(self, name: str) -> EtcdServer:
        server = self.hosts[name].services[CLIENT_PORT]
        assert isinstance(server, EtcdServer)
        return server

    def leaders(self) -> list[str]:
        """Return the members that believe that they are the leader."""
        return [name for name in self.hosts if name.startswith("n") and self.server(name).leads]

    def follower(self) -> str:
        return next(name for name in self.hosts if name.startswith("n") and name != self.leader())

    def seconds(self) -> float:
        return (self.kernel.now - BOOT) / SECOND


def client(host: str = "n1", timeout: float | None = 5, port: int = 2379, **options: Any) -> Any:
    """etcd3's own client."""
    return etcd3.client(host=host, port=port, timeout=timeout, **options)


def put(client: Any, key: str = "x", value: str = "1", **fields: Any) -> tuple[str, str]:
    """Put through the raw stub and return the status."""
    return status_of(lambda: client.kvstub.Put(etcdrpc.PutRequest(key=key.encode(), value=value.encode(), **fields)))


def get(client: Any, key: str = "x", **fields: Any) -> tuple[str, str]:
    """Read one key through the raw stub and return the status."""
    return status_of(lambda: client.kvstub.Range(etcdrpc.RangeRequest(key=key.encode(), **fields)))


def status_of(call: Callable[[], Any]) -> tuple[str, str]:
    """Return the status of a raw stub's call: (name of the code, details)."""
    try:
        call()
    except grpc.RpcError as error:
        return error.code().name, error.details()
    return "OK", ""


def commits_without_majority(self: Raft) -> bool:
    """Mutant of ``Raft._advance``."""
    before = self.disk.commit
    self._commit(len(self.disk.log))
    return self.disk.commit > before
