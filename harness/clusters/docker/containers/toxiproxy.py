"""Control of a Toxiproxy that damages one client's links to servers: latency, bandwidth, black holes, lost messages.

The proxy runs in a container of its own that shares the client's network namespace, and the kernel redirects the
client's connections to it (:meth:`ClientLinks.redirects`). So client, servers and locks keep their real addresses.

Times are seconds and rates bytes a second. Toxiproxy itself counts in whole milliseconds and in kilobytes (1000 bytes)
a second: less than that is rounded.
"""

from __future__ import annotations

import base64
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, Literal

import requests
from toxiproxy import Toxiproxy
from toxiproxy.api import APIConsumer
from toxiproxy.exceptions import InvalidToxic, NotFound, ProxyExists

from harness.errors import MISSING, HarnessError

Direction = Literal["request", "reply"]
STREAM: Final[dict[Direction, str]] = {"request": "upstream", "reply": "downstream"}
TABLE: Final = "lock_harness_nat"
NO_REDIRECTS: Final = f"add table ip {TABLE}\ndelete table ip {TABLE}\n"
"""The nftables script that undoes :meth:`ClientLinks.redirects`."""
UID: Final = 65533
"""User id of the proxy, whose own connections are not redirected."""
PORT: Final = 8474
PATIENCE: Final = 10.0
"""Seconds within which a proxy's API must answer after its start."""


class SidecarError(HarnessError):
    """A proxy does not answer, or answers unexpectedly."""

    exit_status = MISSING


@dataclass(frozen=True, slots=True)
class ProxiedLink:
    """A server's real address, and the loopback port on which the proxy accepts connections to it.

    Choose ``listen`` below 32768: the kernel may use higher ports for outgoing connections, and
    :meth:`ClientLinks.reset` could then not reopen the port.
    """

    server: str
    ip: str
    port: int
    listen: int


class _ThreadString(threading.local):
    """A string with a separate value in each thread. The library has one API address for the whole process, and formats
    it into URLs with ``%s``."""

    value: object = ""

    def __str__(self) -> str:
        return str(self.value)


_HOST, _PORT = _ThreadString(), _ThreadString()
Toxiproxy().update_api_consumer(_HOST, _PORT)


