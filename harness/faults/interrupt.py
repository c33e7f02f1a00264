"""Interrupted threads: Ctrl-C, or the handler of an alarm, raises an exception where a client waits in its lock."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Literal

from harness.clusters.abilities import INTERRUPTS, Needs
from harness.clusters.abilities.hosts import Interrupt
from harness.clusters.base import Role

from . import calls
from .base import Damage, Fault, FaultStep, InjectionContext, targets
from .records import FaultRecord, Moment


class ThreadInterrupt(Fault, frozen=True):
    """An exception is raised in the thread of a client inside a call of its lock, where that waits.

    ``by`` is the exception: ``KeyboardInterrupt`` (``ctrl-c``), or one that derives from ``Exception``, as a handler of
    ``signal.alarm`` raises it. The call has an unknown outcome unless the lock returns one all the same. The client
    goes on with its next step, and does not hold what it asked for. In a critical section (``where``) the rest of that
    is left out, and the client releases its lock.

    A search has it on request only: what a lock does then is seldom documented, and most locks keep their key until the
    lease ends.
    """

    name: ClassVar[str] = "thread-interrupt"
    beyond_clients: ClassVar[bool] = False
    summary: ClassVar[str] = "an exception is raised in a client's thread while it waits in a call of its lock"
    needs: ClassVar[Needs] = frozenset({INTERRUPTS})
    damages_with: ClassVar[str] = "interrupt_call"
    awaits_clients: ClassVar[bool] = True
    disturbs: ClassVar[bool] = False
    replaces: ClassVar[bool] = True
    coroutines: ClassVar[bool | None] = False
    on_request: ClassVar[bool] = True
    schedule: ClassVar[dict[str, Any]] = {"on": "acquire:invoke", "nth": 3, "times": 1000, "every": "1 ttl"}
    search: ClassVar[dict[str, tuple[Any, ...]]] = {
        "for": (None,),
        "where": ("call", "call", "call", "section"),
        "by": ("ctrl-c", "alarm"),
    }
    workloads: ClassVar[tuple[str, ...]] = ("reuse", "context")
    step: ClassVar[FaultStep | None] = FaultStep("interrupt", "client", None, "an interrupt of a call", in_calls=True)
    fact: ClassVar[str] = calls.FACT
    tells_moment: ClassVar[bool] = True

    roles: ClassVar[tuple[Role, ...]] = ("client",)
    target: str = "holder"
    where: Literal["call", "section"] = "call"
    by: Interrupt = "ctrl-c"

    def inject(self, scene: InjectionContext) -> Damage:
        interrupts = scene.part(INTERRUPTS)
        hosts = targets(scene, self.target, scene.hosts("client"))
        in_section = self.where == "section"
        interrupt = partial(interrupts.interrupt_section if in_section else interrupts.interrupt_call, by=self.by)
        expected = f"a {'critical section' if in_section else 'call'} of each interrupted"
        return calls.strike(scene, hosts, interrupt, interrupts.interrupted_calls, expected)

    @classmethod
    def effect_ns(cls, record: FaultRecord) -> int:
        return calls.effect_ns(record)

    @classmethod
    def story(cls, record: FaultRecord, ended: str) -> str:
        del ended  # it is over at once
        return calls.story(record, _verb(record))

    @classmethod
    def cause(cls, record: FaultRecord, moment: Moment) -> str:
        return calls.cause(record, _verb(record), moment)


def _verb(record: FaultRecord) -> str:
    return "interrupted by an alarm" if record.params.get("by") == "alarm" else "interrupted"
