"""The document of a run: ``results.json`` in the run's folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from harness.plan import Expect, FaultSpec
from harness.wording import first_sentence

from .lock import LockFacts
from .reading import load
from .story import Story

SCHEMA: Final = 2
Blame = Literal["service", "clock", "client"]
ScenarioState = Literal["as-expected", "missed", "late", "other-cause", "violated", "unknown", "error", "not-run"]
"""``missed``: a known failure was not found. ``late``: it was found, but after the time that the scenario allows.
``violated``: a lock that should be safe was not. ``unknown``: the run proves nothing. ``error``: the run broke.
``not-run``: the scenario cannot run on this cluster."""

PropertyState = Literal["kept", "broken", "known-limit", "not-applicable", "not-tested"]
"""Result of a run for one property. ``known-limit``: it is broken, and the lock's documentation states that it may be.
``not-applicable``: the run has nothing of the kind, such as tokens of a lock without any. ``not-tested``: something was
missing; the explanation says what."""
RunWord = Literal["valid", "safe with fencing", "valid except for known limits", "violation found", "unknown"]
"""``safe with fencing``: the lock had two holders, and the resource refused every late access by its token. ``valid
except for known limits``: the user accepts known limits, and found nothing else."""


class FrozenHost(msgspec.Struct, frozen=True, kw_only=True):
    """A host whose container was left frozen."""

    container: str
    """Name of the container."""
    look: str = ""
    """Command that shows what the host stores, once its container is unpaused; empty if there is none."""


class FrozenCluster(msgspec.Struct, frozen=True, kw_only=True):
    """Containers that a run left frozen when it found two holders of a lock."""

    id: str
    """Id of the cluster, as ``harness cluster ps`` shows it."""
    seconds: float
    """Time from the violation until everything was frozen, seconds."""
    hosts: dict[str, FrozenHost]
    """Servers, clients and the protected resource, by host name."""


class RunCluster(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster of a run."""

    backend: str = ""
    """``sim``, ``docker``, ``servers`` (servers that the user runs) or ``ssh`` (machines of the user's)."""
    kind: str = ""
    """A name of ``harness list kinds``, such as ``redis-single``."""
    servers: tuple[str, ...] = ()
    """Host names of the servers."""
    sentinels: tuple[str, ...] = ()
    """Host names of those that look after servers: Redis Sentinels, or another service's manager."""
    clients: tuple[str, ...] = ()
    """Host names of the clients."""
    reason: str | UnsetType = UNSET
    """Reason why this backend was chosen; empty if the user requested it."""
    engine: str | UnsetType = UNSET
    """Version of the Docker engine."""
    control: str | UnsetType = UNSET
    """Way by which the harness reached the containers: ``direct`` (by their addresses) or ``engine`` (through it)."""
    image: str | UnsetType = UNSET
    """Images of the servers, separated by commas."""
    client_image: str | UnsetType = UNSET
    """Image of the clients; empty if they need none."""
    server: str | UnsetType = UNSET
    """Version that a server itself reports."""
    addresses: tuple[str, ...] | UnsetType = UNSET
    """Addresses of the user's servers, in the order of their host names; with ``ssh`` the machine of each server and
    client, with its address."""
    clock: str | UnsetType = UNSET
    """Relation of the clients' clocks to each other."""
    keys_removed: int | UnsetType = UNSET
    """Number of keys of the run that were on the user's servers at its end, and were removed."""
    left_behind: str | UnsetType = UNSET
    """Reasons why containers, networks or keys could not be removed."""
    frozen: FrozenCluster | UnsetType = UNSET
    """Containers that were left for inspection (``--hold-on-violation``), where the run found a violation."""
    started_again: str | UnsetType = UNSET
    """Reasons why used containers were replaced before the run."""


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the plan that reports show; ``plan.toml`` has all of them."""

    title: str | UnsetType = UNSET
    """Purpose of the run, where the plan states it."""
    workload: str = ""
    """A name of ``harness list workloads``."""
    clients: int = 0
    """Number of clients."""
    nodes: int | UnsetType = UNSET
    """Number of servers."""
    keys: int = 1
    """Number of lock keys."""
    ttl: float = 0.0
    """Lease, seconds."""
    hold: float = 0.0
    """Time in a critical section, seconds."""
    discipline: str = "trusting"
    """``trusting`` clients believe in their lock until they release it, ``checking`` ones until the lease ends."""
    fencing: str = "off"
    """``on`` or ``cas`` if the resource checks fencing tokens, else ``off``."""
    time_limit: float = 0.0
    """Length of the run, seconds."""
    faults: tuple[FaultSpec, ...] = ()
    """The faults of the plan: what is injected, and when."""


class Involved(msgspec.Struct, frozen=True, kw_only=True):
    """A hold or a call that a violation is about. Times are nanoseconds of the history's ``time``."""

    f: str = "hold"
    """``hold``, or the name of the call: ``acquire``, ``write``."""
    client: str = ""
    """Host name of the client."""
    process: int | None = None
    """Process id in the history."""
    key: str | None = None
    """The lock's key, or the resource's."""
    from_ns: int | UnsetType | None = UNSET
    """Begin of the hold, or invocation of the call, ns."""
    until_ns: int | UnsetType | None = UNSET
    """End of the hold, or completion of the call, ns; null if it never ended."""
    indices: tuple[int | None, ...] | UnsetType = UNSET
    """Indices of its entries in the history."""
    fence: Any = UNSET
    """Fencing token of a hold; null if it has none."""
    lease_end_ns: int | UnsetType | None = UNSET
    """End of a hold's lease by the client's clock, ns."""
    ended: str | UnsetType = UNSET
    """End of a hold."""
    shared: bool | UnsetType = UNSET
    """True for a hold that other clients may share."""
    outcome: str | UnsetType = UNSET
    """Outcome of a call: ``ok``, ``fail`` or ``info`` (unknown)."""
    invoked: Any = UNSET
    """Value of a call's invocation in the history."""
    returned: Any = UNSET
    """Value of a call's completion in the history; null if there is none."""
    start_ns: int | UnsetType | None = UNSET
    """Older name of ``from_ns``, ns."""
    end_ns: int | UnsetType | None = UNSET
    """Older name of ``until_ns``, ns."""
    acquire_index: int | UnsetType | None = UNSET
    """Older form: first of ``indices``."""
    release_index: int | UnsetType | None = UNSET
    """Older form: last of ``indices``."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One violation. Times are nanoseconds of the history's ``time``."""

    kind: str = "finding"
    """Kind of violation, in a word of the checker: ``overlap``, ``lost-update``."""
    key: str | None = None
    """The key that it went wrong on."""
    sentence: str = ""
    """A sentence about the violation."""
    from_ns: int | None = None
    """Begin, ns."""
    until_ns: int | None = None
    """End, ns."""
    blame: Blame | None = None
    """Cause: ``service`` if the lock granted what it had promised to another client, ``clock`` if it did so because a
    wrong clock had ended the promise, ``client`` if a client acted after its lease."""
    harm: str = ""
    """What happened, without details; empty if only ``sentence`` says it."""
    cause: str = ""
    """A clause that says why; empty if only ``sentence`` says it."""
    involved: tuple[Involved, ...] = ()
    """The holds and calls that it consists of."""
    holds: tuple[Involved, ...] | UnsetType = UNSET
    """Older name of ``involved``."""
    indices: tuple[int, ...] | UnsetType = UNSET
    """Older form: indices of the history's entries that show it."""


