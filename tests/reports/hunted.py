"""Hunt documents, alone and in a store, for the tests of their pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Json = dict[str, Any]
RUN = "redlock/20261122T013731Z-0"
EVIL = "<b>\"two\" & 'three'</b> \x00\x1b[31m ünïcode 🔒"
TOML = 'lock = "redlock"\ntitle = "Both hold k0 from 0.243 s to 1.008 s"\n'


def finding(**changed: Any) -> Json:
    """Return a finding about redlock, whose servers' clocks jump."""
    steps = [(0.008, "c0 acquires k0 on n1, n2 and n5"), (0.243, "c1 acquires k0 on n1, n2, n3, n4 and n5")]
    return {
        "broken": ["mutual-exclusion", "resource"], "summary": "Two clients held k0 at the same time for 92 ms.",
        "story": {
            "steps": [{"number": number, "at": at, "text": text} for number, (at, text) in enumerate(steps, 1)],
            "ending": "Both hold k0 from 0.243 s to 1.008 s.",
        },
        "clients": 2, "faults": ["clock-jump"], "round": 1, "schedule": 6, "shrinks": 1010, "folder": f"store/{RUN}",
    } | changed  # fmt: skip


def hunt(*findings: Json, **changed: Any) -> Json:
    """Return two rounds with two families of faults and two clients."""
    return {
        "schema": 1, "lock": "redlock", "found": bool(findings), "findings": list(findings), "rounds": 2,
        "asked": {"lock": "redlock", "faults": ["clock-jump", "kill"], "most_faults": 2, "look_for": [], "clients": 2,
                  "ttl": 0.0, "lock_options": {}, "seed": 7, "thorough": False},
        "schedules": 1160, "judged": 1020, "seconds": 58.0, "best": 1.463244,
        "coverage": {"states": 131, "pairs": 2, "moments": 3, "events": 6, "outcomes": 9},
        "pairs": [["clock-jump", "clock-jump"], ["clock-jump", "kill"]],
        "moments": [["clock-jump", "held"], ["kill", "free"], ["kill", "unsure"]],
        "never": ["Never failed: check (1 of 3 calls of the lock)."], "errors": {"UsageError: no": 138, "Late": 2},
        "given_up": ["round 2: a worker was lost"], "versions": {"python": "3.11.7", "docker": None},
        "interrupted": False, "command": "harness hunt redlock", "started_at": "2026-11-22T01:37:29Z",
    } | changed  # fmt: skip


def stored(store: Path, document: Json | str, *, run: bool = True) -> Path:
    """Return the folder of a hunt with this document, in a store with or without the run of :func:`finding`."""
    folder = store / "hunts" / "20261122T013729Z-redlock"
    folder.mkdir(parents=True)
    text = document if isinstance(document, str) else json.dumps(document)
    (folder / "hunt.json").write_text(text)
    if run:
        (store / RUN).mkdir(parents=True)
        (store / RUN / "report.html").write_text("<title>the run</title>")
        (store / RUN / "counterexample.toml").write_text(TOML)
    return folder
