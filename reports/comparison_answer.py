"""Which lock to use, out of a comparison, by rules that its page states (:data:`RULES`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from reports import words
from reports.comparison_view import FAULT_FREE, CellView, ComparisonView, LockView

RULES: Final = (
    "A lock counts as broken, and is never named, if it was unsafe when nothing was injected, or if its own "
    "description says that it is broken even without faults.",
    "If two holders would do harm, a lock must have been safe in every column in which it was run; where what you "
    "protect checks fencing tokens, fenced will do as well.",
    "If double work is only waste, it may have had two holders, but it must have been available in every run.",
    "An unknown cell rules a lock out; a column that was not run does not, and is named.",
    "Of those left, the cheapest is the one with the shortest median acquire while nobody else wants the lock; "
    "where two are alike to two figures, the one with more cells safe or fenced, then with more of them safe, and then "
    "the one that is granted more often while several want it.",
)
"""How an answer is found, for a reader who doubts it."""
NAMED: Final = 5
"""As many locks are named as undecided."""


@dataclass(frozen=True, slots=True)
class _Case:
    short: str
    situation: str
    allowed: tuple[str, ...]
    was: str


CASES: Final = (
    _Case(
        "harm, tokens checked",
        "Two holders would do harm, and what you protect can refuse an old fencing token",
        ("safe", "fenced"),
        "safe, or saved by the fence,",
    ),
    _Case("harm", "Two holders would do harm, and nothing checks tokens", ("safe",), "safe by itself"),
    _Case("waste", "Double work is only a waste", ("safe", "fenced", "unsafe"), "to be had"),
)
PROVISOS: Final = {
    "fenced": "had two holders under {where}, and the fencing token stopped the late one.",
    "unsafe": "{was} unsafe under {where}.",
    "not-run": "{was} not run under {where}.",
}
"""What to know before using a lock, by the state of its cells."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What to use in one situation: ``best`` has more than one lock where they are alike, and none where none fits.

    ``fit`` are all that do, the cheapest first; ``price`` is what the first of them costs, ``said`` has the reasons.
    """

    short: str
    situation: str
    best: tuple[LockView, ...]
    fit: tuple[LockView, ...]
    price: str
    said: str

    @property
    def others(self) -> tuple[LockView, ...]:
        return self.fit[len(self.best) :]


def answers(view: ComparisonView) -> list[Answer]:
    """An answer a situation, in the order of :data:`CASES`."""
    return [_answer(view, case) for case in CASES]


def broken(lock: LockView) -> str:
    """Why this lock is never to be used; empty if there is no such reason."""
    for cell in (*(cell for cell in lock.cells if cell.nemesis == FAULT_FREE), lock.fault_free):
        if cell.state == "unsafe":
            return f"unsafe although nothing was injected{f': {cell.why}' if cell.why else ''}"
    return "broken even without faults, by its own description" if lock.safety == "X" else ""


def headline(view: ComparisonView) -> str:
    """How many locks stayed safe, with or without the fence."""
    fit = answers(view)[0].fit
    where = under_all(view, fit)
    if not view.locks:
        return "No lock was compared"
    if not all(lock.done for lock in view.locks):
        return _so_far(view, len(fit), where)
    if len(view.locks) == 1:
        return f"{view.locks[0].name} {'stayed' if fit else 'did not stay'} safe {where}"
    return f"{len(fit) or 'None'} of {len(view.locks)} locks stayed safe {where}"


def _so_far(view: ComparisonView, fit: int, where: str) -> str:
    """The headline of a comparison that ended before every lock had been put to every test."""
    done, of = sum(lock.done for lock in view.locks), len(view.locks)
    if not done:
        return f"Interrupted before {view.locks[0].name if of == 1 else f'any of {of} locks'} was run to the end"
    stayed = f"{fit or 'none'} stayed" if done > 1 else "it stayed" if fit else "it did not stay"
    return f"Interrupted: {done} of {of} locks {'was' if done == 1 else 'were'} run to the end; {stayed} safe {where}"


def under_all(view: ComparisonView, locks: Sequence[LockView] = ()) -> str:
    """``under all 6 faults``, or, where one of ``locks`` was not run under all, ``under every fault they met``."""
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


def shortlist(found: Sequence[Answer], most: int = 3) -> list[tuple[LockView, list[str]]]:
    """The first few of each situation, and for which they are: the rows of a short table."""
    rows = {lock.name: lock for answer in found for lock in answer.fit[:most]}
    return [(lock, [one.short for one in found if lock in one.fit]) for lock in rows.values()]


def cost_words(lock: LockView, view: ComparisonView) -> str:
    """``2.1 ms an acquire, 380 grants a second with 5 clients, free again 2.3 s after its holder's death``."""
    alone, contended = lock.costs.get("alone"), lock.costs.get("contended")
    parts = []
    if alone and alone.acquire_p50 is not None:
        parts.append(f"{words.span(round(alone.acquire_p50 * 1e9))} an acquire")
    if contended and contended.rate is not None:
        clients = contended.clients or view.clients
        parts.append(f"{figure(contended.rate)} grants a second" + (f" with {clients} clients" if clients else ""))
    if lock.recovery.seconds is not None:
        parts.append(f"free again {words.span(round(lock.recovery.seconds * 1e9))} after its holder's death")
    elif lock.recovery.never:
        parts.append("never free again after its holder's death")
    return ", ".join(parts)


