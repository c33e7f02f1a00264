"""Processor time of simulated hosts. Computing takes no time here, so a host with a quota is taken to use it up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Final

from harness.sim.hosts import SimHost
from harness.sim.kernel import SECOND, Kernel


class _Quota:
    """Lets a host run for ``run_ns`` and pauses it for ``rest_ns``, again and again until it is lifted."""

    def __init__(self, kernel: Kernel, host: SimHost, run_ns: int, rest_ns: int) -> None:
        self._kernel = kernel
        self._host = host
        self._run_ns = run_ns
        self._rest_ns = rest_ns
        self._lifted = False
        self._since: int | None = None
        self.stood_ns = 0
        kernel.later(run_ns, None, self._rest)

    def _rest(self) -> None:
        if not self._lifted:
            self._since = self._kernel.now
            self._host.pause()
            self._kernel.later(self._rest_ns, None, self._run)

    def _run(self) -> None:
        if not self._lifted:
            self._resume()
            self._kernel.later(self._run_ns, None, self._rest)

    def _resume(self) -> None:
        if self._since is not None:
            self.stood_ns += self._kernel.now - self._since
            self._since = None
            self._host.resume()

    def lift(self) -> None:
        self._lifted = True
        self._resume()


class Processors:
    """Processor time of a cluster's hosts; implements :class:`harness.clusters.abilities.hosts.ProcessorQuotas`."""

    def __init__(self, kernel: Kernel, hosts: Mapping[str, SimHost]) -> None:
        self._kernel = kernel
        self._hosts = hosts
        self._quotas: Final[dict[str, list[_Quota]]] = defaultdict(list)

    def limit_processor(self, host: str, share: float, period_s: float) -> Callable[[], None]:
        """See :meth:`harness.clusters.abilities.hosts.ProcessorQuotas.limit_processor`. Several limits on a host pause
        it independently of each other."""
        run_ns = round(share * period_s * SECOND)
        quota = _Quota(self._kernel, self._hosts[host], run_ns, round(period_s * SECOND) - run_ns)
        self._quotas[host].append(quota)
        return quota.lift

    def throttled_s(self, host: str) -> float:
        """See :meth:`harness.clusters.abilities.hosts.ProcessorQuotas.throttled_s`. A rest counts when it is over."""
        return sum(quota.stood_ns for quota in self._quotas[host]) / SECOND
