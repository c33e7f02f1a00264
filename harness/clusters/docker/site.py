"""Containers and network of a container cluster: created before a run, and optionally reset and reused by the next run.

:class:`Site` owns the containers; a run's programs are started in them by :mod:`.cluster`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from docker import DockerClient

from harness.clusters.base import Role
from harness.clusters.docker.containers import server_tools
from harness.clusters.docker.containers.engine import Box, Deployment, in_parallel
from harness.clusters.docker.containers.helper_client import Helper, Privilege
from harness.clusters.docker.containers.sidecar import Peers, clear_links, open_links
from harness.clusters.docker.containers.toxiproxy import ClientLinks
from harness.clusters.gate import NetworkGate

from .control import ControlRoute, open_route
from .disks import make_disks
from .network import remove_packet_rules
from .user_modules import UserModules

RESOURCE: Final = "resource"
RESOURCE_PORT: Final = 7000
HELPER: Final = "helper"
TOOLS: Final = "tools"
ENGINES: Final = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf")
"""Files in a container that the engine or this project changes."""
CHANGED: Final = [
    "find", "/", "/dev/shm", "-xdev", *(word for path in ENGINES for word in ("!", "-path", path)), "-newerct",
]  # fmt: skip
"""Command that lists files changed since a time, which is its last argument."""
ClientSetup = tuple[str, Path | None, str]
"""(Client image, folder with the user's modules, proxy image): if these change, clients need new containers."""


@dataclass(frozen=True, slots=True)
class SiteRequest:
    """Containers that a run needs.

    ``images`` are those of servers, by host, and ``tools_image`` is that of the tools in them; ``disks`` names servers
    that get a disk of their own; ``privileges`` are those of the helper; ``source`` is the folder of a user's modules.
    Without a ``proxy_image`` clients have no proxy; ``by_hand`` is for a cluster that outlives this process.
    """

    kind: str
    roles: Mapping[str, Role]
    images: Mapping[str, str]
    tools_image: str
    disks: tuple[str, ...] = ()
    privileges: frozenset[Privilege] = frozenset()
    clients: tuple[str, ...] = ()
    client_image: str = ""
    source: Path | None = None
    proxy_image: str = ""
    by_hand: bool = False
    helper_image: Callable[[], str] = str
    """Returns the image of a helper that only a cluster without clients may need."""

    @property
    def server_setup(self) -> tuple[Any, ...]:
        """Properties of the servers' containers; a request with others needs a new site. Server options are not among
        them, since programs are always restarted."""
        helper = self.disks, self.privileges
        return self.kind, dict(self.roles), dict(self.images), helper, self.by_hand, bool(self.clients)

    @property
    def client_setup(self) -> ClientSetup:
        return self.client_image, self.source, self.proxy_image


class Site:
    """Containers of one cluster. ``used`` is True once it was :meth:`reset` after a run."""

    def __init__(self, engine: DockerClient, wanted: SiteRequest) -> None:
        self.deployment = Deployment(engine, wanted.kind, by_hand=wanted.by_hand)
        self.boxes: dict[str, Box] = {}
        self.used = False
        self._server_setup = wanted.server_setup
        self._disks = wanted.disks
        self._helper: Helper | None = None
        self._route: ControlRoute | None = None
        self._client_setups: dict[str, ClientSetup] = {}
        self._born: dict[str, float] = {}
        self._proxied: set[str] = set()
        self._left = False
        self._tools = ""
        self._closing = contextlib.ExitStack()

    @property
    def helper(self) -> Helper:
        assert self._helper is not None, "a cluster without clients has no helper"
        return self._helper

    @property
    def route(self) -> ControlRoute:
        """The way to the containers, once they were started."""
        assert self._route is not None, "no container was started"
        return self._route

    def fits(self, wanted: SiteRequest) -> bool:
        """Return whether a run with this request can use the site."""
        return self._server_setup == wanted.server_setup

    # Before a run.

    def start_containers(self, wanted: SiteRequest) -> None:
        """Start the missing containers, a few at a time; no programs run in them yet."""
        first = not self.boxes
        if first:
            self._closing.callback(self._remove)
            self.deployment.open()
            self._tools = self.deployment.provide(TOOLS, wanted.tools_image)
        self._drop([name for name, client_setup in self._client_setups.items() if client_setup != wanted.client_setup])
        calls = {name: make for name, make in self._makers(wanted).items() if name not in self.boxes}
        made = dict(zip(calls, in_parallel(calls.values()), strict=True))
        if HELPER in made:
            self._open_helper(made.pop(HELPER))
        self.boxes.update(made)
        for name in set(made).intersection(wanted.clients):
            self._client_setups[name], self._born[name] = wanted.client_setup, time.time()
        if self._route is None:
            self._open_route(wanted)
        if first and self._disks:
            make_disks(self.helper, [self.boxes[name] for name in self._disks])

    def _makers(self, wanted: SiteRequest) -> dict[str, Callable[[], Any]]:
        make = self.deployment.box
        calls: dict[str, Callable[[], Any]] = {
            name: partial(make, name, wanted.images[name], role, **server_tools.settings(self._tools))
            for name, role in wanted.roles.items()
        }
        if wanted.clients:
            image = wanted.client_image
            start = UserModules(wanted.source).start if wanted.source else lambda make, drop: make()  # noqa: ARG005
            calls[RESOURCE] = partial(make, RESOURCE, image, RESOURCE)
            for name in wanted.clients:
                client = partial(make, name, image, "client")
                calls[name] = partial(start, client, partial(self.deployment.drop, name))
            if self._helper is None:
                calls[HELPER] = partial(Helper, self.deployment, image, wanted.privileges)
        return calls

    def _open_helper(self, helper: Helper) -> None:
        self._helper = helper
        self._closing.callback(helper.close)
        helper.check_machine()
        if self._disks:
            # Before any container is removed: a process that waits for a frozen disk cannot be killed.
            self._closing.callback(helper.disk, "thaw_all")

    def _open_route(self, wanted: SiteRequest) -> None:
        def helper() -> Helper:
            if self._helper is None:
                self._open_helper(Helper(self.deployment, wanted.helper_image()))
            return self.helper

        self._route = open_route(self.boxes, helper, has_helper=self._helper is not None)
        self._closing.callback(self._route.close)

    def links(self, wanted: SiteRequest, peers: Peers, gate: NetworkGate) -> dict[str, ClientLinks]:
        """Start and return a proxy for each client; empty if the request has none."""
        if not wanted.proxy_image:
            return {}
        clients = {name: self.boxes[name] for name in wanted.clients}
        found = open_links(self.deployment, wanted.proxy_image, self.helper, clients, peers, gate, there=self._proxied)
        self._proxied.update(found)
        return found

    # After a run.

    def reset(self) -> None:
        """Kill all programs and undo all faults, so that the next run finds the site as new; drop changed clients."""
        boxes = list(self.boxes.values())
        for box in boxes:
            box.unpause()
        if self._disks:
            self.helper.disk("thaw_all")
        self.helper.empty(boxes)
        for name in self._disks:
            self.helper.disk("restore_power", self.boxes[name])
            self.helper.disk("clear", self.boxes[name])
            self.helper.disk("slow", self.boxes[name], per_second=0)
        remove_packet_rules(self.helper, boxes)
        in_parallel([partial(clear_links, self.boxes[name], self.route.address) for name in self._proxied])
        clients = list(self._client_setups)
        changed = in_parallel([partial(self._changed, name) for name in clients])
        self._drop([name for name, files in zip(clients, changed, strict=True) if files])
        self.used = True

    def _changed(self, client: str) -> bytes:
        """List files that a client has changed."""
        return self.boxes[client].output([*CHANGED, f"@{self._born[client]:.6f}"])

    def _drop(self, clients: Iterable[str]) -> None:
        """Remove clients' containers, and the proxies that share their networks."""
        gone = list(clients)
        proxies = [f"{name}-proxy" for name in gone if name in self._proxied]
        in_parallel([partial(self.deployment.drop, name) for name in (*proxies, *gone)])
        for name in gone:
            del self._client_setups[name], self._born[name], self.boxes[name]
            self._proxied.discard(name)

    def close(self) -> None:
        """Remove all containers and the network."""
        self._closing.close()

    def leave(self) -> None:
        """End the helper's program, and leave all containers and the network."""
        self._left = True
        self._closing.close()

    def _remove(self) -> None:
        if not self._left:
            self.deployment.close()


class SiteSource(Protocol):
    """Provider of sites for runs: new ones, or reused ones."""

    def take(self, engine: DockerClient, wanted: SiteRequest) -> Site: ...

    def give_back(self, site: Site, *, sound: bool) -> None:
        """Return a site after a run. ``sound`` is True if the run completed without an error."""


class NewSites:
    """Creates a site for each run and removes it afterwards."""

    def take(self, engine: DockerClient, wanted: SiteRequest) -> Site:
        return Site(engine, wanted)

    def give_back(self, site: Site, *, sound: bool) -> None:  # noqa: ARG002
        site.close()
