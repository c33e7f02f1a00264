"""The database of a Chubby cell: files, their locks, and sessions, as rows that the replicas keep.

Rows: ``file/NAME``, ``gone/NAME`` (what a deleted file leaves: its numbers must not come again), ``session/ID``. Every
function here looks at rows and returns changes; nothing is changed in place. Source: Burrows 2006, sections 2.2 to 2.4.

A file is a lock as well: exclusive (one holder) or shared. Its lock generation grows each time it goes from free to
held. ``delay`` is the lock-delay, in seconds, that its last holder left behind by failing. Left out: directories,
access control, writing (a file has the contents that it was created with), events and caching.
"""

from __future__ import annotations

from typing import Any, Final

FILE: Final = "file/"
GONE: Final = "gone/"
SESSION: Final = "session/"
Row = dict[str, Any]
Rows = dict[str, Any]
Change = tuple[str, Any]


def file_of(rows: Rows, name: str) -> Row | None:
    row: Row | None = rows.get(FILE + name)
    return row


def created(rows: Rows, name: str, contents: str, *, ephemeral: bool) -> Change:
    """A new file. Its instance and its lock's generation go on where a deleted one of that name left off."""
    before = rows.get(GONE + name, {"instance": 0, "generation": 0})
    row = {
        "instance": before["instance"] + 1,
        "generation": before["generation"],
        "contents": contents,
        "ephemeral": ephemeral,
        "mode": "free",
        "holders": {},
        "delay": 0.0,
    }
    return (FILE + name, row)


def deleted(rows: Rows, name: str) -> list[Change]:
    row = rows[FILE + name]
    gone = {"instance": row["instance"], "generation": row["generation"]}
    return [(FILE + name, None), (GONE + name, gone)]


def stat(row: Row) -> Row:
    return {
        "instance": row["instance"],
        "lock_generation": row["generation"],
        "mode": row["mode"],
        "ephemeral": row["ephemeral"],
    }


def compatible(row: Row, mode: str, handle: str) -> bool:
    """Could this handle have the lock too, as far as those go who hold it?"""
    if row["mode"] == "free":
        return True
    return bool(row["mode"] == mode == "shared" and handle not in row["holders"])


def granted(rows: Rows, name: str, mode: str, handle: str, session: str) -> Change:
    row = rows[FILE + name]
    fresh = row["mode"] == "free"
    holders = {**row["holders"], handle: session}
    generation = row["generation"] + fresh
    return (FILE + name, {**row, "mode": mode, "holders": holders, "generation": generation, "delay": 0.0})


def given_back(rows: Rows, name: str, handles: list[str], delay: float = 0.0) -> Change:
    """The file without these holders. If that leaves the lock free, it stays so for ``delay`` seconds."""
    row = rows[FILE + name]
    holders = {handle: session for handle, session in row["holders"].items() if handle not in handles}
    if holders:
        return (FILE + name, {**row, "holders": holders})
    return (FILE + name, {**row, "holders": {}, "mode": "free", "delay": delay})


def held_by(rows: Rows, session: str) -> dict[str, list[str]]:
    """The files whose locks a session holds, and with which handles."""
    found: dict[str, list[str]] = {}
    for key, row in rows.items():
        if key.startswith(FILE):
            handles = [handle for handle, holder in row["holders"].items() if holder == session]
            if handles:
                found[key.removeprefix(FILE)] = handles
    return found


def sequencer(name: str, row: Row) -> str:
    """Name, mode and generation of a lock, for its holder to show to others."""
    return f"{row['generation']}:{row['mode']}:{name}"


def is_current(rows: Rows, shown: str) -> bool:
    """Is the lock still held in the mode and the generation that a sequencer names?"""
    name = shown.split(":", 2)[-1]
    row = file_of(rows, name)
    return row is not None and row["mode"] != "free" and sequencer(name, row) == shown
