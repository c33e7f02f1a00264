"""What runs on a client's host: opens the lock and does what the workload says, from a job that is data.

On the simulator it is called in the harness' own process; in a container :mod:`harness.client_agent` calls it.
"""

from __future__ import annotations

import time
from random import Random
from typing import Any, Final

import msgspec

from lock_impls import catalogue
from lock_impls.base import Endpoints, LockClass, LockError, LockLookupError
from lock_impls.foreign import load_class

from .clusters.base import Checkpoint, Record
from .discovery import find
from .errors import UsageError
from .plan import Plan
from .workloads.client import Client, Workload
from .workloads.resource import ResourceClient

WORKLOADS: Final = "harness.workloads"
GENERATION: Final = 1_000_000
"""Process numbers of a client's later lives start this much higher."""


class LockFailed(Exception):
    """What a lock runs in has failed by itself: such a run says nothing about the lock."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One life of one client. ``addresses`` are the lock's servers, ``began_ns`` the monotonic time of the run's first
    entry, ``stops`` the events (see :func:`event`) after which the client waits until it is told to go on."""

    plan: Plan
    node: str
    generation: int
    kind: str
    addresses: tuple[tuple[str, int], ...]
    resource: tuple[str, int]
    began_ns: int
    stops: tuple[str, ...] = ()

    @property
    def process(self) -> int:
        """The client's first process number: its own number, far apart for each of its lives."""
        return int(self.node.removeprefix("c")) + self.generation * GENERATION


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """What a lock is told that takes its time to be there, such as a program in another language: before the run
    begins, and at once when a client has come back."""

    name: str
    kind: str
    addresses: tuple[tuple[str, int], ...]
    ttl: float
    options: dict[str, Any]


def event(f: str, type_: str) -> str:
    """What an entry is called in a fault's ``on``: ``acquire``, ``acquire:invoke``, ``release:info`` ..."""
    return f if type_ == "ok" else f"{f}:{type_}"


def find_lock(name: str) -> LockClass:
    """A lock of the catalogue, or ``package.module:Class``; raises UsageError."""
    try:
        return catalogue.resolve(name)
    except LockLookupError as error:
        raise UsageError(str(error)) from error


def find_workload(name: str) -> type[Workload]:
    """The workload called ``name``, or ``package.module:Class``; raises UsageError."""
    if ":" not in name:
        found: type[Workload] = find("workload", WORKLOADS, "run", name)
        return found
    try:
        own: Any = load_class(name)
    except LockLookupError as error:
        raise UsageError(str(error)) from error
    missing = [part for part in ("name", "stock", "run") if not hasattr(own, part)]
    if missing:
        raise UsageError(f"{name} is no workload: it has no {' and no '.join(missing)}")
    workload: type[Workload] = own
    return workload


def prepare(lock: Prepared) -> None:
    """Have a lock start what it needs, where it can be started before a lock is asked for."""
    ready = getattr(find_lock(lock.name), "prepare", None)
    if ready is not None:
        ready(Endpoints(lock.kind, lock.addresses), lock.ttl, **lock.options)


def run(job: Job, record: Record, checkpoint: Checkpoint) -> None:
    """A :data:`harness.clusters.base.Program`: one client's life, to the end of the plan's time."""
    if job.generation == 0:
        time.sleep(job.plan.stagger * job.process)
    find_workload(job.plan.workload).run(client(job, record, checkpoint))
    failure = getattr(find_lock(job.plan.lock), "failure", None)
    if failure is not None and (why := failure()):
        raise LockFailed(why)


def client(job: Job, record: Record, checkpoint: Checkpoint) -> Client:
    """The client of a job, with its lock and its resource still unopened."""
    plan = job.plan
    lock = find_lock(plan.lock)
    endpoints = Endpoints(job.kind, job.addresses)

    def open_lock(key: str) -> Any:
        return lock.open(endpoints, key, plan.ttl, **plan.lock_options)

    return Client(
        node=job.node,
        process=job.process,
        settings=plan,
        open_lock=open_lock,
        refused=LockError,
        resource=ResourceClient(job.resource),
        record=record,
        deadline_ns=job.began_ns + int(plan.time_limit * 1e9),
        rng=Random(f"{plan.seed}/client/{job.node}/{job.process}"),
        checkpoint=checkpoint,
    )
