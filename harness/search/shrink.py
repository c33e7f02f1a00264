"""Shrink a failing schedule: fewer clients, fewer operations, fewer faults, rounder times, defaults elsewhere.

Hypothesis would shrink its own random choices. Shrinking the plan itself needs a tenth of the trials, since it is known
what makes a plan simpler. Each candidate is tried, and kept if it fails in the same way: the same checker still finds
a violation, and a documented limit of the lock explains it only if it did before. A violation that lasts long enough to
happen on real clusters stays so. Shrinking ends when no single step works any more, or after :data:`MOST_TRIALS`
trials.

A schedule goes on after its first violation: how long it lasts and what else is broken is known at the end only. In 18
hunts of 9 scenarios, stopping it once its faults were healed and the overlap had lasted long enough gave the same plans
and cost 7 % more processor time for shrinking (17.3 s instead of 16.2 s): few schedules end much earlier, and all are
watched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace as with_

from harness.errors import UsageError
from harness.faults.base import multiples
from harness.faults.catalogue import fault_class
from harness.history import SECOND
from harness.plan import FaultSpec, Plan, dump

from .request import TTLS, HuntRequest
from .trials import FailureKind, Trial, run_trial

MOST_TRIALS: Final = 150
CLEAR_S: Final = 0.2
"""A violation that lasts so long, in seconds, is not made shorter: on real clusters moments differ by some ms, and a
violation of a few ms would not happen again."""
UNLIMITED: Final = 100
"""Weight of a plan without a limit on critical sections."""
ROUND: Final = (0.1, 0.5, 1.0, 2.0, 3.0, 5.0)
"""Round numbers of seconds."""
LIMITS: Final = (4.0, 6.0, 8.0, 10.0, 12.0, 15.0, 20.0)
EVENTS: Final = ("acquire", "read", "acquire:invoke", "release:invoke")
"""Events that are simple to describe and that real clusters have, too: no commands."""
S = TypeVar("S", bound=msgspec.Struct)
Step = Callable[[Plan, HuntRequest], Iterator[Plan]]
"""A function that yields plans which are simpler in one way, the simplest first."""


@dataclass(frozen=True, slots=True)
class ShrinkResult:
    """A shrunk plan, the kinds of its failures, and the number of schedules tried for it."""

    plan: Plan
    kinds: tuple[FailureKind, ...]
    tried: int


def shrink(plan: Plan, kind: FailureKind, request: HuntRequest) -> ShrinkResult:
    """Return the smallest plan within the request that has a failure of this kind.

    UsageError if ``plan`` itself has none.
    """
    tried: dict[bytes, tuple[FailureKind, ...]] = {}
    first, longest_s = _played(plan, kind, request.look_for)
    enough_s = min(longest_s, CLEAR_S)

    def breaks(candidate: Plan) -> bool:
        """Try each simpler candidate at most once."""
        known = msgspec.json.encode(candidate)
        if known in tried or len(tried) >= MOST_TRIALS or weight(candidate) >= weight(plan):
            return False
        tried[known], lasts_s = _played(candidate, kind, request.look_for)
        return kind in tried[known] and lasts_s >= enough_s

    tried[msgspec.json.encode(plan)] = first
    if kind not in first:
        raise UsageError(
            f"{plan.lock} is not deterministic: a schedule in which {kind.checker} found a violation had none when it "
            "was repeated. Does the lock keep state between runs, in a class or a module?"
        )
    shrinking = True
    while shrinking and len(tried) < MOST_TRIALS:
        shrinking = False
        for step in STEPS:
            for candidate in step(plan, request):
                if breaks(candidate):
                    plan, shrinking = candidate, True
                    break
    return ShrinkResult(terse(plan), tried[msgspec.json.encode(plan)], len(tried))


def _played(plan: Plan, kind: FailureKind, look_for: tuple[str, ...]) -> tuple[tuple[FailureKind, ...], float]:
    """Return the kinds of a schedule's failures, and how long the longest violation of ``kind`` lasts, s."""
    try:
        trial: Trial = run_trial(plan)
    except Exception:  # noqa: BLE001 - a candidate that cannot be executed is no improvement
        return (), 0.0
    lasted = [violation.until_ns - violation.from_ns for violation in trial.verdicts[kind.checker].evidence]
    return trial.kinds(look_for), max(lasted, default=0) / SECOND


