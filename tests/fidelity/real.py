"""Comparison with real servers in tests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from harness.fidelity.comparison import Server, ServerPair, Step, compare


@contextmanager
def started(server: Server) -> Iterator[Any]:
    """Start a real server and yield its pair. A machine without it fails the test."""
    missing = server.missing()
    assert not missing, f"{missing} (.ci/setup installs it)"
    with server.start() as pair:
        yield pair


def assert_agreement(pair: ServerPair, seeds: Iterable[int], at_least: int = 1) -> None:
    """Compare the steps of the seeds: only documented differences are allowed, in at least so many steps."""
    found = compare("server", pair, seeds)
    assert not found.unknown, "\n\n".join(
        "\n  ".join([f"seed {one.seed}:", *one.steps, f"real: {one.real}", f"simulated: {one.simulated}"])
        for one in found.unknown
    )
    assert found.steps >= at_least, f"{found.steps} steps were compared, and {found.differing} sequences ended early"


def same(pair: ServerPair, *steps: Step) -> list[str]:
    """Run steps on both servers and return the answers, which are the same."""
    found = list(pair.run(steps))
    assert [one.simulated for one in found] == [one.real for one in found]
    return [one.real for one in found]
