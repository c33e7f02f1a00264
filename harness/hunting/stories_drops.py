"""What it means to leave something out of a schedule: the same plan without it."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from ..client_program import find_workload
from ..plan import FaultSpec, Plan


class Drop(msgspec.Struct, frozen=True, tag=True):
    """``lasting``: the plan without it is a simpler plan, and not only a question that is put to it."""

    lasting: ClassVar[bool] = True

    def of(self, plan: Plan) -> Plan:
        """The plan without it. Numbers of faults and delays are those of ``plan``, from 0."""
        raise NotImplementedError


def brought_along(plan: Plan) -> set[str]:
    """The faults that the workload brings along, and that are there whether or not the plan has them."""
    return {one["fault"] for one in getattr(find_workload(plan.workload), "schedule", ())}


class WithoutFault(Drop, frozen=True, tag=True):
    """The fault never strikes."""

    number: int

    def of(self, plan: Plan) -> Plan:
        spec = plan.faults[self.number]
        rest = (*plan.faults[: self.number], *plan.faults[self.number + 1 :])
        if spec.fault in brought_along(plan) and all(one.fault != spec.fault for one in rest):
            # The workload would bring it along anew: it stays, and its time comes too late.
            rest = (*rest, FaultSpec(spec.fault, at=plan.time_limit, params=spec.params))
        return msgspec.structs.replace(plan, faults=rest)


class WithoutDelay(Drop, frozen=True, tag=True):
    """The message comes when it comes."""

    number: int

    def of(self, plan: Plan) -> Plan:
        return msgspec.structs.replace(plan, delays=(*plan.delays[: self.number], *plan.delays[self.number + 1 :]))


class Ends(Drop, frozen=True, tag=True):
    """The client asks ``after`` times, and then has done its work: it holds nothing, and asks no more."""

    client: str
    after: int

    def of(self, plan: Plan) -> Plan:
        return msgspec.structs.replace(plan, ends={**plan.ends, self.client: self.after})


class Rest(Drop, frozen=True, tag=True):
    """What comes after a violation, and so has no part in it: each of these clients ends after so many acquires, and
    these faults never strike."""

    after: dict[str, int]
    faults: tuple[int, ...]

    def of(self, plan: Plan) -> Plan:
        kept = tuple(spec for number, spec in enumerate(plan.faults) if number not in self.faults)
        return msgspec.structs.replace(plan, ends={**plan.ends, **self.after}, faults=kept)


class Dies(Drop, frozen=True, tag=True):
    """The client dies when it is about to make its ``nth`` call of the kind ``f``: nothing of that is sent. No fault
    strikes in the quiet at the end of a run, so that has to be ``longer`` (seconds) for late calls."""

    lasting: ClassVar[bool] = False
    client: str
    f: str
    nth: int
    longer: float = 0.0

    def of(self, plan: Plan) -> Plan:
        number = int(self.client.removeprefix("c"))
        death = FaultSpec("client-crash", on=f"{self.f}:invoke", client=number, nth=self.nth)
        return msgspec.structs.replace(
            plan,
            faults=(*plan.faults, death),
            time_limit=plan.time_limit + self.longer,
            settle=plan.settle_time if self.longer else plan.settle,
        )


Drops = WithoutFault | WithoutDelay | Ends | Dies
"""What leaving a step out means."""