def weight(plan: Plan) -> tuple[Any, ...]:
    """Return how complex a plan is, by its faults, clients, events, times and the length of its text."""
    specs = plan.faults
    text = dump(terse(plan))
    return (
        len(specs), plan.clients, plan.sections or UNLIMITED, len(plan.delays),
        sum(spec.nth for spec in specs), sum(spec.delay for spec in specs),
        sum(EVENTS.index(spec.on) if spec.on in EVENTS else len(EVENTS) for spec in specs if spec.on is not None),
        plan.ttl, plan.time_limit, len(text), text,
    )  # fmt: skip


def terse(plan: Plan) -> Plan:
    """Return the same plan such that its file leaves out default values."""
    return _silent(with_(plan, faults=tuple(_silent(spec) for spec in plan.faults)))


def _silent(struct: S) -> S:
    """Use the identical default objects, by which msgspec recognises what to leave out."""
    fields = msgspec.structs.fields(type(struct))
    return with_(struct, **{it.name: it.default for it in fields if getattr(struct, it.name) == it.default})


# Simpler plans.


def _leaps(plan: Plan, request: HuntRequest) -> Iterator[Plan]:
    """Yield plans with defaults everywhere but for the faults, which strike after a client's acquire or read.

    Many failures have such a plan, and single steps would need many trials to reach it.
    """
    usual = with_(plan, clients=min(2, plan.clients), stagger=0.1, keys=1, wait=0.0, holds={}, ends={})
    usual = with_(usual, seed=0, shuffle=0, delays=())
    ttls = dict.fromkeys((request.ttl or TTLS[0], plan.ttl))
    for ttl, sections, client, on in product(ttls, (1, 0), (0, 1), ("acquire", "read")):
        faults = tuple(
            spec if spec.on is None else with_(spec, on=on, client=min(client, usual.clients - 1), nth=1, delay=0.0)
            for spec in plan.faults
        )
        yield with_(usual, ttl=ttl, hold=ttl / 2, sections=sections, faults=faults)


def _fewer_faults(plan: Plan, _: HuntRequest) -> Iterator[Plan]:
    for number in range(len(plan.faults)):
        yield with_(plan, faults=_without(plan.faults, number))


def _fewer_delays(plan: Plan, _: HuntRequest) -> Iterator[Plan]:
    if len(plan.delays) > 1:
        yield with_(plan, delays=())
    for number in range(len(plan.delays)):
        yield with_(plan, delays=_without(plan.delays, number))


def _fewer_clients(plan: Plan, _: HuntRequest) -> Iterator[Plan]:
    for client in reversed(range(plan.clients)):
        if plan.clients > 1 and not _needs(plan, client):
            yield _without_client(plan, client)


def _defaults(plan: Plan, request: HuntRequest) -> Iterator[Plan]:
    usual = {field.encode_name: field.default for field in msgspec.structs.fields(Plan)}
    if plan.workload != request.workloads[0]:
        yield with_(plan, workload=request.workloads[0])
    for name in ("shuffle", "seed", "keys", "discipline", "wait", "stagger"):
        if getattr(plan, name) != usual[name]:
            yield with_(plan, **{name: usual[name]})
    if plan.holds:
        yield with_(plan, holds={})


def _fewer_operations(plan: Plan, _: HuntRequest) -> Iterator[Plan]:
    for sections in (1, 2, 3):
        if plan.sections == 0 or sections < plan.sections:
            yield with_(plan, sections=sections)


def _rounder(plan: Plan, _: HuntRequest) -> Iterator[Plan]:
    for limit in LIMITS:
        if limit < plan.time_limit:
            yield with_(plan, time_limit=limit)
    for hold in _simpler(plan.hold, (0.1, 0.5, 1.0)):
        if hold < plan.ttl or plan.hold > plan.ttl:  # work longer than the lease would be a different failure
            yield with_(plan, hold=hold)
    for stagger in _simpler(plan.stagger, (0.1, 0.5)):
        yield with_(plan, stagger=stagger)


