"""The document of ``harness run``, which ``--json`` prints: the results of its runs, one for each seed."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from .run import RunDocument

SCHEMA: Final = 2


class SeedRun(msgspec.Struct, frozen=True, kw_only=True):
    """The run with one seed."""

    folder: str
    """The run's folder; "" if it is not stored, as a valid run among several."""
    results: RunDocument
    """What ``results.json`` contains."""


class RunsDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one ``harness run``. Schema 1 had no ``results``, and was printed for several runs alone."""

    schema: Literal[2]
    """Version of this document."""
    planned: int
    """Number of runs that were requested; fewer were made if it was interrupted."""
    status: int
    """Exit status of the command: 0 valid, 1 a violation, 3 unknown."""
    certainty: str
    """How much the runs prove, if none of them failed; else "". See :func:`harness.wording.certainty`."""
    runs: tuple[SeedRun, ...]
    """The runs in the order of their seeds."""
