"""Checker tests run every loop as plain Python, so that no test waits for the compiler.

Slow tests check many calls, so they let each loop choose. Tests of machine code request it."""

from __future__ import annotations

import pytest

from harness.history import compiled


@pytest.fixture(autouse=True)
def _plain_python(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if all(request.node.get_closest_marker(name) is None for name in ("slow", "long")):
        monkeypatch.setattr(compiled, "limits", compiled.NEVER)
