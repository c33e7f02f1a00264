"""Documents of nightly runs, for the tests of their pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.documents import NightlyDocument, convert
from harness.studies import results_db

Json = dict[str, Any]
ROWS = {
    "ttl-pause-write": ("redis-token", "client-pause", "A client pauses past its lease and writes"),
    "clock-jump-redlock": ("redlock", "clock-jump", "A server's clock jumps, and a lease ends early"),
    "failover-lost-lock": ("redis-sentinel", "kill-primary", "The primary dies before its replica has the lock"),
}
VERSIONS = {"lock-harness": "0.1.0", "python": "3.11.2", "docker": None}


def read(document: Json) -> NightlyDocument:
    """Return the typed document of a nightly run."""
    return convert(document, NightlyDocument, "the nightly document")


def add(path: Path, document: Json) -> int:
    """Store a nightly run in the database at ``path``."""
    return results_db.add(path, read(document))


ORIGIN = {
    "kind": "model", "software": "RedLock.net", "version": "2.2", "language": "", "what": "the algorithm",
    "source": "RedLock.cs", "fix": "",
}  # fmt: skip


IMPOSSIBLE_REPLY = {
    "host": "n1", "state": "impossible", "why": "", "requests": 700, "steps": 900, "seconds": 0.2,
    "difference": {
        "at_s": 1.25, "connection": 3, "client": "10.0.0.2:4000", "request": "['GET', 'k0']", "real": "nil",
        "possible": ["'<b>'"],
    },
}  # fmt: skip
"""Trace of a server whose replies the simulated one cannot give."""


def outcome(scenario: str, cluster: str = "sim", **changed: Any) -> Json:
    """Return the expected outcome of a scenario: a failure found in 2.5 s, or a safe cure."""
    row = scenario.partition(".")[0]
    safe = scenario.endswith(".safe")
    lock, fault, title = ROWS.get(row, ("etcd-mutex", "partition", f"The story of {row}"))
    return {
        "scenario": scenario, "row": row, "title": title, "safe": safe, "lock": f"{lock}-fenced" if safe else lock,
        "origin": ORIGIN,
        "kind": "redis-single", "faults": [fault], "workload": "mutex", "cluster": cluster, "image": "", "server": "",
        "seed": 0,
        "state": "as-expected", "why": "the cure held" if safe else "mutual-exclusion said invalid after 2.50 s",
        "expected": {"invalid": [] if safe else ["mutual-exclusion"], "valid": [], "untested": []}, "valid": safe,
        "checkers": {"mutual-exclusion": safe, "liveness": True},
        "states": {"mutual-exclusion": "kept" if safe else "broken"}, "reason": "Two held it.",
        "found_s": None if safe else 2.5,
        "time_limit": 20.0, "real_seconds": 0.4, "acquires": 57, "folder": None, "detection": None,
        "unknown_runs": 0,
        "traces": [],
    } | changed  # fmt: skip


def missed_outcome(scenario: str, cluster: str = "sim", **changed: Any) -> Json:
    """Return the outcome of a known failure that the checker did not find."""
    why = "mutual-exclusion said valid in 20 s, and should have said invalid: two holders at once"
    return outcome(scenario, cluster, state="missed", why=why, valid=True, found_s=None, **changed)


def night(day: int, outcomes: list[Json], **changed: Any) -> Json:
    """Return the nightly run before this ``day`` of November 2026."""
    red = any(one["state"] in ("missed", "violated", "late") for one in outcomes)
    unsure = any(one["state"] in ("unknown", "error") for one in outcomes)
    return {
        "schema": 1, "started_at": f"2026-11-{day:02}T02:00:00Z", "suite": "smoke", "clusters": ["sim"],
        "seconds": 93.1, "versions": VERSIONS, "status": 1 if red else 3 if unsure else 0, "outcomes": outcomes,
    } | changed  # fmt: skip


def plain(**changed: Json) -> list[Json]:
    """Return all rows and their cures, as expected except the scenarios in ``changed`` (``_`` for ``-`` in their
    names)."""
    names = [name for row in ROWS for name in (row, f"{row}.safe")]
    return [outcome(name, **changed.get(name.replace("-", "_"), {})) for name in names]


def mixed() -> Json:
    """Return a nightly run on two clusters with an outcome in every state, and texts that must be escaped."""
    evil = "<b>\"two\" & 'three'</b> \x00\x1b[31m \ud800 ]]> ünïcode 🔒"
    both = ("sim", "docker")
    return night(
        21,
        [
            *(outcome(name, cluster) for cluster in both for name in ("ttl-pause-write", "ttl-pause-write.safe")),
            missed_outcome("clock-jump-redlock", folder="store/redlock/20261121T020000Z-0"),
            outcome("clock-jump-redlock", "docker", state="late", why="found after 11.2 s, expected within 10 s",
                    found_s=11.2, real_seconds=25.8),
            outcome("clock-jump-redlock.safe", state="violated", valid=False, found_s=3.0, why=evil, seed=3),
            outcome("clock-jump-redlock.safe", "docker", state="unknown", valid=None, why="the fault was not seen"),
            outcome("failover-lost-lock", state="error", valid=None, found_s=None, why="the cluster did not start"),
            outcome("failover-lost-lock", "docker", state="not-run", valid=None, found_s=None, checkers={},
                    why="docker has no engine here", real_seconds=0.0, acquires=0),
        ],
        clusters=["sim", "docker"],
    )  # fmt: skip


def explored() -> Json:
    """Return :func:`mixed` with ablations, of which one survives, and an exploration with failures in each state."""
    plan = {"lock": "redis-token"}
    mechanism = {"cause": "client", "order": ["client-pause inject", "first lease-end", "violation"]}
    failure = {
        "lock": "redis-token", "fault": "client-pause", "release": "redis 8.1.0, source 12345678",
        "found_at": "2026-11-21T02:00:00Z", "checker": "mutual-exclusion", "mechanism": mechanism, "plan": plan,
        "summary": "Two clients held k0 at the same time for 1.2 s.", "lines": ["1. At 1.0 s c0 is paused.", "Both."],
    }  # fmt: skip
    pair = {"lock": "redis-token", "release": failure["release"]}
    changes = (("without client-pause", "vanishes", ""), ("fencing = on", "survives", ""),
               ("without latency", "survives", "decoration: it only shows when"))  # fmt: skip
    return mixed() | {
        "seed": 4711,
        "ablations": [
            {
                "scenario": "ttl-pause-write", "mechanism": mechanism, "kind": "cure", "change": change, "state": state,
                "why": "as-expected: two holders", "explained": explained,
            }
            for change, state, explained in changes
        ],
        "exploration": {
            "seed": 4711, "budget_s": 60.0, "seconds": 61.5,
            "visits": [pair | {"fault": "client-pause", "seed": 4711, "round": 1, "schedules": 12, "judged": 9}],
            "pairs": [
                pair | {"fault": "client-pause", "visits": 1, "schedules": 12, "judged": 9, "failures": 1},
                pair | {"fault": "kill", "visits": 30, "schedules": 360, "judged": 299},
                pair | {"fault": "latency"},
                pair | {"lock": "redlock", "fault": "latency"},
            ],
            "failures": [
                failure | {"name": f"redis-token-{state}", "state": state, "why": f"why it is {state}"}
                for state in ("known", "new", "gone", "error")
            ],
        },
    }  # fmt: skip
