"""Convert the arguments of a test (:mod:`harness.pytest.plugin`) into a hunt's request or a plan. UsageError names what
is wrong with them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from msgspec.structs import replace

from harness.errors import UsageError, unknown_name
from harness.faults.catalogue import default_specs
from harness.plan import Plan, decode, validation_message
from harness.plan.project import project_defaults
from harness.search.request import HuntRequest, names, spec_of
from harness.search.trials import run_trial


def request_of(lock: str | type, **options: Any) -> HuntRequest:
    """Return a completed request for a lock that clients can acquire.

    ``options`` are fields of :class:`HuntRequest`; a field with several names may be given as one name.
    """
    for name in options:
        if name not in HuntRequest.__struct_fields__:
            raise unknown_name(
                "argument of a hunt", name, [*HuntRequest.__struct_fields__, "budget_s", "rounds", "workers"]
            )
    options = {**_of_project(), **options}
    for name in ("faults", "workloads", "look_for", "require", "accept"):
        options[name] = names(options.get(name, ()))
    try:
        request = msgspec.convert({**options, "lock": spec_of(lock)}, HuntRequest)
    except msgspec.ValidationError as error:
        raise UsageError(f"hunt: {validation_message(error)}") from error
    return _check_acquirable(request.completed())


def _check_acquirable(request: HuntRequest) -> HuntRequest:
    """Return the request itself; raises UsageError if no client gets the lock even without faults, since such a lock
    would seem safe."""
    calls = run_trial(replace(request.plan(), clients=request.clients, time_limit=6.0)).history.calls("acquire")
    if any(call.outcome == "ok" for call in calls) or not calls:
        return request
    errors = Counter(call.done.error for call in calls if call.done is not None and call.done.error)
    why = f": {errors.most_common(1)[0][0]}" if errors else ""
    raise UsageError(f"no client ever gets {request.lock}, although no fault is injected{why}")


def _of_project() -> dict[str, Any]:
    """Return what ``[tool.harness]`` says about the verdicts of runs."""
    _, table = project_defaults()
    return {name: table[name] for name in ("require", "accept") if name in table}


def plan_by(subject: Plan | str | type, fields: dict[str, Any], seed: int | None) -> Plan:
    """Return ``subject`` if it is a plan, else a plan of that lock; faults are names, TOML tables or FaultSpecs."""
    if isinstance(subject, Plan):
        if fields:
            raise UsageError(f"a plan contains all options, so give no other, got {', '.join(fields)}")
        plan = subject
    else:
        healthy = {**_of_project(), **fields, "lock": spec_of(subject), "faults": []}
        ttl = decode(healthy).ttl
        faults: list[Any] = []
        for fault in names(fields.get("faults", ())):
            faults += default_specs(fault, ttl) if isinstance(fault, str) else [fault]
        plan = decode({**healthy, "faults": msgspec.to_builtins(faults)})
    return plan if seed is None else replace(plan, seed=seed)