class ClientLinks:
    """One client's links to servers, through its proxy. Thread-safe.

    ``api`` is the (host, port) of the proxy's API, and each request to it is made within ``gate``. Methods raise
    :exc:`SidecarError` if the proxy does not answer.
    """

    def __init__(
        self,
        api: tuple[str, int],
        links: Sequence[ProxiedLink],
        gate: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._gate = gate
        self.links = {link.server: link for link in links}
        self._api = api
        self._numbers = itertools.count(1)
        self._active: dict[str, tuple[str, dict[str, Any]]] = {}
        self._traps: dict[str, tuple[str, Direction, dict[str, Any]]] = {}
        self._lock = threading.Lock()

    def start(self) -> None:
        """Wait until the API answers, at most ``PATIENCE`` seconds, and accept connections.

        May be called again after a restart of the proxy, which forgets its state: active damage is applied again.
        """
        self._wait()
        with self._lock, self._talking() as api:
            for link in self.links.values():
                try:
                    api.create(f"{link.ip}:{link.port}", link.server, f"127.0.0.1:{link.listen}")
                except ProxyExists:
                    continue
                except KeyError as error:
                    raise SidecarError(f"the proxy cannot take connections on port {link.listen}") from error
                proxy = api.get_proxy(link.server)
                for direction, stream in STREAM.items():
                    place = {"at": {"link": link.server, "direction": direction}}
                    proxy.add_toxic(type="snare", name=f"snare_{direction}", stream=stream, attributes=place)
                for name, (server, toxic) in self._active.items():
                    if server == link.server:
                        proxy.add_toxic(name=name, **toxic)
                for name, (server, direction, trap) in self._traps.items():
                    if server == link.server:
                        self._change(server, direction, {"set": {name: trap}})

    def clear(self) -> None:
        """Stop accepting connections and break existing ones, also those of links that another process has set up."""
        with self._lock, self._talking() as api:
            for proxy in api.proxies().values():
                proxy.destroy()
            self._active.clear()
            self._traps.clear()

    def redirects(self) -> str:
        """Return an nftables script, for the client's network namespace, that redirects its connections to the
        proxy."""
        rules = "".join(
            f"        meta skuid != {UID} ip daddr {link.ip} tcp dport {link.port} redirect to :{link.listen}\n"
            for link in self.links.values()
        )
        chain = f"    chain output {{\n        type nat hook output priority -100;\n{rules}    }}\n"
        return f"{NO_REDIRECTS}table ip {TABLE} {{\n{chain}}}\n"

    def shape(
        self, server: str, direction: Direction, latency: float, jitter: float, rate: float | None
    ) -> Callable[[], None]:
        """Delay data by ``latency`` to ``latency + jitter`` seconds and limit it to ``rate`` (at least 1000 bytes a
        second), in addition to earlier shapes.

        Return an idempotent function that undoes it; delayed data is then delivered at once.
        """
        undo = []
        if latency > 0 or jitter > 0:
            # Toxiproxy's jitter goes both ways from its latency.
            attributes = {"latency": round((latency + jitter / 2) * 1000), "jitter": round(jitter / 2 * 1000)}
            undo.append(self._add(server, direction, "latency", attributes))
        if rate is not None:
            # Zero would be no limit at all.
            undo.append(self._add(server, direction, "bandwidth", {"rate": max(1, round(rate / 1000))}))
        return _all(undo)

    def black_hole(self, server: str) -> Callable[[], None]:
        """Lose all data in both directions; connections stay open, and new ones are accepted.

        Return a function that undoes it. It closes the existing connections, since data is missing in them.
        """
        return _all([self._add(server, direction, "timeout", {"timeout": 0}) for direction in STREAM])

    def reset(self, servers: Sequence[str] | None = None) -> None:
        """Break all connections to some servers (``None``: to all). New ones are refused for some milliseconds, and
        accepted when this returns. Toxiproxy does not report how many there were."""
        some = list(self.links) if servers is None else servers
        with self._lock, self._talking() as api:
            # Not its reset_peer toxic: that waits for data before it breaks a connection.
            proxies = [self._proxy(api, server) for server in some]
            for proxy in proxies:
                proxy.disable()
            for proxy in proxies:
                proxy.enable()
            after = api.proxies()
            if closed := [server for server in some if not after[server].enabled]:
                raise SidecarError(f"the proxy no longer takes connections to {', '.join(closed)}")

    def trap_message(self, server: str, direction: Direction, needle: bytes, delay: float | None) -> ProxyTrap:
        """Lose the next data on the link that contains ``needle``, or delay it by ``delay`` seconds."""
        name = f"trap{next(self._numbers)}"
        wait = -1 if delay is None else round(delay * 1000)
        trap = {"needle": base64.b64encode(needle).decode(), "delay": wait, "count": 1}
        with self._lock, self._talking():
            self._change(server, direction, {"set": {name: trap}})
            self._traps[name] = (server, direction, trap)
        return ProxyTrap(self, server, direction, name)

    def toxics(self, server: str) -> dict[str, dict[str, Any]]:
        """Return the proxy's current toxics on the links to a server: attributes by name of the toxic."""
        with self._talking() as api:
            return {name: toxic.attributes for name, toxic in self._proxy(api, server).toxics().items()}

    def caught(self, server: str, direction: Direction, name: str, *, disarm: bool) -> bool:
        """Return whether a trap has caught its message; ``disarm`` removes it. For :class:`ProxyTrap`."""
        with self._lock:
            if disarm:
                self._traps.pop(name, None)
            with self._talking() as api:
                proxy = api.get_proxy(server)
                if proxy is None:
                    return False  # the proxy was restarted and has no traps
                if disarm:
                    attributes = self._change(server, direction, {"disarm": [name]})
                else:
                    attributes = proxy.get_toxic(f"snare_{direction}").attributes
            caught = bool(((attributes["traps"] or {}).get(name) or {}).get("used"))
            if caught:
                self._traps.pop(name, None)
            return caught

    def _add(self, server: str, direction: Direction, kind: str, attributes: dict[str, int]) -> Callable[[], None]:
        name = f"{kind}{next(self._numbers)}"
        toxic = {"type": kind, "stream": STREAM[direction], "attributes": attributes}
        with self._lock, self._talking() as api:
            self._proxy(api, server).add_toxic(name=name, **toxic)
            self._active[name] = (server, toxic)

        def undo() -> None:
            with self._lock:
                if self._active.pop(name, None) is None:
                    return
                with self._talking() as api:
                    proxy = api.get_proxy(server)
                    try:
                        if proxy is not None:
                            proxy.destroy_toxic(name)
                    except NotFound:
                        pass  # the proxy was restarted and has no toxics

        return undo

    def _proxy(self, api: Any, server: str) -> Any:
        proxy = api.get_proxy(server)
        if proxy is None:
            raise SidecarError(f"Toxiproxy at {self._api[0]}:{self._api[1]} has no proxy for {server}: call start()")
        return proxy

    def _change(self, server: str, direction: Direction, attributes: dict[str, Any]) -> dict[str, Any]:
        """Update a toxic of the type ``snare`` and return its attributes; the library has no call for it."""
        path = f"/proxies/{server}/toxics/snare_{direction}"
        answer: dict[str, Any] = APIConsumer.post(path, json={"attributes": attributes}).json()["attributes"]
        return answer

    def _wait(self) -> None:
        deadline = time.monotonic() + PATIENCE
        url = f"http://{self._api[0]}:{self._api[1]}/version"
        while True:
            try:
                # Not through the library, whose requests wait for ever.
                if requests.get(url, timeout=1).ok:
                    return
            except requests.RequestException as error:
                if time.monotonic() > deadline:
                    raise SidecarError(f"no Toxiproxy at {url} within {PATIENCE:g} s: {error}") from error
            time.sleep(0.02)

    @contextmanager
    def _talking(self) -> Iterator[Any]:
        """The library's API object, directed to this proxy in this thread."""
        before = _HOST.value, _PORT.value
        _HOST.value, _PORT.value = self._api
        try:
            with self._gate():
                yield Toxiproxy()
        except (requests.RequestException, InvalidToxic, NotFound, ProxyExists) as error:
            raise SidecarError(f"Toxiproxy at {self._api[0]}:{self._api[1]}: {error}") from error
        finally:
            _HOST.value, _PORT.value = before


class ProxyTrap:
    """Trap for one message on a proxied link; implements :class:`harness.clusters.abilities.network.MessageTrap`."""

    def __init__(self, links: ClientLinks, server: str, direction: Direction, name: str) -> None:
        self._where = (links, server, direction, name)
        self._used = False
        self._cancelled = False

    @property
    def used(self) -> bool:
        if not self._used and not self._cancelled:
            self._ask(disarm=False)
        return self._used

    def cancel(self) -> None:
        """Remove the trap; a message that is already delayed keeps its delay."""
        if not self._cancelled:
            self._cancelled = True
            self._ask(disarm=True)

    def _ask(self, *, disarm: bool) -> None:
        links, server, direction, name = self._where
        # Remember a catch, since the proxy forgets it when it is restarted.
        self._used |= links.caught(server, direction, name, disarm=disarm)


def _all(calls: Sequence[Callable[[], None]]) -> Callable[[], None]:
    def call() -> None:
        for each in calls:
            each()

    return call
