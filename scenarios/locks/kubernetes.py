"""Leader election of Kubernetes' client-go (tools/leaderelection), imitated on etcd.

The API server is left out. The record of the Lease object is a JSON value that is replaced by compare-and-swap, as an
update with a resourceVersion is.

A client that finds another's record waits until the record has not changed for ``leaseDurationSeconds``, by its own
clock since it saw the change, and then writes itself into it. The leader writes a new renew time every ``RETRY`` of the
lease, and stops leading if it could not do so for ``DEADLINE`` of it, by its own clock. So clocks may differ, but must
not run at different rates. This model reads time.time(), which clock faults change. client-go's own times are 15, 10
and 2 s.

No client compares another's times with its own clock, and nothing that a leader does elsewhere is fenced. The record's
count of leader transitions could be a fence, and is the fence here.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from typing import Any, ClassVar, Final

from harness.lock_impls.base import Endpoints, Grant, Indeterminate, LockError
from harness.lock_impls.etcd_client import KINDS, PATIENCE_S, EtcdMembers, MemberUnanswered
from harness.lock_impls.origins import mistake, model_of

DEADLINE: Final = 2 / 3
RETRY: Final = 2 / 15
Record = dict[str, Any]


class LeaderElection:
    """k8s-lease-rate: safe if clocks differ, but not if a leader's clock runs too slowly."""

    origin: ClassVar = model_of(
        "the leader election", "client-go", "0.36.3", "tools/leaderelection/leaderelection.go, line 541"
    )
    kinds: ClassVar = KINDS

    def __init__(self, endpoints: Endpoints, key: str, ttl: float) -> None:
        self.key = f"leases/{key}"
        self.lease = ttl
        self.me = uuid.uuid4().hex
        self._endpoints = endpoints
        self._members = EtcdMembers(endpoints)
        self._observed: tuple[Record, float] | None = None  # another's record, and when it was first seen so
        self._leading: _Leadership | None = None

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> LeaderElection:
        return cls(endpoints, key, ttl)

    # The Lock protocol.

    def acquire(self, timeout: float) -> Grant | None:
        until = time.monotonic() + timeout
        if self._leading is not None:
            raise LockError("leads already")
        before = self._members.unanswered
        while True:
            began = time.time()
            record = self._try()
            if record is not None:
                self._leading = _Leadership(self, began)
                left = max(0.0, self.lease * DEADLINE - (time.time() - began))
                return Grant(fence=record["leaderTransitions"], valid_for=left)
            if time.monotonic() >= until:
                break
            time.sleep(self.lease * RETRY)
        if self._members.unanswered > before:
            raise Indeterminate("an answer was lost: it may lead")
        return None

    def release(self) -> None:
        leading, self._leading = self._leading, None
        if leading is None:
            raise LockError("does not lead")
        leading.stop()
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            record, revision = self._members.insist(self._get, until)
            if record is None or record["holderIdentity"] != self.me:
                raise LockError("does not lead any more")
            if self._members.insist(self._swap({**record, "holderIdentity": ""}, revision), until):
                return
        raise Indeterminate("the record changed all the time")

    def still_valid(self) -> bool:
        return self._leading is not None and self._leading.in_time()

    # The record.

    def _try(self) -> Record | None:
        """Return the record that names this client as the leader; None if another one leads, or there was no answer."""
        try:
            old, revision = self._members.ask(self._get)
            if old is not None and not self._may_take(old):
                return None
            record = self.renewed(old or {"holderIdentity": "", "leaderTransitions": 0})
            return record if self._members.ask(self._swap(record, revision)) else None
        except MemberUnanswered:
            return None

    def _may_take(self, record: Record) -> bool:
        if record["holderIdentity"] in ("", self.me):
            return True
        if self._observed is None or self._observed[0] != record:
            self._observed = (record, time.time())
        return self.has_expired(*self._observed)

    def has_expired(self, record: Record, seen: float) -> bool:
        """Return whether the leader's lease is over; ``seen`` is when this client first saw the record, by its own
        clock."""
        return bool(time.time() > seen + record["leaseDurationSeconds"])

    def renewed(self, old: Record) -> Record:
        """Return the record with this client as its leader."""
        transition = old["holderIdentity"] != self.me
        return {
            "holderIdentity": self.me,
            "leaseDurationSeconds": self.lease,
            "renewTime": time.time(),
            "leaderTransitions": old["leaderTransitions"] + transition,
        }

    def _get(self, client: Any) -> tuple[Record | None, int]:
        value, about = client.get(self.key)
        return (None, 0) if value is None else (json.loads(value), about.mod_revision)

    def _swap(self, record: Record, revision: int) -> Any:
        def swap(client: Any) -> bool:
            keys = client.transactions
            same = keys.mod(self.key) == revision if revision else keys.create(self.key) == 0
            done: bool = client.transaction([same], [keys.put(self.key, json.dumps(record))], [])[0]
            return done

        return swap

    def renew(self, members: EtcdMembers) -> bool | None:
        """True: renewed; False: another client leads; None: unknown."""
        try:
            record, revision = members.ask(self._get)
            if record is None or record["holderIdentity"] != self.me:
                return False
            return members.ask(self._swap(self.renewed(record), revision)) or None
        except (MemberUnanswered, LockError):
            return None

    def own_members(self) -> EtcdMembers:
        """Open a client for another thread."""
        return EtcdMembers(self._endpoints, self.lease / 4)


class _Leadership:
    """A period as the leader: a thread renews the record, until :meth:`stop` or until that has failed for too long."""

    def __init__(self, election: LeaderElection, began: float) -> None:
        self._election = election
        self._renewed = began
        self._over = threading.Event()
        threading.Thread(target=self._keep, name="renew", daemon=True).start()

    def stop(self) -> None:
        self._over.set()

    def in_time(self) -> bool:
        late = time.time() - self._renewed >= self._election.lease * DEADLINE
        return not (late or self._over.is_set())

    def _keep(self) -> None:
        members = self._election.own_members()
        while not self._over.wait(self._election.lease * RETRY) and self.in_time():
            began = time.time()
            renewed = self._election.renew(members)
            if renewed is False:
                break
            if renewed:
                self._renewed = began
        self._over.set()
        members.close()


class ComparesRenewTimes(LeaderElection):
    """Compare the leader's renew time with one's own clock, which client-go does not do."""

    origin: ClassVar = mistake(
        "a contender that compares the leader's renew time with its own clock",
        "client-go's tools/leaderelection, whose package documentation warns of it",
    )

    def has_expired(self, record: Record, seen: float) -> bool:
        return bool(time.time() > record["renewTime"] + record["leaseDurationSeconds"])
