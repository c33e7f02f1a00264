"""Pairs of a lock and a family of faults: which there are, and which of them to visit next."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Final

from harness.clusters import kinds
from harness.documents.exploration import Explored, Pair
from harness.errors import UsageError
from harness.lock_impls.base import LockInfo
from harness.lock_impls.catalogue import PACKAGES, all_descriptions
from harness.scenarios import catalogue
from harness.search.request import able

SHARED: Final = PACKAGES[0]
"""Package of our locks and of the code that they share."""
DIGITS: Final = 8
"""Hexadecimal digits of a source's digest."""


def explorable(pattern: str = "*") -> list[Pair]:
    """Return the pairs of all locks that can be simulated and whose name matches, sorted by lock.

    Raises UsageError if no lock matches."""
    found: list[Pair] = []
    for name, lock in all_descriptions().items():
        simulated = [kind for kind in lock.info.kinds if kinds.can_run(kind, "sim")]
        if not lock.info.simulated or not simulated or not fnmatch(name, pattern):
            continue
        faults = {fault for kind in simulated for fault in able(kind, asynchronous=lock.info.asynchronous)}
        release = _release(lock.info, lock.module)
        found += [Pair(name, fault, release) for fault in sorted(faults)]
    if not found:
        raise UsageError(f"no lock that can be simulated matches {pattern!r}; see 'harness list locks'")
    return found


# Releases.


def _release(info: LockInfo, module: str) -> str:
    """Return the releases that run and a digest of the lock's source: ``redis 8.1.0, source 1b5e0a2f``."""
    return ", ".join((*map(_library, info.requires), f"source {_digest(module)}"))


def _library(requirement: str) -> str:
    """Return a distribution with its release: the required one, or else the one that is installed."""
    name, operator, version = re.match(r"([\w.-]+)(?:\[[^\]]*\])?(==)?(.*)", requirement).groups()  # type: ignore[union-attr]  # a checked requirement
    if operator:
        return f"{name} {version}"
    try:
        return f"{name} {metadata.version(name)}"
    except metadata.PackageNotFoundError:
        return requirement


def _digest(module: str) -> str:
    sources = b"".join(path.read_bytes() for path in sorted(_files(module)))
    return hashlib.sha256(sources).hexdigest()[:DIGITS]


@cache
def _files(module: str) -> frozenset[Path]:
    """Return the files of a module of ours and of the modules of ``lock_impls`` that it imports."""
    files: dict[str, Path] = {}
    todo = [module]
    while todo:
        name = todo.pop()
        spec = importlib.util.find_spec(name) if name not in files and _is_module(name) else None
        if spec is None or spec.origin is None:
            continue
        files[name] = Path(spec.origin)
        package = name if spec.submodule_search_locations is not None else name.rpartition(".")[0]
        todo += _imports(Path(spec.origin), package)
    return frozenset(files.values())


def _imports(path: Path, package: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names if _is_module(f"{base}.{alias.name}"))


def _is_module(name: str) -> bool:
    try:
        return name.startswith(SHARED) and importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # its parent is a module, which has no modules of its own
        return False


# Order.


@dataclass(slots=True)
class Queue:
    """Chooses the least-explored pair, and counts the visits that are under way.

    Of pairs with as few visits, the one whose lock has the fewest comes first, and then the one whose family most
    documented failures need.
    """

    explored: dict[Pair, Explored]
    _visits: Counter[Pair] = field(default_factory=Counter)
    _of_lock: Counter[str] = field(default_factory=Counter)
    _failures: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, pairs: Iterable[Pair], explored: Mapping[Pair, Explored]) -> Queue:
        """Return the queue of ``pairs``, of which some were visited in earlier nights."""
        known = {pair: explored.get(pair, Explored()) for pair in pairs}
        queue = cls(known, _failures=documented_failures())
        for pair, so_far in known.items():
            queue._visits[pair] += so_far.visits
            queue._of_lock[pair.lock] += so_far.visits
        return queue

    def next(self) -> tuple[Pair, int]:
        """Return the pair to visit and the number of the visit, from 1."""
        pair = min(self.explored, key=self._rank)
        self._visits[pair] += 1
        self._of_lock[pair.lock] += 1
        return pair, self._visits[pair]

    def drop(self, lock: str) -> None:
        """Forget the pairs of a lock that cannot be run."""
        for pair in [pair for pair in self.explored if pair.lock == lock]:
            del self.explored[pair]

    def _rank(self, pair: Pair) -> tuple[int, int, int, Pair]:
        return self._visits[pair], self._of_lock[pair.lock], -self._failures.get(pair.fault, 0), pair


@cache
def documented_failures() -> Counter[str]:
    """Return in how many documented failures each family of faults strikes."""
    plans = [scenario.plan for scenario in catalogue.all()]
    return Counter(
        fault
        for plan in plans
        if plan.expect is not None and not plan.expect.safe
        for fault in {spec.fault for spec in plan.faults}
    )
