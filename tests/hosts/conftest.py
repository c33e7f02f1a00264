from __future__ import annotations

from collections.abc import Iterator

import pytest

from .machines import Machines, machines


@pytest.fixture(scope="package")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    """Five machines, for all tests here."""
    with machines(tmp_path_factory.mktemp("machines")) as found:
        yield found
