"""A folder from a stranger: a run whose files name code that leaves a mark when it is imported."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import pytest

from harness.lock_impls.catalogue import LOCKS
from harness.plan import FaultSpec, Plan, dump
from harness.run.plans.completion import complete
from harness.run.runs import run
from harness.run.store import HISTORY, PLAN, RESULTS

CODE = """
from pathlib import Path
Path({mark!r}).write_text("code of a stranger was run")

class Lock:
    kinds = ("redis-single",)
    def __init__(self, client, key, ttl):
        pass
    def acquire(self):
        return True
    def release(self):
        pass

class Checker:
    name = "none"
    def check(self, history):
        raise RuntimeError("it was run")
"""
MODULE = "stranger_code"
LOCK = f"{MODULE}:Lock"
CHECKER = f"{MODULE}:Checker"


class Stranger:
    """The folder ``run`` of a stored run, and the module that its files name, both in the working directory."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder / "run"
        self._mark = folder / "mark"
        (folder / f"{MODULE}.py").write_text(CODE.format(mark=str(self._mark)))
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "path", [*sys.path])
        monkeypatch.delitem(sys.modules, MODULE, raising=False)
        LOCKS.forget()

    @property
    def code_was_run(self) -> bool:
        return self._mark.exists()

    @property
    def results(self) -> Path:
        return self.folder / RESULTS

    def store(self, **named: object) -> None:
        """Store a run of two seconds, and name the stranger's code in its files afterwards."""
        plan = Plan(lock="redis-token", time_limit=2.0, faults=(FaultSpec("none", at=0.0),))
        result = run(plan, store=self.folder.parent / "store")
        assert result.folder is not None
        result.folder.rename(self.folder)
        self.name(**named)

    def name(self, **named: object) -> None:
        """Name code in the plan and in the results: ``lock=LOCK``, ``checkers=(CHECKER,)``."""
        plan = complete(Plan(lock="redis-token", time_limit=2.0))
        (self.folder / PLAN).write_text(dump(msgspec.structs.replace(plan, **named)))
        document = msgspec.json.decode(self.results.read_bytes())
        document["lock"] = named.get("lock", document["lock"])
        for checker in named.get("checkers", ()):  # type: ignore[attr-defined]
            document["checkers"][checker] = {"valid": True, "explanation": "the stored verdict"}
        self.results.write_bytes(msgspec.json.encode(document))

    def kill(self) -> None:
        """Leave what a killed run leaves: a history without its last entry, and no results."""
        self.results.unlink()
        lines = (self.folder / HISTORY).read_bytes().splitlines(keepends=True)
        (self.folder / HISTORY).write_bytes(b"".join(lines[:-1]))
