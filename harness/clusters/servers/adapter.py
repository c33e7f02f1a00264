"""Access to a server of the user's: identify it, look for keys of others, and remove the run's own.

Each kind names its subclass of :class:`OwnServer` (``Kind.servers``). It uses connections of its own, which no fault
damages, and changes nothing but keys with the run's name.
"""

from __future__ import annotations

import ipaddress
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final
from urllib.parse import urlsplit

from harness.clusters.key_watch import KeyReader
from harness.clusters.kinds import KINDS, kinds
from harness.errors import EnvironmentLacking, UsageError, unknown_name

PREFIX: Final = "harness:"
"""Prefix of the names of all locks on a user's server."""
PATIENCE_S: Final = 2.0
"""Time limit of an answer of a server, seconds."""
SHOWN: Final = 3
"""Number of keys that a message lists."""
_SCHEMES: Final = {"postgresql": "postgres"}
"""Schemes that have another name than the service."""


class NoAnswerError(EnvironmentLacking):
    """A server cannot be reached, or does not let the harness in."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Address of a user's server: the service, such as ``redis``, and where it listens."""

    service: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{_scheme_of(self.service)}://{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Return whether packets to it stay on this machine."""
        return all(ipaddress.ip_address(address).is_loopback for address in addresses_of(self.host))


def addresses_of(host: str) -> list[str]:
    """Return the IP addresses of a host; raises EnvironmentLacking if it has none."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise EnvironmentLacking(f"the address of {host} is not known: {error}") from error
    return [str(entry[4][0]).partition("%")[0] for entry in found]


def services() -> dict[str, int]:
    """Return the services that a user's servers may be, each with its usual port."""
    found = [KINDS.own[name] for name in kinds() if KINDS.own[name].servers]
    return {kind.service: kind.port for kind in found}


def _scheme_of(service: str) -> str:
    return next((scheme for scheme, of in _SCHEMES.items() if of == service), service)


def parse_server(text: str) -> ServerAddress:
    """Return the address in a text such as ``redis://127.0.0.1:6379``. Raises UsageError."""
    known = services()
    scheme, separator, _ = text.partition("://")
    service = _SCHEMES.get(scheme, scheme)
    if not separator:
        raise UsageError(f"servers: expected an address such as redis://127.0.0.1:6379, got {text!r}")
    if service not in known:
        schemes = [f"{_scheme_of(name)}://" for name in known]
        raise unknown_name("kind of address in servers", f"{scheme}://", schemes)
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port or known[service]
    except ValueError as error:
        raise UsageError(f"servers: {text!r} is no address: {error}") from error
    if not host:
        raise UsageError(f"servers: {text!r} names no host; expected an address such as {scheme}://127.0.0.1:{port}")
    if parts.username or parts.password:
        raise UsageError(f"servers: an address with a password is not supported (the locks log in without): {host}")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise UsageError(f"servers: expected only {scheme}://HOST:PORT, got {text!r}")
    return ServerAddress(service, host, port)


class OwnServer(ABC):
    """One server that the user runs. Methods raise :class:`NoAnswerError` if it does not answer."""

    HELLO: ClassVar[bytes] = b""
    """Request that a probe sends on a new connection; the server answers it at once, and changes nothing. With 64
    bytes, in one direction, the fault slow-link is seen."""
    GREETS: ClassVar[bool] = False
    """True if a server sends a greeting on a new connection."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port

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
