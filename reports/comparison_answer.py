"""Recommend locks from the results of a comparison, by rules that the page states (:data:`RULES`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from harness.wording import listed

from . import words
from .comparison_view import FAULT_FREE, CellView, ComparisonView, LockView

RULES: Final = (
    "A lock is broken, and is never recommended, if it was unsafe without any fault, or if its own description says "
    "that it is broken even without faults.",
    "If two holders would do harm, the lock must have been safe in every column in which it was run. If your resource "
    "checks fencing tokens, fenced is enough.",
    "If double work is only waste, the lock may have had two holders, but it must have been available in every run.",
    "An unknown cell excludes a lock. A column that was not run does not exclude it, but is mentioned.",
    "Among the remaining locks, the cheapest has the shortest median acquire without contention. Ties (to two "
    "digits) go to the lock with more cells safe or fenced, then with more cells safe, then with more grants per "
    "second under contention.",
)
"""The rules of the recommendation, for a reader who wants to check it."""
NAMED: Final = 5
"""The most locks that are named as undecided."""


@dataclass(frozen=True, slots=True)
class _Situation:
    short: str
    situation: str
    allowed: tuple[str, ...]
    was: str


CASES: Final = (
    _Situation(
        "harm, tokens checked",
        "Two holders would do harm, and your resource can refuse an old fencing token",
        ("safe", "fenced"),
        "safe, or protected by the fencing token,",
    ),
    _Situation("harm", "Two holders would do harm, and nothing checks tokens", ("safe",), "safe without fencing"),
    _Situation("waste", "Double work is only a waste", ("safe", "fenced", "unsafe"), "available"),
)
PROVISOS: Final = {
    "fenced": "had two holders under {where}, and the fencing token stopped the late one.",
    "unsafe": "{was} unsafe under {where}.",
    "not-run": "{was} not run under {where}.",
}
"""Warnings before the use of a lock, by the state of its cells."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Recommendation for one situation: ``best`` has several locks if they are equal, and none if no lock fits.

    ``fit`` has all locks that fit, the cheapest first; ``price`` is the cost of the first, and ``reasoning`` has the
    reasons.
    """

    short: str
    situation: str
    best: tuple[LockView, ...]
    fit: tuple[LockView, ...]
    price: str
    reasoning: str

    @property
    def others(self) -> tuple[LockView, ...]:
        return self.fit[len(self.best) :]


def answers(view: ComparisonView) -> list[Recommendation]:
    """Return one recommendation for each situation, in the order of :data:`CASES`."""
    return [_answer(view, case) for case in CASES]


def broken(lock: LockView) -> str:
    """Return why this lock must never be used; empty if there is no such reason."""
    for cell in (*(cell for cell in lock.cells if cell.nemesis == FAULT_FREE), lock.fault_free):
        if cell.state == "unsafe":
            return f"unsafe without any fault{f': {cell.why}' if cell.why else ''}"
    return "broken even without faults, by its own description" if lock.safety == "X" else ""


def headline(view: ComparisonView) -> str:
    """Say how many locks stayed safe, with or without the fence."""
    fit = answers(view)[0].fit
    where = under_all(view, fit)
    if not view.locks:
        return "No lock was compared"
    if not all(lock.done for lock in view.locks):
        return _headline_so_far(view, fit, where)
    if len(view.locks) == 1:
        return f"{view.locks[0].name} {_stayed(fit, where) if fit else f'did not stay safe {where}'}"
    return f"{len(fit) or 'None'} of {len(view.locks)} locks {_stayed(fit, where)}"


def _stayed(fit: Sequence[LockView], where: str) -> str:
    """Return what the locks did that had no two holders, or whose fence protected the resource."""
    fenced = sum(bool(lock.under("fenced")) for lock in fit)
    if not fenced:
        return f"stayed safe {where}"
    fences = "its fence" if fenced == 1 else "their fences"
    return f"kept the resource safe {where}, {'' if fenced == len(fit) else f'{fenced} of them '}by {fences}"


def _headline_so_far(view: ComparisonView, fit: Sequence[LockView], where: str) -> str:
    """Return the headline of a comparison that ended before every lock had been tested completely."""
    done, of = sum(lock.done for lock in view.locks), len(view.locks)
    if not done:
        return f"Interrupted before {view.locks[0].name if of == 1 else f'any of {of} locks'} was fully tested"
    who = f"{len(fit) or 'none'}" if done > 1 else "it"
    stayed = _stayed(fit, where) if fit or done > 1 else f"did not stay safe {where}"
    return f"Interrupted: {done} of {of} locks {'was' if done == 1 else 'were'} fully tested; {who} {stayed}"


def under_all(view: ComparisonView, locks: Sequence[LockView] = ()) -> str:
    """Return ``under all 6 faults``, or, if one of ``locks`` was not tested under all, ``under every fault they
    met``."""
    if any(lock.under("not-run") for lock in locks):
        return f"under every fault {'they' if len(locks) > 1 else 'it'} met"
    match view.faults:
        case []:
            return "without any fault"
        case [fault]:
            return f"under {fault}"
        case [_, _]:
            return "under both faults"
        case faults:
            return f"under all {len(faults)} faults"


def shortlist(found: Sequence[Recommendation], most: int = 3) -> list[tuple[LockView, list[str]]]:
    """Return the first few locks of each situation with their situations: the rows of a short table."""
    rows = {lock.name: lock for answer in found for lock in answer.fit[:most]}
    return [(lock, [one.short for one in found if lock in one.fit]) for lock in rows.values()]


def cost_words(lock: LockView, view: ComparisonView) -> str:
    """Return, for example, ``2.1 ms per acquire, 380 grants per second with 5 clients, free again 2.3 s after its
    holder's crash``."""
    alone, contended = lock.costs.get("alone"), lock.costs.get("contended")
    parts = []
    virtual = " (virtual)" if view.virtual else ""
    if alone and alone.acquire_p50 is not None:
        parts.append(f"{words.span(round(alone.acquire_p50 * 1e9))}{virtual} per acquire")
    if contended and contended.rate is not None:
        clients = contended.clients or view.clients
        parts.append(
            f"{figure(contended.rate)} grants per {'virtual ' * view.virtual}second"
            + (f" with {clients} clients" if clients else "")
        )
    if lock.recovery.seconds is not None:
        parts.append(f"free again {words.span(round(lock.recovery.seconds * 1e9))}{virtual} after its holder's crash")
    elif lock.recovery.never:
        parts.append("never free again after its holder's crash")
    return ", ".join(parts)


