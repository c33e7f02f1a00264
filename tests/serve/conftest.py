"""Stores that several tests read and none changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.serve.app import application
from harness.serve.guard import Guard
from tests.serve import stores


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of 250 whole runs and one study of each sort. Beside it lies a file that must not be shown."""
    home = tmp_path_factory.mktemp("home")
    (home / "secret.json").write_text('"the secret"')
    (home / "store-of-others").mkdir()
    (home / "store-of-others" / "secret.json").write_text('"the secret"')
    made = stores.fill(home / "store", 250)
    stores.study(made, "comparisons", "20261121T200000Z", stores.COMPARISON)
    stores.study(made, "sweeps", "20261121T210000Z-redis-token", stores.SWEEP)
    stores.study(made, "hunts", "20261121T220000Z-redlock", stores.HUNT)
    stores.study(made, "bisections", "20261121T230000Z-redis-py-lock", stores.BISECTION)
    stores.study(made, "versions", "20261121T233000Z-redis-py-lock", stores.RELEASES)
    (made / "latest").symlink_to(f"redlock/{stores.name(0)}")
    return made


@pytest.fixture(scope="session")
def app(store: Path) -> Guard:
    return application(store)
