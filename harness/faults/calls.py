"""Parts of the faults that interrupt a client in a call of its lock or in its critical section."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from harness.clusters.abilities.hosts import InterruptedCall
from harness.wording import listed

from .base import Damage, InjectionContext, Observation
from .records import FaultRecord, Moment

PATIENCE_S: Final = 600.0
"""Seconds for which an interruption waits for a call of the client, unless the run ends before. A client that is in its
critical section makes its next call after that."""
FACT: Final = "calls"
"""Observed fact: the interrupted call of each host."""


def strike(
    scene: InjectionContext,
    hosts: list[str],
    interrupt: Callable[[str], None],
    interrupted: Callable[[str], Sequence[InterruptedCall]],
    expected: str,
) -> Damage:
    """Interrupt each of the hosts. ``interrupted`` returns the calls of a host that were interrupted until now."""
    before = {host: len(interrupted(host)) for host in hosts}
    for host in hosts:
        interrupt(host)

    def new(host: str) -> Sequence[InterruptedCall]:
        return interrupted(host)[before[host] :][:1]

    def observe() -> Observation:
        deadline = time.monotonic() + PATIENCE_S
        while not all(map(new, hosts)) and time.monotonic() < deadline and not scene.over.is_set():
            time.sleep(0.01)
        calls = {host: new(host) for host in hosts}
        facts = {FACT: {host: msgspec.to_builtins(call[0]) for host, call in calls.items() if call}}
        return Observation({host: bool(call) for host, call in calls.items()}, facts, expected)

    return Damage(hosts, observe, lambda: None)


def effect_ns(record: FaultRecord) -> int:
    """Return when the first of the calls was interrupted, ns."""
    return min(int(call["at_ns"]) for _, call in _calls(record))


def story(record: FaultRecord, verb: str) -> str:
    """Return ``c0's release is cancelled after its DEL was sent``."""
    return listed([f"{host}'s {call['method']} is {verb}{_sent(call)}" for host, call in _calls(record)])


def cause(record: FaultRecord, verb: str, moment: Moment) -> str:
    """Return ``c0's release was cancelled at 1.001 s after its DEL was sent``."""
    return listed(
        [
            f"{host}'s {call['method']} was {verb} at {moment.seconds(call['at_ns'])}{_sent(call)}"
            for host, call in _calls(record)
        ]
    )


def _calls(record: FaultRecord) -> list[tuple[str, dict[str, Any]]]:
    return sorted(record.observed[FACT].items())


def _sent(call: dict[str, Any]) -> str:
    return f" after its {call['sent']} was sent" if call["sent"] else ""
