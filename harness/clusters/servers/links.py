"""Damage to the links between clients and servers, done by the proxy, and probes of the links through the proxy."""

from __future__ import annotations

import base64
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from harness.clusters.abilities.network import Links, LinkShape, MessageTrap
from harness.clusters.client_host import PREPARED
from harness.clusters.conversation import Conversation, Refused, Unanswered
from harness.clusters.link_probes import LinkProbes
from harness.clusters.programs import LocalProgram, own_program
from harness.errors import UNKNOWN, HarnessError

from .tls import TlsBegin, TlsSettings

LOOPBACK: Final = "127.0.0.1"
Address = tuple[str, int]


class ProxyError(HarnessError):
    """The proxy does not answer, or refuses a request."""

    exit_status = UNKNOWN


class ProxyClient:
    """The proxy of a run. ``peers`` are the addresses that clients connect to, by name. ``tls`` has the settings of
    those with TLS, and ``begin`` says how a connection to them begins."""

    def __init__(
        self,
        clients: Sequence[str],
        peers: Mapping[str, Address],
        seed: int,
        *,
        tls: Mapping[str, TlsSettings] | None = None,
        begin: TlsBegin = "at once",
    ) -> None:
        command = own_program("harness.clusters.servers.proxy", str(seed))
        self._conversation = Conversation(
            lambda on_line, on_end: LocalProgram(command, on_line, on_end),
            lambda event: None,  # noqa: ARG005 - the proxy sends answers only
        )
        links = [(client, name, *peers[name]) for client in clients for name in peers]
        settings = {name: msgspec.to_builtins(one) for name, one in (tls or {}).items()}
        try:
            ports: list[int] = self.ask("open", patience=PREPARED, links=links, tls=settings, begin=begin)
        except BaseException:
            self.close()
            raise
        self.addresses: dict[tuple[str, str], Address] = {
            (client, name): (LOOPBACK, port) for (client, name, *_), port in zip(links, ports, strict=True)
        }
        """Where a client finds a server, by (client, server)."""

    def ask(self, op: str, **fields: Any) -> Any:
        """Send a request and return its answer; raises :class:`ProxyError`."""
        try:
            return self._conversation.ask(op, **fields)
        except (Unanswered, Refused) as error:
            raise ProxyError(f"the proxy between clients and servers: {error}") from error

    def close(self) -> None:
        self._conversation.close()


class ProxiedTrap:
    """Damage that is used once it has caught data, as a :class:`harness.clusters.abilities.network.MessageTrap`."""

    def __init__(self, proxy: ProxyClient, number: int) -> None:
        self._proxy = proxy
        self._number = number

    @property
    def used(self) -> bool:
        return bool(self._proxy.ask("used", number=self._number))

    def cancel(self) -> None:
        self._proxy.ask("undo", number=self._number)


class LinkMethods(LinkProbes):
    """Mixin that implements :class:`harness.clusters.abilities.network.Network` and ``Traffic`` for clients' links."""

    _proxy: ProxyClient
    _peers: dict[str, Address]
    _hellos: Mapping[str, tuple[bytes, bool]]
    """Request of a probe to each server, and whether the server greets first, by name."""

    def _ends(self, source: str, target: str) -> tuple[str, str]:
        """Return (client, server) of a link."""
        return (source, target) if target in self._peers else (target, source)

    def cut(self, links: Links) -> None:
        self._proxy.ask("cut", links=links)

    def heal(self, links: Links) -> None:
        self._proxy.ask("heal", links=links)

    def reaches(self, source: str, target: str, timeout: float) -> float | None:
        client, server = self._ends(source, target)
        hello, greets = self._hellos[server]
        return probe(self._proxy.addresses[client, server], hello, timeout, greets=greets)

    def shape(self, links: Links, shape: LinkShape) -> Callable[[], None]:
        number = self._proxy.ask("shape", links=links, shape=msgspec.to_builtins(shape))
        return lambda: self._proxy.ask("undo", number=number)

    def trap_message(self, source: str, target: str, needle: bytes, delay: float | None) -> MessageTrap:
        text = base64.b64encode(needle).decode()
        number = self._proxy.ask("trap", source=source, target=target, needle=text, delay=delay)
        return ProxiedTrap(self._proxy, number)

    def black_hole(self, client: str, server: str) -> MessageTrap:
        return ProxiedTrap(self._proxy, self._proxy.ask("black_hole", client=client, server=server))

    def break_streams(self, host: str) -> int:
        return int(self._proxy.ask("reset", client=host, servers=list(self._peers)))


def probe(address: Address, hello: bytes, timeout: float, *, greets: bool = False) -> float | None:
    """Return the seconds until a server answers ``hello`` on a new connection, None if that takes too long.

    A server that ``greets`` sends data first; without a ``hello`` the time until its greeting counts."""
    began = time.monotonic()
    try:
        with socket.create_connection(address, timeout) as connection:
            connection.settimeout(timeout)
            if greets and not connection.recv(4096):
                return None
            if not hello:
                return time.monotonic() - began
            began = time.monotonic()
            connection.sendall(hello)
            return time.monotonic() - began if connection.recv(16) else None
    except OSError:
        return None
