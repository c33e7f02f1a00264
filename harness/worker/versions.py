"""Versions of the Python and of the distributions in the process of the code under test."""

from __future__ import annotations

import contextlib
import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version


def installed_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the version of this Python, and those of the ``packages`` that are installed, by name."""
    found = {"python": platform.python_version()}
    for package in packages:
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found
