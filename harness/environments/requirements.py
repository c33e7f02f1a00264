"""Requirements: their syntax, those written into a file (PEP 723), and whether this environment satisfies them."""

from __future__ import annotations

import platform
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from harness.errors import UsageError

_BLOCK: Final = re.compile(r"^# /// script\s*$\n(?P<content>(^#(| .*)$\n)+?)^# ///\s*$", re.MULTILINE)
"""A block of inline metadata."""
_VERSION: Final = re.compile(r"\d+(\.\d+){0,2}")


@dataclass(frozen=True, slots=True)
class InlineMetadata:
    """Requirements that a Python file states about itself; ``python`` is a version specifier, or "" for any."""

    requirements: tuple[Requirement, ...] = ()
    python: str = ""


def parse(texts: Iterable[str], where: str) -> tuple[Requirement, ...]:
    """Return the requirements; raises UsageError, which names ``where`` they were given, for a malformed one."""
    found = []
    for text in texts:
        try:
            found.append(Requirement(text))
        except InvalidRequirement as error:
            reason = str(error).splitlines()[0]
            raise UsageError(
                f"{where}: expected a requirement such as 'redis==5.2.1', got {text!r}: {reason}"
            ) from error
    return tuple(found)


def inline_metadata(path: Path) -> InlineMetadata:
    """Return what the file says in its ``# /// script`` block (PEP 723), nothing if it has none; raises UsageError."""
    blocks = list(_BLOCK.finditer(path.read_text(encoding="utf-8", errors="replace")))
    if not blocks:
        return InlineMetadata()
    if len(blocks) > 1:
        raise UsageError(f"{path}: it has {len(blocks)} blocks '# /// script', and only one is allowed")
    lines = [line[2:] for line in blocks[0]["content"].splitlines()]
    try:
        stated: dict[str, Any] = tomllib.loads("\n".join(lines))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: its '# /// script' block is not valid TOML: {error}") from error
    texts, python = stated.get("dependencies", []), stated.get("requires-python", "")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise UsageError(f"{path}: dependencies of its '# /// script' block must be a list of texts, got {texts!r}")
    if not isinstance(python, str):
        raise UsageError(f"{path}: requires-python of its '# /// script' block must be a text, got {python!r}")
    return InlineMetadata(parse(texts, str(path)), _specifier(python, str(path)))


def _specifier(text: str, where: str) -> str:
    try:
        return str(SpecifierSet(text))
    except InvalidSpecifier as error:
        raise UsageError(f"{where}: requires-python: expected something like '>=3.11', got {text!r}") from error


def is_python(wanted: str) -> bool:
    """Tell whether this Python is the wanted one: a version (``3.13``), a specifier (``>=3.12``), or "" for any.

    Anything else, such as a path, is another Python."""
    here = platform.python_version()
    if _VERSION.fullmatch(wanted):
        return f"{here}.".startswith(f"{wanted}.")
    try:
        return SpecifierSet(wanted).contains(here, prereleases=True)
    except InvalidSpecifier:
        return False


def unsatisfied(requirements: Sequence[Requirement]) -> tuple[Requirement, ...]:
    """Return the requirements that the installed distributions do not satisfy."""
    return tuple(one for one in requirements if not _is_satisfied(one))


def _is_satisfied(wanted: Requirement, extra: str = "") -> bool:
    if wanted.marker is not None and not wanted.marker.evaluate({"extra": extra}):
        return True
    try:
        found = metadata.distribution(wanted.name)
    except metadata.PackageNotFoundError:
        return False
    if wanted.url or not wanted.specifier.contains(found.version, prereleases=True):
        return False  # what is at an address may differ from what was installed from there
    needed = [Requirement(text) for text in found.requires or ()]
    return all(
        _is_satisfied(one, name)
        for name in wanted.extras
        for one in needed
        if one.marker is not None and "extra" in str(one.marker)
    )
