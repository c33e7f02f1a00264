"""What a test asks for (:mod:`harness.pytest_plugin`), made into what a hunt or a run is given. UsageError says what is
wrong with it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from msgspec.structs import replace

from .errors import UsageError, unknown_name
from .fault_specs import default_specs
from .hunting.asked import Asked, names, spec_of
from .hunting.trials import play
from .plan import Plan, decode, told


def asked_by(lock: str | type, **options: Any) -> Asked:
    """A completed question, of a lock that can be had; ``options`` are fields of :class:`Asked`, of which those with
    several names may be one name."""
    for name in options:
        if name not in Asked.__struct_fields__:
            raise unknown_name("argument of a hunt", name, [*Asked.__struct_fields__, "budget_s", "rounds", "workers"])
    for name in ("faults", "workloads", "look_for"):
        options[name] = names(options.get(name, ()))
    try:
        asked = msgspec.convert({**options, "lock": spec_of(lock)}, Asked)
    except msgspec.ValidationError as error:
        raise UsageError(f"hunt: {told(error)}") from error
    return _had(asked.completed())


def _had(asked: Asked) -> Asked:
    """The same; UsageError for a lock that nobody gets though nothing goes wrong: it would seem safe."""
    calls = play(replace(asked.plan(), clients=asked.clients, time_limit=6.0)).history.calls("acquire")
    if any(call.outcome == "ok" for call in calls) or not calls:
        return asked
    errors = Counter(call.done.error for call in calls if call.done is not None and call.done.error)
    why = f": {errors.most_common(1)[0][0]}" if errors else ""
    raise UsageError(f"no client ever gets {asked.lock}, though nothing goes wrong{why}")


def plan_by(asked: Plan | str | type, fields: dict[str, Any], seed: int | None) -> Plan:
    """A plan as it is, or that of a lock; faults are names, tables as in TOML, or FaultSpecs."""
    if isinstance(asked, Plan):
        if fields:
            raise UsageError(f"a plan goes with nothing else, got {', '.join(fields)} beside it")
        plan = asked
    else:
        healthy = {**fields, "lock": spec_of(asked), "faults": []}
        ttl = decode(healthy).ttl
        faults: list[Any] = []
        for fault in names(fields.get("faults", ())):
            faults += default_specs(fault, ttl) if isinstance(fault, str) else [fault]
        plan = decode({**healthy, "faults": msgspec.to_builtins(faults)})
    return plan if seed is None else replace(plan, seed=seed)
