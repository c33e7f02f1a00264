"""Merge the calls of several recordings into one history, with the uncertainty of their clocks and their gaps.

*Clocks.* A call of a machine whose clock has the error E begins at most E earlier and ends at most E later than its
clock says. So its interval is widened by E on both sides, and a lease, which begins at the end of a call, is shortened
by 2 E. If the widened history has no order, then no clocks within their errors give one: an order under such clocks is
an order of the widened history.

*Gaps.* A call that is missing may have released a hold, or have begun one that a recorded release ended. Calls of
unknown outcome in their places (:func:`excused`) allow for all of that, for a lock that a client holds at most once at
a time. Between two recorded calls a client needs one of each: more would hold the lock for nobody. For other models the
history is cut where the first gap begins (:func:`cut`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .calls import NEVER, NO_FENCE, NONE, Calls, Ints
from .recordings import ClockOffset, Recording

ACQUIRE: Final = "acquire"
RELEASE: Final = "release"
_NAMES: Final = {"f": "fs", "key": "keys", "client": "clients"}
_VALUES: Final = ("argument", "result")
_OF_ANSWERS: Final = {"result": NONE, "fence": NO_FENCE, "lease": NEVER, "good": NONE}


def gaps(recording: Recording) -> list[tuple[int, int]]:
    """Return the times (ns) in which calls may have begun that are missing. The last one begins where the recording was
    closed, or up to where it is complete."""
    return [*recording.losses, (recording.complete_ns, NEVER)]


def widened(calls: Calls, offset: ClockOffset) -> Calls:
    """Return the calls with their times as true time, each at its earliest beginning and its latest end."""
    shift, error = offset.offset_ns, offset.error_ns
    if not (shift or error):
        return calls
    return replace(
        calls,
        began=calls.began + (shift - error),
        ended=np.where(calls.ended == NEVER, NEVER, calls.ended + (shift + error)),
        lease=np.where(calls.lease == NEVER, NEVER, calls.lease - 2 * error),
    )


def cut(calls: Calls, at_ns: int) -> Calls:
    """Return the history up to ``at_ns``: calls that ended later have an unknown outcome."""
    calls = calls.pick(calls.began < at_ns)
    late = calls.ended > at_ns
    columns: dict[str, Any] = {
        "known": np.where(late, 0, calls.known).astype(np.int8),
        "returned": np.where(late, NEVER, calls.returned),
        "ended": np.where(late, NEVER, calls.ended),
    }
    for name, nothing in _OF_ANSWERS.items():
        column = getattr(calls, name)
        if len(column):
            columns[name] = np.where(late, nothing, column).astype(column.dtype)
    return replace(calls, **columns)


def excused(calls: Calls, missing: Sequence[tuple[int, int]]) -> Calls:
    """Return the calls of one recording with the calls that may be missing, which have unknown outcomes."""
    if not missing or not len(calls):
        return calls
    fs = [*calls.fs, *(name for name in (ACQUIRE, RELEASE) if name not in calls.fs)]
    codes = [fs.index(ACQUIRE), fs.index(RELEASE)]
    rows = np.flatnonzero(np.isin(calls.f, codes))
    slots = np.unique(calls.key[rows].astype(np.int64) * len(calls.clients) + calls.client[rows], return_inverse=True)[
        1
    ]
    order = rows[np.argsort(slots, kind="stable")]
    found: list[tuple[int, int, int]] = []
    for mine in np.split(order, np.cumsum(np.bincount(slots))[:-1]):
        for since, until in missing:
            found += [(int(mine[0]), codes[which], since) for which in _excuses(calls, mine, codes, since, until)]
    return _with_unknown(replace(calls, fs=fs), found) if found else calls


def _excuses(calls: Calls, mine: Ints, codes: list[int], since: int, until: int) -> Iterator[int]:
    """Yield 0 for each acquire and 1 for each release of a client, whose calls on a key are ``mine``, that may be
    missing."""
    began, acquires = calls.began[mine], calls.f[mine] == codes[0]
    first, last = int(np.searchsorted(began, since)), int(np.searchsorted(began, until, side="right"))
    releases = int(acquires[max(0, first - 1) : last].sum())
    yield from (1 for _ in range(releases))
    yield from (0 for _ in range(int((~acquires[first : last + 1]).sum())))


def _with_unknown(calls: Calls, more: Sequence[tuple[int, int, int]]) -> Calls:
    """Return the calls and one of unknown outcome for each of ``more``: a row of the same client and key, the function,
    and the time of the invocation."""
    count = len(more)
    like = np.array([row for row, _, _ in more], dtype=np.int64)
    columns: dict[str, Any] = {}
    for name, column in _columns(calls).items():
        columns[name] = np.concatenate((column, column[like])) if len(column) else column
    new = slice(len(calls), len(calls) + count)
    columns["f"][new] = [f for _, f, _ in more]
    columns["began"][new] = [time for _, _, time in more]
    nothing = {**_OF_ANSWERS, "argument": NONE, "known": 0, "returned": NEVER, "ended": NEVER}
    for name, value in nothing.items():
        if len(columns[name]):
            columns[name][new] = value
    return replace(calls, **columns)


def _columns(calls: Calls) -> dict[str, npt.NDArray[Any]]:
    found = {one.name: getattr(calls, one.name) for one in fields(calls)}
    return {name: column for name, column in found.items() if isinstance(column, np.ndarray)}


def merged(parts: Sequence[Calls]) -> Calls:
    """Return the calls of all parts in the order of their invocations, with positions by time.

    If an invocation and a return have the same time, the invocation comes first, so that the calls overlap.
    """
    order = np.argsort(np.concatenate([part.began for part in parts]), kind="stable")
    names: dict[str, dict[str, int]] = {of: {} for of in _NAMES.values()}
    whole: dict[str, Any] = {}
    for name in _columns(parts[0]):  # one after the other, since the columns of ten million calls take a gigabyte
        column = _joined(parts, name, names)
        whole[name] = column[order] if len(column) else column
    whole["invoked"], whole["returned"] = _positions(whole["began"], whole["ended"])
    lists: dict[str, Any] = {of: list(numbers) for of, numbers in names.items()}
    return replace(
        parts[0],
        **whole,
        **lists,
        values=[value for part in parts for value in part.values],
        failed=sum(part.failed for part in parts),
        entries=sum(part.entries for part in parts),
        origin=int(whole["began"][0]) if len(order) else 0,
        complete=all(part.complete for part in parts),
    )


def _joined(parts: Sequence[Calls], name: str, names: dict[str, dict[str, int]]) -> npt.NDArray[Any]:
    """Return a column of all parts; ``names`` numbers the names of all of them."""
    values, columns = 0, []
    for part in parts:
        columns.append(_renumbered(part, name, getattr(part, name), names, values))
        values += len(part.values)
    return np.concatenate(columns)


def _renumbered(
    part: Calls, name: str, column: npt.NDArray[Any], names: dict[str, dict[str, int]], values: int
) -> npt.NDArray[Any]:
    if name in _VALUES:
        moved: npt.NDArray[Any] = np.where(column == NONE, NONE, column + values).astype(column.dtype)
        return moved
    if name not in _NAMES:
        return column
    numbers = names[_NAMES[name]]
    new = [numbers.setdefault(one, len(numbers)) for one in getattr(part, _NAMES[name])]
    codes: npt.NDArray[Any] = np.array([*new, NONE], dtype=column.dtype)[column]
    return codes


def _positions(began: Ints, ended: Ints) -> tuple[Ints, Ints]:
    """Return the positions of invocations and returns; the return of a call that has none is at NEVER."""
    count = len(began)
    returns = np.flatnonzero(ended != NEVER)
    order = np.argsort(np.concatenate((began, ended[returns])), kind="stable")
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    returned = np.full(count, NEVER)
    returned[returns] = position[count:]
    return position[:count], returned