class CheckerResult(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of one checker."""

    valid: bool | None = None
    """True: no violation. False: it found violations. Null: unknown."""
    explanation: str = ""
    """Why, in a sentence."""
    evidence: tuple[Evidence, ...] = ()
    """The first violations in the order of time, 20 at most; ``stats.violations`` counts all of them."""
    stats: dict[str, Any] = {}
    """The checker's own figures; those whose names end in ``_s`` are seconds."""
    state: PropertyState | UnsetType = UNSET
    """The same as ``valid``, with the lock's documentation taken into account. Documents of schema 1 lack it."""
    required: bool = True
    """True if the run's verdict depends on it."""
    limits: tuple[str, ...] = ()
    """The documented limits of the lock that explain every violation, if the state is ``known-limit``."""


class InjectedFault(msgspec.Struct, frozen=True, kw_only=True):
    """One fault that was injected. Times are nanoseconds of the history's ``time``."""

    id: int | None = None
    """Number of the fault in the history, from 0."""
    fault: str = "fault"
    """A name of ``harness list nemeses``."""
    hosts: tuple[str, ...] = ()
    """Hosts that it struck."""
    params: dict[str, Any] = {}
    """The fault's own parameters; durations in seconds."""
    injected_ns: int | None = None
    """Time at which the injection began, ns."""
    healed_ns: int | None = None
    """Time at which the heal was confirmed, ns; null if it was not confirmed, or the fault lasted to the end."""
    seen: bool | None = None
    """Did it take effect?"""
    observed: dict[str, Any] = {}
    """The fault's own observations of its effect; ``after_heal`` are those after it was healed."""
    error: str | None = None
    """Reason why it did not take effect."""
    words: str = ""
    """Its effect on its hosts, as a clause; empty if it was not observed."""


class ScenarioResult(msgspec.Struct, frozen=True, kw_only=True):
    """Expectation of a scenario, and True if the run met it."""

    title: str = ""
    """The scenario's title."""
    source: str = ""
    """The article, paper, issue or manual that documents the failure."""
    about: str = ""
    """Mechanism of the failure."""
    expect: Expect | None = None
    """The verdicts that it expects; ``within`` is seconds."""
    state: ScenarioState = "unknown"
    """Result of the run compared with these expectations."""
    why: str = ""
    """Why, in a sentence."""
    found_s: float | None = None
    """Begin of the first violation, seconds after the start of the run."""


class RunStats(msgspec.Struct, frozen=True, kw_only=True):
    """Figures of a run."""

    operations: int | None = None
    """Calls of all kinds."""
    acquires_ok: int = 0
    """Acquires that were granted."""
    acquires_fail: int = 0
    """Acquires that were refused."""
    acquires_info: int = 0
    """Acquires whose outcome is unknown."""
    seconds: float = 0.0
    """Length of the history: seconds of virtual time on the simulator, of real time elsewhere."""
    key_states: int | UnsetType = UNSET
    """Number of lines of ``keys.jsonl``; absent where it was not written or not counted."""


class RunDocument(msgspec.Struct, frozen=True, kw_only=True):
    """``results.json``: the verdict of one run, and what it rests on."""

    schema: Literal[1, 2]
    """Version of this document. Documents of schema 1 have no ``state`` of checkers and no ``reason``."""
    valid: bool | None
    """True: every required property was kept. False: one is broken. Null: one was not tested."""
    verdict: str = ""
    """The same in words."""
    reason: str = ""
    """Reason for the verdict in one sentence."""
    summary: str = ""
    """Summary of the run in a few sentences, of which ``reason`` is the first."""
    unknown_because: tuple[str, ...] = ()
    """Why the verdict is unknown: the explanations of the required properties that were not tested, each after the
    checker's name."""
    lock: str = "unnamed lock"
    """The lock's name, or its ``package.module:Class``."""
    lock_title: str = ""
    """Description of the lock, in a few words."""
    lock_safety: str = ""
    """Safety class that the lock claims: ``E`` (efficiency only), ``F`` (safe with fencing), ``F?`` (would be safe, but
    has no usable token) or ``X`` (broken without any fault)."""
    lock_facts: LockFacts | UnsetType = UNSET
    """All that the lock declared about itself."""
    seed: int | None = None
    """Seed of the run."""
    cluster: RunCluster = RunCluster()
    """The cluster of the run."""
    plan: RunPlan | UnsetType = UNSET
    """The settings that reports show."""
    checkers: dict[str, CheckerResult] = {}
    """The verdicts by the checkers' names."""
    faults: tuple[InjectedFault, ...] = ()
    """The faults that were injected, in the order of their ids."""
    fencing_note: str = ""
    """Effect that fencing had for the resource, or would have had."""
    versions: dict[str, str | None] = {}
    """Versions of the packages that decide the outcome, by name; ``commit`` is the harness's own."""
    scenario: ScenarioResult | UnsetType = UNSET
    """Expectation of a scenario, and True if the run met it."""
    started_at: str = ""
    """Start time of the run: UTC, whole seconds, ``2026-11-21T20:00:00Z``. Empty if it was checked again later."""
    command: str = ""
    """The command that ran it."""
    real_seconds: float | UnsetType = UNSET
    """Real time that the run took, seconds."""
    stats: RunStats = RunStats()
    """Figures of the run."""
    replay: str | UnsetType = UNSET
    """The command that repeats it, if it is stored."""
    story: Story | UnsetType = UNSET
    """The steps that led to the violation, if a hunt found it."""


def load_run(path: Path) -> RunDocument:
    """Read a ``results.json``; DocumentError if it cannot be read or is malformed. A document of schema 1 gets the
    fields of schema 2 that follow from it."""
    document = load(path, RunDocument)
    return document if document.schema == SCHEMA else _completed(document)


def _completed(document: RunDocument) -> RunDocument:
    checkers = {
        name: msgspec.structs.replace(it, state=state_in_schema_1(it.valid, it.explanation))
        for name, it in document.checkers.items()
    }
    return msgspec.structs.replace(document, checkers=checkers, reason=first_sentence(document.summary))


def state_in_schema_1(valid: bool | None, explanation: str) -> PropertyState:
    """Return the state of a property from what documents of schema 1 have about it."""
    if valid is True:
        return "not-applicable" if explanation.startswith("not applicable") else "kept"
    return "not-tested" if valid is None else "broken"
