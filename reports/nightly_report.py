"""Write the report of a nightly run: a self-contained HTML file that needs neither a network nor a server."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from statistics import median
from typing import Final
from urllib.parse import quote

from harness.documents import NightlyDocument
from harness.files import write_file
from harness.wording import as_sentence, counted

from . import certainty, night, page, words
from .night import RED, UNSURE, NightView, OutcomeView

PAGE: Final = "index.html"
SLOWEST: Final = 10
SAID: Final = {
    "violated": "{n} lock{s} that should be safe {was} violated",
    "missed": "{n} known failure{s} {was} not found",
    "other-cause": "{n} failed for another reason than the documented one",
    "late": "{n} {was} found too late",
    "error": "{n} could not be run to the end",
    "unknown": "{n} gave no verdict",
}
"""Meanings of the states, for the first paragraph."""


@dataclass(frozen=True, slots=True)
class LineView:
    """One scenario on one cluster with all its seeds: ``worst`` is the worst outcome."""

    worst: OutcomeView
    outcome_text: str
    note: str


@dataclass(frozen=True, slots=True)
class NightlyRow:
    """A row of the table: a documented failure and its cures; ``cells`` are in the order of the clusters."""

    name: str
    title: str
    models: tuple[str, ...]
    """The software that its failures model instead of running it, a sentence for each."""
    cells: tuple[tuple[LineView, ...], ...]
    states: str
    text: str
    """The text that the filter searches, in lower case."""


def write(document: NightlyDocument, folder: Path) -> Path:
    """Write ``index.html`` into ``folder``; relative folders of runs are taken from the working directory.

    Raises OSError if the file cannot be written.
    """
    view = night.read(document)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / PAGE
    write_file(path, render(view, folder))
    return path


def render(view: NightView, folder: Path) -> str:
    """Render the page, with links relative to ``folder``."""
    wrong = [outcome for state in (*RED, *UNSURE) for outcome in view.in_state(state)]
    ran = [outcome for outcome in view.outcomes if outcome.state != "not-run"]
    return page.render(
        "nightly.html",
        {"span": _span, "sentence": as_sentence, "when": lambda moment: f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC"},
        night=view,
        headline=_headline(len(wrong), len(ran), view),
        judgement=_judgement(view, wrong, ran),
        story=_story(view),
        sure=certainty.of_night(ran),
        wrong=wrong,
        ran=ran,
        rows=rows(view),
        states=[state for state in night.STATES if view.in_state(state)],
        slowest=sorted(ran, key=lambda outcome: -outcome.real_seconds)[:SLOWEST],
        by_cluster=[(cluster, _spent(view, cluster)) for cluster in view.clusters],
        links={run: link(run, folder) for run in _folders(view) if run},
        style=page.source("style.css") + page.source("nightly.css"),
        script=page.source("js/filter.js"),
    )


def _judgement(view: NightView, wrong: list[OutcomeView], ran: list[OutcomeView]) -> str:
    if (
        view.in_state(*RED)
        or view.survivors
        or view.traces.impossible
        or (view.exploration is not None and view.exploration.new)
    ):
        return "invalid"
    return "unknown" if wrong or view.interrupted or not ran else "valid"


def rows(view: NightView) -> list[NightlyRow]:
    """Return the rows by name; in each, a failure comes before its cure."""
    found: dict[str, list[OutcomeView]] = {}
    for outcome in sorted(view.outcomes, key=lambda one: (one.row, one.scenario.removesuffix(".safe"), one.safe)):
        found.setdefault(outcome.row, []).append(outcome)
    return [_row(name, outcomes, view.clusters) for name, outcomes in found.items()]


def _row(name: str, outcomes: list[OutcomeView], clusters: tuple[str, ...]) -> NightlyRow:
    parts = dict.fromkeys(
        part
        for outcome in outcomes
        for part in (outcome.scenario, outcome.title, outcome.lock, outcome.kind, *outcome.faults, outcome.workload)
    )
    return NightlyRow(
        name=name,
        title=outcomes[0].title,
        models=tuple(dict.fromkeys(one.what_runs for one in outcomes if one.modelled and not one.safe)),
        cells=tuple(_lines([one for one in outcomes if one.cluster == cluster]) for cluster in clusters),
        states=" ".join(dict.fromkeys(outcome.state for outcome in outcomes)),
        text=" ".join(parts).lower(),
    )


def _lines(cell: list[OutcomeView]) -> tuple[LineView, ...]:
    seeds: dict[str, list[OutcomeView]] = {}
    for outcome in sorted(cell, key=lambda outcome: night.STATES.index(outcome.state)):
        seeds.setdefault(outcome.scenario, []).append(outcome)
    return tuple(_line(seeds[name]) for name in dict.fromkeys(outcome.scenario for outcome in cell))


def _line(seeds: list[OutcomeView]) -> LineView:
    """Return the line for ``seeds``, the outcomes of one scenario on one cluster, the worst first."""
    worst = seeds[0]
    if worst.state == "not-run":
        return LineView(worst, outcome_text(worst, None), f"{_variant(worst)}{worst.lock}: {worst.why}")
    alike = [outcome for outcome in seeds if outcome.state == worst.state]
    found = [outcome.found_s for outcome in alike if outcome.found_s is not None]
    which = f"seed{'s' if len(alike) > 1 else ''} {', '.join(outcome.seed for outcome in alike)}"
    if len(alike) < len(seeds):
        which += f" of {len(seeds)}"
    spent = sum(outcome.real_seconds for outcome in seeds)
    rate = f" · {worst.repeated}" if worst.repeated else ""
    return LineView(
        worst,
        outcome_text(worst, median(found) if found else None),
        f"{_variant(worst)}{worst.lock} · {which}{rate} · {_span(spent)}",
    )


def _variant(outcome: OutcomeView) -> str:
    """Return the part of the scenario's name that tells it from others of its row, such as ``.zookeeper``."""
    suffix = outcome.scenario.removeprefix(outcome.row).removesuffix(".safe")
    return f"{suffix} · " if suffix else ""


