"""Stores for the tests of the published pages: a real nightly run of three scenarios, with studies and runs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from harness.documents import indented
from harness.documents.exploration import ExploredFailure
from harness.scenarios import catalogue
from harness.studies import results_db
from harness.studies.nightly import nightly
from tests.reports import nights, test_bisect_report, test_versions_report

SAMPLES = Path(__file__).parents[1] / "documents" / "samples"
SCENARIOS = ("get-del-gap", "ttl-pause-write", "seed004-unlock.safe")
"""Two known failures, of redis-token-getdel and redis-token, and a cure, of redis-getset."""
RUN = "redlock/20261122T202736Z-0"
"""The run of the finding in the sample of a hunt."""
COMPARED_RUN = "redis-token/20261122T203054Z-0"
"""The run of an unsafe cell in the sample of a comparison."""


def make(store: Path) -> Path:
    """Make a store with a real nightly run, and with one result of each other kind. Returns it."""
    found = nightly(scenarios=[catalogue.find(name) for name in SCENARIOS], store=store, workers=1)
    results_db.add(store / results_db.RESULTS_DB, found)
    for folder, name, sample in (
        ("comparisons/20261122T203054Z", "comparison.json", "comparison"),
        ("hunts/20261122T202736Z-redlock", "hunt.json", "hunt-found"),
    ):
        (store / folder).mkdir(parents=True)
        shutil.copy(SAMPLES / f"{sample}.json", store / folder / name)
    study(store / "bisections/20261121T200000Z-redis-py-lock", "bisect", test_bisect_report.document())
    study(store / "versions/20261121T210000Z-redis-py-lock", "versions", test_versions_report.DOCUMENT)
    run(store / RUN, "results-hunt")
    limit = {"mutual-exclusion": {"valid": False, "state": "known-limit"}}
    run(store / COMPARED_RUN, "results-hunt", lock="redis-token", checkers=limit)
    for name in ("counterexample.toml", "trace.log.gz"):
        (store / RUN / name).write_text('lock = "redlock"\n')
    return store


def study(folder: Path, name: str, document: Any) -> None:
    folder.mkdir(parents=True)
    (folder / f"{name}.json").write_bytes(indented(document))
    (folder / f"{name}.html").write_text(f"<title>{name}</title>")


def run(folder: Path, sample: str, **changed: Any) -> None:
    """Store a run with the results of a sample, changed, and a report."""
    folder.mkdir(parents=True)
    results = json.loads((SAMPLES / f"{sample}.json").read_bytes())
    (folder / "results.json").write_text(json.dumps(results | changed))
    (folder / "history.jsonl").write_text("")
    (folder / "report.html").write_text(f'<title>{folder.name}</title><h2 id="messages">Messages</h2>')


def explored(store: Path) -> list[ExploredFailure]:
    """Store a nightly run with an exploration; return the failures that it found."""
    document = nights.read(nights.explored())
    results_db.add(store / results_db.RESULTS_DB, document)
    assert document.exploration is not None
    return list(document.exploration.failures)
