"""Refusal of plans whose history would not fit into this machine's memory."""

from __future__ import annotations

import os
from typing import Final

from harness.errors import UsageError
from harness.plan import Plan

ENTRIES_A_SECTION: Final = 8
"""Entries of one critical section: acquire, read, write and release, each with its completion."""
BYTES_AN_ENTRY: Final = 200
"""Memory of one entry, roughly."""


def refuse_endless(plan: Plan) -> None:
    """Raise UsageError if the history of the plan would need more memory than this machine has.

    The estimate is low: one client at a time is in a critical section, and none of them waits in vain.
    """
    sections = plan.time_limit / (plan.hold + plan.rest)
    if plan.sections:
        sections = min(sections, float(plan.sections * plan.clients))
    entries = sections * ENTRIES_A_SECTION
    memory = _memory_bytes()
    if entries * BYTES_AN_ENTRY > memory:
        raise UsageError(
            f"time_limit: a run of {plan.time_limit:g} s records about {entries:,.0f} entries, which need about "
            f"{entries * BYTES_AN_ENTRY / 1e9:,.0f} GB of memory; this machine has {memory / 1e9:,.0f} GB"
        )


def _memory_bytes() -> int:
    """Return the size of this machine's memory."""
    if hasattr(os, "sysconf"):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    import psutil  # type: ignore[import-untyped] # required where the system has no sysconf

    return int(psutil.virtual_memory().total)
