"""The containers of a real cluster. Programs run in them, for one run or for one run after the other."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from docker import DockerClient

from ..containers.engine import Box, Deployment, in_parallel
from ..containers.gate import Gate
from ..containers.helper import Helper
from ..containers.sidecar import Peers, forget, open_links
from ..containers.toxiproxy import Links
from .base import Role
from .docker_disks import make_disks
from .docker_network import let_pass

RESOURCE: Final = "resource"
RESOURCE_PORT: Final = 7000
HELPER: Final = "helper"
ENGINES: Final = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf")
"""Files in a container that the engine touches, and this side."""
CHANGED: Final = [
    "find", "/", "/dev/shm", "-xdev", *(word for path in ENGINES for word in ("!", "-path", path)), "-newerct",
]  # fmt: skip
"""Followed by a time: finds files that were changed since."""
Outfit = tuple[str, Path | None, str]
"""What a client's container is made from, and the image of its proxy: what is another one for another run."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a run runs in. ``images`` are those of servers, by host; ``disks`` names servers that get a disk of their
    own; ``source`` is the folder with a user's modules; without a ``proxy_image`` clients have no proxy."""

    kind: str
    roles: Mapping[str, Role]
    images: Mapping[str, str]
    disks: tuple[str, ...] = ()
    clients: tuple[str, ...] = ()
    client_image: str = ""
    source: Path | None = None
    proxy_image: str = ""
    by_hand: bool = False

    @property
    def ground(self) -> tuple[Any, ...]:
        """What cannot be changed once the servers' containers are there. Options of servers can: programs are always
        started anew."""
        return self.kind, dict(self.roles), dict(self.images), self.disks, self.by_hand, bool(self.clients)

    @property
    def outfit(self) -> Outfit:
        return self.client_image, self.source, self.proxy_image


class Site:
    """``used`` once a run has been on it and it was made ready for another one."""

    def __init__(self, engine: DockerClient, wanted: Wanted) -> None:
        self.deployment = Deployment(engine, wanted.kind, by_hand=wanted.by_hand)
        self.boxes: dict[str, Box] = {}
        self.used = False
        self._ground = wanted.ground
        self._disks = wanted.disks
        self._helper: Helper | None = None
        self._outfits: dict[str, Outfit] = {}
        self._born: dict[str, float] = {}
        self._proxied: set[str] = set()
        self._closing = contextlib.ExitStack()

    @property
    def helper(self) -> Helper:
        assert self._helper is not None, "only who has clients has a helper"
        return self._helper

    def fits(self, wanted: Wanted) -> bool:
        """Could a run that wants this use it?"""
        return self._ground == wanted.ground

    # Before a run.

    def furnish(self, wanted: Wanted) -> None:
        """Start the containers that are missing, a few at a time; nothing runs in them yet."""
        first = not self.boxes
        if first:
            self._closing.callback(self.deployment.close)
            self.deployment.open()
        self._drop([name for name, outfit in self._outfits.items() if outfit != wanted.outfit])
        calls = {name: make for name, make in self._makers(wanted).items() if name not in self.boxes}
        made = dict(zip(calls, in_parallel(calls.values()), strict=True))
        if HELPER in made:
            self._open_helper(made.pop(HELPER))
        self.boxes.update(made)
        for name in set(made).intersection(wanted.clients):
            self._outfits[name], self._born[name] = wanted.outfit, time.time()
        if first and self._disks:
            make_disks(self.helper, [self.boxes[name] for name in self._disks])

    def _makers(self, wanted: Wanted) -> dict[str, Callable[[], Any]]:
        make = self.deployment.box
        calls: dict[str, Callable[[], Any]] = {
            name: partial(make, name, wanted.images[name], role, tmpfs={"/data": "mode=777"})
            for name, role in wanted.roles.items()
        }
        if wanted.clients:
            image = wanted.client_image
            volumes = {str(wanted.source): {"bind": "/user", "mode": "ro"}} if wanted.source else {}
            calls[RESOURCE] = partial(make, RESOURCE, image, RESOURCE)
            calls |= {name: partial(make, name, image, "client", volumes=volumes) for name in wanted.clients}
            if self._helper is None:
                calls[HELPER] = partial(Helper, self.deployment, image, disks=bool(self._disks))
        return calls

    def _open_helper(self, helper: Helper) -> None:
        self._helper = helper
        self._closing.callback(helper.close)
        if self._disks:
            # Before anything is removed: who waits for a frozen disk cannot be ended.
            self._closing.callback(helper.disk, "thaw_all")

    def links(self, wanted: Wanted, peers: Peers, gate: Gate) -> dict[str, Links]:
        """A proxy before each client, where they are wanted."""
        if not wanted.proxy_image:
            return {}
        clients = {name: self.boxes[name] for name in wanted.clients}
        found = open_links(self.deployment, wanted.proxy_image, self.helper, clients, peers, gate, there=self._proxied)
        self._proxied.update(found)
        return found

    # After a run.

    def vacate(self) -> None:
        """End all programs, and undo whatever faults may have left: the next run finds what the first one has found."""
        boxes = list(self.boxes.values())
        for box in boxes:
            box.unpause()
        if self._disks:
            self.helper.disk("thaw_all")
        self.helper.empty(boxes)
        for name in self._disks:
            self.helper.disk("restore_power", self.boxes[name])
        let_pass(self.helper, boxes)
        in_parallel([partial(forget, self.boxes[name]) for name in self._proxied])
        clients = list(self._outfits)
        changed = in_parallel([partial(self._changed, name) for name in clients])
        self._drop([name for name, files in zip(clients, changed, strict=True) if files])
        self.used = True

    def _changed(self, client: str) -> bytes:
        """Files in which a client has left something."""
        return self.boxes[client].output([*CHANGED, f"@{self._born[client]:.6f}"])

    def _drop(self, clients: Iterable[str]) -> None:
        """Remove clients' containers, and what shares their networks."""
        gone = list(clients)
        proxies = [f"{name}-proxy" for name in gone if name in self._proxied]
        in_parallel([partial(self.deployment.drop, name) for name in (*proxies, *gone)])
        for name in gone:
            del self._outfits[name], self._born[name], self.boxes[name]
            self._proxied.discard(name)

    def close(self) -> None:
        """Remove everything."""
        self._closing.close()


class Sites(Protocol):
    """Where runs get their containers from."""

    def take(self, engine: DockerClient, wanted: Wanted) -> Site: ...

    def give_back(self, site: Site, *, sound: bool) -> None:
        """The run on it is over; it was ``sound`` if it came to its end, and nothing failed."""


class Single:
    """A new one for each run."""

    def take(self, engine: DockerClient, wanted: Wanted) -> Site:
        return Site(engine, wanted)

    def give_back(self, site: Site, *, sound: bool) -> None:  # noqa: ARG002
        site.close()
