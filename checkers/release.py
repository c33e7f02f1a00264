"""Check that a release gives the key back, and is confirmed only to a client that may hold it (``RL``).

- *failed-release*: releases that raised, were refused or did not return within :data:`.answers.ALLOWANCE` plus slack.
  Only a release of a live hold counts: the lock had not said that the hold was lost, its lease (without a stated one,
  the ttl) was not over, and no fault counts for the client since its acquire (:mod:`.excuses`). One failed release may
  have a cause that the history does not show, so the lock is broken if at least :data:`FEW` of them failed and these
  are more than half of all releases of live holds.
- *not-given-back*: no client got the key within the slack after a release that returned ok, although clients requested
  it: see :mod:`.stuck`, where the last hold ended cleanly. Calls that hang beyond their own timeout do not count: they
  need not have noticed the release. :mod:`.liveness` reports the same stretch as a stuck key.
- *empty-release*: a release returned ok although its client held nothing: each of its grants of the key had been
  released with ok before, and no acquire of it had an unknown outcome. A release that the client made although it knew
  that (``idle``) may return ok if it changes nothing.
- *late-release*: a release returned ok although its lease was over (or its client had been told that the lock was
  lost), and another client, granted the key after that, held it all the time. ``ok`` means that this call released the
  lock; a release that changes nothing must say so, or its caller believes that the lock protected it to the end. The
  cause is the client, which acted after its lease.
- *deferred-release*: at least :data:`MANY` releases that returned ok, and more than half of them, took effect on the
  server only when their client acquired the key again: see :mod:`.deferred`.

A refused release after the end of the lease, or after the lock was lost, is correct. Releases with unknown outcomes
accuse nobody alone, and whose release *ended* the hold of another client is judged by :mod:`.ownership`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from harness.history import History
from harness.wording import counted

from .answers import ALLOWANCE
from .base import Verdict, Violation, conclude, no_lock_taken
from .deadlock import report, stated
from .deferred import deferred_releases
from .excuses import Excuses, ends
from .holds import EXPIRED, FOREVER, LOST, RELEASED, Hold, Holds
from .stuck import stretches_in
from .sweep import grouped_order
from .view import ACQUIRE, FAIL, INFO, INVOKE, NONE, OK, RELEASE, Ints, View

FEW: Final = 2
MANY: Final = 5


class ReleaseChecker:
    """A release of a live hold succeeds and frees the key, and no client gets an ok for a key that it does not hold.

    The module has the rules.
    """

    name = "release"

    def check(self, history: History) -> Verdict:
        if (lockless := no_lock_taken(history)) is not None:
            return lockless
        if not stated(history):
            return Verdict(None, "the start entry does not state ttl and slack")
        stretches = stretches_in(history)
        found = stretches.holds
        live = _live(found)
        excuses = Excuses(history)
        failed = _failed(found, live, excuses)
        violations = [
            *_failures(found, live, failed),
            *(
                report(stretches, one, "not-given-back")
                for one in stretches.stuck()
                if one.cause == "clean" and not one.hanging
            ),
            *_empty(found),
            *_late(found),
            *_deferred(history, found, excuses),
        ]
        return conclude(
            history,
            violations,
            fine=f"of {counted(len(live), 'release')} of live holds, {len(failed)} failed without an excuse",
            doubts=(_untested(found.view),),
            stats={"releases": len(found.view.rows(RELEASE, INVOKE)), "live": len(live), "failed": len(failed)},
        )


def _live(found: Holds) -> Ints:
    """Return the rows of the holds that were live when their client released them."""
    columns = found.view
    ttl = columns.seconds("ttl") or 0
    until = np.where(found.lease_end == FOREVER, found.given + ttl, found.lease_end)
    return np.flatnonzero((found.ended == RELEASED) & (columns.time[found.release] < until))


def _untested(columns: View) -> str | None:
    """Return a doubt if no release returned ok."""
    if len(columns.rows(RELEASE, OK)):
        return None
    tried = len(columns.rows(RELEASE, INVOKE))
    return f"none of {counted(tried, 'release')} returned ok" if tried else "no client released a lock"


@dataclass(frozen=True, slots=True)
class FailedRelease:
    """A release of a live hold that failed: the hold's ``row``, and ``how``."""

    row: int
    how: str


def _failed(found: Holds, live: Ints, excuses: Excuses) -> list[FailedRelease]:
    columns = found.view
    slack = columns.seconds("slack") or 0
    releases = found.release[live]
    done, end = columns.done[releases], ends(columns, releases)
    hangs = (done == NONE) & (end - columns.time[releases] > ALLOWANCE + slack)
    answered = (done != NONE) & np.isin(columns.type[done], (FAIL, INFO))
    failed = []
    for at in np.flatnonzero(hangs | answered).tolist():
        row = int(live[at])
        if not excuses.any(int(found.client[row]), int(columns.time[found.acquire[row]]), int(end[at])):
            failed.append(FailedRelease(row, _how(columns, int(done[at]))))
    return failed


def _how(columns: View, done: int) -> str:
    if done == NONE:
        return "it never returned"
    verb = "was refused" if columns.type[done] == FAIL else "raised"
    return f"it {verb}: {columns.error[done] or 'no reason given'}"


