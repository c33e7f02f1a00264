"""The facts of a lock that judging needs: from the lock itself before a run, from a stored run afterwards."""

from __future__ import annotations

import importlib.util
from functools import cache
from typing import Final

import msgspec

from harness.documents import RunDocument, present
from harness.documents.lock import LockFacts, LockOrigin
from harness.errors import UsageError
from harness.lock_impls.base import LockClass, LockInfo
from harness.lock_impls.catalogue import own_description
from harness.lock_impls.descriptions import origins_in
from harness.lock_impls.foreign import ForeignClass, constructor_default, optional_methods
from harness.lock_impls.origins import Origin
from harness.plugins import search_working_directory
from harness.run.processes import workers
from harness.worker import guard
from harness.worker.channel import Frame
from harness.worker.client_program import find_lock

from .stated_lease import argument_of, number_or_none

FACTS: Final = "harness.run.simulated:facts"
INFO: Final = "harness.run.simulated:info"
SCENARIO_LOCKS: Final = "harness.scenarios.locks."
"""Prefix of the modules of our own classes that are not in the catalogue."""


def find_facts(name: str, interpreter: str = "") -> LockFacts:
    """Return the facts of the lock called ``name``, or ``package.module:Class``.

    A worker imports the lock, with the Python at the path ``interpreter`` or else with this one. Raises UsageError if
    the lock cannot be loaded.
    """
    if own_description(name) is not None or name.startswith(SCENARIO_LOCKS):
        return _own_facts(name, interpreter)
    return _found_facts(name, interpreter)


@cache
def _own_facts(name: str, interpreter: str) -> LockFacts:
    return _found_facts(name, interpreter)


def searched_facts(name: str) -> LockFacts:
    """Return the same as :func:`find_facts`, for a search that runs the lock a thousand times; its file is read once
    for each working directory. A worker, which executes the lock, imports it itself."""
    return _searched_facts(name, search_working_directory())


@cache
def _searched_facts(name: str, folder: str) -> LockFacts:
    del folder  # part of the key
    return facts_of(find_lock(name)) if guard.installed else find_facts(name)


def _found_facts(name: str, interpreter: str) -> LockFacts:
    return msgspec.json.decode(_imported(FACTS, name, interpreter), type=LockFacts)


def find_info(name: str) -> LockInfo:
    """Return the description of the lock called ``name``, or ``package.module:Class``, which a worker imports.

    Raises UsageError if the lock cannot be loaded."""
    own = own_description(name)
    return _found_info(name, search_working_directory()) if own is None else own.info


@cache
def _found_info(name: str, folder: str) -> LockInfo:
    del folder  # part of the key
    return msgspec.json.decode(_imported(INFO, name, ""), type=LockInfo)


def _imported(function: str, name: str, interpreter: str) -> bytes:
    """Call a function in a worker that imports the lock."""
    try:
        return workers.call(function, name.encode(), _no_frame, interpreter=interpreter, preload=preloaded(name))
    except workers.WorkerDied as died:
        raise UsageError(f"{name}: importing it failed: {died}") from died


def _no_frame(kind: Frame, body: bytes) -> None:
    """No-op callback: finding a lock sends no frames."""


def preloaded(name: str) -> tuple[str, ...]:
    """Return the module of one of our locks, for a server to keep loaded. A user's is imported in workers alone."""
    own = own_description(name)
    return () if own is None else (own.module,)


def facts_of(lock: LockClass) -> LockFacts:
    """Return the facts that a loaded lock declares."""
    catalogued = not isinstance(lock, ForeignClass) and own_description(lock.info.name) is not None
    facts = described_facts(lock.info, methods=optional_methods(lock), catalogued=catalogued)
    default = facts.lease_default or number_or_none(constructor_default(lock, argument_of(facts.lease)[0]))
    return msgspec.structs.replace(facts, lease_default=default)


def described_facts(info: LockInfo, *, methods: tuple[str, ...] | None = None, catalogued: bool = True) -> LockFacts:
    """Return the facts in a lock's description, which does not say the lock's optional ``methods``.

    ``catalogued`` is False for a class that is not in the catalogue, although it may have the description of one that
    is."""
    return LockFacts(
        name=info.name,
        title=info.title,
        safety=info.safety,
        kinds=tuple(info.kinds),
        options=tuple(info.options),
        fence=info.fence,
        reentrant=info.reentrant,
        queue=info.queue,
        no_single_point=info.no_single_point,
        shareable=info.shareable,
        asynchronous=info.asynchronous,
        shared=None if methods is None else "acquire_shared" in methods,
        methods=methods,
        overtime=info.overtime,
        answer_timeout=info.answer_timeout,
        lease=info.lease,
        lease_default=number_or_none(info.options.get(argument_of(info.lease)[0])),
        language=info.language,
        library=info.library,
        promises=info.promises,
        runtime=info.runtime,
        containers_only=info.containers_only,
        limits=info.documented_limits,
        origin=_origin(info, catalogued=catalogued),
    )


def _origin(info: LockInfo, *, catalogued: bool = True) -> LockOrigin | None:
    if info.origin is not None:
        return _stored_origin(info.origin)
    if not catalogued:
        return None
    software, _, version = info.library.rpartition(" ")
    if not software:
        return LockOrigin(kind="catalogue")
    return LockOrigin(kind="library", software=software, version=version, language=info.language)


def _stored_origin(origin: Origin) -> LockOrigin:
    return msgspec.convert(origin, LockOrigin, from_attributes=True)


def stated_origin(name: str, requires: tuple[str, ...] = ()) -> LockOrigin | None:
    """Return what one of our locks, of the catalogue or of ``harness.scenarios.locks``, states about itself; None for
    any other lock. No lock is loaded. A library has the release that ``requires`` names."""
    own = own_description(name)
    if own is not None:
        origin = _origin(own.info)
        return None if origin is None else _with_release(origin, requires)
    module, _, cls = name.partition(":")
    if not module.startswith(SCENARIO_LOCKS) or importlib.util.find_spec(module) is None:
        return None
    found = origins_in(module).get(cls)
    return None if found is None else _stored_origin(found)


def _with_release(origin: LockOrigin, requires: tuple[str, ...]) -> LockOrigin:
    from packaging.requirements import Requirement  # late: environments in which locks run have no packaging
    from packaging.utils import canonicalize_name

    required = {canonicalize_name(one.name): list(one.specifier) for one in map(Requirement, requires)}
    specifiers = required.get(canonicalize_name(origin.software), [])
    return msgspec.structs.replace(origin, version=specifiers[0].version) if len(specifiers) == 1 else origin


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
