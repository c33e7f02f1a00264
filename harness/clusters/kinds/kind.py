"""A kind of cluster: which servers, how many, on which port, and where the code that runs them is.

Each family of kinds has a module in this package, and everything else that is specific to it in modules that its kinds
name.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from harness.clusters.server_options import ServerOption
from harness.errors import UsageError

ACCOUNT: Final = "harness"
"""Name of the user, the password and the database, on servers that have them."""
BACKENDS: Final = ("sim", "docker")
Place = type | str
"""A class, or ``module:Class`` where importing the module must wait until a run needs it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of cluster.

    - ``about``: what it consists of, with an article.
    - ``port``: where servers listen. ``nodes``: the default number of servers. ``sentinels``: the number of hosts that
      monitor the servers and fail them over.
    - ``sim``: the subclass of :class:`harness.clusters.sim.kinds.SimServers`, and ``docker``: the subclass of
      :class:`harness.clusters.docker.kinds.RealServers`, empty where the kind cannot run.
    - ``servers``: the subclass of :class:`harness.clusters.servers.adapter.OwnServer` for servers that a user runs,
      empty where that is not supported.
    - ``ssh``: the subclass of :class:`harness.clusters.ssh.services.base.HostServers` for servers that the harness
      starts on the user's machines, empty where that is not supported.
    - ``floods``: the subclass of :class:`harness.clusters.floods.Floods` that fills the servers' memory, empty if they
      never evict a key.
    - ``options``: the ``server_options`` of a plan, by name.
    - ``packages``: distributions that decide a run's outcome beside the harness, such as the client library.
    - ``family``: the service, which several kinds may have in common; comparisons group locks by it. ``rank``: the
      position in such a list.
    - ``one_command_per_message``: each message between a client and a server is one command or one reply.
      ``lower_case``: clients send the names of commands in lower case.
    - ``redirects``: servers send their own addresses to clients.
    - ``own_image``: servers need programs that no image of one product has, so no other image can be given.
    - ``majority``: servers know nothing of each other, and a lock is held by the client that has it on most of them.
    """

    name: str
    about: str
    port: int
    nodes: int = 1
    sentinels: int = 0
    sim: Place = ""
    docker: Place = ""
    servers: Place = ""
    ssh: Place = ""
    floods: Place = ""
    options: Mapping[str, ServerOption] = field(default_factory=dict)
    packages: tuple[str, ...] = ()
    family: str = ""
    rank: int = 100
    one_command_per_message: bool = False
    lower_case: bool = False
    redirects: bool = False
    own_image: bool = False
    majority: bool = False

    @property
    def backends(self) -> tuple[str, ...]:
        """Backends that can build it."""
        return tuple(backend for backend in BACKENDS if getattr(self, backend))

    @property
    def service(self) -> str:
        """The family, or the kind's own name if it is the only one of its family."""
        return self.family or self.name

    def allow_image(self) -> None:
        """Raise UsageError if the servers cannot come from an image that a user names."""
        if self.own_image:
            raise UsageError(f"--image: {self.name} is {self.about}; no image of one product has the programs")

    def load(self, part: str) -> Any:
        """Return the class that ``part`` names (``sim``, ``docker``, ``servers``, ``ssh`` or ``floods``); UsageError if
        there is none."""
        place: Place = getattr(self, part)
        if not isinstance(place, str):
            return place
        module, _, name = place.partition(":")
        try:
            return getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            if module.startswith("harness."):  # a missing extra, which the command line explains
                raise
            raise UsageError(f"the cluster kind {self.name}: {part} is {place!r}: {error}") from error


def flaw_of(kind: Kind) -> str:
    """Return what is wrong with the fields of a kind, empty if nothing is."""
    for name in ("name", "about"):
        if not isinstance(getattr(kind, name), str) or not getattr(kind, name):
            return f"{name} must be a text, got {getattr(kind, name)!r}"
    for name, least in (("port", 1), ("nodes", 1), ("sentinels", 0)):
        number = getattr(kind, name)
        if type(number) is not int or not least <= number <= 65535:
            return f"{name} must be a whole number from {least}, got {number!r}"
    for name in ("sim", "docker", "servers", "ssh", "floods"):
        if not isinstance(getattr(kind, name), str | type):
            return f"{name} must be a class or 'module:Class', got {getattr(kind, name)!r}"
    if not kind.backends:
        return "neither sim nor docker names a class of servers"
    if not isinstance(kind.options, Mapping) or not all(callable(rule) for rule in kind.options.values()):
        return f"options must map names to functions, got {kind.options!r}"
    if not isinstance(kind.packages, tuple) or not all(isinstance(package, str) for package in kind.packages):
        return f"packages must be a tuple of texts, got {kind.packages!r}"
    return ""
