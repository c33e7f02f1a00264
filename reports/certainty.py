"""How sure the conclusion of a page is, in a sentence or two for its top."""

from __future__ import annotations

from collections.abc import Sequence

from harness.wording import certainty, counted

from .comparison_view import ComparisonView
from .night import UNSURE, OutcomeView


def of_run(judgement: str) -> str:
    """Return how sure the verdict of one run is."""
    return {
        "invalid": "This run proves it, because its history contains the contradiction. "
        "One run does not tell how often it happens.",
        "valid": f"{certainty(1)}. Several seeds (--runs) make it surer.",
        "unknown": "Nothing was proved, neither that the lock is safe nor that it is not.",
    }[judgement]


def of_pair() -> str:
    """Return how sure a difference between two runs is."""
    return (
        "A violation is proved by its run. One run of each does not show that a setting causes the difference: "
        "several seeds (--runs) make it surer."
    )


def of_statuses() -> str:
    """Return how sure the states of locks over nightly runs are."""
    return (
        "A broken promise, a known limit and a fenced lock are proved by a run. A promise that was kept is a sample: "
        "no run of the latest nightly run broke it."
    )


def of_trends() -> str:
    """Return how sure a change between two nightly runs is."""
    return (
        "A failure is proved by its run. A scenario has one run or a few in each nightly run, so a change may be "
        "chance, above all on containers."
    )


def of_comparison(view: ComparisonView) -> str:
    """Return how sure the cells of a comparison are."""
    cells = [cell for lock in view.locks for cell in lock.cells if cell.state != "not-run"]
    unknown = sum(cell.state == "unknown" for cell in cells)
    undecided = f" {counted(unknown, 'cell')} of {len(cells):,} {'is' if unknown == 1 else 'are'} unknown." * bool(
        unknown
    )
    return f"An unsafe cell is proved by its run. A safe cell: {certainty(view.runs)}.{undecided}"


def of_night(ran: list[OutcomeView]) -> str:
    """Return how sure the conclusion of a nightly run is."""
    seeds: dict[tuple[str, str], int] = {}
    for outcome in ran:
        if outcome.safe and outcome.state == "as-expected":
            seeds[outcome.scenario, outcome.cluster] = seeds.get((outcome.scenario, outcome.cluster), 0) + 1
    parts = ["A failure that was found is proved by its run."] if any(not outcome.safe for outcome in ran) else []
    if seeds:
        parts.append(f"A cure that stayed safe: {certainty(min(seeds.values()))}.")
    if undecided := sum(outcome.state in UNSURE for outcome in ran):
        parts.append(f"{counted(undecided, 'run')} gave no verdict.")
    return " ".join(parts) or "Nothing was proved, because nothing ran."


def of_hunt(findings: int, judged: int, best: float) -> str:
    """Return how sure the conclusion of a hunt is; ``best`` is the nearest miss among ``judged`` schedules."""
    if findings:
        return "Proved: the counterexample repeats the failure byte for byte on the simulator."
    if not judged:
        return "Nothing was proved, because no schedule could be judged."
    return (
        f"Not proved: {counted(judged, 'schedule')} of a space without end. The nearest miss is {best:.2f}, "
        "and 2 means two holders at once."
    )


def of_family(state: str, kept: Sequence[int]) -> str:
    """Return how sure the verdict of a lock under a family of faults is, such as ``kept`` or ``known-limit``; ``kept``
    are the numbers of runs of the tests that found no violation."""
    match state:
        case "kept":
            return f"The test with the most runs: {certainty(max(kept))}."
        case "not-tested":
            return "Nothing was proved, neither that the lock is safe nor that it is not."
        case "fenced":
            return "Two holders are proved by a run. The resource refused the late one in every run that had two."
        case _:
            return "Proved by a run, because its history contains the contradiction."
