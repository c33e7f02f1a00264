"""Addresses of servers that the user runs, as they stand in ``--servers`` and in plans."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

import msgspec

from harness.clusters.kinds import KINDS, kinds
from harness.clusters.kinds.redis import SENTINEL_PORT
from harness.errors import EnvironmentLacking, UsageError, unknown_name

from .tls import TlsSettings

_SCHEMES: Final = {"postgresql": "postgres"}
"""Schemes that have another name than the service."""
_TLS_SCHEMES: Final = {"redis": "rediss"}
"""Schemes of addresses with TLS, by service, where they differ from those without."""
_LOGINS: Final = ("redis", "postgres", "mysql")
"""Services whose addresses may have a user and a password."""
_DATABASES: Final = ("postgres", "mysql")
"""Services whose addresses may name a database."""
_FILES: Final = {"ssl_ca_certs": "ca_certs", "ssl_certfile": "certfile", "ssl_keyfile": "keyfile"}
"""Options of an address with TLS, as redis-py names them."""
_LIBPQ_FILES: Final = {"sslrootcert": "ca_certs", "sslcert": "certfile", "sslkey": "keyfile"}
"""The same as PostgreSQL's library names them."""
_SSL_MODES: Final[dict[str, dict[str, bool] | None]] = {
    "disable": None,
    "require": {"verified": False},
    "verify-ca": {"host_checked": False},
    "verify-full": {},
}
"""Values of ``sslmode``, as PostgreSQL's library has them, with fields of TlsSettings."""
_VARIABLE: Final = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
"""The environment variable in place of a password."""
SENTINELS: Final = "redis+sentinel"
"""Scheme of the sentinels of a Redis: ``redis+sentinel://HOST:PORT,HOST:PORT/NAME``, as other clients have it."""
_NAME: Final = re.compile(r"[\w.\-]+")
"""Name of a primary, as Sentinel allows it."""
Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Address of a user's server: the service, such as ``redis``, and where it listens.

    With ``sentinels`` the server is the primary that these name when they are asked for ``primary``; ``host`` and
    ``port`` are those of the first sentinel. The password is in the environment variable ``password_from``; the address
    as text has neither user nor password.
    """

    service: str
    host: str
    port: int
    sentinels: tuple[Place, ...] = ()
    primary: str = ""
    user: str = ""
    password_from: str = ""
    database: str = ""
    tls: TlsSettings | None = None

    def __str__(self) -> str:
        if self.sentinels:
            return f"{SENTINELS}://{','.join(_joined(*place) for place in self.sentinels)}/{self.primary}"
        scheme = _TLS_SCHEMES.get(self.service) if self.tls else None
        name = f"/{self.database}" if self.database else ""
        return f"{scheme or _scheme_of(self.service)}://{_joined(self.host, self.port)}{name}"

    @property
    def password(self) -> str:
        """The password, "" if the address has none. Raises EnvironmentLacking if its variable is not set."""
        if not self.password_from:
            return ""
        found = os.environ.get(self.password_from, "")
        if not found:
            raise EnvironmentLacking(
                f"servers: the environment variable {self.password_from}, which has the password of {self}, is not set"
            )
        return found

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
    service = _SCHEMES.get(scheme) or next((of for of, name in _TLS_SCHEMES.items() if name == scheme), scheme)
    if not separator:
        raise UsageError(f"servers: expected an address such as redis://127.0.0.1:6379, got {text!r}")
    if scheme == SENTINELS:
        return _parse_sentinels(text)
    if service not in known:
        schemes = [*(f"{_scheme_of(name)}://" for name in known), f"{SENTINELS}://"]
        raise unknown_name("kind of address in servers", f"{scheme}://", schemes)
    parts, host, port = _split(text, known[service])
    user, variable = _login(parts, service)
    database = parts.path.strip("/")
    if parts.fragment or (database and (service not in _DATABASES or _NAME.fullmatch(database) is None)):
        more = "/DATABASE" if service in _DATABASES else ""
        raise UsageError(f"servers: expected only {scheme}://HOST:PORT{more}, got {_without_login(text)}")
    tls = _tls(parts, scheme, service)
    found = ServerAddress(service, host, port, user=user, password_from=variable, database=unquote(database), tls=tls)
    _ = found.password  # a variable that is not set is an error of the address
    return found


def _login(parts: SplitResult, service: str) -> tuple[str, str]:
    """Return the user and the variable of the password in an address."""
    user, password = unquote(parts.username or ""), parts.password or ""
    if (user or password) and service not in _LOGINS:
        listed = ", ".join(_scheme_of(name) for name in _LOGINS)
        raise UsageError(f"servers: an address may have a user and a password with {listed}, not with {service}")
    if not password:
        if user and service == "redis":
            raise UsageError(
                f"servers: a user of a Redis needs a password: {parts.scheme}://{user}:$NAME@{parts.hostname}"
            )
        return user, ""
    variable = _VARIABLE.fullmatch(password)
    if variable is None:
        raise UsageError(
            f"servers: the password of {parts.hostname} must be an environment variable, so that no list of processes "
            f"and no file has it: '{parts.scheme}://{user or ''}:$NAME@{parts.hostname}' in single quotes, and NAME in "
            "the environment"
        )
    return user, variable[1] or variable[2]


def _tls(parts: SplitResult, scheme: str, service: str) -> TlsSettings | None:
    """Return the settings in an address's query, None without TLS."""
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    names = _FILES if scheme == "rediss" else {**_FILES, **_LIBPQ_FILES} if service == "postgres" else {}
    mode = options.pop("sslmode", "disable" if service == "postgres" else None)
    if mode is not None and service != "postgres":
        raise unknown_name(f"option of {scheme}://", "sslmode", names or ["none"])
    if mode is not None and mode not in _SSL_MODES:
        raise unknown_name("sslmode", mode, _SSL_MODES)
    for name in options:
        if name not in names:
            raise unknown_name(
                f"option of {scheme}://", name, [*names, *(["sslmode"] if service == "postgres" else [])]
            )
    files = {names[name]: path for name, path in options.items()}
    how = {} if scheme == "rediss" else _SSL_MODES[mode] if mode else None
    if how is None:
        if files:
            raise UsageError(f"servers: {next(iter(options))} needs sslmode=require, verify-ca or verify-full")
        return None
    return msgspec.convert({**files, **how}, TlsSettings)


