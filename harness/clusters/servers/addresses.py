"""Addresses of servers that the user runs, as they stand in ``--servers`` and in plans."""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, urlsplit

from harness.clusters.kinds import KINDS, kinds
from harness.clusters.kinds.redis import SENTINEL_PORT
from harness.errors import EnvironmentLacking, UsageError, unknown_name

_SCHEMES: Final = {"postgresql": "postgres"}
"""Schemes that have another name than the service."""
SENTINELS: Final = "redis+sentinel"
"""Scheme of the sentinels of a Redis: ``redis+sentinel://HOST:PORT,HOST:PORT/NAME``, as other clients have it."""
_NAME: Final = re.compile(r"[\w.\-]+")
"""Name of a primary, as Sentinel allows it."""
Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Address of a user's server: the service, such as ``redis``, and where it listens.

    With ``sentinels`` the server is the primary that these name when they are asked for ``primary``; ``host`` and
    ``port`` are those of the first sentinel.
    """

    service: str
    host: str
    port: int
    sentinels: tuple[Place, ...] = ()
    primary: str = ""

    def __str__(self) -> str:
        if self.sentinels:
            return f"{SENTINELS}://{','.join(_joined(*place) for place in self.sentinels)}/{self.primary}"
        return f"{_scheme_of(self.service)}://{_joined(self.host, self.port)}"

    @property
    def places(self) -> tuple[Place, ...]:
        """(host, port) of each server that the address names."""
        return self.sentinels or ((self.host, self.port),)

    @property
    def is_loopback(self) -> bool:
        """Return whether packets to it stay on this machine."""
        return all(is_loopback(host) for host, _ in self.places)


def is_loopback(host: str) -> bool:
    """Return whether packets to a host stay on this machine; raises EnvironmentLacking if it has no address."""
    return all(ipaddress.ip_address(address).is_loopback for address in addresses_of(host))


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


def separate(texts: list[str]) -> list[str]:
    """Return the addresses in texts that were separated at commas, where those of sentinels have commas, too."""
    found: list[str] = []
    for text in texts:
        if (
            found
            and "://" not in text
            and found[-1].startswith(f"{SENTINELS}://")
            and "/" not in _after_scheme(found[-1])
        ):
            found[-1] += f",{text}"
        else:
            found.append(text)
    return found


def parse_server(text: str) -> ServerAddress:
    """Return the address in a text such as ``redis://127.0.0.1:6379``. Raises UsageError."""
    known = services()
    scheme, separator, _ = text.partition("://")
    service = _SCHEMES.get(scheme, scheme)
    if not separator:
        raise UsageError(f"servers: expected an address such as redis://127.0.0.1:6379, got {text!r}")
    if scheme == SENTINELS:
        return _parse_sentinels(text)
    if service not in known:
        schemes = [*(f"{_scheme_of(name)}://" for name in known), f"{SENTINELS}://"]
        raise unknown_name("kind of address in servers", f"{scheme}://", schemes)
    parts, host, port = _split(text, known[service])
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise UsageError(f"servers: expected only {scheme}://HOST:PORT, got {text!r}")
    return ServerAddress(service, host, port)


def _parse_sentinels(text: str) -> ServerAddress:
    hosts, _, name = _after_scheme(text).partition("/")
    expected = f"expected {SENTINELS}://HOST:{SENTINEL_PORT},HOST:{SENTINEL_PORT}/NAME, with the name of the primary"
    if _NAME.fullmatch(name) is None:
        raise UsageError(f"servers: {expected}, got {_without_login(text)}")
    places = tuple(_split(f"{SENTINELS}://{host}", SENTINEL_PORT)[1:] for host in hosts.split(","))
    twice = [place for place in places if places.count(place) > 1]
    if twice:
        raise UsageError(f"servers: the sentinel {_joined(*twice[0])} is given twice")
    return ServerAddress("redis", *places[0], places, name)


def _split(text: str, usual_port: int) -> tuple[SplitResult, str, int]:
    """Return the parts of an address, its host and its port."""
    scheme = text.partition("://")[0]
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port or usual_port
    except ValueError as error:
        raise UsageError(f"servers: {_without_login(text)} is no address: {error}") from error
    if not host:
        raise UsageError(f"servers: {text!r} names no host; expected an address such as {scheme}://127.0.0.1:{port}")
    if parts.username or parts.password:
        raise UsageError(f"servers: an address with a password is not supported (the locks log in without): {host}")
    return parts, host, port


def _without_login(text: str) -> str:
    """Return an address for a message, without user and password."""
    scheme, _, rest = text.partition("://")
    return repr(f"{scheme}://{rest.rpartition('@')[2]}")


def _after_scheme(text: str) -> str:
    return text.partition("://")[2]


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _scheme_of(service: str) -> str:
    return next((scheme for scheme, of in _SCHEMES.items() if of == service), service)
