"""Golden histories: CHECKER must give VERDICT for ``golden/VERDICT/CHECKER--ROW.jsonl``.

They are the stories of ``golden_stories.py`` and of the files ``*_stories.py`` beside it, named after rows of the table
of anomalies, and stored as run folders store histories. A record of servers' keys is in the folder ``keys`` beside its
history."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.checkers import catalogue
from harness.history import History
from harness.history.lock_keys import KeyWriter, attach_stored_keys, keys_of
from tests.checkers import (
    completed_stories,
    exit_stories,
    exposure_stories,
    extend_stories,
    keys_stories,
    leadership_stories,
    linearizable_stories,
    lock_stories,
    resource_stories,
    service_stories,
    sharing_stories,
    waiting_stories,
)
from tests.checkers.golden_stories import STORIES

GOLDEN = Path(__file__).parent / "golden"
assert completed_stories.CLIENTS
assert exit_stories.EXIT
assert exposure_stories.EX
assert extend_stories.EX
assert keys_stories.KS
assert leadership_stories.LEADERSHIP
assert linearizable_stories.LIN
assert lock_stories.RE  # importing it registers its stories
assert resource_stories.PACKET
assert service_stories.AN
assert sharing_stories.SHARED
assert waiting_stories.WAITING
USE_KEYS = (keys_stories.KS, service_stories.RL, linearizable_stories.LIN)
"""The checkers that read the record of servers' keys."""
VERDICTS = {"valid": True, "invalid": False, "unknown": None}
FILES = sorted(GOLDEN.glob("*/*.jsonl"))


def load(path: Path) -> History:
    """Return a golden history, with its record of servers' keys if there is one."""
    history = History.load(path)
    attach_stored_keys(history, path.parent / "keys" / path.name)
    return history


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_golden(path: Path) -> None:
    checker, _ = path.stem.split("--")
    verdict = catalogue.find(checker).check(load(path))
    assert verdict.valid is VERDICTS[path.parent.name], verdict.explanation
    json.dumps(verdict.to_json())
    assert (verdict.valid is False) == bool(verdict.evidence)


def test_files_and_stories_correspond() -> None:
    told = {f"{verdict}/{checker}--{row}" for (row, _), verdicts in STORIES.items() for checker, verdict in verdicts}
    assert told == {f"{path.parent.name}/{path.stem}" for path in FILES}


def write() -> None:
    """Write all stories: ``python -m tests.checkers.test_golden``."""
    for (row, story), verdicts in STORIES.items():
        for checker, verdict in verdicts:
            path = GOLDEN / verdict / f"{checker}--{row}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            history = story()
            history.save(path)
            if (states := keys_of(history)) is not None and checker in USE_KEYS:
                (path.parent / "keys").mkdir(exist_ok=True)
                with KeyWriter(path.parent / "keys" / path.name) as writer:
                    for state in states:
                        writer.write(state)


if __name__ == "__main__":
    write()
