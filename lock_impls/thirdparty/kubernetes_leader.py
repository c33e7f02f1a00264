"""Leader election of Kubernetes' client for Python, ``kubernetes.leaderelection`` on a Lease, unmodified; tested with
kubernetes 37.0.2.

Its documentation promises that the first candidate to create or update the lock "becomes the leader and remains so
until it keeps renewing its lease". A candidate that sees another one in the Lease waits until the Lease has not changed
for ``lease_duration`` since it saw it, by ``time.time()``. A leader renews every ``retry_period``, and stops leading
when it could not for ``renew_deadline``, by ``time.time()``.

The times have the proportions of the library's own example: 17, 15 and 5 s; the ttl is ``lease_duration``, in whole
seconds upwards and at least 2, and ``retry_period`` is at least 1 s, as the library requires. The deadline counts from
the beginning of a renewal, so with these proportions a leader may lead for 20/17 of the lease after its last renewal.

Each leadership is that of a candidate with an identity of its own, as the example has, and ``run()`` in a thread.
:meth:`still_valid` is "``run()`` has not returned and ``onstopped_leading`` was not called". A release ends the work
with an exception, after which the leader renews no more. The library has no other way to stop leading: the Lease stays,
and the next leader waits until it is over (kubernetes-client/python#1669, #2075). A candidate whose time is over sends
no request until the next acquire, and keeps what it has seen of the Lease.

Requests: ``GET /apis/coordination.k8s.io/v1/namespaces/default/leases/KEY``, then ``PUT`` of what was read, with this
candidate's name, its resourceVersion and the time; a ``POST`` if there is none. They have no time-out.
Source: kubernetes/leaderelection/leaderelection.py, resourcelock/leaselock.py.

The releases of urllib3 and dateutil that the library requires contradict those of other locks, so it is never installed
beside them.

Safe for: work that two leaders may do at the same time. It has no fencing token: the library does not count leaders.

Known failures: a leader that is cut off leads on, and a jump of a candidate's clock (docs/findings);
ttl-pause-write.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
import uuid
import warnings
from collections.abc import Iterator
from typing import Any, ClassVar, Final, Self

with contextlib.suppress(ModuleNotFoundError):  # then only the description is read
    from kubernetes import client
    from kubernetes.leaderelection.electionconfig import Config
    from kubernetes.leaderelection.leaderelection import LeaderElection
    from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

from harness.lock_impls.base import Endpoints, Failure, Grant, Indeterminate, LockError, LockInfo

NAMESPACE: Final = "default"
LEAST_LEASE_S: Final = 2
LEAST_RETRY_S: Final = 1.0
RENEW_DEADLINE: Final = 15 / 17
"""Share of the lease."""
RETRY_PERIOD: Final = 5 / 17
"""Share of the lease."""
ONE_TRY_S: Final = 1.0
"""Shortest wait for a leadership: a candidate needs two requests."""
_RUN: Final = "harness run kubernetes-leader --cluster docker"

for _name in ("leaderelection", "kubernetes"):
    logging.getLogger(_name).addHandler(logging.NullHandler())


class _WorkOver(Exception):
    """Ends the work of a leader."""


class _ObservedLease:
    """The library's LeaseLock. It records the outcomes of requests, which the election does not report."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self.name, self.namespace, self.identity = lock.name, lock.namespace, lock.identity
        self.wanted = threading.Event()
        """Not set between two acquires: the candidate then sends no request."""
        self.wanted.set()
        self.taken = False
        """Another candidate was seen in the Lease."""
        self.unclear = False
        """A write that would make this candidate the leader was not answered."""
        self.sent = 0.0
        """When the last write was sent, monotonic s."""

    def get(self, name: str, namespace: str) -> Any:
        self.wanted.wait()
        found, record = self._lock.get(name, namespace)
        self.taken = self.taken or (found and record.holder_identity not in (None, self.identity))
        return found, record

    def create(self, name: str, namespace: str, election_record: Any) -> Any:
        with self._writing():
            return self._lock.create(name, namespace, election_record)

    def update(self, name: str, namespace: str, updated_record: Any) -> Any:
        with self._writing():
            return self._lock.update(name, namespace, updated_record)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        self.sent, self.unclear = time.monotonic(), True
        yield
        self.unclear = False  # not reached after an error of the connection


