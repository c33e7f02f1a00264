"""Client libraries that use libpq cannot be simulated: it has sockets of its own."""

from __future__ import annotations

import pytest

from harness import run
from harness.plan import Plan


@pytest.mark.few(1)
@pytest.mark.parametrize("library", ["psycopg", "psycopg2"])
def test_a_lock_that_connects_with_libpq_is_unknown_and_the_result_names_the_library(library: str) -> None:
    result = run(Plan(lock=f"{__package__}.libpq.with_{library}:Lock", time_limit=3.0, clients=2))
    assert result.valid is None
    assert f"called {library}.connect, which the simulator lacks" in result.reason
