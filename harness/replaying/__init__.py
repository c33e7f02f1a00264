"""Replays: what was found on the simulator, repeated on real clusters by triggers instead of times, and where a real
run parted from the simulated one."""

from .attempts import Attempt, Prepared, expected_of, firmer, judged, prepared
from .by_triggers import by_triggers
from .parting import Parting, differs_at, parted
from .simulated import Command, Simulated, simulate

__all__ = [
    "Attempt",
    "Command",
    "Parting",
    "Prepared",
    "Simulated",
    "by_triggers",
    "differs_at",
    "expected_of",
    "firmer",
    "judged",
    "parted",
    "prepared",
    "simulate",
]
