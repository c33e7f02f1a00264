"""Stores for the tests and the benchmark of ``harness serve``, the same bytes every time: small, large and damaged
ones."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from harness.serve.studies import SORTS

LOCKS: Final = ("redlock", "redis-token", "etcd-mutex", "zookeeper-sequential", "mysql-unique")
FAULTS: Final = ("clock-skew", "client-pause", "partition-halves", "kill-amnesia")
BEGAN: Final = datetime(2026, 11, 1, tzinfo=UTC)
OP: Final = b'{"index":0,"time":1,"wall":1,"process":-1,"type":"info","f":"start","value":{}}\n'
WORDS: Final = {True: "No two clients held k0 at once. ", False: "c4 acquired k0 at 12.151 s while c3 held it. ",
                None: "Nobody competed for the lock. "}  # fmt: skip


def results(number: int) -> dict[str, Any]:
    """Return the results of the run with this number. Every field depends on it."""
    valid = (True, False, None)[number % 3]
    lock, fault = LOCKS[number % len(LOCKS)], FAULTS[number % len(FAULTS)]
    return {
        "schema": 1,
        "valid": valid,
        "summary": WORDS[valid] + f"This is run number {number}.",
        "unknown_because": [] if valid is not None else ["liveness: nobody competed"],
        "lock": lock,
        "lock_title": f"The lock {lock}",
        "seed": number,
        "started_at": f"{began(number):%Y-%m-%dT%H:%M:%SZ}",
        "command": f"harness run {lock} --nemesis {fault} --seed {number}",
        "cluster": {"backend": ("sim", "docker")[number % 2], "kind": "k", "servers": ["n1"], "clients": ["c0", "c1"]},
        "faults": [{"id": 0, "fault": fault, "hosts": ["n1"], "params": {}}] if number % 7 else [],
        "stats": {"operations": 100 + number * 37 % 1000, "acquires_ok": 10},
        "checkers": {
            name: {"valid": valid, "explanation": f"what {name} found in {number}", "evidence": [], "stats": {}}
            for name in ("mutual-exclusion", "liveness", "deadlock", "ownership")
        },
    }


def began(number: int) -> datetime:
    return BEGAN + timedelta(minutes=7 * number)


def name(number: int) -> str:
    return f"{began(number):%Y%m%dT%H%M%SZ}-{number}"


def add(store: Path, number: int, folder: Path | None = None) -> Path:
    """Add a whole run in the given folder, by default in a folder of its own."""
    document = results(number)
    folder = folder or store / str(document["lock"]) / name(number)
    folder.mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps(document, indent=1))
    (folder / "history.jsonl").write_bytes(OP * 2)
    (folder / "plan.toml").write_text(f'lock = "{document["lock"]}"\nseed = {number}\n')
    (folder / "report.html").write_text(REPORT)
    return folder


REPORT: Final = """<!DOCTYPE html><html lang="en"><title>the report</title><h1>The report</h1>
<p id="said"></p><a id="other" href="../../redlock/20261101T000000Z-0/report.html">another</a>
<script>document.getElementById("said").textContent = "its script ran";</script></html>
"""


def fill(store: Path, count: int) -> Path:
    """Add this many whole runs."""
    for number in range(count):
        add(store, number)
    return store


def study(store: Path, folder: str, when: str, document: Any) -> Path:
    """Add a study with this document."""
    where, (stem, _) = store / folder / when, SORTS[folder]
    where.mkdir(parents=True)
    (where / f"{stem}.json").write_text(document if isinstance(document, str) else json.dumps(document))
    (where / f"{stem}.html").write_text(REPORT)
    return where


COMPARISON: Final = {
    "schema": 1, "started_at": "2026-11-21T20:00:00Z", "command": "harness compare", "cluster": "sim",
    "locks": [{"name": "redlock"}, {"name": "redis-token"}], "nemeses": [{"name": "client-pause", "summary": "..."}],
}  # fmt: skip
SWEEP: Final = {"schema": 1, "started_at": "2026-11-21T21:00:00Z", "command": "harness sweep", "lock": "redis-token",
                "points": [{"ttl": 1.0}]}  # fmt: skip
HUNT: Final = {"schema": 1, "started_at": "2026-11-21T22:00:00Z", "command": "harness hunt redlock", "lock": "redlock",
               "findings": [{"broken": ["mutual-exclusion"]}], "schedules": 1160}  # fmt: skip


BISECTION: Final = {
    "schema": 1, "started_at": "2026-11-21T23:00:00Z", "command": "harness bisect", "lock": "redis-py-lock",
    "conclusion": "redis 3.0.0 fixed the failure; 2.10.6 is the last release before it.",
}  # fmt: skip
RELEASES: Final = {
    "schema": 1, "started_at": "2026-11-21T23:30:00Z", "command": "harness run --versions", "lock": "redis-py-lock",
    "conclusion": "exit: redis 2.10.6 fails, and 3.0.0 holds.",
}  # fmt: skip


def _results_are(text: str | bytes) -> Callable[[Path], object]:
    data = text.encode() if isinstance(text, str) else text
    return lambda run: (run / "results.json").write_bytes(data)


def _with(**changes: Any) -> Callable[[Path], object]:
    return lambda run: (run / "results.json").write_text(json.dumps(results(0) | changes))


def _only(*names: str) -> Callable[[Path], object]:
    def leave(run: Path) -> None:
        for path in run.iterdir():
            if path.name not in names:
                path.unlink()

    return leave


def _instead(name: str, make: Callable[[Path], object]) -> Callable[[Path], object]:
    def replace(run: Path) -> None:
        (run / name).unlink()
        make(run / name)

    return replace


def _pipe(path: Path) -> str:
    os.mkfifo(path)
    return "whoever opens it waits for somebody to write"


def _file_for_folder(run: Path) -> None:
    _only()(run)
    run.rmdir()
    run.write_text("a file")


HTML: Final = "<img src=x onerror=alert(1)>"
DAMAGE: Final[dict[str, tuple[Callable[[Path], object], str]]] = {
    "no results": (_only("history.jsonl", "plan.toml"), "The run has no verdict"),
    "nothing": (_only(), "Nothing was recorded"),
    "a plan only": (_only("plan.toml"), "Nothing was recorded"),
    "results empty": (_results_are(""), "results.json cannot be read"),
    "results half": (_results_are(json.dumps(results(0))[:300]), "results.json cannot be read"),
    "results a list": (_results_are("[1, 2]"), "results.json cannot be read: expected object, got array"),
    "results binary": (_results_are(bytes(range(256))), "results.json cannot be read"),
    "results deep": (_results_are('{"valid": true, "x": ' + "[" * 100_000), "results.json cannot be read"),
    "results without verdict": (_results_are("{}"), "results.json cannot be read"),
    "results of another time": (_with(schema=99), "results.json has schema 99"),
    "valid a word": (_with(valid="yes"), "results.json cannot be read: valid: expected bool"),
    "faults a number": (_with(faults=3), "results.json cannot be read: faults"),
    "cluster a list": (_with(cluster=[]), "results.json cannot be read: cluster"),
    "checkers words": (_with(checkers={"x": "y"}), "results.json cannot be read: checkers"),
    "seed a float": (_with(seed=1.5), "results.json cannot be read: seed"),
    "seed enormous": (_with(seed=10**30), ""),
    "stats null": (_with(stats=None), "results.json cannot be read"),
    "half a character": (_with(summary="\ud800 was said."), "results.json cannot be read"),
    "tags in all texts": (
        _with(summary=HTML, lock=HTML, command=HTML, lock_title=HTML, unknown_because=[HTML], faults=[{"fault": HTML}]),
        "",
    ),
    "a time that is none": (_with(started_at="yesterday"), ""),
    "a summary without end": (_with(summary="x" * 100_000), ""),
    "results a folder": (_instead("results.json", Path.mkdir), "results.json cannot be read"),
    "results a pipe": (_instead("results.json", _pipe), "results.json cannot be read"),
    "results a link out": (_instead("results.json", lambda p: p.symlink_to("/etc/passwd")), "results.json cannot be"),
    "results a link to itself": (_instead("results.json", lambda p: p.symlink_to(p.name)), "results.json cannot be"),
    "history missing": (_instead("history.jsonl", lambda p: None), ""),
    "history cut": (_instead("history.jsonl", lambda p: p.write_bytes(OP[:-20])), ""),
    "history empty": (_instead("history.jsonl", lambda p: p.write_bytes(b"")), ""),
    "history a pipe": (_instead("history.jsonl", _pipe), ""),
    "only a pipe": (lambda run: (_only()(run), _pipe(run / "history.jsonl")), "history.jsonl is not a file"),
    "plan rubbish": (lambda run: (_only("history.jsonl")(run), (run / "plan.toml").write_bytes(b"\xff[[[")),
                     "The run has no verdict"),
    "plan a pipe": (lambda run: (_only("history.jsonl")(run), _pipe(run / "plan.toml")), "The run has no verdict"),
    "plan with tags": (lambda run: (_only("history.jsonl")(run), (run / "plan.toml").write_text(f"lock = '{HTML}'")),
                       "The run has no verdict"),
    "report a folder": (_instead("report.html", Path.mkdir), ""),
    "a file for a folder": (_file_for_folder, "Expected the folder of a run, found a file"),
}  # fmt: skip
"""Damage to a run's folder, and the words of the table about it (empty: it is shown as any other)."""


