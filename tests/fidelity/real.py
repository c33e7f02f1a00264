"""Comparison with real servers in tests."""

from __future__ import annotations

from collections.abc import Iterable

from harness.fidelity.comparison import Agreement, Server, compare


def agreement(server: Server, seeds: Iterable[int]) -> Agreement:
    """Compare with a real server of this machine. A machine without it fails the test."""
    missing = server.missing()
    assert not missing, f"{missing} (.ci/setup installs it)"
    with server.start() as pair:
        return compare(server.name, pair, seeds)


def assert_agreement(server: Server, seeds: Iterable[int], at_least: int) -> None:
    found = agreement(server, seeds)
    assert not found.unknown, "\n\n".join("\n".join([*one.steps, one.real, one.simulated]) for one in found.unknown)
    assert found.steps >= at_least
