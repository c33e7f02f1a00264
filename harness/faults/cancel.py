"""Cancellations: a client's task is cancelled while it awaits a call of its lock (a time-out, a lost web request)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from harness.clusters.abilities import CANCELS, Needs
from harness.clusters.base import Role

from . import calls
from .base import Damage, Fault, FaultStep, InjectionContext, targets
from .records import FaultRecord, Moment


class TaskCancel(Fault, frozen=True):
    """The asyncio task of a client is cancelled inside a call of its lock, at the await where it is.

    The call has an unknown outcome unless the lock returns one all the same. The client goes on with its next step, and
    does not hold what it asked for. In a critical section (``where``) the rest of that is left out, and the client
    releases its lock.
    """

    name: ClassVar[str] = "task-cancel"
    beyond_clients: ClassVar[bool] = False
    summary: ClassVar[str] = "the asyncio task of a client is cancelled while it awaits a call of its lock"
    needs: ClassVar[Needs] = frozenset({CANCELS})
    damages_with: ClassVar[str] = "cancel_call"
    awaits_clients: ClassVar[bool] = True
    disturbs: ClassVar[bool] = False
    replaces: ClassVar[bool] = True
    coroutines: ClassVar[bool | None] = True
    schedule: ClassVar[dict[str, Any]] = {"on": "acquire:invoke", "nth": 3, "times": 1000, "every": "1 ttl"}
    search: ClassVar[dict[str, tuple[Any, ...]]] = {"for": (None,), "where": ("call", "call", "call", "section")}
    workloads: ClassVar[tuple[str, ...]] = ("reuse", "context")
    step: ClassVar[FaultStep | None] = FaultStep("cancel", "client", None, "a cancellation of a call", in_calls=True)
    fact: ClassVar[str] = calls.FACT
    tells_moment: ClassVar[bool] = True

    roles: ClassVar[tuple[Role, ...]] = ("client",)
    target: str = "holder"
    where: Literal["call", "section"] = "call"

    def inject(self, scene: InjectionContext) -> Damage:
        cancels = scene.part(CANCELS)
        hosts = targets(scene, self.target, scene.hosts("client"))
        if self.where == "section":
            expected = "a critical section of each cancelled"
            return calls.strike(scene, hosts, cancels.cancel_section, cancels.cancelled_calls, expected)
        return calls.strike(scene, hosts, cancels.cancel_call, cancels.cancelled_calls, "a call of each cancelled")

    @classmethod
    def effect_ns(cls, record: FaultRecord) -> int:
        return calls.effect_ns(record)

    @classmethod
    def story(cls, record: FaultRecord, ended: str) -> str:
        del ended  # it is over at once
        return calls.story(record, "cancelled")

    @classmethod
    def cause(cls, record: FaultRecord, moment: Moment) -> str:
        return calls.cause(record, "cancelled", moment)