def place(nemesis: str) -> str:
    """Return a column's name for a reader."""
    return "no fault" if nemesis == FAULT_FREE else nemesis


def figure(value: float | None) -> str:
    """Return a rate with three significant figures and thousands separators; a dash for None."""
    return "–" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:,.3g}"


def _answer(view: ComparisonView, case: _Situation) -> Recommendation:
    candidates = [lock for lock in view.locks if not broken(lock) and _cells_run(lock)]
    fit = sorted((lock for lock in candidates if not _against(lock, case)), key=_cost_key)
    best = tuple(lock for lock in fit if _equally_cheap(lock, fit[0]))
    reasons = [_reason(view, case, fit, best), *_provisos(best)] if fit else [_no_candidate(case, candidates)]
    return Recommendation(
        short=case.short,
        situation=case.situation,
        best=best,
        fit=tuple(fit),
        price=cost_words(fit[0], view) if fit else "",
        reasoning=" ".join([*reasons, *_undecided(candidates, case)]),
    )


def _cells_run(lock: LockView) -> list[CellView]:
    return [cell for cell in lock.cells if cell.state != "not-run"]


def _against(lock: LockView, case: _Situation) -> list[CellView]:
    """Return the cells that rule a lock out; a cell in which one of many runs was unavailable rules it out too."""
    return [
        cell
        for cell in _cells_run(lock)
        if cell.state not in case.allowed or ("unsafe" in case.allowed and cell.counts.get("unavailable"))
    ]


