"""Comparison documents for the tests of their pages and texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

Json = dict[str, Any]
FAULTS: Final = {
    "client-pause": "a client that has just got the lock stands still for longer than the ttl",
    "client-crash": "a client that has just got the lock dies",
    "clock-jump": "the wall clock of a majority of servers jumps forward once",
    "kill": "a minority of the servers is killed and restarts with its data",
    "partition-majority": "a minority of the servers is cut from everybody else",
    "failover": "the primary dies before its last writes have reached a replica; one is promoted",
}
WHY: Final = {
    "safe": "No two holders in 30 s, 212 acquires.",
    "fenced": "Two clients held k0 at the same time for 908 ms; the resource refused 2 stale writes of c0.",
    "unsafe": "Two clients held k0 at the same time for 908 ms: c0 until 5.118 s, and c1 from 4.210 s.",
    "unavailable": "No client acquired k0 from 6.020 s on: its holder c2 was dead, and nothing freed its key.",
    "unknown": "The effect of the fault was not confirmed.",
    "not-run": "this service has one server: there is nothing to promote",
}
SETTINGS: Final = "ttl 2 s, holds of 100 ms"
LETTERS: Final = {
    "s": "safe", "f": "fenced", "u": "unsafe", "a": "unavailable", "?": "unknown", "-": "not-run",
}  # fmt: skip
EVIL: Final = "<b>\"two\" & 'three'</b> |pipe| `tick`\n=HYPERLINK(1) ]]> 🔒"


def run_of(lock: str, number: int = 0) -> str:
    return f"../../{lock}/20261121T0555{number:02}Z-0"


def cell(lock: str, nemesis: str, state: str, number: int = 0, **changed: Any) -> Json:
    """Return a cell of one run, or of none if it was not run."""
    ran = state != "not-run"
    return {
        "state": state, "why": WHY[state], "runs": int(ran), "counts": {state: 1} if ran else {},
        "kind": "redis-single", "fault": nemesis, "fencing": "on" if state == "fenced" else "off",
        "run": run_of(lock, number) if ran else None,
        "command": f"harness run {lock} --nemesis {nemesis} --cluster sim --seed 0",
    } | changed  # fmt: skip


def cost(lock: str, name: str, p50: float | None, rate: float | None, available: float = 1.0, clients: int = 5) -> Json:
    return {
        "name": name, "clients": 1 if name == "alone" else clients, "acquires_per_second": rate, "acquire_p50_s": p50,
        "acquire_p99_s": p50 and p50 * 2.2, "release_p50_s": p50 and p50 * 0.5, "availability": available,
        "run": run_of(lock, 50),
    }  # fmt: skip


def properties(lock: str, **found: tuple[bool | None, bool | None, str]) -> Json:
    """Return properties as claimed, measured and found. Those not named are claimed and were found to hold."""
    names = ("mutual-exclusion", "released", "reentrant", "no-single-point", "fence")
    told = {name: found.get(name.replace("-", "_"), (True, True, "held in 6 runs")) for name in names}
    return {
        name: {"claimed": claimed, "claim": f"{name} is promised" if claimed else "", "measured": measured,
               "found": said, "run": run_of(lock, 1)}
        for name, (claimed, measured, said) in told.items()
    }  # fmt: skip


def lock(
    name: str, states: str, p50: float | None = 0.001, rate: float | None = 100.0, recovers: float | None = 2.0,
    faults: tuple[str, ...] = tuple(FAULTS), **changed: Any,
) -> Json:  # fmt: skip
    """Return a lock with a letter of :data:`LETTERS` per fault."""
    cells = {
        fault: cell(name, fault, LETTERS[letter], i)
        for i, (fault, letter) in enumerate(zip(faults, states, strict=True))
    }
    under = [cost(name, fault, p50 and p50 * 3, rate and rate * 0.7, 0.93 - 0.11 * i) for i, fault in enumerate(cells)]
    return {
        "name": name, "title": f"The lock {name}", "safety": "E", "family": name.partition("-")[0],
        "kind": "redis-single", "fence": False, "algorithm": "SET key token NX PX ms", "source": "articles 001 to 004",
        "cells": cells, "properties": properties(name),
        "costs": [cost(name, "alone", p50, p50 and 0.8 / p50), cost(name, "contended", p50 and p50 * 40, rate), *under],
        "recovery": {"seconds": recovers, "found": "the next grant after the holder's death", "run": run_of(name, 1)},
    } | changed  # fmt: skip


def document(*locks: Json, faults: tuple[str, ...] = tuple(FAULTS), **changed: Any) -> Json:
    """Return a comparison of ``locks`` on the simulator."""
    nemeses = [
        {"name": name, "summary": FAULTS.get(name, "no fault: the control run"), "settings": SETTINGS, "role": {}}
        for name in faults
    ]
    return {
        "schema": 1, "started_at": "2026-11-21T20:00:00Z", "command": "harness compare --cluster sim", "cluster": "sim",
        "seconds": 71.3, "seed": 0, "runs": 1, "time_limit": 30.0, "clients": 5, "interrupted": False,
        "versions": {"lock-harness": "0.1.0", "python": "3.11.2"}, "nemeses": nemeses, "locks": list(locks),
        "ranking": ranking(),
    } | changed  # fmt: skip


def ranking() -> Json:
    first = {"redis": 0.42, "etcd": 1.3, "zookeeper": 1.9, "mysql": 0.81}
    rates = {"redis": 390.0, "etcd": 212.0, "zookeeper": 180.0, "mysql": 96.0}
    best = {"redis": "redis-token", "etcd": "etcd-mutex", "zookeeper": "kazoo-lock", "mysql": "mysql-ttl"}
    return {
        "claimed": ["redis", "etcd", "zookeeper", "mysql"], "source": "articles 001 to 004",
        "measures": [
            {"name": "uncontended acquire, median", "unit": "ms", "values": first, "locks": best,
             "order": ["redis", "mysql", "etcd", "zookeeper"], "agrees": False},
            {"name": "grants with 5 clients", "unit": "/s", "values": rates, "locks": best,
             "order": ["redis", "etcd", "zookeeper", "mysql"], "agrees": True},
        ],
    }  # fmt: skip


def sample() -> Json:
    """Return twelve locks with every state, broken claims, and a column that is another fault for some services."""
    untrue = (True, False, "two holders in the run under client-pause")
    less = (False, True, "three nested acquires were granted")
    unmeasured = (None, None, "")
    found = document(
        lock("redis-token", "usussu", 0.00042, 388, 2.1,
             properties=properties("redis-token", fence=(False, False, ""))),
        lock("redis-fenced", "fsfssf", 0.00044, 381, 2.1, fence=True, safety="F"),
        lock("redis-setnx", "uauaau", 0.0004, 395, None, safety="X",
             properties=properties("redis-setnx", released=(True, False, "no client acquired k0 for 22 s"))),
        lock("redis-watchdog", "us?ssu", 0.00043, 344, 2.0),
        lock("redlock", "usussu", 0.0021, 160, 2.3,
             properties=properties("redlock", mutual_exclusion=untrue, reentrant=less)),
        lock("mysql-ttl", "fs-saa", 0.00081, 96, 4.8, fence=True, safety="F"),
        lock("mysql-for-update", "ss-ssa", 0.0011, 88, 0.2),
        lock("zookeeper-sequential", "fsssss", 0.0019, 180, 4.2, fence=True, safety="F"),
        lock("kazoo-lock", "fsssss", 0.0018, 176, 4.2, fence=True, safety="F"),
        lock("etcd-mutex", "fsssss", 0.0013, 212, 2.9, fence=True, safety="F"),
        lock("etcd3-lock", "us?sus", 0.0014, 140, 3.1, safety="F?",
             properties=properties("etcd3-lock", fence=unmeasured)),
        lock("memcached-add", "usus-?", 0.00038, 402, 2.0, family="memcached"),
    )  # fmt: skip
    role = {"etcd": "leader-loss", "zookeeper": "leader-loss"}
    found["nemeses"][5] |= {"settings": "ttl 10 s, holds of 4 s", "role": role}
    found["left_out"] = [{"lock": "hazelcast-fenced", "why": "it runs in containers only"}]
    return found


def write(folder: Path, found: Json) -> Path:
    """Write the document to ``folder``, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "comparison.json").write_text(json.dumps(found), encoding="utf-8")
    return folder
