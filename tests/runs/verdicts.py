"""Verdicts of runs, as messages of assertions."""

from __future__ import annotations

from harness.run.verdicts.judging import Result


def explanations(result: Result) -> str:
    return "\n".join(f"{name}: {verdict.valid} {verdict.explanation}" for name, verdict in result.verdicts.items())
