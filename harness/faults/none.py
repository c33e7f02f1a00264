"""No fault: the control of every experiment."""

from __future__ import annotations

from typing import Any, ClassVar

from .base import Damage, Fault, InjectionContext, Observation


class NoFault(Fault, frozen=True):
    """Injects nothing; for control runs."""

    name: ClassVar[str] = "none"
    beyond_clients: ClassVar[bool] = False
    summary: ClassVar[str] = "no fault: the control run"
    disturbs: ClassVar[bool] = False
    schedule: ClassVar[dict[str, Any]] = {}

    def inject(self, scene: InjectionContext) -> Damage:
        del scene
        return Damage([], lambda: Observation({"nothing": True}, {}, "nothing"), lambda: None)