def _parse_sentinels(text: str) -> ServerAddress:
    hosts, _, name = _after_scheme(text).partition("/")
    expected = f"expected {SENTINELS}://HOST:{SENTINEL_PORT},HOST:{SENTINEL_PORT}/NAME, with the name of the primary"
    if _NAME.fullmatch(name) is None:
        raise UsageError(f"servers: {expected}, got {_without_login(text)}")
    login, _, hosts = hosts.rpartition("@")
    user, variable = (
        _login(urlsplit(f"{SENTINELS}://{login}@{hosts.partition(',')[0]}"), "redis") if login else ("", "")
    )
    places = tuple(_split(f"{SENTINELS}://{host}", SENTINEL_PORT)[1:] for host in hosts.split(","))
    twice = [place for place in places if places.count(place) > 1]
    if twice:
        raise UsageError(f"servers: the sentinel {_joined(*twice[0])} is given twice")
    found = ServerAddress("redis", *places[0], places, name, user, variable)
    _ = found.password
    return found


def _split(text: str, usual_port: int) -> tuple[SplitResult, str, int]:
    """Return the parts of an address, its host and its port."""
    scheme = text.partition("://")[0]
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port or usual_port
    except ValueError as error:
        raise UsageError(f"servers: {_without_login(text)} is no address: {error}") from error
    if not host:
        where = _without_login(text)
        raise UsageError(f"servers: {where} names no host; expected an address such as {scheme}://127.0.0.1:{port}")
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
