"""The structs of a plan: everything that decides a run, as data.

On the simulator the same plan gives the same history, byte for byte. Durations are in seconds. A plan that also states
what its run is expected to show (:class:`Expect`) is a scenario. :mod:`.toml` reads and writes plans.
"""

from __future__ import annotations

import math
from typing import Any, Final, Literal, get_args

import msgspec

from harness.errors import UsageError, unknown_name

from .hooks import Hook
from .mechanism import Mechanism

Discipline = Literal["trusting", "checking"]
Fencing = Literal["on", "off", "cas"]
BACKENDS: Final = ("sim", "docker")
"""The clusters on which the harness provides the servers. A plan for one of the other two says where they are."""
SERVERS: Final = "servers"
"""The cluster of a plan whose servers the user runs."""
SSH: Final = "ssh"
"""The cluster of a plan that runs on the user's machines, reached over SSH."""
ACCEPTABLE: Final = ("known-limits",)
LONGEST_S: Final = 1e8
"""Upper limit of every duration in a plan: about three years."""
LARGEST: Final = {"clients": (10_000, 90_000), "nodes": (1_000, 400_000), "keys": (100_000, 250)}
"""Most clients, servers and keys of a plan, and the bytes of memory that the simulator needs for each (measured: 2,000
clients, 200 servers, 50,000 keys). Every server is asked for every key, so many keys need more time than memory."""


class FaultSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, rename={"for_": "for"}):
    """When a fault is injected, and where; ``params`` are parameters of the fault class.

    Exactly one of three fields sets the moment: ``at`` (seconds after the start), ``every`` (a period in seconds) or
    ``on`` (an event). Events:

    - ``"acquire"``: an acquire succeeded; likewise for any other kind of call;
    - ``"acquire:invoke"``, ``"acquire:fail"``, ``"acquire:info"``: it began, failed, or has an unknown outcome;
    - ``"request:SET"``: a client is about to send this command;
    - ``"reply:SET"``: a server has executed it and is about to send the reply.

    ``client`` (a number) and ``node`` (a host name) narrow the event to one host: the client's host for a call, the
    server's for a command. ``nth`` selects the n-th occurrence. ``times`` is how often the trigger fires, and ``every``
    beside ``on`` the shortest time between two firings. ``delay`` is the time from the event to the fault.

    ``for_`` (``for`` in TOML) is how long the fault lasts. 0 means that it is healed before the client that caused the
    event takes its next step. Without ``for_`` it lasts until the fault-free time at the end of the run.
    """

    fault: str
    at: float | None = None
    every: float | None = None
    on: str | None = None
    client: int | None = None
    node: str | None = None
    nth: int = 1
    times: int = 1
    delay: float = 0.0
    for_: float | None = None
    until_exposed: bool = False
    """Strike again, as ``times`` and ``every`` say, only until the fault has tested the lock: it was active while one
    client held a key and another one wanted it, for long enough. :mod:`harness.checkers.exposure` decides."""
    tolerated: bool = False
    """The lock must stay available during this fault, so the liveness checker does not excuse that time."""
    decoration: str = ""
    """In a scenario: why the fault is part of the story although the failure happens without it."""
    params: dict[str, Any] = {}