def outcome_text(outcome: OutcomeView, found_s: float | None) -> str:
    """Describe the outcome of a scenario in a few words; ``found_s`` is the time to the first violation."""
    what = "cure" if outcome.safe else "failure"
    found = _span(found_s)
    match outcome.state:
        case "as-expected":
            return "cure valid" if outcome.safe else f"failure found in {found}" if found else "failure found"
        case "violated":
            return f"cure violated after {found}" if found else "cure violated"
        case "missed":
            return "failure not found"
        case "other-cause":
            return "failure for another reason"
        case "late":
            return f"failure found too late, after {found}" if found else "failure found too late"
        case "not-run":
            return f"{what} not run"
        case state:
            return f"{what}: {'no verdict' if state == 'unknown' else state}"


def link(run: str, folder: Path) -> str:
    """Return the address of a run's report, or of its folder if it has none, from a page in ``folder``; empty if not
    stored.

    The address is relative, so that the links of a moved or unpacked store stay valid.
    """
    target = Path(run).absolute()
    if not target.exists():
        return ""
    report = target / "report.html"
    target = report if report.exists() else target
    try:
        return quote(Path(os.path.relpath(target, folder.absolute())).as_posix())
    except ValueError:  # the run is on another drive
        return target.as_uri()


def _headline(wrong: int, ran: int, view: NightView) -> str:
    if not ran:
        return "Nothing ran"
    if view.interrupted:
        of = f"{ran} of {'an unknown number of' if view.planned is None else view.planned} runs"
        return f"Interrupted after {of}: {f'{wrong} not as expected' if wrong else 'all as expected so far'}"
    scenarios = f"{wrong} of {ran} not as expected" if wrong else f"All {ran} as expected"
    survivors = f", {counted(view.survivors, 'change')} without effect"
    new = 0 if view.exploration is None else view.exploration.new
    impossible = f", traffic of {counted(view.traces.impossible, 'run')} impossible" * bool(view.traces.impossible)
    found = f", {counted(new, 'new failure')}" * bool(new)
    return scenarios + survivors * bool(view.survivors) + found + impossible


def _story(view: NightView) -> str:
    counts = Counter(outcome.state for outcome in view.outcomes)
    parts = [
        text.format(n=counts[state], s="" if counts[state] == 1 else "s", was="was" if counts[state] == 1 else "were")
        for state, text in SAID.items()
        if counts[state]
    ]
    text = (
        f"{'; '.join(parts)}."
        if parts
        else "Every known failure was found, and every cure stayed safe." * bool(view.outcomes)
    )
    idle = f" {counts['not-run']} could not run on the requested cluster." if counts["not-run"] else ""
    survivors = f" {counted(view.survivors, 'change')} of failures did not have the expected effect."
    new = 0 if view.exploration is None else view.exploration.new
    found = f" Exploration found {counted(new, 'failure')} that no earlier night had found."
    return text + idle + survivors * bool(view.survivors) + found * bool(new)


def _folders(view: NightView) -> list[str]:
    found = () if view.exploration is None else view.exploration.failures
    return [outcome.folder for outcome in view.outcomes if outcome.state != "not-run"] + [one.folder for one in found]


def _spent(view: NightView, cluster: str) -> float:
    return sum(outcome.real_seconds for outcome in view.outcomes if outcome.cluster == cluster)


def _span(seconds: float | None) -> str:
    """Return a duration as ``2.51 s``, from two minutes on as ``2 min 3 s``; empty for None."""
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    return words.span(round(seconds * 1e9)) if seconds < 120 else f"{minutes} min {rest} s"
