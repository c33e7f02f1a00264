"""Output of ``harness nightly --suite mutants``: a row for each wrong lock, and the share that each checker caught."""

from __future__ import annotations

from collections import Counter

from rich.markup import escape

from harness.documents import NightlyDocument
from harness.documents.nightly import ScenarioOutcome
from harness.run.verdicts.expectation import OPEN, WRONG
from harness.scenarios.catalogue import MUTANTS


def rows(night: NightlyDocument) -> list[str]:
    """Return a row for each mutant with Rich's markup: the expected finding, and the properties that it broke."""
    names = [outcome.scenario.removeprefix(MUTANTS) for outcome in night.outcomes]
    expected = [_expected(outcome) for outcome in night.outcomes]
    width, wide = (max(map(len, texts), default=0) for texts in (names, expected))
    rows = [f"[bold]{'mutant':{width}}  {'expected':{wide}}  broken[/]"]
    for outcome, name, finding in zip(night.outcomes, names, expected, strict=True):
        broken = ", ".join(_named(outcome, "broken")) or ("none" if outcome.states else outcome.state)
        colour = "red" if outcome.state in (*WRONG, *OPEN) else "green"
        rows.append(f"{escape(name):{width}}  {finding:{wide}}  [{colour}]{broken}[/]")
    return rows


def shares(night: NightlyDocument) -> str:
    """Return how many of the mutants each checker caught, and how many have no verdict."""
    ran = [outcome for outcome in night.outcomes if outcome.states]
    caught = Counter(name for outcome in ran for name in _named(outcome, "broken"))
    parts = [f"{name} {count} ({count / len(ran):.0%})" for name, count in caught.most_common()]
    verdicts = Counter({True: "valid", False: "violated", None: "not tested"}[outcome.valid] for outcome in ran)
    counts = ", ".join(f"{verdicts[word]} {word}" for word in ("violated", "not tested", "valid"))
    return f"of {len(ran)} mutants: {counts}; caught by {', '.join(parts) or 'no checker'}"


def _named(outcome: ScenarioOutcome, state: str) -> list[str]:
    return [name for name, found in outcome.states.items() if found == state]


def _expected(outcome: ScenarioOutcome) -> str:
    untested = [f"{name} not tested" for name in outcome.expected.untested]
    return ", ".join((*outcome.expected.invalid, *untested))
