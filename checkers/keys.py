"""Compare the keys that servers had with the answers that clients got (``KS``).

The simulator records each change of a lock's key on a server, and the client whose message made it
(:mod:`harness.history.lock_keys`). Broken are:

- *ghost hold*: an acquire failed for certain, and the key that the same client had written during that call stayed on
  a server for longer than the slack. Nobody holds the lock. Nobody can get it if that is the only server; of several
  servers, the others must agree until the key ends.
- *overwritten*: a client's message gave a key to another owner, or removed it, although it had not expired by the
  server's own clock, and the client that had written it when it acquired the lock held the lock and had not begun to
  release it.
- *prolonged*: the same, and the message moved the end of the key.
- *token lost*: a release had an unknown outcome, the same client's next release was refused although the lease was not
  over, and the key that it had written when it acquired the lock stayed on the server for longer than the slack. The
  lock has forgotten its token, so its client cannot give the key back.
- *asleep*: a client waited for longer than the slack while the key had no owner on the server and nobody held it.

A ghost hold or a sleeping waiter is excused by faults that count for the client (:mod:`.excuses`): its requests or the
answers may be late. A lost token is excused by any earlier fault but a cancelled task: the server may be out of reach
still, and a client may count its lease on its own clock. A key is overwritten for certain only if no fault of servers
was active since it was written (they may have evicted it before), and if it has an end of its own. A key without one
belongs to a session, and the record then names the next owner, who did not end that session.

Limits: on clusters of several servers only ghost holds are judged, since a key on one server proves no owner.
Containers are polled, so their record lacks changes and their cause; they are not judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from harness.history import History
from harness.history.lock_keys import KeyState, keys_of
from harness.wording import listed

from .base import Verdict, Violation, conclude, no_lock_taken, not_applicable
from .excuses import Excuses, ends
from .faults import IN_CALLS, faults
from .holds import FOREVER, Hold, Holds, holds, is_shared
from .view import ACQUIRE, FAIL, INFO, INVOKE, NONE, RELEASE, View

MOVED_NS: Final = 5_000_000
"""A key's end that moves by no more than this was not prolonged: servers count in ms."""


@dataclass(frozen=True, slots=True)
class Stay:
    """The time from ``since`` to ``until`` (ns) in which a key had the same owner on a server; None: no owner.

    ``by`` is the client whose message began it, ``left_by`` the one whose message ended it ("": unknown, or none).
    ``expires`` is the end by the server's clock, None without one. ``moved`` has each later change of that end: time,
    the end before it, the new end, and the client."""

    server: str
    owner: str | None
    since: int
    until: int
    by: str
    left_by: str
    expires: int | None
    moved: tuple[tuple[int, int | None, int | None, str], ...] = ()


class KeysChecker:
    """The servers' keys agree with the answers that clients got; the module has the rules and their limits."""

    name = "keys"

    def check(self, history: History) -> Verdict:
        if (lockless := no_lock_taken(history)) is not None:
            return lockless
        states, found = keys_of(history), holds(history)
        if states is None:
            return not_applicable(history, "the changes of keys on servers were not recorded")
        stays = [list(_stays(states, key, found.view.end)) for key in found.view.keys]
        owned = sum(stay.owner is not None for mine in stays for stay in mine)
        if not owned:
            return not_applicable(history, "no key of the lock had an owner on the server")
        excuses = Excuses(history)
        violations = [one for key, mine in enumerate(stays) for one in _ghosts(found, key, mine, excuses)]
        fine = f"no key stayed with a client whose acquire had failed ({owned} owners)"
        if _has_one_server(found.view):
            fine = f"the server's keys agree with all answers ({owned} owners)"
            first_ns = min((fault.from_ns for fault in faults(history) if fault.name not in IN_CALLS), default=FOREVER)
            for key, mine in enumerate(stays):
                violations += _touched(found, key, mine, excuses)
                violations += _asleep(found, key, mine, excuses)
                violations += _lost_tokens(found, key, mine, first_ns)
        return conclude(history, violations, fine=fine, stats={"owners": owned})


def _has_one_server(columns: View) -> bool:
    return len(columns.settings.get("servers") or ()) == 1


def _stays(states: tuple[KeyState, ...], key: str, end: int) -> Iterator[Stay]:
    """Yield the times between changes of the key's owner, by server and in order, leaving out those in which a server
    was down."""
    by_server: dict[str, list[KeyState]] = {}
    for state in states:
        if state.key == key:
            by_server.setdefault(state.host, []).append(state)
    for server, mine in by_server.items():
        yield from _stays_on(server, mine, end)


