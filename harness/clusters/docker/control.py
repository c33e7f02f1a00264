"""The way by which the control side reaches programs in containers: by their addresses, or through the engine.

A harness in a container of its own, or one that uses an engine elsewhere, has no route to the containers. Then a relay
in the helper container makes the connections. The way is chosen once for the containers of a cluster.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final, Literal

from harness.clusters.docker.containers.engine import Box
from harness.clusters.docker.containers.helper_client import Helper
from harness.clusters.docker.containers.relay import Relay
from harness.clusters.gate import NOWHERE
from harness.errors import EnvironmentLacking, UsageError

Way = Literal["direct", "engine"]
VARIABLE: Final = "HARNESS_CONTROL"
"""Environment variable that forces the way. Values: ``direct``, ``engine``, and ``auto`` (the same as none)."""
REACHED_WITHIN_S: Final = 1.0
"""Seconds in which a container that has a route to it answers."""
CLOSED: Final = 9
"""A port on which nothing listens: a container that is reached refuses the connection."""


def forced_way() -> Way | None:
    """Return the way that the environment demands, None if it leaves the choice to a trial. Raises UsageError."""
    value = os.environ.get(VARIABLE, "auto")
    if value not in ("auto", "direct", "engine"):
        raise UsageError(f"{VARIABLE}: got {value!r}, expected auto, direct or engine")
    return None if value == "auto" else value  # type: ignore[return-value] # mypy does not narrow by "in"


def unreached(helper: Helper) -> str:
    """Return why the address of the helper's container is not reached, "" if it is."""
    token, port = helper.greeting()
    try:
        with socket.create_connection((helper.ip, port), REACHED_WITHIN_S) as connection:
            connection.settimeout(REACHED_WITHIN_S)
            heard = b"".join(iter(lambda: connection.recv(4096), b""))
    except OSError as error:
        return str(error)
    return "" if heard.decode(errors="replace") == token else "another machine answers there"


def refuses(address: str) -> bool:
    """Return whether something at an address refuses a connection, as a container does that has no helper to answer."""
    try:
        socket.create_connection((address, CLOSED), REACHED_WITHIN_S).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return True


class ControlRoute:
    """The chosen way. ``boxes`` are the containers of the cluster by host; they may change."""

    def __init__(self, boxes: Mapping[str, Box], relay: Relay | None) -> None:
        self._boxes = boxes
        self._relay = relay
        self.way: Way = "direct" if relay is None else "engine"

    @property
    def lost(self) -> str:
        """The reason why containers are no longer reached, "" if they are."""
        return self._relay.lost if self._relay is not None else ""

    def address(self, ip: str, port: int) -> tuple[str, int]:
        """See :data:`harness.clusters.gate.Route`."""
        if self._relay is None:
            return ip, port
        pid = next((box.pid for box in list(self._boxes.values()) if box.ip == ip), 0)
        try:
            return self._relay.address(pid, ip, port) if pid else NOWHERE
        except OSError:
            return NOWHERE

    def close(self) -> None:
        if self._relay is not None:
            self._relay.close()


@contextmanager
def reaching(route: Callable[[], ControlRoute | None]) -> Iterator[None]:
    """Context of a run; ``route`` returns the way once it is chosen. Raises EnvironmentLacking if containers were no
    longer reached at its end, whatever else went wrong then."""
    try:
        yield
    except Exception:
        _check(route())
        raise
    _check(route())


def _check(route: ControlRoute | None) -> None:
    if route is not None and route.lost:
        raise EnvironmentLacking(
            "the relay in the helper container ended during the run, so servers and proxies were no longer reached: "
            f"{route.lost}; the run says nothing about the lock, repeat it"
        )


def open_route(boxes: Mapping[str, Box], helper: Callable[[], Helper], *, has_helper: bool) -> ControlRoute:
    """Choose the way and return it. ``helper`` returns the helper of the cluster; if it does not have one yet, it is
    started only where there is no route. Raises EnvironmentLacking if the relay does not start."""
    way = forced_way()
    if way is None:
        reached = not unreached(helper()) if has_helper else refuses(next(iter(boxes.values())).ip)
        way = "direct" if reached else "engine"
    return ControlRoute(boxes, helper().relay() if way == "engine" else None)