class _Candidate:
    """One run of the library's election."""

    def __init__(self, key: str, lease_s: int) -> None:
        self.lease = _ObservedLease(LeaseLock(key, NAMESPACE, uuid.uuid4()))
        self._lease_s = lease_s
        self._started = threading.Event()
        self._work_over = threading.Event()
        self._ended = threading.Event()
        self._changed = threading.Condition()
        self.error: BaseException | None = None

    def begin(self) -> None:
        config = Config(
            self.lease,
            lease_duration=self._lease_s,
            renew_deadline=self._lease_s * RENEW_DEADLINE,
            retry_period=max(LEAST_RETRY_S, self._lease_s * RETRY_PERIOD),
            onstarted_leading=self._work,
            onstopped_leading=self._ended.set,
        )
        threading.Thread(target=self._run, args=(LeaderElection(config),), daemon=True).start()

    def _run(self, election: Any) -> None:
        try:
            election.run()
        except Exception as error:  # noqa: BLE001 - it ends a process of the user's
            self.error = error
        finally:
            with self._changed:
                self._ended.set()
                self._changed.notify_all()

    def _work(self) -> None:
        with self._changed:
            self._started.set()
            self._changed.notify_all()
        if self.lease.wanted.is_set():
            self._work_over.wait()
        raise _WorkOver

    def await_lead(self, timeout: float) -> bool:
        """Return whether the candidate leads within ``timeout`` seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._started.is_set() or self._ended.is_set(), timeout)
        return self.leads()

    def leads(self) -> bool:
        return self._started.is_set() and not self._ended.is_set()

    def end_work(self) -> None:
        self._work_over.set()

    def resume(self) -> bool:
        """Send requests again; return False if this candidate has led or failed meanwhile."""
        self.lease.wanted.set()
        self.lease.taken = False
        return not (self._started.is_set() or self._ended.is_set())

    def suspend(self) -> bool:
        """Send no more requests. Return False if it has led or failed, or may come to lead, which ends its work."""
        self.lease.wanted.clear()
        return not (self._started.is_set() or self._ended.is_set() or self.lease.unclear)


class KubernetesLeader:
    info: ClassVar = LockInfo(
        name="kubernetes-leader",
        title="the leader election of Kubernetes' Python client, unmodified",
        algorithm="a Lease replaced by compare-and-swap of its version; taken over when unchanged for the lease",
        source="kubernetes 37.0.2, leaderelection/leaderelection.py",
        safety="E",
        kinds=("kubernetes",),
        requires=("kubernetes==37.0.2",),
        library="kubernetes 37.0.2",
        promises=(
            "'The one to create a lock or update an existing lock first becomes the leader and remains so until it "
            "keeps renewing its lease.'"
        ),
        on_death="expiry: candidates wait until the Lease has not changed for its duration",
        outage="nobody leads while the API server is down: the first error ends the election",
        overtime=4.0,  # whole seconds, and the pause of a candidate between two tries
        failures=(
            Failure(
                "k8s-partition",
                "a leader that is cut off waits for its request's answer for ever, and leads on",
                f"{_RUN} --nemesis partition-clients --hold 8s",
            ),
            Failure(
                "ttl-pause-write", "the leader is paused for longer than the lease", f"{_RUN} --nemesis client-pause"
            ),
        ),
    )

    def __init__(self, key: str, ttl: float) -> None:
        self._key = key
        self._lease_s = max(LEAST_LEASE_S, math.ceil(ttl))
        self._candidate: _Candidate | None = None
        self._waiting: _Candidate | None = None

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float) -> Self:
        host, port = endpoints.addresses[0]
        configuration = client.Configuration(host=f"https://{host}:{port}")
        configuration.verify_ssl = False  # the server signs its certificate itself
        configuration.api_key = {"authorization": f"Bearer {endpoints.account}"}
        client.Configuration.set_default(configuration)
        warnings.filterwarnings("ignore", message="Unverified HTTPS request")
        return cls(key, ttl)

    def acquire(self, timeout: float) -> Grant | None:
        candidate, self._waiting = self._waiting, None
        if candidate is None or not candidate.resume():
            candidate = _Candidate(self._key, self._lease_s)
            candidate.begin()
        if candidate.await_lead(max(timeout, ONE_TRY_S)):
            self._candidate = candidate
            left = self._lease_s - (time.monotonic() - candidate.lease.sent)
            return Grant(valid_for=max(0.0, left))
        if candidate.suspend():
            self._waiting = candidate
        elif candidate.lease.unclear:
            raise Indeterminate(f"a request was not answered: {candidate.error}")
        if candidate.lease.taken:
            return None
        raise LockError(f"not elected: {candidate.error}")

    def release(self) -> None:
        candidate, self._candidate = self._candidate, None
        if candidate is None:
            raise LockError("does not lead")
        if not candidate.leads():
            raise LockError("does not lead any more")
        candidate.end_work()

    def still_valid(self) -> bool:
        return self._candidate is not None and self._candidate.leads()
