"""Names that a shell completes: locks, nemeses, scenarios, and the other names that options take.

Each function takes what was typed so far and returns whole words. What it needs is imported when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from harness.plugins import Registry

Completer = Callable[[str], list[str]]


def complete_locks(incomplete: str) -> list[str]:
    """Complete the name of a lock of the catalogue, or of an entry point."""
    from harness.lock_impls import catalogue

    return _beginning([*catalogue.names(), *catalogue.LOCKS.installed()], incomplete)


def complete_lock_list(incomplete: str) -> list[str]:
    """Complete the last of several names of locks or of families of locks, with commas between them."""
    from harness.lock_impls import catalogue

    return _last_of_list(["all", *catalogue.names()], incomplete)


def complete_scenarios(incomplete: str) -> list[str]:
    """Complete the name of a documented failure or of its cure."""
    from harness.scenarios import catalogue

    return _beginning(catalogue.names(), incomplete)


def complete_nemeses(incomplete: str) -> list[str]:
    """Complete the last of several names of faults, with commas between them."""
    from harness.faults.catalogue import FAULTS

    return _last_of_list(["none", *_names(FAULTS)], incomplete)


def complete_workloads(incomplete: str) -> list[str]:
    """Complete the name of a workload."""
    from harness.worker.client_program import WORKLOADS

    return _beginning(_names(WORKLOADS), incomplete)


def complete_checkers(incomplete: str) -> list[str]:
    """Complete the last of several names of checkers, with commas between them."""
    from harness.checkers.catalogue import CHECKERS

    return _last_of_list(_names(CHECKERS), incomplete)


def complete_models(incomplete: str) -> list[str]:
    """Complete the name of a model."""
    from harness.checkers.model_catalogue import MODELS

    return _beginning(_names(MODELS), incomplete)


def complete_kinds(incomplete: str) -> list[str]:
    """Complete the name of a kind of cluster."""
    from harness.clusters.kinds import KINDS

    return _beginning(_names(KINDS), incomplete)


def complete_words(*words: str) -> Completer:
    """Return the function that completes one of the given words."""

    def complete(incomplete: str) -> list[str]:
        return _beginning(words, incomplete)

    return complete


def _names(registry: Registry[Any]) -> list[str]:
    return [*registry.own, *registry.installed()]


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted({name for name in names if name.startswith(incomplete)})


def _last_of_list(names: Iterable[str], incomplete: str) -> list[str]:
    """Complete the text after the last comma; names that stand before it are not offered again."""
    before, comma, last = incomplete.rpartition(",")
    given = before.split(",")
    return [f"{before}{comma}{name}" for name in _beginning(names, last) if name not in given]