def _stays_on(server: str, states: list[KeyState], end: int) -> Iterator[Stay]:
    mine = sorted(states, key=lambda state: state.time)
    first: KeyState | None = None
    expires: int | None = None
    moved: list[tuple[int, int | None, int | None, str]] = []
    opening: int | None = None
    for state in mine:
        if first is not None and state.answers and state.owner is not None and state.owner == first.owner:
            moved.append((state.time, expires, _end(state), state.by or ""))
            expires = _end(state)
            continue
        if first is not None:
            yield Stay(
                server, first.owner, first.time, state.time, first.by or "", state.by or "" if state.answers else "",
                opening, tuple(moved),
            )  # fmt: skip
        first = state if state.answers else None
        expires = opening = _end(state)
        moved = []
    if first is not None:
        yield Stay(server, first.owner, first.time, end, first.by or "", "", opening, tuple(moved))


def _end(state: KeyState) -> int | None:
    return None if state.left is None else state.time + state.left


def _ghosts(found: Holds, key: int, stays: list[Stay], excuses: Excuses) -> Iterator[Violation]:
    """Yield the calls that failed and left a key of their client on servers."""
    columns = found.view
    slack = columns.seconds("slack", 1.0) or 0
    rows = columns.rows(ACQUIRE, INVOKE)
    rows = rows[(columns.key[rows] == key) & (columns.done[rows] != NONE)]
    rows = rows[columns.type[columns.done[rows]] == FAIL]
    begin, end = columns.time[rows], columns.time[columns.done[rows]]
    left: dict[int, list[Stay]] = {}
    for stay in stays:
        if stay.owner is None:
            continue
        for at in np.flatnonzero((begin <= stay.since) & (stay.since <= end)).tolist():
            row, client, over = int(rows[at]), int(columns.client[rows[at]]), int(end[at])
            if columns.node[row] != stay.by or stay.until - over <= slack or is_shared(columns, row):
                continue
            same = [number for number, name in enumerate(columns.names) if name == columns.names[client]]
            mine = np.isin(found.client, same) & (found.key == key)
            if (mine & (found.start <= stay.until) & (found.end >= begin[at])).any():
                continue
            if not excuses.any(client, int(begin[at]), over + slack):
                left.setdefault(row, []).append(stay)
    for row in sorted(left):
        yield _ghost(columns, row, left[row])


def _ghost(columns: View, row: int, stays: list[Stay]) -> Violation:
    key, client = columns.keys[columns.key[row]], columns.name(columns.client[row])
    over, until = int(columns.time[columns.done[row]]), max(stay.until for stay in stays)
    where = "" if _has_one_server(columns) else f" on {listed(sorted({stay.server for stay in stays}))}"
    harm = f"{client} kept {key}{where} for {View.span(until - over)} after its acquire had failed"
    wrote = columns.at(min(stay.since for stay in stays))
    sentence = f"{harm}: it wrote the key at {wrote}, and got the answer at {columns.at(over)}"
    return Violation("ghost-hold", key, sentence, over, until, (columns.call(row),), "service", harm=harm)


def _touched(found: Holds, key: int, stays: list[Stay], excuses: Excuses) -> Iterator[Violation]:
    """Yield the messages by which a client changed the key of another client's hold."""
    for stay, following in zip(stays, [*stays[1:], None], strict=True):
        if stay.owner is None or not stay.by:
            continue
        last = stay.expires
        for time, before, after, client in stay.moved:
            last = after
            if before is not None and after is not None and time < before < after - MOVED_NS:
                yield from _change(found, key, stay, "prolonged", client, time, excuses)
        if last is not None and last > stay.until + MOVED_NS:
            what = "overwrote" if following is not None and following.owner is not None else "removed"
            yield from _change(found, key, stay, what, stay.left_by, stay.until, excuses)


def _change(
    found: Holds, key: int, stay: Stay, what: str, client: str, time: int, excuses: Excuses
) -> Iterator[Violation]:
    """Yield the change of a key by ``client`` at ``time`` (ns) if another client held it, with the key as its own."""
    if client in ("", stay.by) or excuses.any_of_servers(stay.since, time):
        return
    hold, columns = _hold_of(found, key, stay, time), found.view
    if hold is None:
        return
    harm = f"{client} {what} {hold.key} on the server while {hold.client} held it"
    until = "to the end" if hold.release == NONE else f"until {columns.at(hold.end_ns)}"
    sentence = f"{harm}: at {columns.at(time)}; {hold.client} held it from {columns.at(hold.start_ns)} {until}"
    kind = {"overwrote": "overwritten"}.get(what, what)
    yield Violation(kind, hold.key, sentence, time, hold.end_ns, (hold.to_json(),), "service", harm=harm)


