"""The program on a client's host: it opens the lock and runs the workload that a :class:`ClientJob` names.

On the simulator :mod:`harness.worker.world` calls it, in the harness's own process; on a real cluster
:mod:`harness.worker.client_agent` does.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from random import Random
from typing import Any, Final

import msgspec

from harness.clusters.base import Checkpoint, Cluster, RecordEntry
from harness.errors import HarnessError, Interruption, LockFailed, UsageError
from harness.lock_impls import catalogue
from harness.lock_impls.base import Endpoints, LockClass, LockError, Login
from harness.lock_impls.opening import opener
from harness.plan import Plan
from harness.plugins import Folder, Registry, missing_methods

from .client import Client, Workload
from .resource import ResourceClient

GENERATION: Final = 1_000_000
"""Distance of the process numbers of one generation of a client to those of the next."""
THREAD: Final = 100_000
"""Distance of the process numbers of one thread of a client to those of the next."""


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """Login and names that a client needs beside the addresses of servers that the harness does not run.

    Passwords are in environment variables of the client's process: ``password_from`` names that of the servers, and
    ``sentinel_password_from`` that of the sentinels.
    """

    service: str = "mymaster"
    """Name of the primary that sentinels monitor."""
    user: str = ""
    password_from: str = ""
    database: str = ""
    sentinel_user: str = ""
    sentinel_password_from: str = ""

    def endpoints(self, kind: str, addresses: tuple[tuple[str, int], ...]) -> Endpoints:
        """Return the servers as the lock gets them."""
        password, sentinel_password = (
            os.environ[name] if name else "" for name in (self.password_from, self.sentinel_password_from)
        )
        login = Login(self.user, password, self.database, self.sentinel_user, sentinel_password)
        return Endpoints(kind, addresses, self.service, login=login)


class ClientJob(msgspec.Struct, frozen=True, kw_only=True):
    """One life of one client.

    ``addresses`` are the lock's servers; ``began_ns`` is the monotonic time of the run's first entry; ``stops`` are the
    events (see :func:`event`) after which the client waits until it is told to continue.
    """

    plan: Plan
    node: str
    generation: int
    kind: str
    addresses: tuple[tuple[str, int], ...]
    resource: tuple[str, int]
    began_ns: int
    stops: tuple[str, ...] = ()
    key_prefix: str = ""
    """Prefix of a key of the history in the name of its lock on the servers."""
    access: Access = Access()

    @classmethod
    def on(
        cls, cluster: Cluster, plan: Plan, node: str, began_ns: int, *, generation: int = 0, stops: tuple[str, ...] = ()
    ) -> ClientJob:
        """Return the job of a client on a cluster."""
        address = cluster.endpoints()
        return cls(
            plan=plan,
            node=node,
            generation=generation,
            kind=address.kind,
            addresses=address.addresses,
            resource=cluster.resource(),
            began_ns=began_ns,
            stops=stops,
        )

    @property
    def process(self) -> int:
        """The client's first process number, far from those of its other lives."""
        return int(self.node.removeprefix("c")) + self.generation * GENERATION

    @property
    def life(self) -> str:
        """Name of this life of the client in all runs: no other seed, client or life has it."""
        return f"{self.plan.seed}/client/{self.node}/{self.process}"


