"""Histories of a lock that several machines use, drawn at random, and their recordings with wrong clocks and gaps."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

MS = 1_000_000
ORIGIN_NS = 1_000_000 * MS


@dataclass(frozen=True)
class DrawnCall:
    """A call in true time (ns). ``kind`` is ok, fail, info, or open: it never returned."""

    machine: int
    client: int
    f: str
    began: int
    ended: int
    kind: str
    value: Any = None


@dataclass(frozen=True)
class Gap:
    """Calls of a machine that began in this time (true, ns) are not recorded; ``until`` None: the process was killed
    at ``since``."""

    machine: int
    since: int
    until: int | None


def draw_calls(random: Random, *, leased: bool, fenced: bool, machines: int = 2) -> list[DrawnCall]:
    """Return calls on one key that are likely to be nearly right: mostly one holder after the other."""
    now, fence = ORIGIN_NS, 0
    calls = []
    clients = [(machine, number) for machine in range(machines) for number in range(random.randint(1, 2))]
    busy: dict[tuple[int, int], int] = {}
    for _ in range(random.randint(2, 6)):
        client = random.choice(clients)
        granted = max(now, busy.get(client, 0) + random.randint(1, 5) * MS)
        took = random.randint(0, 10) * MS
        held = random.randint(1, 40) * MS
        fence += random.choice([1, 1, 1, 1, 0, -1])
        lease = random.randint(5, 60) / 1000 if leased else None
        grant = {"fence": fence if fenced else None, "valid_for": lease}
        kind = random.choice(["ok"] * 8 + ["info"])
        calls.append(
            DrawnCall(*client, "acquire", max(granted - took, busy.get(client, 0) + 1), granted + 1, kind, grant)
        )
        ends = random.choice(["ok"] * 6 + ["fail", "info", "open"])
        back = granted + held + random.randint(1, 10) * MS
        calls.append(DrawnCall(*client, "release", granted + held, back, ends))
        busy[client] = back + 1
        now = granted + held + random.choice([1, 5, 5, 5, -5, -20]) * MS
    return calls


def recorded(calls: list[DrawnCall], gaps: list[Gap]) -> list[DrawnCall]:
    """Return the calls that are recorded in spite of the gaps. A call that is open when its process dies has no end."""
    found = []
    for call in calls:
        mine = [gap for gap in gaps if gap.machine == call.machine]
        if any(gap.since <= call.began and (gap.until is None or call.began <= gap.until) for gap in mine):
            continue
        died = any(gap.until is None and call.ended >= gap.since for gap in mine)
        found.append(replace(call, kind="open") if died else call)
    return found


def write_recordings(
    folder: Path,
    calls: list[DrawnCall],
    *,
    shifts: list[int],
    error_ns: int | None = 0,
    gaps: tuple[Gap, ...] | list[Gap] = (),
    one_clock: bool = False,
) -> list[Path]:
    """Write a recording for each machine, whose wall clock is ahead of true time by its number in ``shifts`` (ns).

    With ``one_clock`` they are processes of one machine, whose monotonic clock shows true time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for machine, shift in enumerate(shifts):
        boots = 0 if one_clock else 777 * MS * (machine + 1)
        end = max((call.ended for call in calls), default=ORIGIN_NS) + 100 * MS
        lines = list(_entries([call for call in calls if call.machine == machine], machine))
        gone = [gap for gap in gaps if gap.machine == machine]
        lines += [
            _own(gap.until, "lost", {"calls": 1, "from_ns": gap.since - boots}) for gap in gone if gap.until is not None
        ]
        dead = min((gap.since for gap in gone if gap.until is None), default=None)
        if dead is None:
            lines.append(_own(end, "stop", {"reason": "done"}))
        else:
            lines.append(_own(dead - 1, "clock", {"error_ns": error_ns}))
        about = {"recording": f"r{machine}", "host": f"m{machine}", "pid": 1}
        about |= {"boot": "one" if one_clock else f"boot {machine}", "error_ns": error_ns}
        start = _own(ORIGIN_NS - 100 * MS, "start", about)
        path = folder / f"{machine}.jsonl"
        entries = [start, *sorted(lines, key=lambda entry: int(entry["time"]))]
        for entry in entries:
            entry["wall"] = entry["time"] + shift
            entry["time"] -= boots
        path.write_text("".join(json.dumps(entry, separators=(",", ":")) + "\n" for entry in entries))
        paths.append(path)
    return paths


def _own(time_ns: int, f: str, value: Any) -> dict[str, Any]:
    return {"process": -1, "time": time_ns, "type": "info", "f": f, "value": value}


def _entries(calls: list[DrawnCall], machine: int) -> Any:
    for process, call in enumerate(calls, 1):  # a process number for each call: calls of a client may overlap
        common = {"process": process, "f": call.f, "key": "k", "node": f"m{machine}/{call.client}"}
        yield {**common, "time": call.began, "type": "invoke"}
        if call.kind != "open":
            value = {"value": call.value} if call.kind == "ok" and call.value else {}
            yield {**common, "time": call.ended, "type": call.kind, **value}
