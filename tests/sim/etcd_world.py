"""A simulated etcd cluster, and clients that run etcd3 unmodified on hosts of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import etcd3
import grpc
from etcd3 import etcdrpc

from harness.clusters import sim_etcd
from harness.sim import threads
from harness.sim.hosts import Host
from harness.sim.kernel import BOOT, SECOND, Kernel
from harness.sim.network import Network
from harness.sim.patches import virtual
from harness.sim.servers.etcd.server import CLIENT_PORT, EtcdServer


class EtcdWorld:
    """``nodes`` members n1 ..., and as many clients' hosts as are asked for."""

    def __init__(self, nodes: int = 3, seed: int = 0, **options: Any) -> None:
        self.kernel = Kernel(seed)
        self.network = Network(self.kernel)
        self.hosts: dict[str, Host] = {}
        self.servers = sim_etcd.build(self.make, "etcd", nodes, options)

    def make(self, name: str, role: str = "client") -> Host:
        host = self.hosts[name] = Host(self.network, name)
        return host

    def run(self, *mains: Callable[[], Any]) -> list[Any]:
        """Run each of ``mains`` on a client's host of its own, once there is a leader; what they returned, in order."""
        results: list[Any] = [None] * len(mains)
        left = len(mains)

        def wrap(number: int, main: Callable[[], Any]) -> None:
            nonlocal left
            task_sleep(0.5)
            results[number] = main()
            left -= 1
            if not left:
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
                threads.forget()
        return results

    def cut(self, one: str, other: str, *, mend: bool = False) -> None:
        for source, target in ((one, other), (other, one)):
            self.network.link(source, target).cuts += -1 if mend else 1

    def isolate(self, name: str, *, mend: bool = False, clients: bool = False) -> None:
        """Cut a member off from the others (and from the clients)."""
        for other in self.hosts:
            if other != name and (clients or other.startswith("n")):
                self.cut(name, other, mend=mend)

    def leader(self) -> str:
        found = self.servers.primary()
        assert found is not None
        return found

    def server(self, name: str) -> EtcdServer:
        server = self.hosts[name].services[CLIENT_PORT]
        assert isinstance(server, EtcdServer)
        return server

    def leaders(self) -> list[str]:
        """All that hold themselves to be the leader."""
        return [name for name in self.hosts if name.startswith("n") and self.server(name).leads]

    def follower(self) -> str:
        return next(name for name in self.hosts if name.startswith("n") and name != self.leader())

    def seconds(self) -> float:
        return (self.kernel.now - BOOT) / SECOND


def client(host: str = "n1", timeout: float | None = 5, port: int = 2379, **options: Any) -> Any:
    """etcd3's own client."""
    return etcd3.client(host=host, port=port, timeout=timeout, **options)


def put(client: Any, key: str = "x", value: str = "1", **fields: Any) -> tuple[str, str]:
    """A put by the raw stub: the status it ends with."""
    return status_of(lambda: client.kvstub.Put(etcdrpc.PutRequest(key=key.encode(), value=value.encode(), **fields)))


def get(client: Any, key: str = "x", **fields: Any) -> tuple[str, str]:
    """A range of one key by the raw stub: the status it ends with."""
    return status_of(lambda: client.kvstub.Range(etcdrpc.RangeRequest(key=key.encode(), **fields)))


def status_of(call: Callable[[], Any]) -> tuple[str, str]:
    """The status that a raw stub's call ends with."""
    try:
        call()
    except grpc.RpcError as error:
        return error.code().name, error.details()
    return "OK", ""
