"""Compare releases of a package: which failures some of them have and others do not, under the same plans and seeds.

The input is the result of each plan with each release. Nothing here runs a lock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from msgspec.structs import replace
from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from harness.documents.versions import (
    VersionCell,
    VersionChange,
    VersionDifference,
    VersionRun,
    VersionsDocument,
    VersionState,
)
from harness.errors import UNKNOWN, VALID, VIOLATION, UsageError
from harness.wording import counted, listed


def parse_versions(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the package and its releases in the order of their versions, of a text like ``redis==2.10.6,3.5.3``."""
    expected = f"--versions: expected a package and at least two releases, such as 'redis==2.10.6,3.5.3', got {text!r}"
    package, equals, rest = text.partition("==")
    try:
        name = Requirement(package).name if equals else ""
        versions = {Version(part): part.strip() for part in rest.split(",")}
    except (InvalidRequirement, InvalidVersion) as error:
        raise UsageError(expected) from error
    if not name or len(versions) < 2 or len(versions) != rest.count(",") + 1:
        raise UsageError(expected)
    return name, tuple(versions[version] for version in sorted(versions))


def cell(version: str, plan: str, runs: Sequence[VersionRun], reason: str = "") -> VersionCell:
    """Return the cell of some runs; ``reason`` is given if a run has no verdict."""
    state: VersionState = "unknown" if reason or not runs else "valid"
    if any(run.invalid for run in runs):
        state, reason = "violated", ""
    return VersionCell(version=version, plan=plan, state=state, reason=reason, runs=tuple(runs))


def missing(version: str, plan: str, reason: str) -> VersionCell:
    """Return the cell of a release that cannot be installed."""
    return VersionCell(version=version, plan=plan, state="missing", reason=reason)


def failures(cells: Sequence[VersionCell]) -> tuple[VersionDifference, ...]:
    """Return each failure of the cells: a plan and a checker that says invalid in one of its runs.

    ``cells`` are in the order of the plans, and each plan's in the order of the releases.
    """
    return tuple(_failures(cells))


def _failures(cells: Sequence[VersionCell]) -> Iterator[VersionDifference]:
    for plan in dict.fromkeys(one.plan for one in cells):
        row = [one for one in cells if one.plan == plan]
        for checker in dict.fromkeys(name for one in row for run in one.runs for name in run.invalid):
            yield _failure(plan, checker, row)


def _failure(plan: str, checker: str, row: Sequence[VersionCell]) -> VersionDifference:
    fails = {one.version: answer(one, checker) for one in row}
    version, run = next((one.version, run) for one in row for run in one.runs if checker in run.invalid)
    found = VersionDifference(
        plan=plan,
        checker=checker,
        fails_in=tuple(version for version, failed in fails.items() if failed),
        holds_in=tuple(version for version, failed in fails.items() if failed is False),
        unknown_in=tuple(version for version, failed in fails.items() if failed is None),
        changes=tuple(_changes(fails)),
        version=version,
        seed=run.seed,
        summary=run.summary,
    )
    return _with_sentence(found)


def answer(found: VersionCell, checker: str) -> bool | None:
    """Tell whether the checker says invalid in a run of the cell; None if that is unknown."""
    if any(checker in run.invalid for run in found.runs):
        return True
    return False if found.runs and all(checker in run.valid for run in found.runs) else None


def _changes(fails: dict[str, bool | None]) -> Iterator[VersionChange]:
    known = [(version, failed) for version, failed in fails.items() if failed is not None]
    for (before, was), (version, now) in pairwise(known):
        if was != now:
            yield VersionChange(before=before, version=version, appears=now)


def _with_sentence(found: VersionDifference) -> VersionDifference:
    changes = [
        f"{'appears' if one.appears else 'disappears'} in {one.version} (after {one.before})" for one in found.changes
    ]
    text = f"{found.checker} fails with {listed(found.fails_in)}"
    if found.holds_in:
        text += f", and holds with {listed(found.holds_in)}"
    text += f": it {listed(changes)}." if changes else "."
    if found.unknown_in:
        text += f" Unknown with {listed(found.unknown_in)}."
    return replace(found, sentence=text)


def differences(found: Sequence[VersionDifference]) -> tuple[VersionDifference, ...]:
    """Return the failures that some releases have and others do not."""
    return tuple(one for one in found if one.holds_in)


def common(found: Sequence[VersionDifference]) -> tuple[VersionDifference, ...]:
    """Return the failures that no release is without."""
    return tuple(one for one in found if not one.holds_in)


def conclusion(cells: Sequence[VersionCell], found: Sequence[VersionDifference], package: str) -> str:
    """Return the result in one sentence: first what differs, then what is unknown."""
    apart, shared = differences(found), common(found)
    unknown = sum(one.state in ("unknown", "missing") for one in cells)
    parts = []
    if apart:
        parts.append(f"{counted(len(apart), 'failure')} {'differs' if len(apart) == 1 else 'differ'} between releases")
    if shared:
        parts.append(f"{counted(len(shared), 'failure')} {'is' if len(shared) == 1 else 'are'} in every one that tells")
    if not parts:
        parts.append("no release shows a failure")
    doubt = f"; {unknown} of {counted(len(cells), 'result')} {'is' if unknown == 1 else 'are'} unknown"
    return f"{package}: {listed(parts)}{doubt if unknown else ''}."


def exit_status(document: VersionsDocument) -> int:
    """Return 1 if a release shows a failure, else 3 if a result is unknown or missing, else 0."""
    if any(one.state == "violated" for one in document.cells):
        return VIOLATION
    incomplete = document.interrupted or len(document.cells) < len(document.plans) * len(document.releases)
    return UNKNOWN if incomplete or any(one.state != "valid" for one in document.cells) else VALID