def place(nemesis: str) -> str:
    """A column's name for a reader."""
    return "no fault" if nemesis == FAULT_FREE else nemesis


def figure(value: float | None) -> str:
    """A rate with three figures, thousands apart; a dash for none."""
    return "–" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:,.3g}"


def listed(names: Sequence[str], last: str = "and") -> str:
    """``a, b and c``."""
    return f"{', '.join(names[:-1])} {last} {names[-1]}" if len(names) > 1 else "".join(names)


def _answer(view: ComparisonView, case: _Case) -> Answer:
    candidates = [lock for lock in view.locks if not broken(lock) and _ran(lock)]
    fit = sorted((lock for lock in candidates if not _against(lock, case)), key=_price)
    best = tuple(lock for lock in fit if _alike(lock, fit[0]))
    reasons = [_reason(view, case, fit, best), *_provisos(best)] if fit else [_none(case, candidates)]
    return Answer(
        short=case.short,
        situation=case.situation,
        best=best,
        fit=tuple(fit),
        price=cost_words(fit[0], view) if fit else "",
        said=" ".join([*reasons, *_undecided(candidates, case)]),
    )


def _ran(lock: LockView) -> list[CellView]:
    return [cell for cell in lock.cells if cell.state != "not-run"]


def _against(lock: LockView, case: _Case) -> list[CellView]:
    """The cells that rule a lock out; that one run of many was not available does too."""
    return [
        cell
        for cell in _ran(lock)
        if cell.state not in case.allowed or ("unsafe" in case.allowed and cell.counts.get("unavailable"))
    ]


def _alike(one: LockView, other: LockView) -> bool:
    return _price(one)[:-1] == _price(other)[:-1]


def _price(lock: LockView) -> tuple[float, int, int, float, str]:
    """The less, the cheaper; what was not measured comes last."""
    alone, contended = lock.costs.get("alone"), lock.costs.get("contended")
    acquire = alone.acquire_p50 if alone else None
    rate = contended.rate if contended else None
    safe, fenced = len(lock.under("safe")), len(lock.under("fenced"))
    return (inf if acquire is None else _rough(acquire), -safe - fenced, -safe, -_rough(rate or 0.0), lock.name)


def _rough(value: float) -> float:
    return float(f"{value:.2g}")


def _reason(view: ComparisonView, case: _Case, fit: Sequence[LockView], best: Sequence[LockView]) -> str:
    where, so_far = under_all(view, fit), "" if all(lock.done for lock in view.locks) else " run to the end"
    if len(fit) == 1:
        return f"The only one{so_far} that was {case.was} {where}."
    alike = "" if len(best) == 1 else f", {listed([lock.name for lock in best])} alike"
    return f"The cheapest of {len(fit)}{so_far} that were {case.was} {where}{alike}."


def _provisos(best: Sequence[LockView]) -> list[str]:
    """What to know before using the first choice."""
    told = []
    for state, text in PROVISOS.items():
        places: dict[str, list[str]] = {}
        for lock in best:
            places.setdefault(listed([place(cell.nemesis) for cell in lock.under(state)]), []).append(lock.name)
        told += [_proviso(text, names, where, len(best)) for where, names in places.items() if where]
    return told


def _proviso(text: str, names: Sequence[str], where: str, best: int) -> str:
    whole = len(names) == best
    who = listed(names) if not whole else "It" if best == 1 else "Each"
    return f"{who} {text.format(was='was' if whole or len(names) == 1 else 'were', where=where)}"


def _none(case: _Case, candidates: Sequence[LockView]) -> str:
    if not candidates:
        return "None: not one that ran is sound without faults."
    done = [lock for lock in candidates if lock.done]
    if not done:
        return "Nobody can tell: the comparison ended before a lock had been run to the end."
    known = [lock for lock in done if {cell.state for cell in _against(lock, case)} != {"unknown"}]
    nearest = min(known or done, key=lambda lock: (_distance(_against(lock, case)), _price(lock)))
    none = "None" if len(done) == len(candidates) else "None of those run to the end"
    what = listed([f"{_fault_of(cell, case)} under {place(cell.nemesis)}" for cell in _against(nearest, case)])
    return f"{none} was {case.was.rstrip(',')} throughout. The nearest is {nearest.name}: {what}."


def _fault_of(cell: CellView, case: _Case) -> str:
    """What speaks against a lock: of a cell in a state that is allowed, that it was unavailable in some runs."""
    return "unavailable" if cell.state in case.allowed else cell.word


def _distance(cells: Sequence[CellView]) -> tuple[int, int]:
    """Two holders, or that nobody can tell, weigh more than a lock that is not to be had."""
    return sum(cell.state != "unavailable" for cell in cells), len(cells)


def _undecided(candidates: Sequence[LockView], case: _Case) -> list[str]:
    """Locks of which only unknown cells speak against."""
    names = [
        lock.name
        for lock in candidates
        if (cells := _against(lock, case)) and all(cell.state == "unknown" for cell in cells)
    ]
    told = names if len(names) <= NAMED else [*names[: NAMED - 1], f"{len(names) - NAMED + 1} more"]
    return [f"Undecided, since a cell is unknown: {listed(told)}."] if names else []
