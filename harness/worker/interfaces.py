"""What a client needs of its lock and of its plan."""

from __future__ import annotations

from typing import Any, Protocol

from .resource import Token


class Grant(Protocol):
    """A granted lock; see harness.lock_impls.base.Grant."""

    @property
    def fence(self) -> Token: ...

    @property
    def valid_for(self) -> float | None: ...


class Lock(Protocol):
    """The lock as the client uses it; see harness.lock_impls.base.Lock."""

    def acquire(self, timeout: float) -> Grant | None: ...

    def release(self) -> None: ...


class LockContext(Protocol):
    """``with lock:``; see harness.lock_impls.contexts.LockContext."""

    @property
    def limit(self) -> float: ...

    @property
    def acquired(self) -> bool | None: ...

    def __enter__(self) -> Grant: ...

    def __exit__(self, *raised: Any) -> bool | None: ...


class ClientSettings(Protocol):
    """The settings of a plan that a client needs; durations in seconds."""

    @property
    def keys(self) -> int: ...
    @property
    def clients(self) -> int: ...
    @property
    def ttl(self) -> float: ...
    @property
    def hold(self) -> float: ...
    @property
    def rest(self) -> float: ...
    @property
    def acquire_wait(self) -> float: ...
    @property
    def discipline(self) -> str: ...
    @property
    def holds(self) -> dict[str, float]: ...
    @property
    def sections(self) -> int: ...
    @property
    def ends(self) -> dict[str, int]: ...