class Delay(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A delay of one message on the simulated network: the ``nth`` one (counted from 1) from host ``source`` to host
    ``target`` arrives ``by`` seconds later. It is not a fault: a network may do this at any time."""

    source: str
    target: str
    nth: int
    by: float


class Expect(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """The verdicts that a run of the plan is expected to have, by names of checkers.

    A plan that is not ``safe`` shows a known failure: the checkers in ``invalid`` must report it, those in ``valid``
    must say valid, and the others do not matter; those in ``untested`` must find that the run did not test their
    property. In a ``safe`` plan every checker must say valid, except those in ``ignored`` and those in ``invalid`` (a
    violation at the lock that fencing makes harmless), which must report it.
    """

    safe: bool
    invalid: tuple[str, ...] = ()
    untested: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    within: float = 0.0
    """Latest begin of the first violation, in seconds after the start; 0 means the whole run."""
    mechanism: Mechanism | None = None
    """Why the failure happens. A violation for another reason is not as expected."""

    @property
    def named(self) -> tuple[str, ...]:
        """Return the names of all checkers whose verdict is expected or ignored."""
        return (*self.invalid, *self.untested, *self.valid, *self.ignored)

    def check(self, plan: Plan) -> None:
        """Raise UsageError if two fields contradict each other, or the plan that they are expected of."""
        if not self.safe and not self.invalid and not self.untested:
            raise UsageError("expect.invalid must name the checkers that find the failure (or safe = true)")
        if not self.safe and self.ignored:
            raise UsageError("expect.ignored needs safe = true: of a known failure, only named checkers count")
        if self.safe and self.untested:
            raise UsageError("expect.untested needs safe = false: a safe lock must be tested")
        if "faults" in (*self.invalid, *self.ignored):
            raise UsageError(
                "expect: 'faults' must not be in invalid or ignored: without its faults a run proves nothing"
            )
        twice = sorted({name for name in self.named if self.named.count(name) > 1})
        if twice:
            raise UsageError(f"expect: {twice[0]!r} is named more than once in invalid, untested, valid and ignored")
        if not 0 <= self.within <= plan.time_limit:
            raise UsageError(
                f"expect.within must be from 0 to the time limit ({plan.time_limit:g} s), got {self.within:g}"
            )
        if self.mechanism is not None:
            if not self.invalid:
                raise UsageError("expect.mechanism explains a violation: expect.invalid must name who reports it")
            self.mechanism.check(plan.clients, {spec.fault for spec in plan.faults})


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """Everything that decides one run. Durations are in seconds."""

    lock: str
    title: str = ""
    source: str = ""
    """Documentation of the failure: article, paper, issue or manual."""
    about: str = ""
    """Mechanism of the failure, for readers of the report."""
    twin: str = ""
    """In a cure: why its plan differs from the failure's in more than one key."""
    cluster: str = "sim"
    kind: str = ""
    servers: tuple[str, ...] = ()
    """Addresses of the servers, such as ``redis://127.0.0.1:6379``, where ``cluster`` is ``servers``."""
    hooks: dict[str, Hook] = {}
    """The user's commands for faults of these servers, by the names of the faults."""
    hosts: tuple[str, ...] = ()
    """Machines on which servers and clients run, as ``ssh`` takes them, where ``cluster`` is ``ssh``."""
    client_hosts: tuple[str, ...] = ()
    """Machines of the clients; empty for ``hosts``."""
    client_python: str = ""
    """Path of the Python on the clients' machines that has the libraries; empty to send them."""
    host_setup: str = ""
    """Shell command that is run on each machine first."""
    ssh_config: str = ""
    """An ssh_config file; empty for the user's own."""
    image: str = ""
    """Docker image of the servers, on docker only; empty for the image that the harness builds."""
    nodes: int = 0
    """Number of servers; 0 means the usual number for the cluster kind."""
    clients: int = 5
    keys: int = 1
    workload: str = "mutex"
    ttl: float = 2.0
    hold: float = 0.1
    rest: float = 0.05
    stagger: float = 0.0
    """Seconds between the start of client n and that of client n + 1. On a real cluster, client n has started when it
    has recorded its first entry."""
    sections: int = 0
    """Number of acquires after which a client ends; 0 means that clients continue until the time limit."""
    wait: float = 0.0
    """Timeout of an acquire; 0 means the ttl."""
    discipline: Discipline = "trusting"
    fencing: Fencing = "off"
    time_limit: float = 30.0
    settle: float = 0.0
    """Fault-free time at the end of the run; 0 means ttl plus slack plus one second, at most half of the run."""
    slack: float = 1.0
    seed: int = 0
    shuffle: int = 0
    """Order of simulated threads that are ready at the same moment. 0 means first come, first served; any other number
    is the seed of a random order."""
    delays: tuple[Delay, ...] = ()
    faults: tuple[FaultSpec, ...] = ()
    lock_options: dict[str, Any] = {}
    lease: str = ""
    """Lease of grants that do not say it: ``ttl``, a duration, or an option of the lock with its unit, such as
    ``px:ms``; empty for what the lock states."""
    server_options: dict[str, Any] = {}
    holds: dict[str, float] = {}
    """Hold times of single clients by name, where they differ from ``hold``."""
    ends: dict[str, int] = {}
    """Number of acquires of single clients by name, where it differs from ``sections``. A client with 0 does not take
    part in the run."""
    checkers: tuple[str, ...] = ()
    """Further checkers beside the built-in ones: names of entry points, or ``package.module:Class``."""
    require: tuple[str, ...] = ()
    """Properties that decide the verdict, by names of checkers; empty for all, except mutual exclusion and ownership
    where the resource checks the lock's tokens."""
    stop_on_violation: bool = False
    """End the run as soon as two clients hold a lock at the same time."""
    hold_on_violation: bool = False
    """On containers: the same, and freeze all servers and clients at that moment and leave them for inspection."""
    accept: tuple[str, ...] = ()
    """``known-limits``: a violation that the lock's documentation states does not decide the verdict."""
    expect: Expect | None = None
    runs_on: tuple[str, ...] = ()
    """Backends on which the failure can happen; empty means every backend that supports the faults."""
    requires: tuple[str, ...] = ()
    """Distributions that the lock needs on the simulator, such as ``redis==5.2.1``; an environment is built for what is
    not installed."""
    python: str = ""
    """Python of the lock on the simulator: a version, a specifier or a path; empty for the harness's own."""
    shared_files: bool = False
    """Accept clients that use the same file. Otherwise such a run is unknown, since real clients are on different
    machines."""
    smoke: bool = False
    """True for the few scenarios that the smoke suite also runs on docker."""

    @property
    def acquire_wait(self) -> float:
        """The timeout of an acquire, with the default filled in."""
        return self.wait or self.ttl

    @property
    def settle_time(self) -> float:
        """The fault-free time at the end, with the default filled in."""
        return self.settle or min(self.time_limit / 2, self.settling_time)

    @property
    def settling_time(self) -> float:
        """The time in which a lock settles after a fault, if the run is long enough."""
        return self.ttl + self.slack + 1.0

    def check(self) -> Plan:
        """Return the plan itself; raise UsageError for a value out of range or a contradiction."""
        self._check_numbers()
        check_choices({"discipline": self.discipline, "fencing": self.fencing})
        for name in ("ttl", "hold", "time_limit"):
            if getattr(self, name) <= 0:
                raise UsageError(f"{name} must be more than 0 seconds, got {getattr(self, name):g}")
        for name in ("clients", "keys"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, got {getattr(self, name)}")
        self._check_sizes()
        self._check_servers()
        self._check_hosts()
        for name in ("nodes", "wait", "rest", "slack", "settle", "stagger", "sections", "shuffle"):
            if getattr(self, name) < 0:
                raise UsageError(f"{name} must not be negative, got {getattr(self, name):g}")
        self._check_clients()
        for word in self.accept:
            if word not in ACCEPTABLE:
                raise unknown_name("word in accept", word, ACCEPTABLE)
        for spec in self.faults:
            self._check_schedule(spec)
            if (spec.on is None and (spec.at is None) == (spec.every is None)) or (spec.on and spec.at is not None):
                raise UsageError(f"fault {spec.fault!r}: give one of 'at', 'every' and 'on'")
            _refuse_fields_without_effect(spec)
        for delay in self.delays:
            if delay.nth < 1 or not 0 <= delay.by <= LONGEST_S:
                raise UsageError(f"delays: nth must be at least 1 and by from 0 to {LONGEST_S:g} seconds, got {delay}")
        if self.expect is not None:
            self.expect.check(self)
        return self

    def _check_sizes(self) -> None:
        """Refuse more clients, servers or keys than a simulation can hold."""
        for name, (most, each) in LARGEST.items():
            value = getattr(self, name)
            if value > most:
                memory = value * each / 1e9
                raise UsageError(
                    f"{name} must be at most {most:,}, got {value:,}, which would need about {memory:,.1f} GB of memory"
                )

    def _check_servers(self) -> None:
        if (self.cluster == SERVERS) != bool(self.servers):
            raise UsageError(
                f"cluster = {SERVERS!r} and servers = [addresses] go together, "
                f"got cluster = {self.cluster!r} and servers = {list(self.servers)}"
            )
        if self.servers and self.nodes not in (0, len(self.servers)):
            raise UsageError(f"nodes must be the number of servers, {len(self.servers)}, got {self.nodes}")
        if self.servers and self.server_options:
            raise UsageError(
                f"server_options: the servers are yours to configure, got {', '.join(self.server_options)}"
            )
        if self.hooks and not self.servers:
            raise UsageError(f"hooks go with cluster = {SERVERS!r} and servers = [addresses]")
        for fault, hook in self.hooks.items():
            hook.check(fault)

    def _check_hosts(self) -> None:
        if (self.cluster == SSH) != bool(self.hosts):
            raise UsageError(
                f"cluster = {SSH!r} and hosts = [names for ssh] go together, "
                f"got cluster = {self.cluster!r} and hosts = {list(self.hosts)}"
            )
        for name in ("client_hosts", "client_python", "host_setup", "ssh_config"):
            if getattr(self, name) and not self.hosts:
                raise UsageError(f"{name} goes with cluster = {SSH!r} and hosts = [names for ssh]")
        for name in ("hosts", "client_hosts"):
            given = getattr(self, name)
            twice = sorted({host for host in given if given.count(host) > 1})
            if twice:
                raise UsageError(f"{name}: {twice[0]} is given twice")
            for host in given:
                if host.startswith("-") or not host.strip() or any(letter.isspace() for letter in host):
                    raise UsageError(f"{name}: expected a name for ssh, such as user@db1, got {host!r}")
        if self.nodes > len(self.hosts) > 0:
            raise UsageError(f"nodes must be at most the number of hosts, {len(self.hosts)}, got {self.nodes}")

    def _check_clients(self) -> None:
        if not self.holds and not self.ends:
            return
        names = [f"c{number}" for number in range(self.clients)]
        for client, hold in self.holds.items():
            if not 0 < hold <= LONGEST_S or client not in names:
                raise UsageError(
                    f"holds: expected c0 to {names[-1]} and seconds from 0 to {LONGEST_S:g}, got {client} = {hold}"
                )
        for client, acquires in self.ends.items():
            if acquires < 0 or client not in names:
                raise UsageError(f"ends: expected c0 to {names[-1]} and 0 acquires or more, got {client} = {acquires}")

    def _check_numbers(self) -> None:
        """Refuse durations that are infinite, too long or not numbers."""
        for name in ("ttl", "hold", "rest", "stagger", "wait", "time_limit", "settle", "slack"):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not abs(value) <= LONGEST_S:
                raise UsageError(f"{name} must be seconds, at most {LONGEST_S:g}, got {value!r}")

    def _check_schedule(self, spec: FaultSpec) -> None:
        least = {"at": 0.0, "every": 1e-3, "for": 0.0, "delay": 0.0, "nth": 1, "times": 1}
        for name, low in least.items():
            value = getattr(spec, "for_" if name == "for" else name)
            if value is not None and not low <= value <= LONGEST_S:
                raise UsageError(f"fault {spec.fault!r}: {name} must be from {low:g} to {LONGEST_S:g}, got {value:g}")
        for name, value in spec.params.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise UsageError(f"fault {spec.fault!r}: params: {name} must be a finite number, got {value}")
        if spec.client is not None and not 0 <= spec.client < self.clients:
            raise UsageError(f"fault {spec.fault!r}: client must be from 0 to {self.clients - 1}, got {spec.client}")


def _refuse_fields_without_effect(spec: FaultSpec) -> None:
    """Refuse fields that qualify an event where the fault has a time: they would silently do nothing."""
    defaults = {"client": None, "node": None, "nth": 1, "times": 1, "delay": 0.0}
    given = [name for name, default in defaults.items() if getattr(spec, name) != default]
    if spec.on is None and given:
        when = "at" if spec.at is not None else "every"
        raise UsageError(f"fault {spec.fault!r}: {', '.join(given)} go with an event ('on'), not with {when!r}")


def check_choices(data: dict[str, Any]) -> None:
    """Raise UsageError that lists the choices; msgspec's own message has no list."""
    for number, backend in enumerate(data.get("runs_on") or ()):
        if backend not in BACKENDS:
            raise UsageError(f"runs_on[{number}] must be one of {', '.join(BACKENDS)}, got {backend!r}")
    for name, choices in (("discipline", get_args(Discipline)), ("fencing", get_args(Fencing))):
        if name in data and data[name] not in choices:
            raise UsageError(f"{name} must be one of {', '.join(choices)}, got {data[name]!r}")
