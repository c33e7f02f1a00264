"""No fault: the control of every experiment."""

from __future__ import annotations

from typing import Any, ClassVar

from .base import Damage, Fault, Scene, Seen


class NoFault(Fault, frozen=True):
    """Does nothing, and says so."""

    name: ClassVar[str] = "none"
    summary: ClassVar[str] = "nothing happens"
    disturbs: ClassVar[bool] = False
    schedule: ClassVar[dict[str, Any]] = {}

    def inject(self, scene: Scene) -> Damage:
        del scene
        return Damage([], lambda: Seen(True, {}, "nothing"), lambda: None)
