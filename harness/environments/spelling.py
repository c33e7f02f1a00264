"""Refuse a misspelled lock before an environment is built for it. No module of a user's is imported."""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterable
from importlib import metadata
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from harness.clusters.docker.images.requirements import imported_distributions, source_file
from harness.lock_impls.catalogue import LOCKS, infos, own_description
from harness.plugins import module_and_name, not_in_module, search_working_directory

_DYNAMIC: Final = frozenset({"*", "__getattr__", "globals", "vars", "setattr", "exec"})
"""Names in a module that may give it attributes which its source does not show."""


def refuse_misspelled(lock: str, required: Iterable[str]) -> None:
    """Raise UsageError for a lock that surely cannot be loaded with the ``required`` distributions.

    That is a name that no plug-in has, a module that is not there, or a class that the user's file does not have. A
    required distribution that is not known here may have any of them.
    """
    if own_description(lock) is not None:
        return
    search_working_directory()
    spec = LOCKS.source(lock)
    top, _, _ = spec.partition(":")[0].partition(".")
    if ":" in spec and (not top or importlib.util.find_spec(top) is not None):
        _refuse_absent_class(spec)
    elif not any(_is_unknown(name) for name in required):
        LOCKS.refuse_unknown(lock)
        source_file(spec)  # raises the error for a module that is not there


def _is_unknown(distribution: str) -> bool:
    """Return whether a distribution is neither installed here nor one that the catalogue requires."""
    catalogued = {canonicalize_name(Requirement(text).name) for info in infos() for text in info.requires}
    if canonicalize_name(distribution) in catalogued:
        return False
    try:
        metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return True
    return False


def _refuse_absent_class(spec: str) -> None:
    """Raise UsageError if ``package.module:Class`` is malformed, or if the user's own file surely has no such class.

    Another release of an installed distribution may have it."""
    module, name = module_and_name(spec)
    path = source_file(spec)
    if path is None or imported_distributions(spec)[1] is None:
        return
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # loading the lock reports it better
        return
    names = _names_in(tree)
    if name in names or names & _DYNAMIC:
        return
    classes = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    raise not_in_module(spec, module, name, "no class", classes)


def _names_in(tree: ast.Module) -> set[str]:
    """Return the names that a module defines, imports, assigns or uses, at any depth."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.Name):
            found.add(node.id)
    return found
