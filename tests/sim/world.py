"""Two simulated hosts and an echo service, for tests of the kernel, the network and the patches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.sim.hosts import SimHost
from harness.sim.kernel import Kernel
from harness.sim.network import SimNetwork
from harness.sim.patches import virtual
from harness.sim.service import Conn, ServiceHost


class Echo:
    """A service that answers with its input in upper case, and records the calls that it gets."""

    port = 7

    def __init__(self) -> None:
        self.events: list[Any] = []

    def start(self, host: ServiceHost, *, wiped: bool) -> None:
        self.events.append(("start", wiped))

    def stop(self) -> None:
        self.events.append("stop")

    def opened(self, conn: Conn) -> None:
        self.events.append(("opened", conn.peer))

    def received(self, conn: Conn, data: bytes) -> None:
        self.events.append(data)
        conn.send(data.upper())

    def closed(self, conn: Conn) -> None:
        self.events.append(("closed", conn.peer))


class TwoHostWorld:
    """Two hosts, ``a`` and ``b``; ``b`` runs an echo service."""

    def __init__(self, seed: int = 0) -> None:
        self.kernel = Kernel(seed)
        self.network = SimNetwork(self.kernel)
        self.a = SimHost(self.network, "a")
        self.b = SimHost(self.network, "b")
        self.echo = Echo()
        self.b.install(self.echo)
        self.results: list[Any] = []

    def run(self, *mains: Callable[[], Any], on: SimHost | None = None) -> list[Any]:
        """Run each of ``mains`` as a task on host ``a`` (or ``on``) until all have returned.

        Returns their results in the order of completion.
        """
        left = len(mains)

        def wrap(main: Callable[[], Any]) -> None:
            nonlocal left
            self.results.append(main())
            left -= 1
            if not left:
                self.kernel.finish()

        with virtual():
            for main in mains:
                (on or self.a).spawn(wrap, main)
            try:
                self.kernel.run()
            finally:
                self.kernel.close()
        return self.results

    def seconds(self) -> float:
        from harness.sim.kernel import BOOT, SECOND

        return (self.kernel.now - BOOT) / SECOND
