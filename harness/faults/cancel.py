"""Cancellations: a client's task is cancelled while it awaits a call of its lock (a time-out, a lost web request)."""

from __future__ import annotations

import time
from typing import Any, ClassVar, Final

from harness.clusters.abilities import CANCELS, Needs
from harness.clusters.base import Role
from harness.wording import listed

from .base import Damage, Fault, InjectionContext, Observation, targets
from .records import FaultRecord, Moment

PATIENCE_S: Final = 600.0
"""Seconds for which a cancellation waits for a call of the client, unless the run ends before. A client that is in its
critical section makes its next call after that."""


class TaskCancel(Fault, frozen=True):
    """The asyncio task of a client is cancelled inside a call of its lock, at the await where it is.

    The call has an unknown outcome unless the lock returns one all the same. The client goes on with its next step, and
    does not hold what it asked for.
    """

    name: ClassVar[str] = "task-cancel"
    summary: ClassVar[str] = "the asyncio task of a client is cancelled while it awaits a call of its lock"
    needs: ClassVar[Needs] = frozenset({CANCELS})
    damages_with: ClassVar[str] = "cancel_call"
    disturbs: ClassVar[bool] = False
    replaces: ClassVar[bool] = True
    coroutines: ClassVar[bool] = True
    schedule: ClassVar[dict[str, Any]] = {"on": "acquire:invoke", "nth": 3, "times": 1000, "every": "1 ttl"}
    search: ClassVar[dict[str, tuple[Any, ...]]] = {"for": (None,)}
    fact: ClassVar[str] = "cancelled"

    roles: ClassVar[tuple[Role, ...]] = ("client",)
    target: str = "holder"

    def inject(self, scene: InjectionContext) -> Damage:
        cancels = scene.part(CANCELS)
        hosts = targets(scene, self.target, scene.hosts("client"))
        before = {host: len(cancels.cancelled_calls(host)) for host in hosts}
        for host in hosts:
            cancels.cancel_call(host)

        def new(host: str) -> list[str]:
            return list(cancels.cancelled_calls(host)[before[host] :])[:1]

        def observe() -> Observation:
            deadline = time.monotonic() + PATIENCE_S
            while not all(map(new, hosts)) and time.monotonic() < deadline and not scene.over.is_set():
                time.sleep(0.01)
            calls = {host: new(host) for host in hosts}
            facts = {"cancelled": {host: call[0] for host, call in calls.items() if call}}
            return Observation({host: bool(call) for host, call in calls.items()}, facts, "a call of each cancelled")

        return Damage(hosts, observe, lambda: None)

    @classmethod
    def story(cls, record: FaultRecord, ended: str) -> str:
        del ended  # it is over at once
        return f"the task of {record.who} that awaits its {_calls(record)} is cancelled"

    @classmethod
    def cause(cls, record: FaultRecord, moment: Moment) -> str:
        return f"the {_calls(record)} of {record.who} was cancelled at {moment.seconds(record.injected_ns)}"


def _calls(record: FaultRecord) -> str:
    return listed(sorted(set(record.observed["cancelled"].values())))
