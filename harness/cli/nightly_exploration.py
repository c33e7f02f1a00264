"""Output of ``harness nightly`` about what its scenarios need, what it explored, and its servers' traffic."""

from __future__ import annotations

from collections.abc import Iterator

from rich.markup import escape

from harness.documents import AblationOutcome, NightlyDocument
from harness.documents.exploration import Exploration, ExploredFailure
from harness.documents.nightly import ScenarioOutcome
from harness.documents.trace import trace_counts
from harness.wording import counted

from .scenario_ablate import summary


def lines(night: NightlyDocument) -> Iterator[str]:
    """Yield lines with Rich's markup about traffic, ablations, fresh seeds and exploration, as far as the night had
    them."""
    if (traces := trace_counts(outcome.traces for outcome in night.outcomes)).recorded:
        for outcome in night.outcomes:
            yield from _impossible(outcome)
        yield escape(traces.line)
    if night.ablations:
        yield from (_survivor(one) for one in night.ablations if one.unexplained or one.state == "error")
        yield f"ablation: {summary(night.ablations)}"
    if night.seed is not None:
        yield f"fresh seeds from {night.seed}: --seed {night.seed} repeats them"
    if night.exploration is not None:
        yield from _explored(night.exploration)


def _impossible(outcome: ScenarioOutcome) -> Iterator[str]:
    """Yield lines about each server of a run whose replies are impossible."""
    for server in outcome.traces:
        if server.difference is not None and server.state == "impossible":
            sentence = escape(server.difference.sentence)
            yield f"[red]impossible reply[/] {outcome.scenario}, {server.host}: {sentence} ({outcome.folder})"


def _survivor(outcome: AblationOutcome) -> str:
    return f"[red]{outcome.state}[/] {outcome.scenario} {escape(outcome.change)}: {escape(outcome.why)}"


def _explored(exploration: Exploration) -> Iterator[str]:
    for failure in exploration.failures:
        if failure.state != "known":
            yield _failure(failure)
    errors = {one.error: one.lock for one in exploration.visits if one.error and not one.schedules}
    yield from (f"not explored: {lock}: {escape(error)}" for error, lock in errors.items())
    schedules = sum(one.schedules for one in exploration.visits)
    known = sum(one.state == "known" for one in exploration.failures)
    new = counted(len(exploration.new), "new failure")
    yield (
        f"exploration: {counted(len(exploration.visits), 'visit')} with {schedules:,} schedules in "
        f"{exploration.seconds:.0f} s: {new}, {known} known; {exploration.share:.0%} of "
        f"{len(exploration.pairs):,} pairs of lock and fault explored"
    )


def _failure(failure: ExploredFailure) -> str:
    """Return a line about a failure that is new, has gone, or could not be run."""
    if failure.state != "new":
        return f"[yellow]{failure.state}[/] {failure.name}: {escape(failure.why)}"
    folder = f" ({failure.folder})" if failure.folder else ""
    return f"[red]new failure[/] {failure.name}: {escape(failure.summary)} ({escape(failure.reason)}){folder}"