def _hold_of(found: Holds, key: int, stay: Stay, time: int) -> Hold | None:
    """Return the exclusive hold at ``time`` (ns) whose acquire wrote this key."""
    columns = found.view
    begun = columns.time[found.acquire]
    fits = (found.key == key) & ~found.shared & (begun <= stay.since) & (stay.since <= found.start)
    rows = np.flatnonzero(fits & (found.start < time) & (time < found.end))
    mine = [int(row) for row in rows if columns.node[int(found.grant[row])] == stay.by]
    hold: Hold | None = found[mine[0]] if mine else None
    return hold


def _asleep(found: Holds, key: int, stays: list[Stay], excuses: Excuses) -> Iterator[Violation]:
    """Yield the times in which a client waited for a key without an owner."""
    columns = found.view
    slack = columns.seconds("slack", 1.0) or 0
    rows = columns.rows(ACQUIRE, INVOKE)
    rows = rows[columns.key[rows] == key]
    begin, end = columns.time[rows], ends(columns, rows)
    mine = found.key == key
    owned = False
    for stay in stays:
        owned = owned or stay.owner is not None
        if stay.owner is not None or not owned or stay.until - stay.since <= slack:
            continue
        if (mine & (found.start <= stay.until) & (found.end >= stay.since)).any():
            continue
        since, until = np.maximum(begin, stay.since), np.minimum(end, stay.until)
        for at in np.flatnonzero(until - since > slack).tolist():
            client = int(columns.client[rows[at]])
            if not excuses.any(client, int(since[at]), int(until[at])):
                yield _sleeper(columns, int(rows[at]), int(since[at]), int(until[at]))
                break


def _sleeper(columns: View, row: int, since: int, until: int) -> Violation:
    key, client = columns.keys[columns.key[row]], columns.name(columns.client[row])
    harm = f"{client} waited for {key} for {View.span(until - since)} while the key had no owner on the server"
    sentence = f"{harm}: from {columns.at(since)} to {columns.at(until)}"
    return Violation("asleep", key, sentence, since, until, (columns.call(row),), "service", harm=harm)


def _lost_tokens(found: Holds, key: int, stays: list[Stay], fault_ns: int) -> Iterator[Violation]:
    """Yield the releases that were refused after one of unknown outcome, while the key was still the client's own, and
    before the first fault at ``fault_ns`` that may explain it."""
    columns = found.view
    slack, ttl = (columns.seconds(name, 1.0) or 0 for name in ("slack", "ttl"))
    rows = columns.rows(RELEASE, INVOKE)
    rows = rows[(columns.key[rows] == key) & (columns.done[rows] != NONE)]
    for release in rows[columns.type[columns.done[rows]] == FAIL].tolist():
        row = _released_before(found, release)
        if row is None:
            continue
        begin, end = int(columns.time[release]), int(columns.time[columns.done[release]])
        stated = int(found.stated_end[row])
        lease_end = int(found.given[row]) + ttl if stated == FOREVER else stated
        node = columns.node[release]
        if end >= min(lease_end, fault_ns):
            continue
        written = (int(columns.time[found.acquire[row]]), int(found.start[row]))
        for stay in stays:
            own = stay.owner is not None and stay.by == node and written[0] <= stay.since <= written[1]
            if own and stay.since <= begin and stay.until - end > slack:
                yield _lost_token(found, row, release, stay)


def _released_before(found: Holds, release: int) -> int | None:
    """Return the row of the caller's last hold, if its own release had an unknown outcome, and no acquire followed."""
    columns = found.view
    mine = (found.client == columns.client[release]) & (found.key == columns.key[release]) & (found.grant < release)
    rows = np.flatnonzero(mine)
    first = int(found.release[rows[-1]]) if len(rows) else NONE
    if first in (NONE, release) or columns.done[first] == NONE or columns.type[columns.done[first]] != INFO:
        return None
    acquires = columns.rows(ACQUIRE, INVOKE)
    between = (acquires > first) & (acquires < release) & (columns.key[acquires] == columns.key[release])
    again = (between & (columns.client[acquires] == columns.client[release])).any()
    return None if again else int(rows[-1])


def _lost_token(found: Holds, row: int, release: int, stay: Stay) -> Violation:
    columns = found.view
    hold: Hold = found[row]
    call, first = columns.call(release), columns.call(hold.release)
    kept = View.span(stay.until - call["until_ns"])
    harm = f"{hold.client} could not release {hold.key} after a release had failed, and kept it for {kept}"
    errors = [columns.error[columns.done[at]] for at in (hold.release, release)]
    why = f"the release at {columns.at(first['from_ns'])} ended with {errors[0]}, and the next one with {errors[1]}"
    involved = (hold.to_json(), first, call)
    begin = call["from_ns"]
    return Violation(
        "token-lost", hold.key, f"{harm}: {why}", begin, stay.until, involved, "service", harm=harm, cause=why
    )
