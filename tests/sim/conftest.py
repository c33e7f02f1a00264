"""Fixtures of the tests of the simulator."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def no_kazoo_warnings() -> Iterator[None]:
    """kazoo warns about each broken connection, and tests of faults break many on purpose."""
    logger = logging.getLogger("kazoo")
    before, logger.level = logger.level, logging.CRITICAL
    yield
    logger.setLevel(before)
