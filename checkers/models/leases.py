"""The model of a lock with leases."""

from __future__ import annotations

from typing import ClassVar, Final

from harness.history import SECOND
from harness.history.calls import NEVER, Wants
from harness.wording import in_seconds

from .base import Either, Inconsistent, Model, Operation
from .locks import ACQUIRE, LOCKING, NOBODY, RELEASE, not_mine

LATE: Final = Inconsistent("it returned before the calls that come earlier in this order could have happened")

Leased = tuple[str | None, int, int, int, frozenset[str]]
"""Holder; earliest end of its lease (ns); length of the lease (ns); earliest current time (ns); and the clients whose
leases were ended by a grant to another client before they released."""


class LeaseMutex(Model):
    """A lock with an owner and a lease, which may end by itself after its time, but not before.

    A grant that says ``valid_for`` promises the lock for so long from its return on; one that does not, for ever; one
    of unknown outcome promises nothing. From the end of the lease on two states are possible, held and free; which it
    was shows in what follows, so that the model decides when it must: another client's grant, an ``extend`` or
    ``check`` that says lost, a release. An ``extend`` that says it is held prolongs the lease from its return on, by
    its own ``valid_for`` or else by the grant's. Releasing a lease that has ended changes nothing. The state carries
    the earliest time it can be, since what follows an expiry cannot have happened before it.
    """

    name = "lease-mutex"
    fs = LOCKING | {"extend", "check"}
    refusals = ACQUIRE
    timed = True
    wants: ClassVar[Wants] = "leases"

    @property
    def initial(self) -> Leased:
        return None, 0, 0, 0, frozenset()

    def step(self, state: Leased, operation: Operation) -> Leased | Inconsistent | Either:
        holder, until, lease, now, lapsed = state
        me, now = operation.client, max(now, operation.began)
        if now > operation.ended:
            return LATE
        if operation.f in ACQUIRE:
            return self._acquire(state, operation, now)
        if operation.f in RELEASE:
            if holder == me:
                return None, 0, 0, now, lapsed
            return (holder, until, lease, now, lapsed - {me}) if me in lapsed else not_mine(holder)
        good = (operation.result or {}).get("good")
        if good is None:
            return state
        if good:
            if holder != me:
                return not_mine(holder)
            longer = operation.f == "extend" and until != NEVER and operation.known
            said = (operation.result or {}).get("valid_for")
            promised = lease if said is None else round(said * SECOND)
            return holder, max(until, operation.ended + promised) if longer else until, lease, now, lapsed
        if holder != me:
            return holder, until, lease, now, lapsed
        now = max(now, until)
        return (None, 0, 0, now, lapsed | {me}) if now <= operation.ended else _promised(holder, until)

    def refuse(self, state: Leased, operation: Operation) -> Leased | Inconsistent:
        """It may be refused after the end of the lease, too, since a service may notice that late."""
        holder, until, lease, now, lapsed = state
        now = max(now, operation.began)
        if now > operation.ended:
            return LATE
        return NOBODY if holder is None else (holder, until, lease, now, lapsed)

    @staticmethod
    def _acquire(state: Leased, operation: Operation, now: int) -> Leased | Inconsistent:
        holder, until, _, _, lapsed = state
        if holder is not None:
            now = max(now, until)
            if now > operation.ended or until == NEVER:
                return _promised(holder, until)
            lapsed = lapsed | {holder}
        seconds = (operation.result or {}).get("valid_for")
        if not operation.known:
            lease, end = 0, now
        elif seconds is None:
            lease, end = 0, NEVER
        else:
            lease = round(seconds * SECOND)
            end = operation.ended + lease
        return operation.client, end, lease, now, lapsed - {operation.client}

    def describe(self, state: Leased) -> str:
        holder, until, *_ = state
        if holder is None:
            return "free"
        return f"held by {holder}" + ("" if until == NEVER else f", promised until {in_seconds(until)}")


def _promised(holder: str, until: int) -> Inconsistent:
    return Inconsistent(
        f"{holder} holds it" + ("" if until == NEVER else f" and was promised it until {in_seconds(until)}")
    )
