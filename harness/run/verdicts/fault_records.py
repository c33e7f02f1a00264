"""The faults of a run, read from the nemesis entries of its history."""

from __future__ import annotations

from harness.faults.records import FaultRecord
from harness.history import History, Op


def fault_records(history: History) -> list[FaultRecord]:
    """Return the faults of a run, from its nemesis entries."""
    begun: dict[int, Op] = {}
    seen: dict[int, Op] = {}
    healed: dict[int, Op] = {}
    for op in history.nemesis("inject", "heal"):
        into = healed if op.f == "heal" else begun if op.type == "invoke" else seen
        if into is healed:  # a heal is polled again, and the last entry counts
            into[op.value["id"]] = op
        into.setdefault(op.value["id"], op)
        begun.setdefault(op.value["id"], op)
    return [_record(number, op, seen.get(number), healed.get(number)) for number, op in begun.items()]


def _record(number: int, op: Op, seen: Op | None, healed: Op | None) -> FaultRecord:
    observed = {} if seen is None else dict(seen.value["observed"])
    if healed is not None and not healed.value["observed"].get("superseded"):
        observed["after_heal"] = healed.value["observed"]
    return FaultRecord(
        number,
        op.value["fault"],
        tuple(op.value["hosts"]),
        op.value.get("params", {}),
        op.time,
        None if healed is None or healed.type == "fail" else healed.time,
        seen is not None and seen.type == "ok",
        observed,
        None if seen is None else seen.error,
    )
