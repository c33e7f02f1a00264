"""Addresses of servers that the user runs, as they stand in ``--servers`` and in plans."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from harness.clusters.kinds import KINDS, kinds
from harness.clusters.kinds.redis import SENTINEL_PORT
from harness.errors import EnvironmentLacking, UsageError, unknown_name

from .tls import NO_TLS, TLS_OPTIONS, TlsSettings, refuse_unknown_options

_SCHEMES: Final = {"postgresql": "postgres"}
"""Schemes that have another name than the service."""
_TLS_SCHEMES: Final = {"redis": "rediss", "etcd": "etcds"}
"""Schemes of addresses with TLS, by service, where they differ from those without."""
_LOGINS: Final = ("redis", "postgres", "mysql", "etcd")
"""Services whose addresses may have a user and a password."""
_PASSWORD_NEEDED: Final = {"redis": "a Redis", "etcd": "an etcd"}
"""Services whose users all have passwords."""
_DATABASES: Final = ("postgres", "mysql")
"""Services whose addresses may name a database."""
_SENTINEL_OPTIONS: Final = ("sentinel_username", "sentinel_password")
"""Options with the login of the sentinels themselves."""
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
    ``port`` are those of the first sentinel. The password is in the environment variable ``password_from``, that of the
    sentinels in ``sentinel_password_from``; the address as text has neither users nor passwords.
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
    sentinel_user: str = ""
    sentinel_password_from: str = ""

    def __str__(self) -> str:
        if self.sentinels:
            return f"{SENTINELS}://{','.join(_joined(*place) for place in self.sentinels)}/{self.primary}"
        scheme = _TLS_SCHEMES.get(self.service) if self.tls else None
        name = f"/{self.database}" if self.database else ""
        return f"{scheme or _scheme_of(self.service)}://{_joined(self.host, self.port)}{name}"

    @property
    def password(self) -> str:
        """The password, "" if the address has none. Raises EnvironmentLacking if its variable is not set."""
        return self._value_of(self.password_from)

    @property
    def login(self) -> tuple[str, str] | None:
        """User, which may be empty, and password of the servers; None if the address has no password."""
        return (self.user, self.password) if self.password_from else None

    @property
    def sentinel_login(self) -> tuple[str, str] | None:
        """User, which may be empty, and password of the sentinels; None if they need none."""
        if not self.sentinel_password_from:
            return None
        return self.sentinel_user, self._value_of(self.sentinel_password_from)

    @property
    def secrets(self) -> list[str]:
        """The passwords that the address names. Raises EnvironmentLacking if a variable is not set."""
        return [password for _, password in filter(None, (self.login, self.sentinel_login))]

    def _value_of(self, variable: str) -> str:
        if not variable:
            return ""
        found = os.environ.get(variable, "")
        if not found:
            raise EnvironmentLacking(
                f"servers: the environment variable {variable}, which has the password of {self}, is not set"
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
    tls = TLS_OPTIONS.get(service, NO_TLS).settings(
        scheme, _options(parts.query), by_scheme=scheme == _TLS_SCHEMES.get(service)
    )
    found = ServerAddress(service, host, port, user=user, password_from=variable, database=unquote(database), tls=tls)
    _ = found.secrets  # a variable that is not set is an error of the address
    return found


def _options(query: str) -> dict[str, str]:
    return dict(parse_qsl(query, keep_blank_values=True))


def _login(parts: SplitResult, service: str) -> tuple[str, str]:
    """Return the user and the variable of the password in an address."""
    user, password = unquote(parts.username or ""), parts.password or ""
    if (user or password) and service not in _LOGINS:
        listed = ", ".join(_scheme_of(name) for name in _LOGINS)
        raise UsageError(f"servers: an address may have a user and a password with {listed}, not with {service}")
    if not password:
        if user and service in _PASSWORD_NEEDED:
            raise UsageError(
                f"servers: a user of {_PASSWORD_NEEDED[service]} needs a password: "
                f"{parts.scheme}://{user}:$NAME@{parts.hostname}"
            )
        return user, ""
    if not user and service == "etcd":
        raise UsageError(f"servers: the password of an etcd needs a user: {parts.scheme}://USER:$NAME@{parts.hostname}")
    example = f"{parts.scheme}://{user or ''}:$NAME@{parts.hostname}"
    return user, _variable(password, f"the password of {parts.hostname}", example)


def _variable(password: str, what: str, example: str) -> str:
    """Return the name of the environment variable that stands for a password. Raises UsageError that does not repeat
    a password."""
    found = _VARIABLE.fullmatch(password)
    if found is None:
        raise UsageError(
            f"servers: {what} must be an environment variable, so that no list of processes and no file has it: "
            f"'{example}' in single quotes, and NAME in the environment"
        )
    return found[1] or found[2]


def _parse_sentinels(text: str) -> ServerAddress:
    rest, _, query = _after_scheme(text).partition("?")
    hosts, _, name = rest.partition("/")
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
    own_user, own_variable = _sentinel_login(_options(query))
    found = ServerAddress(
        "redis", *places[0], places, name, user, variable, sentinel_user=own_user, sentinel_password_from=own_variable
    )
    _ = found.secrets
    return found


def _sentinel_login(options: dict[str, str]) -> tuple[str, str]:
    """Return the user of the sentinels and the variable of their password."""
    refuse_unknown_options(SENTINELS, options, list(_SENTINEL_OPTIONS))
    user, password = (options.get(name, "") for name in _SENTINEL_OPTIONS)
    example = f"{SENTINELS}://HOST/NAME?sentinel_password=$NAME"
    if not password:
        if options:
            raise UsageError(f"servers: {next(iter(options))} needs a password of the sentinels: '{example}'")
        return "", ""
    return user, _variable(password, "sentinel_password", example)


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
    """Return an address for a message, without user, password and options."""
    scheme, _, rest = text.partition("://")
    place, _, query = rest.partition("?")
    shown = "..." if "@" in query else place.rpartition("@")[2]  # the "?" may be one of the password
    return repr(f"{scheme}://{shown}")


def _after_scheme(text: str) -> str:
    return text.partition("://")[2]


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _scheme_of(service: str) -> str:
    return next((scheme for scheme, of in _SCHEMES.items() if of == service), service)
