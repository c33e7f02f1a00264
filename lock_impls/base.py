"""The interface between the harness and a lock: what a lock must offer, and what it may declare about itself.

A lock is any class with ``acquire(timeout)`` and ``release()``. Everything else in this module is optional.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Literal, Protocol, Self, get_args, runtime_checkable

from harness.errors import UsageError

from .origins import Origin

Safety = Literal["E", "F", "F?", "X"]
"""A lock's safety class; :data:`harness.wording.SAFETY` says what each means."""


Limit = Literal["late-client", "clock", "server-fault", "never-freed", "unpromised", "always"]
"""A documented way in which a lock fails; :data:`harness.wording.LIMITS` says what each means."""
_LIMITS: Final[dict[Safety, tuple[Limit, ...]]] = {
    "E": ("late-client", "clock", "server-fault"),
    "F": ("late-client", "clock"),
    "F?": ("late-client", "clock"),
    "X": ("always",),
}
"""The limits that a lock's safety class documents."""


class LockError(Exception):
    """The operation is known not to have happened (example: release was refused because another client owns the
    key)."""


class Indeterminate(Exception):
    """The outcome is unknown: the request was sent and no answer arrived."""


@dataclass(frozen=True, slots=True)
class Grant:
    """The result of a successful acquire.

    ``fence`` is a token that grows with every grant of the key; the protected resource can check it. ``valid_for`` is
    how long the lock is certainly held: seconds from the return of ``acquire``, on the client's monotonic clock.
    """

    fence: int | str | None = None
    valid_for: float | None = None