def damaged(store: Path) -> dict[str, Path]:
    """Add one broken run per kind of damage, some with strange names, and two whole runs."""
    made = {}
    for number, (what, (damage, _)) in enumerate(DAMAGE.items()):
        made[what] = add(store, 0, store / f"broken {number}" / name(number))
        damage(made[what])
    for number, lock in enumerate(("sp ace", "ünïcode ☃", "<b>bold", "a%2Fb", "a?b#c", "line\nbreak", "q\"uo'te")):
        add(store, number, store / lock / "run <i>& \u2028 %00")
    add(store, 0, store / os.fsdecode(b"not\xffutf8") / name(0))
    (store / "a file").write_text("no folder of a lock")
    (store / "loop").symlink_to("loop")
    (store / "out").symlink_to("/etc")
    (store / "latest").symlink_to("gone/away")
    study(store, "comparisons", "20261121T200000Z", '{"locks": 3')
    study(store, "sweeps", "20261121T200000Z-x", {"lock": HTML, "points": []})
    study(store, "hunts", "20261121T200000Z-y", {"lock": HTML, "findings": [], "schedules": "many"})
    study(store, "bisections", "20261121T200000Z-z", {"lock": HTML, "conclusion": f"{HTML} fixed the failure."})
    study(store, "versions", "20261121T200000Z-z", {"lock": HTML, "conclusion": f"{HTML} fails."})
    (store / "comparisons" / "empty").mkdir()
    (store / "sweeps" / "a file").write_text("")
    (store / "results.db").write_text("no database")
    fill(store, 2)
    return made
