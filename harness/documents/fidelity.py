"""The document of ``harness fidelity``: how far the simulated servers agree with the real ones."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Final, Literal

import msgspec

from .reading import load

SCHEMA: Final = 1


class FidelityDivergence(msgspec.Struct, frozen=True, kw_only=True):
    """A sequence of steps, as short as possible, after the last of which the two servers answer differently."""

    seed: int = 0
    """Seed of the sequence in which it was found."""
    steps: tuple[str, ...] = ()
    """The steps, as Python data."""
    real: str = ""
    """Answer of the real server to the last step."""
    simulated: str = ""
    """Answer of the simulated server to the last step."""
    known: str = ""
    """Title of its section on the pages of ``docs/fidelity/``; empty if it is not documented."""


class FidelityServer(msgspec.Struct, frozen=True, kw_only=True):
    """Comparison of one simulated server with the real one."""

    server: str
    """Name of the server, such as ``redis``."""
    version: str = ""
    """Name and version of the real server."""
    seeds: int = 0
    """Number of sequences."""
    steps: int = 0
    """Number of commands, faults and clock moves whose answers were compared."""
    differing: int = 0
    """Number of steps whose answers differed. A sequence ends at the first one."""
    agreement: float = 1.0
    """Share of steps with the same answer, 0 to 1."""
    seconds: float = 0.0
    """Real time that it took, seconds."""
    divergences: tuple[FidelityDivergence, ...] = ()
    """The different divergences, documented or not."""


class FidelityFigure(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of an earlier comparison of one server, from ``results.db``."""

    started_at: datetime
    """Start time: UTC, whole seconds."""
    server: str
    """Name of the server."""
    version: str = ""
    """Name and version of the real server."""
    steps: int = 0
    """Number of steps that were compared."""
    differing: int = 0
    """Number of steps whose answers differed."""
    undocumented: int = 0
    """Number of different divergences that are not documented."""
    documented: int = 0
    """Number of different divergences that are documented."""


class FidelityDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Agreement of the simulated servers with the real ones, now and before."""

    schema: Literal[1]
    """Version of this document."""
    started_at: datetime
    """Start time: UTC, whole seconds, ``2026-11-21T20:00:00Z``."""
    seconds: float = 0.0
    """Real time that it took, seconds."""
    command: str = ""
    """The command line."""
    seed: int = 0
    """Seed of the first sequence; the others follow it."""
    status: int = 0
    """Exit status: 1 if a divergence is not documented, else 3 if it was interrupted, else 0."""
    interrupted: bool = False
    """True if it was interrupted; the comparisons are then those until the interruption."""
    servers: tuple[FidelityServer, ...] = ()
    """The comparisons of this run."""
    history: tuple[FidelityFigure, ...] = ()
    """Figures of earlier runs, the oldest first."""


def load_fidelity(path: Path) -> FidelityDocument:
    """Read a stored ``fidelity.json``; DocumentError if it cannot be read or is malformed."""
    return load(path, FidelityDocument)
