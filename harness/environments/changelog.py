"""What a package's changelog says about a release, read from the release's own archive."""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from packaging.version import InvalidVersion, Version

from harness.errors import EnvironmentLacking

from .releases import File, Release, fetch

MAX_LINES: Final = 40
MAX_COLUMNS: Final = 300
LARGEST: Final = 2 * 1024 * 1024
"""Bytes of the largest changelog that is read."""
MOST_MEMBERS: Final = 20_000
"""Files of an archive that are looked at."""
WORD: Final = "lock"
"""A long section is reduced to the items that mention it."""
_NAME: Final = re.compile(r"(change(s|log)|history|news|releases?([-_]notes)?)(\.(md|rst|txt))?", re.IGNORECASE)
_HEADING: Final = re.compile(
    r"[#*=\-]{0,4} ?(?:version |release |v)?\[?v?(?P<version>\d+(?:\.\d+)+[\w.]*)\]?(?=[\s(:,\-]|$)", re.IGNORECASE
)
_DECORATION: Final = re.compile(r"<a name=.*|[=\-~^*#]{3,}\s*")
_ITEM: Final = re.compile(r"\s*[*+-]\s")


@dataclass(frozen=True, slots=True)
class Changelog:
    """Lines about some releases; ``source`` names the archive and the file in it. ``omitted`` is the number of lines
    that were left out."""

    source: str
    lines: tuple[str, ...]
    omitted: int = 0


def changelog(releases: Sequence[Release]) -> Changelog | None:
    """Return what the newest of these releases says about all of them; None if its archive has no changelog.

    A long section is reduced to its items about locks.
    """
    newest = max(releases, key=lambda one: one.version)
    for file in _archives(newest):
        try:
            answer = fetch(file.url, absent_ok=True)
        except EnvironmentLacking:
            continue
        for name, text in _documents(file, b"" if answer is None else answer.data):
            lines = section(text, [one.version for one in releases])
            if lines:
                kept = shortened(lines, WORD)
                return Changelog(f"{file.name}: {name}", kept, len(lines) - len(kept))
    return None


def _archives(release: Release) -> Iterator[File]:
    """Yield the source distributions, then one wheel: the wheels of a release have the same documents."""
    yield from (file for file in release.files if file.name.endswith((".tar.gz", ".zip")))
    yield from [file for file in release.files if file.name.endswith(".whl")][:1]


def _documents(file: File, data: bytes) -> Iterator[tuple[str, str]]:
    """Yield the names and the texts of the files in an archive that may be its changelog, those at its top first."""
    try:
        found = _in_zip(data) if file.name.endswith((".zip", ".whl")) else _in_tar(data)
        for name, content in sorted(found, key=lambda one: (one[0].count("/"), one[0])):
            yield name, content.decode("utf-8", errors="replace")
    except (OSError, EOFError, tarfile.TarError, zipfile.BadZipFile, NotImplementedError, RuntimeError):
        return  # a damaged or encrypted archive


def _in_tar(data: bytes) -> list[tuple[str, bytes]]:
    found = []
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for number, member in enumerate(archive):
            if number > MOST_MEMBERS:
                break
            if member.isfile() and member.size <= LARGEST and _is_changelog(member.name):
                content = archive.extractfile(member)
                if content is not None:
                    found.append((member.name, content.read(LARGEST)))
    return found


def _in_zip(data: bytes) -> list[tuple[str, bytes]]:
    found = []
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for member in archive.infolist()[:MOST_MEMBERS]:
            if member.file_size <= LARGEST and _is_changelog(member.filename):
                with archive.open(member) as content:
                    found.append((member.filename, content.read(LARGEST)))
    return found


def _is_changelog(path: str) -> bool:
    return _NAME.fullmatch(path.rpartition("/")[2]) is not None


def section(text: str, versions: Iterable[Version]) -> tuple[str, ...]:
    """Return the lines of a changelog about these versions, each with its heading."""
    wanted = set(versions)
    found: list[str] = []
    inside = False
    for line in text.splitlines():
        heading = _HEADING.match(line)
        if heading is not None:
            inside = _version(heading["version"]) in wanted
        if inside and not _DECORATION.fullmatch(line):
            found.append(line.rstrip()[:MAX_COLUMNS])
    return _without_blank_ends(found)


def _version(text: str) -> Version | None:
    try:
        return Version(text.rstrip("."))
    except InvalidVersion:
        return None


def shortened(lines: Sequence[str], word: str) -> tuple[str, ...]:
    """Return at most :data:`MAX_LINES` lines: all, or else the headings and the items that mention ``word``."""
    if len(lines) <= MAX_LINES:
        return tuple(lines)
    chosen = [
        line
        for item in _items(lines)
        if _HEADING.match(item[0]) or word.lower() in " ".join(item).lower()
        for line in item
    ]
    only_headings = all(_HEADING.match(line) for line in chosen)
    return tuple(lines[:MAX_LINES] if only_headings else chosen[:MAX_LINES])


def _items(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield the lines of each item: it begins with a bullet, a heading, or after an empty line."""
    item: list[str] = []
    for line in lines:
        if item and (_ITEM.match(line) or _HEADING.match(line) or not line.strip() or _HEADING.match(item[0])):
            yield item
            item = []
        if line.strip():
            item.append(line)
    if item:
        yield item


def _without_blank_ends(lines: list[str]) -> tuple[str, ...]:
    filled = [number for number, line in enumerate(lines) if line.strip()]
    return tuple(lines[filled[0] : filled[-1] + 1]) if filled else ()
