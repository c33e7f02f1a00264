"""Starvation: a host that gets too little processor time, as on an overcommitted machine or under a small quota."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

import msgspec

from harness.clusters.abilities import PROCESSES, PROCESSORS, Needs
from harness.clusters.abilities.hosts import ProcessorQuotas

from .base import Damage, Fault, InjectionContext, Observation, once, targets
from .records import FaultRecord, Moment

PERIODS: float = 2.5
"""Periods for which a starved host is observed: the kernel counts a standstill when it is over."""
SHORTEST_PERIOD_S: Final = 0.01
LONGEST_PERIOD_S: Final = 1.0
"""Limits of the kernel (CFS bandwidth control)."""
LEAST_QUOTA_S: Final = 0.001
"""The kernel grants no less processor time in a period."""


class CpuStarvation(Fault, frozen=True):
    """Hosts get ``share`` of one processor: they compute for that part of each ``period`` (seconds) and then stand
    still until the next one. In containers busy processes of ours compete with the host's own for that time."""

    name: ClassVar[str] = "cpu-starvation"
    damages_with: ClassVar[str] = "limit_processor"
    fact: ClassVar[str] = "throttled_s"
    summary: ClassVar[str] = "a client gets so little processor time that its work under the lock outlasts the ttl"
    needs: ClassVar[Needs] = frozenset({PROCESSES, PROCESSORS})
    schedule: ClassVar[dict[str, Any]] = {"on": "acquire", "nth": 3, "times": 1000, "every": "4 ttl", "for": "2.5 ttl"}
    search: ClassVar[dict[str, tuple[Any, ...]]] = {
        "target": ("holder",), "share": (0.005, 0.2), "period": (1.0, 0.1), "for": ("2.5 ttl",)
    }  # fmt: skip
    on_request: ClassVar[bool] = True
    """In the simulator computing takes no time, so it is a series of pauses there, which searches have already."""
    takes: ClassVar[float] = 3.0

    target: str = "holder"
    share: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.005
    period: Annotated[float, msgspec.Meta(ge=SHORTEST_PERIOD_S, le=LONGEST_PERIOD_S)] = 1.0

    def inject(self, scene: InjectionContext) -> Damage:
        processors, processes = scene.part(PROCESSORS), scene.part(PROCESSES)
        hosts = targets(scene, self.target, scene.hosts("client"))
        undone = [processors.limit_processor(host, self.share, self.period) for host in hosts]

        def observe() -> Observation:
            before, began = _throttled(processors, hosts), scene.cluster.clock()[0]
            scene.over.wait(PERIODS * self.period)
            elapsed = (scene.cluster.clock()[0] - began) / 1e9
            grown = {host: round(now - before[host], 3) for host, now in _throttled(processors, hosts).items()}
            least = (1 - self.share) * min(elapsed, PERIODS * self.period) / 2
            facts = {"throttled_s": grown, "observed_s": round(elapsed, 3)}
            expected = f"all of them at a standstill for {least:.3f} s of {elapsed:.3f} s and more"
            return Observation({host: stood >= least for host, stood in grown.items()}, facts, expected)

        def heal() -> None:
            for undo in undone:
                undo()

        def healed() -> Observation:
            before = _throttled(processors, hosts)
            states = {host: processes.state(host) for host in hosts}
            grown = {host: round(now - before[host], 3) for host, now in _throttled(processors, hosts).items()}
            going = {host: grown[host] <= 0 and states[host] != "paused" for host in hosts}
            return Observation(going, {"throttled_s": grown, "state": states}, "none of them stands still")

        return Damage(hosts, observe, once(heal), healed)

    def __post_init__(self) -> None:
        least = LEAST_QUOTA_S / self.period
        if self.share < least * (1 - 1e-9):
            raise ValueError(
                f"share: got {self.share:g}, expected {least:g} or more: a period of {self.period:g} s has a quota of "
                f"{LEAST_QUOTA_S:g} s at least"
            )

    @classmethod
    def story(cls, record: FaultRecord, ended: str) -> str:
        return f"{record.who} {record.verb('gets', 'get')} {_share(record)} of a processor{ended}"

    @classmethod
    def cause(cls, record: FaultRecord, moment: Moment) -> str:
        until = "" if record.healed_ns is None else f" to {moment.seconds(record.healed_ns)}"
        since = moment.seconds(record.injected_ns)
        return f"{record.who} got {_share(record)} of a processor from {since}{until}"


def _throttled(processors: ProcessorQuotas, hosts: list[str]) -> dict[str, float]:
    return {host: processors.throttled_s(host) for host in hosts}


def _share(record: FaultRecord) -> str:
    return f"{100 * record.params.get('share', 0.0):g} %"