def _simpler_faults(plan: Plan, _: HuntRequest) -> Iterator[Plan]:
    for number, spec in enumerate(plan.faults):
        for simpler in _simpler_spec(spec, plan.ttl):
            yield with_(plan, faults=(*plan.faults[:number], simpler, *plan.faults[number + 1 :]))


def _simpler_spec(spec: FaultSpec, ttl: float) -> Iterator[FaultSpec]:
    for on in EVENTS:
        if spec.on is not None and (spec.on not in EVENTS or EVENTS.index(on) < EVENTS.index(spec.on)):
            yield with_(spec, on=on)
            if spec.nth > 1:
                yield with_(spec, on=on, nth=1)
    for nth in range(1, spec.nth):
        yield with_(spec, nth=nth)
    if spec.delay:
        yield with_(spec, delay=0.0)
    for delay in _simpler(spec.delay, ROUND):
        yield with_(spec, delay=delay)
    kind = fault_class(spec.fault)
    usual = kind.search.get("for", ("1.5 ttl",) if "for" in kind.schedule else (None,))[0]
    if spec.for_ != multiples(usual, ttl):
        yield with_(spec, for_=multiples(usual, ttl))
    for name, value in spec.params.items():
        yield with_(spec, params={key: other for key, other in spec.params.items() if key != name})
        for simpler in _simpler_value(kind.search.get(name, ()), value, ttl):
            yield with_(spec, params={**spec.params, name: simpler})


def _simpler_value(tried: tuple[Any, ...], value: Any, ttl: float) -> Iterator[Any]:
    """Yield simpler values of a parameter: those that the search tries earlier, or fewer hosts."""
    values = [multiples(one, ttl) for one in tried]
    before = values[: values.index(value)] if value in values else []
    yield from (other for other in before if other is not None)  # None means that the parameter is absent
    hosts = value.split(",") if isinstance(value, str) else []
    if len(hosts) > 1:
        yield from (",".join(_without(tuple(hosts), number)) for number in range(len(hosts)))


STEPS: Final[tuple[Step, ...]] = (
    _leaps, _fewer_faults, _fewer_delays, _fewer_clients, _fewer_operations, _defaults, _rounder, _simpler_faults
)  # fmt: skip


def _simpler(value: float, known: tuple[float, ...]) -> tuple[float, ...]:
    """Return the round numbers nearest to one that is not round."""
    return () if value in (0.0, *known) else tuple(sorted(known, key=lambda other: abs(other - value)))[:2]


def _without(items: tuple[Any, ...], number: int) -> tuple[Any, ...]:
    return (*items[:number], *items[number + 1 :])


def _needs(plan: Plan, client: int) -> bool:
    """Return whether a fault waits for this client, or has it as its only target."""
    targets = [value for spec in plan.faults for value in spec.params.values()]
    return any(spec.client == client for spec in plan.faults) or f"c{client}" in targets


def _without_client(plan: Plan, gone: int) -> Plan:
    """Return the plan without this client; the clients after it are renumbered."""

    def moved(client: int) -> int:
        return client - (client > gone)

    def renamed(text: Any) -> Any:
        if not isinstance(text, str):
            return text
        names = [name for name in text.split(",") if name != f"c{gone}"]
        return ",".join(re.sub(r"^c(\d+)$", lambda found: f"c{moved(int(found[1]))}", name) for name in names)

    faults = tuple(
        with_(
            spec,
            client=None if spec.client is None else moved(spec.client),
            params={key: renamed(value) for key, value in spec.params.items()},
        )
        for spec in plan.faults
    )
    ends = [(delay, f"c{gone}" in (delay.source, delay.target)) for delay in plan.delays]
    return with_(
        plan,
        clients=plan.clients - 1,
        faults=faults,
        holds={renamed(client): hold for client, hold in plan.holds.items() if client != f"c{gone}"},
        ends={renamed(client): acquires for client, acquires in plan.ends.items() if client != f"c{gone}"},
        delays=tuple(
            with_(delay, source=renamed(delay.source), target=renamed(delay.target))
            for delay, gone_ in ends
            if not gone_
        ),
    )