def _failures(found: Holds, live: Ints, failed: list[FailedRelease]) -> Iterator[Violation]:
    """Yield the first failed release of each client if most releases of live holds failed."""
    if len(failed) < FEW or 2 * len(failed) <= len(live):
        return
    columns = found.view
    clients: dict[int, FailedRelease] = {}
    for one in failed:
        clients.setdefault(int(found.client[one.row]), one)
    for one in clients.values():
        hold: Hold = found[one.row]
        call = columns.call(hold.release)
        sentence = (
            f"{hold.client} could not release {hold.key}, which it held since {columns.at(hold.start_ns)}: {one.how} "
            f"({len(failed)} of {counted(len(live), 'release')} of live holds failed, and no fault excuses it)"
        )
        end = call["until_ns"] or columns.end
        involved = (hold.to_json(), call)
        yield Violation("failed-release", hold.key, sentence, call["from_ns"], end, involved, "service")


def _empty(found: Holds) -> Iterator[Violation]:
    """Yield each release that returned ok although its client held nothing."""
    columns = found.view
    releases = columns.rows(RELEASE, INVOKE)
    slots = columns.client * max(1, len(columns.keys)) + columns.key
    suspects = np.unique(slots[np.setdiff1d(releases, found.release)])
    calls = np.flatnonzero((columns.type == INVOKE) & np.isin(columns.f, (ACQUIRE, RELEASE)) & np.isin(slots, suspects))
    grants: dict[int, int] = {}
    unknown: set[int] = set()
    for call in calls.tolist():
        slot, done = int(slots[call]), int(columns.done[call])
        outcome = INFO if done == NONE else int(columns.type[done])
        if columns.f[call] == ACQUIRE and outcome == INFO:
            unknown.add(slot)
        elif outcome == OK and columns.f[call] == ACQUIRE:
            grants[slot] = grants.get(slot, 0) + 1
        elif outcome == OK and grants.get(slot):
            grants[slot] -= 1
        elif outcome == OK and slot not in unknown and not columns.idle(call):
            yield _without_hold(found, call)


def _without_hold(found: Holds, call: int) -> Violation:
    columns = found.view
    key, client = columns.keys[columns.key[call]], columns.name(columns.client[call])
    begin, end = int(columns.time[call]), int(columns.time[columns.done[call]])
    harm = f"{client}'s release of {key} returned ok, although {client} did not hold {key}"
    held = (found.key == columns.key[call]) & (found.start <= begin) & (found.end > begin)
    others = ", ".join(columns.name(number) for number in np.unique(found.client[held]).tolist())
    why = f"{others} held it at {columns.at(begin)}" if others else f"nobody held it at {columns.at(begin)}"
    sentence = f"{harm}: {why}"
    involved = (columns.call(call),)
    return Violation("empty-release", key, sentence, begin, end, involved, "service", harm=harm, cause=why)


def _deferred(history: History, found: Holds, excuses: Excuses) -> Iterator[Violation]:
    """Yield the first deferred release of each client if most releases were deferred."""
    late, columns = deferred_releases(history, found, excuses), found.view
    if len(late.rows) < MANY or 2 * len(late.rows) <= late.judged:
        return
    seen: set[str] = set()
    for row, effect in zip(late.rows, late.effects, strict=True):
        hold: Hold = found[row]
        if hold.client in seen:
            continue
        seen.add(hold.client)
        begin = int(columns.time[columns.done[hold.release]])
        harm = f"{hold.client}'s release of {hold.key} returned ok and took effect only at its next acquire"
        sentence = (
            f"{harm}: it returned at {columns.at(begin)}, and the key was {hold.client}'s on the server until "
            f"{columns.at(effect)} ({len(late.rows):,} of {counted(late.judged, 'release')} like that)"
        )
        involved = (hold.to_json(), columns.call(hold.release))
        yield Violation("deferred-release", hold.key, sentence, begin, effect, involved, "service", harm=harm)


def _late(found: Holds) -> Iterator[Violation]:
    """Yield each release that returned ok after the end of its hold, while another client held the key."""
    columns = found.view
    done = columns.done[found.release]
    confirmed = (found.release != NONE) & (done != NONE) & (columns.type[done] == OK)
    told = np.isin(found.ended, (LOST, EXPIRED))
    over = np.where(told, np.minimum(found.end, found.lease_end), found.lease_end)
    late = np.flatnonzero(confirmed & (over <= columns.time[found.release]))
    if not len(late):
        return
    order = grouped_order(found.key, found.start, found.end)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    for row in late.tolist():
        other = _holder(found, order, int(place[row]), int(over[row]))
        if other is not None:
            yield _after_its_end(found, row, other, int(over[row]))


def _holder(found: Holds, order: Ints, place: int, over: int) -> int | None:
    """Return the hold of another client that began after ``over`` (ns) and lasted during the whole release."""
    columns, row = found.view, int(order[place])
    invoked = int(columns.time[found.release[row]])
    answered = int(columns.time[columns.done[found.release[row]]])
    for later in order[place + 1 :].tolist():
        if found.key[later] != found.key[row] or found.start[later] >= invoked:
            return None
        apart = found.client[later] != found.client[row] and not (found.shared[later] and found.shared[row])
        if apart and found.start[later] >= over and found.end[later] > answered:
            return int(later)
    return None


def _after_its_end(found: Holds, row: int, other: int, over: int) -> Violation:
    hold: Hold = found[row]
    next_: Hold = found[other]
    at, call = found.view.at, found.view.call(hold.release)
    sentence = (
        f"{hold.client}'s release of {hold.key} at {at(call['from_ns'])} returned ok, although its hold was over since "
        f"{at(over)} and {next_.client} held {hold.key} from {at(next_.start_ns)} on"
    )
    involved = (hold.to_json(), next_.to_json(), call)
    return Violation("late-release", hold.key, sentence, call["from_ns"], call["until_ns"], involved, "client")
