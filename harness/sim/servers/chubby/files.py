"""The replicated database of a Chubby cell: files with their locks, and sessions, as rows.

Rows: ``file/NAME``, ``session/ID`` and ``gone/NAME``, which keeps the numbers of a deleted file so that they are not
used again. The functions take rows and return changes; nothing is changed in place. Source: Burrows 2006, sections 2.2
to 2.4.

Each file is also a lock: exclusive (one holder) or shared. Its lock generation grows each time the lock goes from free
to held. ``delay`` is the lock-delay in seconds after its last holder has failed. Left out: directories, access control,
writing (a file keeps the contents that it was created with), events and caching.
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
    """Return the row of a file, None if it does not exist."""
    row: Row | None = rows.get(FILE + name)
    return row


def create(rows: Rows, name: str, contents: str, *, ephemeral: bool) -> Change:
    """Return the change that creates a file. Instance and lock generation continue those of a deleted file."""
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


def delete(rows: Rows, name: str) -> list[Change]:
    """Return the changes that delete a file."""
    row = rows[FILE + name]
    gone = {"instance": row["instance"], "generation": row["generation"]}
    return [(FILE + name, None), (GONE + name, gone)]


def stat(row: Row) -> Row:
    """Return the metadata of a file that clients may read."""
    return {
        "instance": row["instance"],
        "lock_generation": row["generation"],
        "mode": row["mode"],
        "ephemeral": row["ephemeral"],
    }


def compatible(row: Row, mode: str, handle: str) -> bool:
    """Return whether a handle can get the lock in ``mode`` beside its present holders."""
    if row["mode"] == "free":
        return True
    return bool(row["mode"] == mode == "shared" and handle not in row["holders"])


def grant(rows: Rows, name: str, mode: str, handle: str, session: str) -> Change:
    """Return the change that adds a holder to a lock."""
    row = rows[FILE + name]
    fresh = row["mode"] == "free"
    holders = {**row["holders"], handle: session}
    generation = row["generation"] + fresh
    return (FILE + name, {**row, "mode": mode, "holders": holders, "generation": generation, "delay": 0.0})


def release(rows: Rows, name: str, handles: list[str], delay: float = 0.0) -> Change:
    """Return the change that removes holders from a lock; ``delay`` is the lock-delay in seconds if it gets free."""
    row = rows[FILE + name]
    holders = {handle: session for handle, session in row["holders"].items() if handle not in handles}
    if holders:
        return (FILE + name, {**row, "holders": holders})
    return (FILE + name, {**row, "holders": {}, "mode": "free", "delay": delay})


def held_by(rows: Rows, session: str) -> dict[str, list[str]]:
    """Return the names of the files whose locks a session holds, with its handles."""
    found: dict[str, list[str]] = {}
    for key, row in rows.items():
        if key.startswith(FILE):
            handles = [handle for handle, holder in row["holders"].items() if holder == session]
            if handles:
                found[key.removeprefix(FILE)] = handles
    return found


def sequencer(name: str, row: Row) -> str:
    """Return the sequencer of a held lock: a string with its generation, mode and name."""
    return f"{row['generation']}:{row['mode']}:{name}"


def is_current(rows: Rows, shown: str) -> bool:
    """Return whether a lock is still held in the mode and generation that a sequencer names."""
    name = shown.split(":", 2)[-1]
    row = file_of(rows, name)
    return row is not None and row["mode"] != "free" and sequencer(name, row) == shown
