"""The recorded requests of lock libraries are those that the catalogue's locks send now."""

from __future__ import annotations

import json

import pytest

from tests.fidelity.recording import FILES, locks, record


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "lock"), [(kind, lock) for kind in FILES for lock in locks(kind)])
def test_recorded_requests_are_those_of_the_lock(kind: str, lock: str) -> None:
    stored = json.loads(FILES[kind].read_text(encoding="utf-8"))
    assert record(kind, lock) == stored[lock], "run: python -m tests.fidelity.recording"


@pytest.mark.parametrize("kind", list(FILES))
def test_every_recorded_lock_exists(kind: str) -> None:
    assert list(json.loads(FILES[kind].read_text(encoding="utf-8"))) == locks(kind)