class LockPreparation(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments for preparing a lock that needs time to start, such as a program in another language. They are sent
    before the run begins, and again when the client is restarted."""

    name: str
    kind: str
    addresses: tuple[tuple[str, int], ...]
    ttl: float
    options: dict[str, Any]
    access: Access = Access()


def event(f: str, type_: str) -> str:
    """Return an entry's name in a fault's ``on``: ``acquire``, ``acquire:invoke``, ``release:info`` ..."""
    return f if type_ == "ok" else f"{f}:{type_}"


def find_lock(name: str) -> LockClass:
    """Return a lock class of the catalogue, of an entry point, or ``package.module:Class``; raises UsageError."""
    return catalogue.resolve(name)


def _users(name: str, kind: type) -> type[Workload]:
    lacks = missing_methods(kind, "stock", "run")
    if lacks:
        raise UsageError(f"{name} is no workload: it has {lacks}")
    workload: type[Workload] = kind
    return workload


WORKLOADS: Final[Registry[type[Workload]]] = Registry(
    "workload", "workloads", Folder("harness.worker.workloads", "run"), _users
)


def find_workload(name: str) -> type[Workload]:
    """Return the workload called ``name``, or ``package.module:Class``; raises UsageError."""
    return WORKLOADS.find(name)


def stock_of(plan: Plan) -> dict[str, Any]:
    """Return the initial values of a plan's resources; raises UsageError if the workload gives no dict of them."""
    workload = find_workload(plan.workload)
    if plan.workload in WORKLOADS.own:
        return workload.stock(plan, plan.time_limit)
    try:
        stock: Any = workload.stock(plan, plan.time_limit)
        msgspec.json.encode(stock)
    except (Exception, SystemExit) as error:
        raise UsageError(f"the workload {plan.workload}: stock: {type(error).__name__}: {error}") from error
    if not isinstance(stock, dict) or not all(isinstance(resource, str) for resource in stock):
        raise UsageError(f"the workload {plan.workload}: stock must be a dict of values by resource, got {stock!r}")
    return stock


def prepare(lock: LockPreparation) -> None:
    """Import a lock and its library, and let it start what it needs before the first acquire, such as a program in
    another language."""
    ready = getattr(find_lock(lock.name), "prepare", None)
    if ready is not None:
        ready(lock.access.endpoints(lock.kind, lock.addresses), lock.ttl, **lock.options)


def run(job: ClientJob, record: RecordEntry, checkpoint: Checkpoint, lock: LockClass) -> None:
    """Run one client with its lock to the end of the plan's time."""
    threads = int(getattr(find_workload(job.plan.workload), "threads", 1))
    _run_threads(job.plan.workload, _clients(job, record, checkpoint, lock, threads))
    failure = getattr(lock, "failure", None)
    if failure is not None and (why := failure()):
        raise LockFailed(why)


def _run_threads(name: str, clients: list[Client]) -> None:
    """Run a workload for each client in a thread of its own, the first one in this thread. Raises what one raises."""
    failures: list[Exception] = []

    def run(one: Client) -> None:
        try:
            _run_workload(name, one)
        except Exception as error:  # noqa: BLE001 - raised in the main thread
            failures.append(error)

    first, *rest = clients
    threads = [threading.Thread(target=run, args=(one,), daemon=True) for one in rest]
    for thread in threads:
        thread.start()
    _run_workload(name, first)
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def _run_workload(name: str, client: Client) -> None:
    """Run a workload. If a user's workload raises, raise UsageError, whose message names it.

    A fault may interrupt a critical section. Then the client releases what it holds, as code does in ``finally``, and
    begins the workload again."""
    workload, interrupted = find_workload(name), True
    try:
        while interrupted:
            interrupted = False
            try:
                workload.run(client)
            except Interruption:
                interrupted = True
                client.release_all()
    except (HarnessError, LockFailed):
        raise
    except Exception as error:
        if name in WORKLOADS.own:
            raise
        raise UsageError(f"the workload {name}: run raised {type(error).__name__}: {error}") from error


def client(job: ClientJob, record: RecordEntry, checkpoint: Checkpoint, lock: LockClass) -> Client:
    """Return the client of a job. It opens its lock and connects to the resource on first use."""
    return _clients(job, record, checkpoint, lock, 1)[0]


def _clients(
    job: ClientJob, record: RecordEntry, checkpoint: Checkpoint, lock: LockClass, threads: int
) -> list[Client]:
    """Return a client for each thread of a job. They share the lock's objects."""
    plan = job.plan
    endpoints = job.access.endpoints(job.kind, job.addresses)

    here = opener(lock)

    def open_lock(key: str) -> Any:
        return here.open(endpoints, f"{job.key_prefix}{key}", plan.ttl, **plan.lock_options)

    shared = _SharedLocks(open_lock)
    return [
        Client(
            node=job.node,
            process=process,
            settings=plan,
            open_lock=shared.open if threads > 1 else open_lock,
            end_loop=here.end_loop,
            refused=LockError,
            resource=ResourceClient(job.resource),
            record=record,
            deadline_ns=job.began_ns + int(plan.time_limit * 1e9),
            rng=Random(f"{plan.seed}/client/{job.node}/{process}"),
            checkpoint=checkpoint,
        )
        for process in (job.process + number * THREAD for number in range(threads))
    ]


class _SharedLocks:
    """The objects of a lock that the threads of a process share, one for each key."""

    def __init__(self, open_lock: Callable[[str], Any]) -> None:
        self._open = open_lock
        self._locks: dict[str, Any] = {}
        self._guard = threading.Lock()

    def open(self, key: str) -> Any:
        with self._guard:
            if key not in self._locks:
                self._locks[key] = self._open(key)
            return self._locks[key]
