"""The document of an exhaustive search, which ``harness hunt --exhaustive --json`` prints."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

SCHEMA: Final = 1


class ExhaustiveScope(msgspec.Struct, frozen=True, kw_only=True):
    """The lock, its cluster, and the bounds of the search."""

    lock: str = ""
    """The lock's name, or its ``package.module:Class``."""
    clients: int = 2
    """Number of clients; each executes one critical section."""
    access: bool = True
    """True if a client reads and writes the resource while it holds the lock."""
    faults: int = 1
    """Faults in one interleaving, at most."""
    families: tuple[str, ...] = ()
    """Families of faults that may strike."""
    ttl: float = 0.0
    """Lease, seconds."""
    wait: float = 0.0
    """Time for which an acquire tries, seconds; 0: once."""
    late: float = 0.0
    """Time for which a message may be under way while time passes, seconds."""
    horizon: float = 0.0
    """Longest execution, seconds of virtual time; 0: the longest that its faults may take, and a ttl."""
    kind: str = ""
    """Kind of cluster."""
    nodes: int = 0
    """Number of servers; 0: the usual number of this kind."""
    discipline: str = "trusting"
    """``trusting`` or ``checking``, as in a run's document."""
    fencing: str = "off"
    """``on`` or ``cas`` if the resource checks fencing tokens, else ``off``."""
    lock_options: dict[str, Any] = {}
    """Options of the lock, by its own names."""
    server_options: dict[str, Any] = {}
    """Options of the servers, by their own names."""
    requires: tuple[str, ...] = ()
    """Releases of libraries, such as ``redis==5.2.1``."""
    python: str = ""
    """Python of the lock: a version or a path; empty: that of the harness."""
    lease: str = ""
    """Lease of the lock as the command states it; "": the one that the lock states."""
    look_for: tuple[str, ...] = ()
    """Checkers that count; none named: mutual exclusion and the resource."""
    seed: int = 0
    """Seed of all executions."""


class ExhaustiveStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step of an interleaving: a message that arrives, time that passes, or a fault."""

    act: str
    """The step, in words."""
    then: str = ""
    """A fault that strikes within this step; "" if none does."""
    after: int = 0
    """Number of the client's call after which that fault strikes, from 1."""


class ExhaustiveViolation(msgspec.Struct, frozen=True, kw_only=True):
    """The first interleaving that violates a property of the lock."""

    number: int
    """Number of the interleaving, from 1."""
    steps: tuple[ExhaustiveStep, ...]
    """The steps that lead to it."""
    broken: tuple[str, ...]
    """Checkers that say invalid, the gravest first."""
    why: str
    """The explanation of the first of them."""
    limit: str = ""
    """The documented limit of the lock that explains the violation; "": none does."""


class ExhaustiveDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an exhaustive search: every interleaving within a scope, or the first that violates."""

    schema: Literal[1]
    """Version of this document."""
    scope: ExhaustiveScope
    """Lock, cluster and bounds that were searched."""
    bounds: str
    """The bounds of the search, in words."""
    reduced: bool
    """True: one interleaving of each class of equivalent ones is executed, not every one."""
    interleavings: int
    """Executions that were completed."""
    redundant: int
    """Executions that were cut because they could only repeat one."""
    blocked: int
    """Executions that stopped before every client was done."""
    deepest: int
    """The greatest number of steps of an execution."""
    choices: int
    """Moments with more than one possible step."""
    violated: int
    """Executions with a violation."""
    violation: ExhaustiveViolation | None
    """The first of them that no documented limit of the lock explains."""
    known_limits: tuple[ExhaustiveViolation, ...] = ()
    """For each documented limit of the lock, the first violation that it explains."""
    truncated: bool
    """True if the search stopped before it had tried everything."""
    seconds: float
    """Real time of the search, seconds."""
