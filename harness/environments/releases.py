"""Releases of a package, as the package index lists them that ``uv`` is configured with (PEP 503 and PEP 691)."""

from __future__ import annotations

import base64
import html.parser
import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Final
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion, Version

from harness.errors import EnvironmentLacking, UsageError, unknown_name

from . import uv

TIMEOUT_S: Final = 30.0
"""Longest time for the answer of one index."""
LARGEST: Final = 64 * 1024 * 1024
"""Bytes of the largest answer that is read."""
_JSON: Final = "application/vnd.pypi.simple.v1+json"
_ACCEPT: Final = f"{_JSON}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
_URL_OPTION: Final = re.compile(r"^--(?:extra-)?index-url[ =](?P<url>\S+)$", re.MULTILINE)
_CHUNK: Final = 1 << 16


@dataclass(frozen=True, slots=True, order=True)
class File:
    """A file of a release; ``url`` may have the user and the password of its index."""

    name: str
    url: str
    yanked: bool = False


@dataclass(frozen=True, slots=True)
class Release:
    """A release with its files; it is yanked if all of them are. ``spelling`` is what its index calls it, "" if that is
    the normal form of the version."""

    version: Version
    files: tuple[File, ...] = ()
    spelling: str = ""

    @property
    def yanked(self) -> bool:
        return all(file.yanked for file in self.files)

    def __str__(self) -> str:
        return self.spelling or str(self.version)


def releases(package: str, *, prereleases: bool = False, yanked: bool = False) -> tuple[Release, ...]:
    """Return the releases of a package in the order of their versions.

    The first configured index that has the package is asked, as ``uv`` does. ``prereleases`` and ``yanked`` include
    such releases. Raises UsageError if no index has the package, EnvironmentLacking if an index does not answer.
    """
    name = canonicalize_name(package)
    for index in indexes():
        answer = fetch(urljoin(f"{index.rstrip('/')}/", f"{name}/"), _ACCEPT, absent_ok=True)
        if answer is not None:
            found = _grouped(name, _files(answer))
            return tuple(
                one for one in found if (prereleases or not one.version.is_prerelease) and (yanked or not one.yanked)
            )
    raise UsageError(f"the package index has no package {package!r}")


def between(listed: Sequence[Release], first: str, last: str, package: str) -> tuple[Release, ...]:
    """Return the releases from ``first`` to ``last``, both included; raises UsageError if one of them is not listed.

    ``listed`` are in the order of their versions. If ``last`` is the older one, the result begins with the newest.
    """
    known = {one.version: number for number, one in enumerate(listed)}
    ends = []
    for text in (first, last):
        version = parsed(text)
        if version not in known:
            raise unknown_name(f"release of {package}", text, map(str, reversed(listed)))
        ends.append(known[version])
    low, high = sorted(ends)
    chosen = tuple(listed[low : high + 1])
    return chosen if ends[0] <= ends[1] else chosen[::-1]


def parsed(text: str) -> Version:
    """Return the version; raises UsageError for a malformed one."""
    try:
        return Version(text)
    except InvalidVersion as error:
        raise UsageError(f"expected a version such as 5.2.1, got {text!r}") from error


def indexes() -> tuple[str, ...]:
    """Return the URLs of the package indexes that uv is configured with, in the order in which uv asks them."""
    emitted = uv.run("pip", "compile", "-q", "--no-header", "--emit-index-url", "-")
    default, *extra = _URL_OPTION.findall(emitted) or [""]
    if not default:
        raise EnvironmentLacking("uv is configured without a package index, so releases cannot be listed")
    return (*extra, default)


