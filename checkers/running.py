"""Run checkers over a history, so that the failure of one does not hide the verdicts of the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.history import History

from .base import NEED_TWO_CLIENTS, Checker, MissingField, Verdict, alone, doubt_of
from .machine_clocks import Machine, certain, machines_of
from .malformed import flaw
from .overload import despite_waits, longest_wait_ns


def run_all(history: History, checkers: Iterable[Checker]) -> dict[str, Verdict]:
    """Return the verdict of each checker by name.

    A checker that raises, or returns a malformed verdict, is unknown; its explanation says what is wrong. All are
    unknown if the run itself proves nothing (see :func:`harness.checkers.base.doubt_of`). If only one client reached a
    server, the valid ones among :data:`NEED_TWO_CLIENTS` are unknown. If the machine had too few processors, limits of
    time are longer (:mod:`harness.checkers.overload`). If the clients ran on several machines, only violations count
    that hold for every admissible clock (:mod:`harness.checkers.machine_clocks`).
    """
    doubt, wait_ns, machines = doubt_of(history), longest_wait_ns(history), machines_of(history)
    verdicts = {checker.name: _certain(history, machines, wait_ns, checker) for checker in checkers}
    if doubt is not None:
        return {name: Verdict(None, doubt, (), verdict.stats) for name, verdict in verdicts.items()}
    if (why := alone(history)) is None:
        return verdicts
    return {name: _of_one_client(name, verdict, why) for name, verdict in verdicts.items()}


def _certain(history: History, machines: Sequence[Machine], wait_ns: int, checker: Checker) -> Verdict:
    verdict = _excused(history, wait_ns, checker)
    if verdict.valid is not False or not any(machine.error_ns for machine in machines):
        return verdict
    return certain(history, machines, verdict, lambda shifted: _excused(shifted, wait_ns, checker))


def _excused(history: History, wait_ns: int, checker: Checker) -> Verdict:
    verdict = _run(history, checker)
    if verdict.valid is not False or not wait_ns:
        return verdict
    return despite_waits(history, wait_ns, verdict, lambda changed: _run(changed, checker))


def _of_one_client(name: str, verdict: Verdict, why: str) -> Verdict:
    tested = name not in NEED_TWO_CLIENTS or not verdict.applies or verdict.valid is not True
    return verdict if tested else Verdict(None, why, (), verdict.stats)


def _run(history: History, checker: Checker) -> Verdict:
    try:
        verdict = checker.check(history)
        found = flaw(verdict)
    except MissingField as error:
        return Verdict(None, f"this history cannot be judged: {error}")
    except (Exception, SystemExit) as error:  # noqa: BLE001 - it must not hide what the others found
        return Verdict(None, f"the checker failed: {type(error).__name__}: {error}")
    return Verdict(None, f"the checker failed: its verdict is malformed: {found}") if found else verdict
