"""The facts of a lock that judging needs: from the lock itself before a run, from a stored run afterwards."""

from __future__ import annotations

from harness.documents import RunDocument, present
from harness.documents.lock import LockFacts
from harness.lock_impls.base import LockClass, LockInfo
from harness.lock_impls.catalogue import own_description
from harness.lock_impls.foreign import sharable
from harness.worker.client_program import find_lock


def find_facts(name: str) -> LockFacts:
    """Return the facts of the lock called ``name``, or ``package.module:Class``; UsageError if it cannot be loaded."""
    return facts_of(find_lock(name))


def facts_of(lock: LockClass) -> LockFacts:
    """Return the facts that a loaded lock declares."""
    return described_facts(lock.info, shared=sharable(lock))


def described_facts(info: LockInfo, *, shared: bool | None = None) -> LockFacts:
    """Return the facts in a lock's description, which does not say whether the lock can be ``shared``."""
    return LockFacts(
        name=info.name,
        title=info.title,
        safety=info.safety,
        kinds=tuple(info.kinds),
        options=tuple(info.options),
        fence=info.fence,
        reentrant=info.reentrant,
        queue=info.queue,
        shared=shared,
        overtime=info.overtime,
        language=info.language,
        library=info.library,
        promises=info.promises,
        runtime=info.runtime,
    )


def stored_facts(name: str, results: RunDocument | None) -> LockFacts:
    """Return the facts of the lock of a stored run, whose ``results`` are None if it was killed.

    If they are not stored, those of our own lock are read from its description; no lock is loaded."""
    stored = None if results is None else present(results.lock_facts)
    if stored is not None:
        return stored
    own = own_description(name)
    if own is not None:
        return described_facts(own.info)
    if results is None:
        return LockFacts(name=name)
    return LockFacts(name=name, title=results.lock_title, safety=results.lock_safety)
