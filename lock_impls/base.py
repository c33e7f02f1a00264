"""The lock seam: what a lock must offer to be run, and what it may say about itself.

A lock is any class with ``acquire(timeout)`` and ``release()``. Everything else here is optional.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, Self, get_args, runtime_checkable

Safety = Literal["E", "F", "F?", "X"]
"""E: efficiency only (two holders possible) · F: safe with fencing · F?: would be, but has no usable token · X: broken
without any fault."""


class LockError(Exception):
    """The operation is known not to have happened (for example: release refused, somebody else owns the key)."""


class Indeterminate(Exception):
    """Nobody knows whether the operation happened: the request left, and no answer came back."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a successful acquire hands to its caller.

    ``fence`` is a token that grows with every grant of the key, for the protected resource to check. ``valid_for`` is
    how long the lock is surely held, in seconds from the moment acquire returned, by the client's monotonic clock.
    """

    fence: int | str | None = None
    valid_for: float | None = None


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where the servers are. ``addresses`` are (host, port) pairs; with ``kind`` ``redis-sentinel`` they are the
    sentinels and ``service`` names the monitored primary. ``account`` is user, password and database, where servers
    have such."""

    kind: str
    addresses: tuple[tuple[str, int], ...]
    service: str = "mymaster"
    account: str = "harness"


@runtime_checkable
class Lock(Protocol):
    """The seam. ``timeout`` is in seconds; None from acquire means: not acquired in time, and surely not held.

    More methods are used where a lock has them: ``extend() -> bool``, ``still_valid() -> bool``,
    ``acquire_shared(timeout) -> Grant | None``, which is as acquire, but lets others in who acquire shared too (the
    workload ``readers-writers`` calls it; ``release`` gives back either), and ``increment() ->
    tuple[int, int]``, which adds one to a number that the lock's own service keeps beside the key, in a transaction of
    its own, and says what it saw and what it wrote (the workload ``counter`` calls it by who holds the lock). It raises
    LockError if nothing was added. If it leaves the transaction open, ``release`` commits it, and raises anything but
    LockError where that may have failed.
    """

    def acquire(self, timeout: float) -> Grant | None: ...

    def release(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Failure:
    """A way in which a lock is known to fail: ``id`` in the project's table of anomalies, what happens, in a line, and
    the command that shows it (it ends with exit status 1)."""

    id: str
    what: str
    command: str


@dataclass(frozen=True, slots=True)
class LockInfo:
    """A catalogue entry: what a reader of ``harness show`` learns about the lock before running it.

    ``kinds`` are the cluster kinds the lock can run on, the first is the default; ``safety`` is a :data:`Safety` tag;
    ``options`` are the constructor's own parameters with their defaults, on top of key and ttl. ``on_death`` says what
    frees the lock when its holder dies (``"nothing"``, or what and when), ``outage`` what becomes of it when one server
    is lost (``no_single_point``: it can be had all the same), and ``failures`` are those that a command can show.
    ``library`` is what somebody else published, with the version tested, as in ``redis 8.1.0``; ``promises`` is what
    its documentation says of it. A lock in another ``language`` than Python has a ``runtime``: what its clients run
    in, a folder of ``docker/`` or the reference of an image made from Debian.
    ``overtime`` is by how many seconds a lease may outlast its ttl, where servers count in whole seconds, or others
    wait after a loss (a lock-delay): a lock that is still taken then is not late. ``queue`` says that it serves those
    who wait in the order in which they asked.
    """

    name: str
    title: str
    algorithm: str
    source: str
    safety: Safety
    kinds: tuple[str, ...]
    fence: bool = False
    reentrant: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    on_death: str = ""
    outage: str = ""
    no_single_point: bool = False
    failures: tuple[Failure, ...] = ()
    overtime: float = 0.0
    queue: bool = False
    language: str = "Python"
    library: str = ""
    promises: str = ""
    runtime: str = ""

    def __post_init__(self) -> None:
        if not self.kinds:
            raise ValueError(f"{self.name}: kinds must name what the lock runs on, such as redis-single")
        if self.safety not in get_args(Safety):
            raise ValueError(f"{self.name}: safety must be one of {', '.join(get_args(Safety))}, got {self.safety!r}")

    @property
    def simulated(self) -> bool:
        """Can it run on virtual time? A program beside its client cannot."""
        return not self.runtime


class LockClass(Protocol):
    """What :func:`lock_impls.catalogue.resolve` gives: a description, and a way to open the lock against a cluster.

    Every :class:`CataloguedLock` is one, and so is a wrapped class of the user's own.
    """

    @property
    def info(self) -> LockInfo: ...

    def open(self, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Lock: ...


class LockLookupError(Exception):
    """The lock that was asked for cannot be had; the message says which, why, and what was expected."""


class CataloguedLock(Protocol):
    """A lock class the catalogue finds: it carries its description and opens itself against a cluster."""

    info: ClassVar[LockInfo]

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self: ...

    def acquire(self, timeout: float) -> Grant | None: ...

    def release(self) -> None: ...
