"""What the table of anomalies calls a control: nothing at all may be held against these runs."""

from __future__ import annotations

import msgspec
import pytest

from harness.runs import run
from tests.anomalies.chubby_rows import ROWS
from tests.anomalies.rows import Row

CONTROLS = ("chubby-late/lock-delay", "chubby-jeopardy")


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("row", [pytest.param(row, id=row.id) for row in ROWS if row.id in CONTROLS])
def test_a_control_is_not_flagged(row: Row, seed: int) -> None:
    result = run(msgspec.structs.replace(row.fixed, seed=seed))
    assert {name: verdict.explanation for name, verdict in result.verdicts.items() if verdict.valid is not True} == {}


def test_the_controls_exist() -> None:
    assert {row.id for row in ROWS} >= set(CONTROLS)
