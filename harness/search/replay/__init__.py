"""Replay failures of the simulator on real clusters.

Faults strike on events instead of at times. If a real run does not fail, its first difference from the simulated run is
reported.
"""

from .attempts import Attempt, Prepared, expected_of, judge, on_servers, prepare, without_races
from .by_triggers import by_triggers
from .divergence import Divergence, differs_at, first_divergence
from .simulated import Simulated, simulate

__all__ = [
    "Attempt",
    "Divergence",
    "Prepared",
    "Simulated",
    "by_triggers",
    "differs_at",
    "expected_of",
    "first_divergence",
    "judge",
    "on_servers",
    "prepare",
    "simulate",
    "without_races",
]
