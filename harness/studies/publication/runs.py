"""Evidence from the runs in the store that users made, beside nightly runs and studies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from harness.documents.heads import HeadRelease, RunHead
from harness.documents.publication import PublishedEvidence, PublishedState
from harness.documents.reading import LARGEST
from harness.errors import HarnessError
from harness.files import read_regular
from harness.run import store as stores

from .copies import Copies
from .nights import other_release
from .verdicts import worst

_head: Final = msgspec.json.Decoder(RunHead).decode


@dataclass(frozen=True, slots=True)
class StoredRun:
    """One run: its folder, the head of its results, and the releases that it had in place of the usual ones."""

    folder: Path
    head: RunHead
    release: str

    @property
    def state(self) -> PublishedState:
        return head_state(self.head)


def stored_runs(store: Path, unreadable: list[str]) -> Iterator[StoredRun]:
    """Yield the runs of a store that have results, by folder. What cannot be read is added to ``unreadable``."""
    for parent in sorted(store.iterdir()):
        if parent.name in stores.NOT_LOCKS or parent.is_symlink() or not parent.is_dir():
            continue
        for folder in sorted(parent.iterdir()):
            if (folder / stores.RESULTS).is_file() and not folder.is_symlink():
                try:
                    yield _read(folder)
                except (HarnessError, OSError, ValueError, RecursionError) as error:
                    place = (folder / stores.RESULTS).relative_to(store).as_posix()
                    unreadable.append(f"{place}: {' '.join(str(error).split())[:300]}")


def _read(folder: Path) -> StoredRun:
    head = _head(read_regular(folder / stores.RESULTS, LARGEST))
    plan = folder / stores.PLAN
    release = msgspec.toml.decode(read_regular(plan, LARGEST), type=HeadRelease) if plan.is_file() else HeadRelease()
    return StoredRun(folder, head, other_release(head.lock, release.requires))


def head_state(head: RunHead) -> PublishedState:
    """Return what one run shows about its lock."""
    states = {checker.state for checker in head.checkers.values()}
    if head.verdict == "safe with fencing":
        return "fenced"
    if "broken" in states:
        return "broken"
    if "known-limit" in states:
        return "known-limit"
    if head.valid is False:
        return "violated"
    return "kept" if head.valid else "not-tested"


def run_evidence(runs: Iterable[StoredRun], copies: Copies) -> dict[str, list[PublishedEvidence]]:
    """Return by lock one evidence for each set of faults, cluster and release."""
    alike: defaultdict[tuple[str, tuple[str, ...], str, str], list[StoredRun]] = defaultdict(list)
    for run in runs:
        faults = tuple(sorted({fault.fault for fault in run.head.faults}))
        alike[run.head.lock, faults, run.head.cluster.backend, run.release].append(run)
    found: dict[str, list[PublishedEvidence]] = {}
    for (lock, faults, cluster, release), its in sorted(alike.items()):
        found.setdefault(lock, []).append(_evidence(its, faults, cluster, release, copies))
    return found


def _evidence(
    runs: Sequence[StoredRun], faults: tuple[str, ...], cluster: str, release: str, copies: Copies
) -> PublishedEvidence:
    state = worst(run.state for run in runs)
    shown = max((run for run in runs if run.state == state), key=lambda run: (run.head.started_at, run.folder.name))
    files = copies.run(f"{shown.folder.parent.name}/{shown.folder.name}")
    decided = [run.state for run in runs if run.state != "not-tested"]
    return PublishedEvidence(
        source="run",
        state=state,
        title=shown.head.plan.title or "Runs of the store",
        why=shown.head.reason or shown.head.summary,
        faults=faults,
        cluster=cluster,
        release=release,
        judged=len(decided),
        failed=sum(one != "kept" for one in decided),
        undecided=len(runs) - len(decided),
        started_at=shown.head.started_at,
        command=shown.head.command,
        report=files.report,
        trace=files.trace,
    )
