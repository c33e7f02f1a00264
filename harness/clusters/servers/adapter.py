"""Access to a server of the user's: identify it, look for keys of others, and remove the run's own.

Each kind names its subclass of :class:`OwnServer` (``Kind.servers``). It uses connections of its own, which no fault
damages, and changes nothing but keys with the run's name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, Final

from harness.clusters.key_watch import KeyReader
from harness.clusters.kinds import KINDS, kinds
from harness.errors import EnvironmentLacking, UsageError

from .addresses import ServerAddress
from .tls import TlsBegin

PREFIX: Final = "harness:"
"""Prefix of the names of all locks on a user's server."""
PATIENCE_S: Final = 2.0
"""Time limit of an answer of a server, seconds."""
SHOWN: Final = 3
"""Number of keys that a message lists."""


class NoAnswerError(EnvironmentLacking):
    """A server cannot be reached, or does not let the harness in."""


class OwnServer(ABC):
    """One server that the user runs. Methods raise :class:`NoAnswerError` if it does not answer."""

    HELLO: ClassVar[bytes] = b""
    """Request that a probe sends on a new connection; the server answers it at once, and changes nothing. With 64
    bytes, in one direction, the fault slow-link is seen."""
    GREETS: ClassVar[bool] = False
    """True if a server sends a greeting on a new connection."""
    TLS_BEGIN: ClassVar[TlsBegin] = "at once"
    """How a connection of a client with TLS begins."""

    def __init__(self, address: ServerAddress) -> None:
        self.address = address
        self.host, self.port = address.host, address.port

    @property
    def target(self) -> tuple[str, int]:
        """(host, port) of the server that now has the locks."""
        return self.host, self.port

    @abstractmethod
    def version(self) -> str:
        """Return the product and its version, as the server reports them: ``redis 7.2.4``, ``valkey 8.1.0``."""

    @abstractmethod
    def identity(self) -> str:
        """Return what distinguishes this server from all others, "" if it has nothing of the kind."""

    def refusal(self) -> str:
        """Return why locks cannot be tested on this server, "" if they can."""
        return ""

    def remember(self) -> None:  # noqa: B027 - optional hook
        """Note, before the run, what :meth:`remove_keys` needs to know of the server's state."""

    @abstractmethod
    def foreign_keys(self) -> list[str]:
        """Return some keys that begin with :data:`PREFIX`: those of another run, or of somebody else."""

    @abstractmethod
    def remove_keys(self, run: str) -> int:
        """Remove all keys whose name has ``run`` in it, such as ``harness:1f0c95b2``, and return how many there were.
        Called until it returns 0."""

    def key_reader(self) -> Callable[[], KeyReader] | None:
        """Return a function that connects a reader of locks' keys; None if the service has none."""
        return None


def server_class(kind: str) -> type[OwnServer]:
    """Return the class for servers of a kind that a user may run. Raises UsageError."""
    of = KINDS.find(kind)
    if not of.servers:
        usable = [name for name in kinds() if KINDS.own[name].servers]
        raise UsageError(f"servers of your own cannot be {of.about} ({kind}); they can be {', '.join(usable)}")
    found = of.load("servers")
    if not (isinstance(found, type) and issubclass(found, OwnServer)):
        raise UsageError(f"the cluster kind {kind}: servers must be a subclass of OwnServer, got {found!r}")
    return found