@dataclass(frozen=True, slots=True)
class Login:
    """User, password and database of servers that their user runs, and the user and password of their sentinels; empty
    where the address has none."""

    user: str = ""
    password: str = field(default="", repr=False)
    database: str = ""
    sentinel_user: str = ""
    sentinel_password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Addresses of the servers.

    ``addresses`` are (host, port) pairs. With ``kind`` ``redis-sentinel`` they are the sentinels, and ``service`` names
    the monitored primary. ``account`` is the user name, password and database name on servers of the harness that need
    them; ``login`` has those of servers that it does not run.
    """

    kind: str
    addresses: tuple[tuple[str, int], ...]
    service: str = "mymaster"
    account: str = "harness"
    login: Login = Login()

    @property
    def user(self) -> str:
        return self.login.user or self.account

    @property
    def password(self) -> str:
        return self.login.password if self.login.user or self.login.password else self.account

    @property
    def database(self) -> str:
        return self.login.database or self.account

    @property
    def redis_login(self) -> dict[str, Any]:
        """The login as options of redis-py, which has none by default."""
        return _redis_options(self.login.user, self.login.password)

    @property
    def sentinel_login(self) -> dict[str, Any]:
        """The login of the sentinels as options of redis-py."""
        return _redis_options(self.login.sentinel_user, self.login.sentinel_password)


def _redis_options(user: str, password: str) -> dict[str, Any]:
    return {name: value for name, value in (("username", user), ("password", password)) if value}


class CountsUnanswered(Protocol):
    """A client of a service that counts the requests that it sent and that were never answered."""

    unanswered: int


@runtime_checkable
class Lock(Protocol):
    """What the harness calls.

    ``timeout`` is in seconds. ``acquire`` returns None if the lock was not acquired in time and is certainly not held.

    The harness uses these further methods if a lock has them:

    - ``extend() -> bool`` prolongs the lease.
    - ``still_valid() -> bool`` says whether the client still holds the lock.
    - ``acquire_shared(timeout) -> Grant | None`` acquires in shared mode: other clients may hold the lock shared at the
      same time. The workload ``readers-writers`` calls it. ``release`` gives back either mode.
    - ``context(timeout) -> Context`` returns the lock's own context manager as its library documents it, inside a
      :class:`harness.lock_impls.contexts.Context`. It waits for at most ``timeout`` to enter. The workload ``context``
      calls it.
    - ``increment() -> tuple[int, int]`` adds one to a number that the lock's own service stores beside the key, in its
      own transaction, and returns the value that it read and the value that it wrote. The workload ``counter`` calls it
      while the client holds the lock. It raises LockError if nothing was added. If it leaves the transaction open,
      ``release`` commits it, and raises something other than LockError if the commit may have failed.

    All of them may be coroutines instead; ``info`` then says ``asynchronous=True``.
    """

    def acquire(self, timeout: float) -> Grant | None: ...

    def release(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Failure:
    """A known way in which a lock fails.

    ``id`` is the row in the project's table of anomalies, ``what`` describes the failure in one line, and ``command``
    demonstrates it (exit status 1).
    """

    id: str
    what: str
    command: str


@dataclass(frozen=True, slots=True)
class LockInfo:
    """A catalogue entry: what ``harness show`` prints about a lock before it is run.

    - ``kinds``: the cluster kinds on which the lock can run; the first is the default.
    - ``safety``: a :data:`Safety` tag.
    - ``options``: the constructor's own parameters with their defaults, besides key and ttl.
    - ``on_death``: what frees the lock when its holder dies (``"nothing"``, or what does it and when).
    - ``outage``: what happens when one server is lost. ``no_single_point``: the lock stays available then.
    - ``failures``: the known failures that a command can demonstrate.
    - ``requires``: requirements of the distributions that the lock's file imports. A lock of a third party pins the
      versions that were tested, since its behaviour depends on them.
    - ``library``: the tested library of a third party with its version, such as ``redis 8.1.0``. ``promises``: what its
      documentation says about the lock.
    - ``language`` and ``runtime``: a lock that is not in Python has a runtime, which is the environment of its clients:
      a folder of ``docker/``, or the reference of an image made from Debian.
    - ``containers_only``: why a lock in Python cannot be simulated; empty if it can.
    - ``overtime``: by how many seconds a lease may outlast its ttl, because servers count whole seconds or because
      waiters wait after a loss (a lock-delay). Within this time a lock that is still held does not count as late.
    - ``answer_timeout``: for how many seconds its client waits for an answer before it asks again. A lost message may
      delay a grant by that time.
    - ``queue``: the lock serves waiters in the order of their requests.
    - ``shareable``: threads of a process, or tasks of its event loop, may use one object at the same time.
    - ``asynchronous``: the lock's methods are coroutines, which run in the event loop of the client's process.
    - ``lease``: the lease of grants that do not say it themselves: ``ttl``, a duration such as ``10s``, or the name of
      an option with its unit, such as ``px:ms``; ``ttl:expires`` is the ttl unless the option ``expires`` is false.
      Empty: not known, or there is none.
    - ``limits``: the ways to fail that the lock's documentation states; None for those that ``safety`` and ``on_death``
      state. A violation within them is reported as a known limit.
    - ``origin``: the software that the lock models, the library that it calls or the mistake that it repeats; None for
      a lock that is nothing but itself.
    """

    name: str
    title: str
    algorithm: str
    source: str
    safety: Safety
    kinds: tuple[str, ...]
    requires: tuple[str, ...] = ()
    fence: bool = False
    reentrant: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    on_death: str = ""
    outage: str = ""
    no_single_point: bool = False
    failures: tuple[Failure, ...] = ()
    overtime: float = 0.0
    answer_timeout: float = 0.0
    queue: bool = False
    language: str = "Python"
    library: str = ""
    promises: str = ""
    runtime: str = ""
    containers_only: str = ""
    asynchronous: bool = False
    shareable: bool = False
    limits: tuple[Limit, ...] | None = None
    lease: str = ""
    origin: Origin | None = None

    def __post_init__(self) -> None:
        if not self.kinds:
            raise ValueError(f"{self.name}: kinds must name what the lock runs on, such as redis-single")
        if self.safety not in get_args(Safety):
            raise ValueError(f"{self.name}: safety must be one of {', '.join(get_args(Safety))}, got {self.safety!r}")

    @property
    def documented_limits(self) -> tuple[Limit, ...]:
        """Return the ways to fail that the lock's documentation states."""
        if self.limits is not None:
            return self.limits
        return (*_LIMITS[self.safety], *(("never-freed",) if self.on_death == "nothing" else ()))

    @property
    def simulated(self) -> bool:
        """Return whether the lock can run on virtual time. A program beside its client cannot."""
        return not (self.runtime or self.containers_only)


class LockClass(Protocol):
    """What :func:`harness.lock_impls.catalogue.resolve` returns: a description, and a way to open the lock against a
    cluster.

    Every :class:`CataloguedLock` satisfies it, and so does a wrapped class of the user's own.
    """

    @property
    def info(self) -> LockInfo: ...

    def open(self, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Lock: ...


class LockLookupError(UsageError):
    """The requested lock is not available; the message says which lock, why, and what was expected."""


class CataloguedLock(Protocol):
    """A lock class that the catalogue finds: it has a description, and opens itself against a cluster."""

    info: ClassVar[LockInfo]

    @classmethod
    def open(cls, endpoints: Endpoints, key: str, ttl: float, **options: Any) -> Self: ...

    def acquire(self, timeout: float) -> Grant | None: ...

    def release(self) -> None: ...
