"""What a hunt found, made into something to keep: a scenario, its run and report, and the story."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace as with_

from ..errors import UsageError
from ..plan import Expect, Plan, dump, load
from ..runs import Result, run
from ..store import FAILURES, safe_name, write_results
from .asked import NO_FAULT, Asked
from .rounds import Failure
from .shrinking import terse
from .stories import Story, tell
from .trials import play

COUNTEREXAMPLE: Final = "counterexample.toml"


@dataclass(frozen=True, slots=True)
class Finding:
    """``plan`` is a scenario: it says what it breaks. ``failure`` is how it was found, in which ``round`` (from 1 on; 0
    if it was known from an earlier hunt). ``folder`` is None if nothing is stored."""

    plan: Plan
    failure: Failure
    round: int
    story: Story
    summary: str
    folder: Path | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "broken": list(self.failure.broken),
            "summary": self.summary,
            "story": msgspec.to_builtins(self.story),
            "lines": self.story.lines(),
            "clients": self.plan.clients,
            "faults": [spec.fault for spec in self.plan.faults],
            "round": self.round,
            "schedule": self.failure.schedule,
            "shrinks": self.failure.shrinks,
            "plan": msgspec.to_builtins(self.plan),
            "folder": None if self.folder is None else str(self.folder),
        }


def finding(failure: Failure, *, command: str, round_: int, store: Path | None) -> Finding:
    """Keep a failing plan: its run and report in the store, with the counterexample beside them."""
    checker = failure.checker
    told = tell(play(failure.plan), checker)
    scenario = with_(
        terse(told.trial.plan),
        title=told.story.ending.rstrip("."),
        source=command,
        about="\n".join(told.story.lines()),
        expect=Expect(safe=False, invalid=(checker,)),
    )
    result = run(scenario, store=store, command=command)
    if result.folder is not None:
        _keep(scenario, result, told.story)
    return Finding(scenario, failure, round_, told.story, result.document["summary"], result.folder)


def _keep(scenario: Plan, result: Result, told: Story) -> None:
    from reports import run_report

    assert result.folder is not None
    write_results(result.folder, {**result.document, "story": msgspec.to_builtins(told)})
    (result.folder / COUNTEREXAMPLE).write_text(dump(scenario), encoding="utf-8")
    run_report.write(result.folder)


# Failures that are known from earlier hunts.


def remember(found: Finding, store: Path) -> None:
    """Keep it for the next hunt of the same lock, which tries it first."""
    folder = store / FAILURES / safe_name(found.plan.lock)
    text = dump(found.plan)
    name = hashlib.sha256(dump(_bare(found.plan)).encode()).hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write to the store {store}: {error.strerror}") from error


def remembered(asked: Asked, store: Path) -> Iterator[Plan]:
    """The failures of earlier hunts that this one could find, too, in the order of their names. A file that is no plan
    is passed over: the search finds again what it was."""
    for path in sorted((store / FAILURES / safe_name(asked.lock)).glob("*.toml")):
        with contextlib.suppress(UsageError):
            plan = load(path)
            if _could_find(asked, plan):
                yield _bare(plan)


def _could_find(asked: Asked, plan: Plan) -> bool:
    """Is it a plan of what was asked? Work that takes longer than the lease counts only where no fault is asked for,
    or beside one (then the lock renews its lease)."""
    families = {spec.fault for spec in plan.faults}
    same = all(getattr(plan, name) == getattr(asked, name) for name in ("lock", "kind", "nodes", "fencing"))
    options = plan.lock_options == asked.lock_options and plan.server_options == asked.server_options
    near = families <= set(asked.faults) and len(plan.faults) <= asked.most_faults
    overruns = not families and max(plan.hold, *plan.holds.values(), 0.0) > plan.ttl
    within = asked.ttl in (0.0, plan.ttl) and (not overruns or asked.faults == (NO_FAULT,))
    return same and options and near and within and plan.workload in asked.workloads and plan.clients <= asked.clients


def _bare(plan: Plan) -> Plan:
    """Without what is said of it."""
    return with_(plan, title="", source="", about="", expect=None)
