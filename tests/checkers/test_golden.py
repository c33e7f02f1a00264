"""Golden histories: ``golden/VERDICT/CHECKER--ROW.jsonl`` must get VERDICT from CHECKER; they are the stories of
``golden_stories.py``, ``lock_stories.py``, ``resource_stories.py`` and ``sharing_stories.py``, named after the rows of
the table of anomalies, and stored as a reader would meet them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checkers import catalogue
from harness.history import History
from tests.checkers import lock_stories, resource_stories, sharing_stories
from tests.checkers.golden_stories import STORIES

GOLDEN = Path(__file__).parent / "golden"
assert lock_stories.RE  # its stories are told with the others
assert resource_stories.PACKET
assert sharing_stories.SHARED
VERDICTS = {"valid": True, "invalid": False, "unknown": None}
FILES = sorted(GOLDEN.glob("*/*.jsonl"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_golden(path: Path) -> None:
    checker, _ = path.stem.split("--")
    verdict = catalogue.find(checker).check(History.load(path))
    assert verdict.valid is VERDICTS[path.parent.name], verdict.explanation
    json.dumps(verdict.to_json())
    assert (verdict.valid is False) == bool(verdict.evidence)


def test_every_file_is_one_of_the_stories_and_the_other_way_round() -> None:
    told = {f"{verdict}/{checker}--{row}" for (row, _), verdicts in STORIES.items() for checker, verdict in verdicts}
    assert told == {f"{path.parent.name}/{path.stem}" for path in FILES}


def write() -> None:
    """Store the stories anew: ``python -m tests.checkers.test_golden``."""
    for (row, story), verdicts in STORIES.items():
        for checker, verdict in verdicts:
            path = GOLDEN / verdict / f"{checker}--{row}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            story().save(path)


if __name__ == "__main__":
    write()
