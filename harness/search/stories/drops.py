"""Remove a step from a schedule: each class returns the plan without one kind of step."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from harness.faults.process import ClientCrash
from harness.plan import FaultSpec, Plan
from harness.worker.client_program import find_workload


class Drop(msgspec.Struct, frozen=True, tag=True):
    """Base class. ``lasting``: the resulting plan is simpler, and can replace the original."""

    lasting: ClassVar[bool] = True

    def of(self, plan: Plan) -> Plan:
        """Return the plan without the step. Faults and delays are numbered as in ``plan``, from 0."""
        raise NotImplementedError


def brought_along(plan: Plan) -> set[str]:
    """Return the faults that the workload adds to every plan."""
    return {one["fault"] for one in getattr(find_workload(plan.workload), "schedule", ())}


class WithoutFault(Drop, frozen=True, tag=True):
    """The fault never strikes."""

    number: int

    def of(self, plan: Plan) -> Plan:
        spec = plan.faults[self.number]
        rest = (*plan.faults[: self.number], *plan.faults[self.number + 1 :])
        if spec.fault in brought_along(plan) and all(one.fault != spec.fault for one in rest):
            # Without it the workload would add it again, so keep it, but after the end of the run.
            rest = (*rest, FaultSpec(spec.fault, at=plan.time_limit, params=spec.params))
        return msgspec.structs.replace(plan, faults=rest)


class WithoutDelay(Drop, frozen=True, tag=True):
    """The message is not delayed."""

    number: int

    def of(self, plan: Plan) -> Plan:
        return msgspec.structs.replace(plan, delays=(*plan.delays[: self.number], *plan.delays[self.number + 1 :]))


class Ends(Drop, frozen=True, tag=True):
    """The client ends after ``after`` acquires; it then holds nothing."""

    client: str
    after: int

    def of(self, plan: Plan) -> Plan:
        return msgspec.structs.replace(plan, ends={**plan.ends, self.client: self.after})


class Rest(Drop, frozen=True, tag=True):
    """Removal of all steps after the violation: each of these clients ends after so many acquires, and these faults
    never strike."""

    after: dict[str, int]
    faults: tuple[int, ...]

    def of(self, plan: Plan) -> Plan:
        faults = tuple(spec for number, spec in enumerate(plan.faults) if number not in self.faults)
        return msgspec.structs.replace(plan, ends={**plan.ends, **self.after}, faults=faults)


class Dies(Drop, frozen=True, tag=True):
    """The client dies immediately before its ``nth`` call of the kind ``f``, so nothing of that call is sent.

    No fault strikes in the quiet at the end of a run, so for late calls the run is ``longer`` (seconds).
    """

    lasting: ClassVar[bool] = False
    client: str
    f: str
    nth: int
    longer: float = 0.0

    def of(self, plan: Plan) -> Plan:
        number = int(self.client.removeprefix("c"))
        death = FaultSpec(ClientCrash.name, on=f"{self.f}:invoke", client=number, nth=self.nth)
        return msgspec.structs.replace(
            plan,
            faults=(*plan.faults, death),
            time_limit=plan.time_limit + self.longer,
            settle=plan.settle_time if self.longer else plan.settle,
        )


Drops = WithoutFault | WithoutDelay | Ends | Dies
"""All ways to remove a step."""