def fetch(url: str, accept: str = "*/*", *, absent_ok: bool = False) -> Answer | None:
    """Return the answer to a GET request; None if there is nothing and ``absent_ok``.

    Raises EnvironmentLacking if there is no answer within :data:`TIMEOUT_S`, or if it is too large.
    """
    place, headers = _authorized(url)
    host, scheme = urlsplit(place).hostname or "the package index", urlsplit(place).scheme
    if scheme not in ("http", "https"):  # a page could name a file of this machine
        raise EnvironmentLacking(f"releases can be listed over http and https only, not over {scheme!r}")
    deadline = time.monotonic() + TIMEOUT_S
    request = urllib.request.Request(place, headers={**headers, "Accept": accept})
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
            return Answer(url, response.headers.get_content_type(), _read(response, host, deadline))
    except urllib.error.HTTPError as error:
        if error.code in (404, 410) and absent_ok:
            return None
        raise EnvironmentLacking(f"{host} answers with HTTP status {error.code}: {error.reason}") from error
    except (OSError, ValueError, HTTPException) as error:  # URLError is an OSError, an unusable URL a ValueError
        reason = getattr(error, "reason", None) or error
        raise EnvironmentLacking(f"{host} cannot be reached, and releases are listed there: {reason}") from error


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer of an index: its URL, its media type and its bytes."""

    url: str
    media_type: str
    data: bytes


def _read(response: Any, host: str, deadline: float) -> bytes:
    """Read an answer with a limit of time and of bytes. A socket's time-out limits only the wait for one piece."""
    parts = bytearray()
    while piece := response.read(_CHUNK):
        parts += piece
        if len(parts) > LARGEST:
            raise EnvironmentLacking(f"{host} answers with more than {LARGEST:,} bytes")
        if time.monotonic() > deadline:
            raise EnvironmentLacking(f"{host} did not complete its answer within {TIMEOUT_S:g} s")
    return bytes(parts)


def _authorized(url: str) -> tuple[str, Mapping[str, str]]:
    """Return the URL without user and password, and the header that contains them instead."""
    parts = urlsplit(url)
    if parts.username is None:
        return url, {}
    plain = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
    place = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    return place, {"Authorization": f"Basic {base64.b64encode(plain).decode()}"}


def _files(answer: Answer) -> list[File]:
    try:
        if answer.media_type.endswith("json"):
            listed = json.loads(answer.data)["files"]
            return [File(one["filename"], _at(answer, one["url"]), bool(one.get("yanked"))) for one in listed]
        links = _Links()
        links.feed(answer.data.decode("utf-8", errors="replace"))
        return [File(name, _at(answer, url), yanked) for name, url, yanked in links.found]
    except (KeyError, TypeError, ValueError) as error:
        host = urlsplit(answer.url).hostname
        raise EnvironmentLacking(f"{host} does not answer as a package index: expected a list of files") from error


def _at(answer: Answer, url: str) -> str:
    """Return the absolute URL of a file, with the user of the index if both have the same host."""
    index, place = urlsplit(answer.url), urlsplit(urljoin(answer.url, url))
    if index.username is not None and place.username is None and place.hostname == index.hostname:
        place = place._replace(netloc=f"{index.netloc.rpartition('@')[0]}@{place.netloc}")
    return urlunsplit(place._replace(fragment=""))


class _Links(html.parser.HTMLParser):
    """Links of a PEP 503 page: the name, the URL, and whether the file is yanked."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        url = values.get("href")
        if tag == "a" and url:
            name = unquote(urlsplit(url).path.rpartition("/")[2])
            self.found.append((name, url, "data-yanked" in values))


def _grouped(package: str, files: Iterable[File]) -> tuple[Release, ...]:
    """Return the releases of these files; a file of another format or with a malformed name is left out."""
    found: dict[Version, list[File]] = {}
    for file in files:
        version = version_of(file.name, package)
        if version is not None:
            found.setdefault(version, []).append(file)
    return tuple(Release(version, tuple(sorted(found[version]))) for version in sorted(found))


def version_of(filename: str, package: str) -> Version | None:
    """Return the version in the name of a wheel or of a source distribution, None if it has none."""
    try:
        if filename.endswith(".whl"):
            name, version, *_ = parse_wheel_filename(filename)
        elif filename.endswith((".tar.gz", ".zip")):
            name, version = parse_sdist_filename(filename)
        else:
            return None
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return None
    return version if name == package else None