def _equally_cheap(one: LockView, other: LockView) -> bool:
    return _cost_key(one)[:-1] == _cost_key(other)[:-1]


def _cost_key(lock: LockView) -> tuple[float, int, int, float, str]:
    """Return a sort key: a smaller key means a cheaper lock, and missing measurements come last."""
    alone, contended = lock.costs.get("alone"), lock.costs.get("contended")
    acquire = alone.acquire_p50 if alone else None
    rate = contended.rate if contended else None
    safe, fenced = len(lock.under("safe")), len(lock.under("fenced"))
    return (
        inf if acquire is None else _two_digits(acquire),
        -safe - fenced,
        -safe,
        -_two_digits(rate or 0.0),
        lock.name,
    )


def _two_digits(value: float) -> float:
    return float(f"{value:.2g}")


def _reason(view: ComparisonView, case: _Situation, fit: Sequence[LockView], best: Sequence[LockView]) -> str:
    where, so_far = under_all(view, fit), "" if all(lock.done for lock in view.locks) else "fully tested "
    if len(fit) == 1:
        return f"The only {so_far}lock that was {case.was} {where}."
    alike = "" if len(best) == 1 else f"; {listed([lock.name for lock in best])} are equal"
    return f"The cheapest of {len(fit)} {so_far}locks that were {case.was} {where}{alike}."


def _provisos(best: Sequence[LockView]) -> list[str]:
    """Return the warnings before the use of the first choice."""
    warnings = []
    for state, text in PROVISOS.items():
        places: dict[str, list[str]] = {}
        for lock in best:
            places.setdefault(listed([place(cell.nemesis) for cell in lock.under(state)]), []).append(lock.name)
        warnings += [_proviso(text, names, where, len(best)) for where, names in places.items() if where]
    return warnings


def _proviso(text: str, names: Sequence[str], where: str, best: int) -> str:
    whole = len(names) == best
    who = listed(names) if not whole else "It" if best == 1 else "Each"
    return f"{who} {text.format(was='was' if whole or len(names) == 1 else 'were', where=where)}"


def _no_candidate(case: _Situation, candidates: Sequence[LockView]) -> str:
    if not candidates:
        return "None: every lock that ran is broken without any fault."
    done = [lock for lock in candidates if lock.done]
    if not done:
        return "Unknown: the comparison ended before any lock was fully tested."
    known = [lock for lock in done if {cell.state for cell in _against(lock, case)} != {"unknown"}]
    nearest = min(known or done, key=lambda lock: (_distance(_against(lock, case)), _cost_key(lock)))
    none = "None" if len(done) == len(candidates) else "None of the fully tested locks"
    what = listed([f"{_fault_of(cell, case)} under {place(cell.nemesis)}" for cell in _against(nearest, case)])
    return f"{none} was {case.was.rstrip(',')} throughout. The nearest is {nearest.name}: {what}."


def _fault_of(cell: CellView, case: _Situation) -> str:
    """Say what a cell shows against a lock; if the state is allowed, the problem is that the lock was unavailable in
    some runs."""
    return "unavailable" if cell.state in case.allowed else cell.word


def _distance(cells: Sequence[CellView]) -> tuple[int, int]:
    """Return a sort key in which two holders, or an undecided run, weigh more than an unavailable lock."""
    return sum(cell.state != "unavailable" for cell in cells), len(cells)


def _undecided(candidates: Sequence[LockView], case: _Situation) -> list[str]:
    """Return the locks that only unknown cells rule out."""
    names = [
        lock.name
        for lock in candidates
        if (cells := _against(lock, case)) and all(cell.state == "unknown" for cell in cells)
    ]
    names_shown = names if len(names) <= NAMED else [*names[: NAMED - 1], f"{len(names) - NAMED + 1} more"]
    return [f"Undecided because of an unknown cell: {listed(names_shown)}."] if names else []
