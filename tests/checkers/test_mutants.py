"""Mutants of checkers: the golden histories tell each from the original.

A mutant replaces one function, operator or constant. It is caught if at least one golden history of its checker gets
a verdict other than that of its folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from harness.checkers import (
    additions,
    answers,
    catalogue,
    completed,
    deadlock,
    deferred,
    excuses,
    exposure,
    extend,
    fairness,
    faults,
    faults_seen,
    fencing,
    free,
    handover,
    holds,
    keys,
    leadership,
    linearizable,
    liveness,
    money,
    mutual_exclusion,
    ownership,
    reentrancy,
    refusals,
    release,
    resource,
    sections,
    stuck,
    try_lock,
    view,
)
from harness.checkers import exit as exit_
from harness.checkers.accesses import Access, accesses
from harness.checkers.base import Verdict
from harness.checkers.faults import SILENT
from harness.checkers.holds import RELEASED
from harness.checkers.leases import Leases
from harness.checkers.models import OwnerMutex
from harness.checkers.sweep import covered_until, overlaps
from harness.checkers.view import ACQUIRE, EXTEND, FAIL, INFO, NONE, OK, READ, RELEASE, Bools, Ints, View
from harness.history import History, Op
from harness.history.calls import NEVER, NO_FENCE
from tests.checkers.test_golden import FILES, VERDICTS, load

Stretches = stuck.Stretches
STAYS_ON = keys._stays_on
STOPPED = Stretches._stopped_acquires


def no_items(*_: Any, **__: Any) -> Any:
    return iter(())


def touching(group: Ints, start: Ints, end: Ints) -> Bools:
    """Use <= in the place of <."""
    found: Bools = start <= covered_until(group, start, end)
    return found


def none_overlap(group: Ints, start: Ints, end: Ints) -> Bools:
    return np.zeros(len(start), dtype=bool)


def no_violations(*_: Any) -> list[Any]:
    return []


def every_addition(columns: View) -> dict[int, int]:
    return {at: at for at in columns.rows(view.ADD, view.INVOKE).tolist()}


def first_hold(found: Any, act: Any) -> int:
    return int(np.flatnonzero(found.client == act.client)[0])


def always(*_: Any, **__: Any) -> bool:
    return True


def never(*_: Any, **__: Any) -> bool:
    return False


def no_doubt(*_: Any) -> None:
    return None


def stopped_for_ever(self: Any) -> Iterator[tuple[int, int, int]]:
    yield from ((key, begin, NEVER) for key, begin, _ in STOPPED(self))


def of_the_first_server(server: str, states: Any, end: int) -> Any:
    return STAYS_ON(server, states, end) if server == "n1" else iter(())


def undoubting(history: History, violations: Any, *, fine: str, **_: Any) -> Verdict:
    return Verdict(True, fine)


def end_without_limit(self: Any, client: Ints, begin: Ints, end: Ints) -> Ints:
    return end


def end_of_answered_calls(columns: view.View, rows: Ints) -> Ints:
    done = columns.done[rows]
    return np.where(done == NONE, columns.time[rows], columns.time[done])


def until_first_fault(self: excuses.Excuses, client: int, begin: int, end: int) -> list[tuple[int, int]]:
    first = self.first(client, begin, end)
    return [(begin, end if first is None else first)]


class BusyOnly(fairness.RequestTable):
    def __init__(self, found: holds.Holds, excused: excuses.Excuses) -> None:
        super().__init__(found, excused)
        self.failed = self.busy


def always_free(found: holds.Holds, key: int) -> free.FreeTimes:
    return free.FreeTimes(np.zeros(1, dtype=np.int64), np.full(1, found.view.end))


def always_true(waits: fairness.RequestTable) -> Bools:
    return np.ones(len(waits.row), dtype=bool)


def all_gave_up(waits: fairness.RequestTable) -> refusals.Refused:
    """Judge only the requests that gave up early."""
    found = refusals.gave_up_early(waits)
    return replace(found, judged=len(found.failed))


def only_deferred(history: History, found: holds.Holds, excused: excuses.Excuses) -> deferred.Deferred:
    """Judge only the deferred releases."""
    late = deferred.deferred_releases(history, found, excused)
    return replace(late, judged=len(late.rows))


CHANGED = deferred._Log.changed


def any_stored_owner(log: deferred._Log, node: str, begin: int, released: int, end: int) -> int | None:
    """Take a key that stores that it is free for one that its last holder still owns."""
    return CHANGED(log, node, begin, end, end)


def without_hanging(self: stuck.Stretches, key: int) -> stuck.KeyRequests:
    """End each request at its own timeout."""
    columns = self.columns
    invoke = self._acquires[columns.key[self._acquires] == key]
    limit = np.array([self._limit(int(index)) for index in invoke], dtype=np.int64)
    return stuck.KeyRequests(invoke, columns.time[invoke], np.minimum(excuses.ends(columns, invoke), limit))


def without_waiting(columns: view.View, invoke: int) -> int:
    return int(columns.time[invoke])


def mark_all_accesses(columns: view.View, *, shared: bool) -> dict[str, list[Access]]:
    return {key: [replace(one, shared=shared) for one in accepted] for key, accepted in accesses(columns).items()}


def only_invokes_count(last: Op) -> str | None:
    return "begun" if last.type == "invoke" else None


def only_failures_count(last: Op) -> str | None:
    return "not seen" if last.type == "fail" else None


MUTANTS: dict[str, list[tuple[str, Any, str, Any]]] = {
    "mutual-exclusion": [
        ("blind", mutual_exclusion, "overlaps", none_overlap),
        ("touching holds overlap", mutual_exclusion, "overlaps", touching),
        ("needs no contention", mutual_exclusion, "contended", always),
        ("one acquire is enough", mutual_exclusion, "too_few", no_doubt),
        ("leases need no length", mutual_exclusion, "_over_at_once", no_doubt),
        ("every lease is over at once", mutual_exclusion, "AT_ONCE", 2**40),
        ("a lock is always taken", mutual_exclusion, "no_lock_taken", no_doubt),
        ("nested grants begin holds", holds._Rows, "granted", lambda *_: None),
        ("inner release ends the hold", holds._Rows, "released", lambda self, slot, *at: self.finish(slot, at[1], 1)),
        ("crashes end nothing", holds, "CRASH", -9),
        ("told is not heard", holds._Rows, "told", lambda *_, **__: None),
        ("blind to what is shared", mutual_exclusion, "clashes", lambda *swept: overlaps(*swept[:3])),
        ("no hold is shared", holds, "is_shared", never),
        ("all holds are shared", holds, "is_shared", always),
        ("who only shares was in the way", mutual_exclusion, "is_shared", never),
    ],
    "fencing": [
        ("order is not looked at", fencing, "_falling", no_items),
        ("equal tokens pass", fencing, "_repeated", no_items),
        ("the resource is not looked at", fencing, "_regressions", no_items),
        ("strings are ordered", fencing, "is_ordered", always),
        ("no hold is shared", holds, "is_shared", never),
        ("who shares comes in order", fencing, "accesses", lambda columns: mark_all_accesses(columns, shared=False)),
        ("all share what they touch", fencing, "accesses", lambda columns: mark_all_accesses(columns, shared=True)),
        ("one acquire is enough", fencing, "too_few", no_doubt),
        ("grants need no token", fencing, "_without_token", no_doubt),
        ("grants never have tokens", fencing, "_without_token", lambda *_: "bare"),
        ("texts are tokens", fencing, "_without_order", no_doubt),
        ("texts are never tokens", fencing, "_without_order", lambda *_: "texts"),
    ],
    "resource": [
        ("sections need no order", sections.Sections, "cycle", no_violations),
        ("stale reads pass", resource, "_stale_reads", no_items),
        ("stock is endless", resource, "_oversold", no_items),
        ("lost writes explain nothing", resource, "_explained", never),
        ("all is one section", sections, "bisect", lambda *_: 1),
        ("a conditional write is none", sections, "CHANGES", frozenset({"write"})),
        ("what is done twice passes", resource, "_processed_twice", no_items),
        ("additions never collide", resource, "collisions", no_items),
        ("open transactions are committed", additions, "OK", INFO),
        ("whoever adds has committed", additions, "_released_sections", every_addition),
        ("money is not counted", resource, "conserved", no_violations),
        ("lost answers explain no money", money, "_unknown", no_violations),
        ("every grabber writes down his share", money, "_all_paid", always),
        ("any share of complete sections is enough", completed, "ENOUGH", 0.0),
        ("interrupted sections are complete", completed, "_interrupted", never),
        ("sections with a lost lock are complete", completed, "LOST", RELEASED),
        ("no section needs to change anything", completed, "_changed", always),
    ],
    "ownership": [
        ("blind", ownership, "_suspects", no_items),
        ("server faults are no excuse", ownership, "_excused", never),
        ("leases never end", ownership, "_alive", always),
        ("refused releases release", ownership, "_refused", never),
        ("nobody was excluded", ownership, "_excluded", never),
        ("no hold is shared", holds, "is_shared", never),
        ("all holds are shared", holds, "is_shared", always),
    ],
    "deadlock": [
        ("no cause counts", deadlock, "UNCLEAN", frozenset()),
        ("every cause but crashes counts", deadlock, "UNCLEAN", stuck.UNCLEAN - {"crashed"}),
        ("unknown calls are over", Stretches, "_unknown_calls", lambda self: []),
        ("faults excuse nothing", stuck, "faults", lambda history: []),
        ("never due", Stretches, "_due", lambda self, *_: (2**62, "crashed")),
        ("everybody always asks", Stretches, "_runs", lambda self, key, since, until: iter([(since, until, ())])),
    ],
    "liveness": [
        ("blind to stuck keys", Stretches, "stuck", no_items),
        ("blind to hanging holders", liveness, "_overstayed", no_items),
        ("unknown outcomes are answers", liveness, "_unanswered", no_doubt),
        ("few unknown outcomes count", liveness, "MANY", 4),
        ("a tenth of unknown outcomes is many", liveness, "SHARE", 0.09),
        ("a pause is no excuse", liveness, "STILL", frozenset()),
        ("no hold is shared", holds, "is_shared", never),
        ("a call ends at its own timeout", Stretches, "_requests_of", without_hanging),
        ("no outage is survived", stuck, "without_tolerated", lambda found, servers: [f for f in found if f.disturbs]),
        ("every fault is survived", stuck, "without_tolerated", no_violations),
        ("who is stopped has not acquired", Stretches, "_stopped_acquires", no_items),
        ("a stop is for ever", Stretches, "_stopped_acquires", stopped_for_ever),
        ("a loss is noticed at once", faults, "RECOVERY", 0),
        ("a slow link silences", stuck, "SILENT", SILENT | {"latency"}),
        ("faults excuse nothing", stuck, "faults", lambda history: []),
        ("everybody always asks", Stretches, "_runs", lambda self, key, since, until: iter([(since, until, ())])),
    ],
    "reentrancy": [
        ("refusals pass", reentrancy, "FAIL", -9),
        ("waiting passes", reentrancy, "returned", without_waiting),
        ("nested releases are not looked at", reentrancy, "_freed", no_items),
        (
            "every release is to blame",
            reentrancy,
            "_inner_release",
            lambda found, row, other: int(found.release[other]),
        ),
        ("unknown outcomes accuse", reentrancy, "_known", always),
        ("faults excuse nothing", excuses.Excuses, "first", no_doubt),
        ("all faults excuse", excuses.Excuses, "any", always),
        ("nested grants prolong nothing", holds._Rows, "_renew", no_items),
        ("no hold is shared", holds, "is_shared", never),
    ],
    "try-lock": [
        ("blind", try_lock, "_slow", no_items),
        ("who was never answered does not count", try_lock, "returned", without_waiting),
        ("servers always come back", try_lock, "_is_answered", always),
        ("errors are no answers", try_lock, "_is_answered", never),
        ("refusals of a free key pass", try_lock, "_refused", no_items),
        ("few refusals of a free key count", try_lock, "MANY", 4),
        ("more refusals of a free key pass", try_lock, "MANY", 6),
        ("any share of refusals counts", try_lock, "SHARE", 0.0),
        ("tries do not meet", refusals, "_alone", always_true),
        ("a held key is free", refusals, "_inside_free_time", always_true),
        ("faults excuse nothing", excuses.Excuses, "first", no_doubt),
        ("all faults excuse", excuses.Excuses, "any", always),
        ("faults have no aftermath", excuses, "_lasting", lambda fault, wake: (fault.from_ns, fault.until_ns)),
    ],
    "fairness": [
        ("order is not looked at", fairness.RequestTable, "overtakings", lambda self: []),
        ("nobody starves", fairness, "_starved", no_items),
        ("bad luck is starvation", fairness, "STARVED", 10),
        ("every request has its place at once", fairness, "MARGIN", 0),
        ("faults excuse nothing", excuses.Excuses, "clip", end_without_limit),
        ("faults have no aftermath", excuses, "_lasting", lambda fault, wake: (fault.from_ns, fault.until_ns)),
        ("nobody gives up", fairness.RequestTable, "limits", lambda self: self.done),
        ("who shares overtakes who shares", fairness, "is_shared", never),
        ("who shares overtakes nobody", fairness, "is_shared", always),
        ("all are connected", fairness, "_clean", lambda columns: np.ones(columns.length, dtype=bool)),
    ],
    "answers": [
        ("blind", answers, "late_calls", no_items),
        ("hanging calls do not count", answers, "ends", end_of_answered_calls),
        ("a crash ends no call", excuses, "_deaths", lambda columns: {}),
        ("faults excuse nothing", excuses.Excuses, "without", lambda self, client, begin, end: [(begin, end)]),
        ("a fault excuses a call for good", excuses.Excuses, "without", until_first_fault),
        ("faults have no aftermath", excuses, "_lasting", lambda fault, wake: (fault.from_ns, fault.until_ns)),
        ("releases have no limit", answers, "JUDGED", (ACQUIRE, EXTEND)),
        ("extends have no limit", answers, "JUDGED", (ACQUIRE, RELEASE)),
        ("accesses have one", answers, "JUDGED", (ACQUIRE, EXTEND, RELEASE, READ)),
        ("nobody gives up early", answers, "_impatient", no_doubt),
        ("few who give up early count", answers, "MANY", 4),
        ("many who give up early pass", answers, "MANY", 6),
        ("a key is always free", refusals, "surely_free", always_free),
        ("who may hold the key unknown does not count", refusals, "surely_free", free.free_times),
        ("whoever gives up early is a majority", answers, "gave_up_early", all_gave_up),
        ("releases may take long", answers, "ALLOWANCE", 4_000_000_000),
        ("releases must be quick", answers, "ALLOWANCE", 1_500_000_000),
        ("a hung client continues", excuses, "HANG", ""),
        ("a lock is always taken", answers, "no_lock_taken", no_doubt),
    ],
    "release": [
        ("failures pass", release, "_failures", no_items),
        ("few failures count", release, "FEW", 1),
        ("more failures pass", release, "FEW", 3),
        ("faults excuse nothing", excuses.Excuses, "first", no_doubt),
        ("all faults excuse", excuses.Excuses, "any", always),
        ("leases and ttls never end", release, "_live", lambda found: np.flatnonzero(found.release != NONE)),
        ("a lost lock must be released", release, "RELEASED", holds.LOST),
        ("deferred releases pass", release, "_deferred", no_items),
        ("few deferred releases count", release, "MANY", 4),
        ("more deferred releases pass", release, "MANY", 6),
        ("leases on servers never end", deferred, "SERVER_MS", -(10**12)),
        ("keys that stay are never free", deferred._Log, "changed", any_stored_owner),
        ("the server's own changes count", deferred, "_next_acquire", lambda *_: (0, 10**12)),
        ("a minority of releases counts", release, "deferred_releases", only_deferred),
        ("a release that never returns is none", release, "ALLOWANCE", 2**60),
        ("a release may take no time", release, "ALLOWANCE", -(10**9)),
        ("refusals pass", release, "FAIL", INFO),
        ("errors pass", release, "INFO", view.FAIL),
        ("kept keys pass", Stretches, "stuck", no_items),
        ("empty releases pass", release, "_empty", no_items),
        ("every release is empty", release, "ACQUIRE", -9),
        ("idle releases are claims", View, "idle", never),
        ("unknown acquires grant nothing", release, "INFO", -9),
        ("late releases pass", release, "_late", no_items),
        ("no lock is lost", release, "LOST", -9),
        ("whoever holds it later counts", release, "_holder", lambda found, order, place, over: int(order[-1])),
        ("no hold is shared", holds, "is_shared", never),
        ("no release is needed", release, "_untested", no_doubt),
        ("a lock is always taken", release, "no_lock_taken", no_doubt),
    ],
    "handover": [
        ("no hand-over is needed", handover, "_missing", no_doubt),
        ("nobody is left out", handover, "_left_out", no_items),
        ("bad luck leaves out", handover, "MISSED", 12),
        ("more bad luck", handover, "MISSED", 28),
        ("faults excuse nothing", excuses.Excuses, "first", no_doubt),
        ("all faults excuse", excuses.Excuses, "any", always),
        ("a pause is giving up", handover, "_until_next", lambda waits, rows, slack: waits.done[rows]),
        ("every key is free", handover, "free_times", always_free),
        ("nobody sleeps", handover, "_asleep", no_items),
        ("bad luck is sleep", handover, "_too_few", always),
        ("only busy is a refusal", handover, "RequestTable", BusyOnly),
        ("unknown releases free the key", free, "OK", INFO),
        ("every grant is a hand-over", handover, "handovers", lambda found: np.arange(len(found))),
        ("no hold is shared", holds, "is_shared", never),
        ("a lock is always taken", handover, "no_lock_taken", no_doubt),
    ],
    "linearizability": [
        ("nobody knows what servers wrote", Leases, "written_end", lambda *_: None),
        (
            "servers wrote all keys at once",
            Leases,
            "written_end",
            lambda self, key, client, asked, given, stated: given,
        ),
        ("an unsure release counts", linearizable, "_unsure", lambda columns, known: set()),
        ("holds end by ok releases alone", linearizable, "_endings", lambda found: []),
        ("a death frees nothing", linearizable, "DIED", (holds.RELEASED,)),
        ("a loss frees nothing", linearizable, "LOST", holds.RELEASED),
        ("releases do not count", linearizable, "_released", lambda found: []),
        ("a refused release frees nothing", linearizable, "RELEASED", holds.LOST),
        ("refused acquires are grants", linearizable, "OK", FAIL),
        ("nobody extends", linearizable, "_told", lambda columns: []),
        ("leases last for ever", linearizable, "_lease", lambda seconds: NEVER),
        (
            "leases last longer",
            linearizable,
            "_lease",
            lambda seconds: NEVER if seconds is None else round((seconds + 0.5) * 1e9),
        ),
        (
            "leases last shorter",
            linearizable,
            "_lease",
            lambda seconds: NEVER if seconds is None else round((seconds - 0.5) * 1e9),
        ),
        ("tokens do not count", linearizable, "token", lambda columns, grant: NO_FENCE),
        ("nobody shares", linearizable, "ReadWriteLock", OwnerMutex),
        ("nobody nests", linearizable, "ReentrantMutex", OwnerMutex),
        ("any model will do", linearizable, "model_of", lambda found: OwnerMutex()),
        ("undecided is fine", linearizable, "_decided", lambda calls, model, outcome: replace(outcome, undecided=())),
        ("undecided is unknown", linearizable, "_decided", lambda calls, model, outcome: outcome),
        ("nothing is fine", linearizable, "_too_few", no_doubt),
        ("a lock is always taken", linearizable, "no_lock_taken", no_doubt),
    ],
    "exposure": [
        ("every strike counts", exposure, "_short", no_doubt),
        ("any time is enough", exposure, "_needed_ns", lambda found: 0),
        ("no fault lasts", exposure, "MOMENTARY", frozenset({"clock-jump", "server-pause"})),
        ("a third is enough", exposure, "ENOUGH", 1.0),
        ("it takes ages", exposure, "ENOUGH", 30.0),
        ("jumps last", exposure, "MOMENTARY", frozenset()),
        ("any death will do", exposure, "DEADLY", frozenset()),
        ("a death is never wanted", exposure.Contention, "_wanted_by_another", never),
        ("nested requests compete", exposure, "nested_calls", no_items),
        ("a refused client gives up", exposure, "FAIL", OK),
        ("a lock is always taken", exposure, "no_lock_taken", no_doubt),
    ],
    "leadership": [
        ("every write is an act", leadership, "_is_act", always),
        ("no write is an act", leadership, "_is_act", never),
        ("nobody is late", leadership, "_stale", no_items),
        ("an act belongs to the first grant", leadership, "_hold_of", first_hold),
    ],
    "exit": [
        ("nothing ends a process", exit_, "_end_of", lambda one, history: None),
        ("any end is that of the process", exit_, "_end_of", lambda one, history: history.nemesis("exited")[0]),
        ("nothing excuses", exit_, "_is_excused", never),
        ("everything excuses", exit_, "_is_excused", always),
        ("an exit excuses itself", excuses.Excuses, "any", always),
    ],
    "extend": [
        ("confirmed losses pass", extend, "_lost", no_items),
        ("failures pass", extend, "_failures", no_items),
        ("answers are never late", extend, "_may_be_older", never),
        ("every answer may be late", extend, "_may_be_older", always),
        ("unknown acquires are nothing", extend, "_unknown_acquire", never),
        ("a single failure is enough", extend, "FEW", 1),
        ("faults excuse nothing", excuses.Excuses, "any", never),
        ("no hold is shared", holds, "is_shared", never),
        ("leases last for ever", extend, "_lease_end", lambda found, row: holds.FOREVER),
        ("every answer confirms", extend, "_confirmed", always),
    ],
    "keys": [
        ("kept keys pass", keys, "_ghosts", no_items),
        ("changed keys pass", keys, "_touched", no_items),
        ("sleepers pass", keys, "_asleep", no_items),
        ("faults excuse nothing", excuses.Excuses, "any", never),
        ("everything is excused", excuses.Excuses, "any", always),
        ("servers lose no key", excuses.Excuses, "any_of_servers", never),
        ("all requests are shared", keys, "is_shared", always),
        ("all keys have expired", keys, "MOVED_NS", 2**61),
        ("no hold is needed", keys, "_hold_of", lambda found, *_: found[0]),
        ("granted acquires leave ghosts", keys, "FAIL", OK),
        ("nothing is recorded", keys, "keys_of", no_doubt),
        ("lost tokens pass", keys, "_lost_tokens", no_items),
        ("any refusal is a lost token", keys, "_released_before", lambda found, release: 0),
        ("clocks excuse nothing", keys, "faults", no_violations),
        ("one server of several counts", keys, "_stays_on", of_the_first_server),
        ("several servers are one", keys, "_has_one_server", always),
    ],
    "faults": [
        ("no doubts", faults_seen, "conclude", undoubting),
        ("failures pass", faults_seen, "why_unconfirmed", only_invokes_count),
        ("unfinished ones pass", faults_seen, "why_unconfirmed", only_failures_count),
    ],
}
CASES = [(checker, mutant) for checker, mutants in MUTANTS.items() for mutant in mutants]


def disagreements(checker: str) -> list[str]:
    """Return the golden files of ``checker`` whose verdict differs from that of their folder. An error counts as a
    difference."""
    found = []
    for path in FILES:
        if path.stem.split("--")[0] != checker:
            continue
        try:
            verdict = catalogue.find(checker).check(load(path)).valid
        except Exception:  # noqa: BLE001 - a mutant may crash: it is caught
            verdict = not VERDICTS[path.parent.name]
        if verdict is not VERDICTS[path.parent.name]:
            found.append(path.stem)
    return found


@pytest.mark.few(60)
@pytest.mark.parametrize(("checker", "mutant"), CASES, ids=[f"{checker}: {mutant[0]}" for checker, mutant in CASES])
def test_mutant_is_caught(checker: str, mutant: tuple[str, Any, str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    title, where, name, replacement = mutant
    assert disagreements(checker) == []
    monkeypatch.setattr(where, name, replacement)
    assert disagreements(checker), f"{checker}: nobody noticed: {title}"


def test_every_mutant_replaces_what_exists() -> None:
    assert [f"{checker}: {title}" for checker, (title, where, name, _) in CASES if not hasattr(where, name)] == []


def test_every_checker_has_at_least_three_mutants() -> None:
    assert all(len(mutants) >= 3 for mutants in MUTANTS.values())
    assert set(MUTANTS) <= {checker.name for checker in catalogue.all()}


def test_goldens_do_not_depend_on_the_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "_views", {})
    assert disagreements("mutual-exclusion") == []
