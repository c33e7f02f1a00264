"""The server side of each kind of real cluster: which programs, how they are set up, and what can be asked of them.

Each family of kinds has a module ``docker_<family>`` with a class ``Family``; only the one that is needed is imported.
What is asked goes from the control side straight to the servers, on a way that no fault touches.
"""

from __future__ import annotations

import importlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final

from ..containers.engine import Box
from ..containers.gate import Gate
from ..containers.helper import Helper
from ..containers.images import Images
from ..errors import EnvironmentLacking
from .base import Address, Role
from .docker_keys import Eye
from .kinds import KINDS, sentinels, servers

ASK: Final = 0.3
"""Seconds that a question may take."""
COMMON: Final = frozenset({"clock", "pause", "hang", "kill", "cut", "shape", "swallow", "hole", "reset", "disk"})
"""What faults may do to any real cluster."""


class RealServers(ABC):
    """Servers of one kind, and the hosts that look after them. ``addresses`` (host name to IP address) are filled in
    once the hosts exist; ``boxes`` and ``helper`` too, where there are clients.

    A program keeps all its data under ``/data``, which is emptied when it is to come back without.
    """

    START: ClassVar[float] = 20.0
    """Seconds within which servers must have found each other."""
    KNOCK: ClassVar[bytes] = b""
    """64 bytes that a server answers on a new connection; nothing: what Redis would."""
    RESTORE: ClassVar[str] = ""
    """Shell commands that undo what programs, and faults on them, change outside ``/data`` and ``/tmp``."""
    GREETS: ClassVar[bool] = False
    """Does a server speak first?"""

    def __init__(self, kind: str, nodes: int, options: Mapping[str, Any]) -> None:
        self.kind = kind
        self.options = options
        self.addresses: dict[str, str] = {}
        self.boxes: Mapping[str, Box] = {}
        self.helper: Helper | None = None
        self.gate = Gate()
        self.roles: dict[str, Role] = {
            **dict.fromkeys(servers(nodes), "server"),
            **dict.fromkeys(sentinels(kind), "sentinel"),
        }

    @classmethod
    @abstractmethod
    def abilities(cls, kind: str) -> set[str]:
        """What faults may do, beside the usual."""

    @classmethod
    def inabilities(cls, kind: str) -> set[str]:  # noqa: ARG003
        """What faults may not do, though it is usual."""
        return set()

    def image(self, images: Images, host: str) -> str:  # noqa: ARG002
        """A reference to the image that a host runs in; built if need be."""
        return images.server(KINDS[self.kind].family)

    @abstractmethod
    def program(self, host: str) -> tuple[list[str], dict[str, str]]:
        """Command and environment. It is run again at every start of the host."""

    @property
    def data_hosts(self) -> list[str]:
        """Hosts that keep what clients write."""
        return [name for name, role in self.roles.items() if role == "server"]

    @property
    def stages(self) -> list[list[str]]:
        """Hosts in the order of their starts."""
        return [[name for name, of in self.roles.items() if of == role] for role in ("server", "sentinel")]

    def port(self, host: str) -> int:  # noqa: ARG002
        return KINDS[self.kind].port

    def address(self) -> Address:
        """Where clients go."""
        return Address(self.kind, tuple((self.addresses[name], self.port(name)) for name in self.data_hosts))

    def heard(self, host: str, line: str) -> None:  # noqa: B027 - most programs say nothing that matters
        """A line that the program on a host has written; called in the thread that listens to it."""

    # Questions.

    @abstractmethod
    def answers(self, host: str) -> bool:
        """Does the program on it do anything?"""

    def size(self, host: str) -> int | None:  # noqa: ARG002
        """How many keys, None if it does not say."""
        return None

    def clock(self, host: str) -> int | None:  # noqa: ARG002
        """ns that the host's wall clock is ahead of this machine's, as the server says itself; None if it does not:
        then it is read from the memory of its process."""
        return None

    def primary(self) -> str | None:
        """The host that the servers themselves name as their primary or leader."""
        return None

    def eye(self, host: str) -> Callable[[], Eye] | None:  # noqa: ARG002
        """What opens a look at the locks' keys on a server; None where nobody can."""
        return None

    @abstractmethod
    def version(self) -> str:
        """What the servers say they are."""

    # Clocks.

    def set_clock(self, host: str, offset_ns: int, rate: float, since_ns: int) -> bool:  # noqa: ARG002
        """Move a host's wall clock in the program's own way; False if it has none, and any program's way will do."""
        return False

    # Readiness.

    def await_stage(self, hosts: list[str]) -> None:
        """Return when these hosts' programs work together; raises EnvironmentLacking if they never do."""
        deadline = time.monotonic() + self.START
        while not all(self.ready(host) for host in hosts):
            if time.monotonic() >= deadline:
                late = [host for host in hosts if not self.ready(host)]
                raise EnvironmentLacking(f"not ready within {self.START:g} s: {', '.join(late)}; see the servers' logs")
            time.sleep(0.02)

    def ready(self, host: str) -> bool:
        """Does it work together with the others?"""
        return self.answers(host)


def reading(read: Callable[[], int]) -> tuple[int, int]:
    """(how long it took, how far the clock that was read was ahead half-way), ns."""
    began, true = time.monotonic_ns(), time.time_ns()
    told = read()
    took = time.monotonic_ns() - began
    return took, told - (true + took // 2)


def family(kind: str) -> type[RealServers]:
    module: Any = importlib.import_module(f".docker_{KINDS[kind].family}", __package__)
    found: type[RealServers] = module.Family
    return found


def abilities(kind: str) -> frozenset[str]:
    """What faults may do to a real cluster of this kind."""
    if "docker" not in KINDS[kind].backends:
        return frozenset()
    of = family(kind)
    return (COMMON | of.abilities(kind)) - of.inabilities(kind)
