"""Render the published pages: an index of all locks, and a page for each lock. They need neither a network nor a
server."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from markupsafe import Markup, escape

from harness.documents.publication import (
    PublicationDocument,
    PublishedFamily,
    PublishedLock,
    PublishedNeed,
    PublishedProperty,
    PublishedStory,
)
from harness.wording import PROPERTY_STATES, counted, listed

from . import page, words
from .comparison import pieces
from .comparison_answer import figure
from .document import known_versions

INDEX: Final = "index.html"
TOP: Final = "../"
"""From a lock's page to the folder of all pages."""
WORDS: Final = {
    "broken": PROPERTY_STATES["broken"], "violated": "violated", "known-limit": PROPERTY_STATES["known-limit"],
    "fenced": "fenced", "not-tested": PROPERTY_STATES["not-tested"], "kept": PROPERTY_STATES["kept"],
}  # fmt: skip
"""The states in words, the worst first."""
LEGEND: Final = {
    "broken": "a stored run violated a promise, and the lock's documentation does not mention it",
    "violated": "a stored run violated a promise; what is stored does not tell whether the documentation mentions it",
    "known-limit": "a stored run violated a promise, and the lock's documentation says that this may happen",
    "fenced": "two clients held the lock at once, and the resource refused the late one by its fencing token: safe if "
    "your resource checks tokens, too",
    "not-tested": "no stored run has a verdict on it. This says nothing about the lock",
    "kept": "stored runs tested it and found no violation. The lock's page says how sure that is",
}
TONES: Final = {
    "broken": "invalid", "violated": "invalid", "known-limit": "limit", "fenced": "fenced", "not-tested": "unknown",
    "kept": "valid",
}  # fmt: skip
SOURCES: Final = {
    "nightly": "nightly run", "comparison": "comparison", "exploration": "exploration", "hunt": "hunt",
    "run": "stored runs",
}  # fmt: skip
FLAGS: Final = ("fencing", "re-entrant", "read-write")
"""Properties that have a column in the index."""
SERVICES: Final = {"redis": "Redis", "mysql": "MySQL", "postgres": "PostgreSQL", "zookeeper": "ZooKeeper",
                   "etcd": "etcd", "consul": "Consul", "nats": "NATS", "kubernetes": "Kubernetes",
                   "hazelcast": "Hazelcast", "chubby": "Chubby", "memcached": "memcached"}  # fmt: skip
_LINK: Final = re.compile(r"https?://[^\s,;)]+|\b([A-Za-z0-9][\w-]*/[\w.-]*\w)#(\d+)\b")


@dataclass(frozen=True, slots=True)
class CellView:
    """A state or a text in the index, the reason, and the place on the lock's page that explains it."""

    state: str
    text: str
    why: str
    link: str
    share: str = ""
    """How many runs a kept cell is made from."""

    @property
    def tone(self) -> str:
        return TONES.get(self.state, "")


@dataclass(frozen=True, slots=True)
class IndexRow:
    """A row of the index. ``has``, ``kept`` and ``fenced`` are words that the filter looks for."""

    lock: PublishedLock
    services: tuple[str, ...]
    flags: tuple[CellView, ...]
    needs: tuple[CellView, ...]
    cost: CellView
    has: str
    kept: str
    fenced: str
    seconds: str
    """Median time of an acquire, seconds, by which the filter sorts; empty if it was not measured."""
    text: str
    """The text that the filter searches, in lower case."""


def pages(document: PublicationDocument) -> dict[str, str]:
    """Return the pages by their paths: the index, and a page for each lock."""
    found = {lock.page: lock_page(document, lock) for lock in document.locks}
    return {INDEX: index_page(document), **found}


def index_page(document: PublicationDocument) -> str:
    """Return the index: which lock should I use?"""
    own = [lock for lock in document.locks if lock.catalogued or not lock.name.startswith("harness.")]
    rows = [_row(lock) for lock in own]
    shown = {lock.name for lock in own}
    return page.render(
        "publication_index.html",
        _filters(),
        document=document,
        story=_index_story(document),
        rows=rows,
        needs=[need.name for need in own[0].needs] if own else [],
        flags=FLAGS,
        services=sorted({service for row in rows for service in row.services}, key=str.lower),
        languages=sorted({lock.language for lock in own if lock.language}),
        legend=LEGEND,
        others=[(lock, _worst_families(lock)) for lock in document.locks if lock.name not in shown],
        versions=known_versions(document.nights[0].versions) if document.nights else (),
        stored=[counted(number, name.removesuffix("s")) for name, number in document.stored.items() if number],
        pieces=pieces,
        style=_style(),
        script=page.source("js/publication.js") + page.source("js/comparison.js"),
    )


def lock_page(document: PublicationDocument, lock: PublishedLock) -> str:
    """Return the page of one lock."""
    return page.render(
        "publication_lock.html",
        _filters(),
        document=document,
        lock=lock,
        story=_lock_story(lock),
        tested=[family for family in lock.families if family.evidence],
        untested=[family for family in lock.families if not family.evidence],
        sources=SOURCES,
        steps=_steps,
        top=TOP,
        versions=known_versions(document.nights[0].versions) if document.nights else (),
        pieces=pieces,
        style=_style(),
    )


def _filters() -> dict[str, Callable[..., str]]:
    return {
        "moment": _moment, "seconds": _seconds, "rate": figure, "percent": words.percent, "word": WORDS.__getitem__,
        "tone": TONES.__getitem__, "linked": linked, "anchor": anchor, "listed": listed,
        "service": service,
    }  # fmt: skip


def _style() -> Markup:
    return Markup("").join(
        page.source(name) for name in ("style.css", "nightly.css", "comparison.css", "publication.css")
    )


# The index.


def _row(lock: PublishedLock) -> IndexRow:
    flags = tuple(_flag(lock, one) for one in map(lock.property, FLAGS) if one.claimed is not False)
    services = tuple(map(service, lock.services))
    needs = tuple(_need(lock, need) for need in lock.needs)
    cost, seconds = _cost(lock)
    parts = (lock.name, lock.title, *services, *lock.kinds, lock.language, lock.library, lock.what_runs)
    return IndexRow(
        lock=lock,
        services=services,
        flags=flags,
        needs=needs,
        cost=cost,
        has=_words(one.name for one in lock.properties if one.claimed and one.state not in ("broken", "violated")),
        kept=_words(need.name for need in lock.needs if need.state == "kept"),
        fenced=_words(need.name for need in lock.needs if need.state == "fenced"),
        seconds=seconds,
        text=" ".join(parts).lower(),
    )


def _words(names: Iterable[str]) -> str:
    return " ".join(name.replace(" ", "-") for name in names)


def _flag(lock: PublishedLock, one: PublishedProperty) -> CellView:
    link = f"{_address(lock.page)}#property-{anchor(one.name)}"
    if one.claimed is None:
        return CellView("not-tested", f"{one.name}: not known", one.why, link)
    return CellView(one.state, f"{one.name}: {WORDS[one.state]}", one.why, link)


def _need(lock: PublishedLock, need: PublishedNeed) -> CellView:
    runs = counted(need.judged, "run") if need.state == "kept" else ""
    link = f"{_address(lock.page)}#need-{anchor(need.name)}"
    return CellView(need.state, WORDS[need.state], need.why, link, runs)


def _cost(lock: PublishedLock) -> tuple[CellView, str]:
    """Return the cell of the cost, and the seconds that it is sorted by: real times come before virtual ones."""
    link = f"{_address(lock.page)}#cost"
    for cluster in ("docker", "sim"):
        for costs in lock.costs:
            alone = costs.named("alone")
            if costs.cluster == cluster and alone is not None and alone.acquire_p50_s is not None:
                virtual = " virtual" if cluster == "sim" else ""
                why = f"Median acquire without contention, in the comparison of {_moment(costs.started_at)}."
                text = f"{_seconds(alone.acquire_p50_s)}{virtual}"
                return CellView("", text, why, link), f"{alone.acquire_p50_s:.9f}"
    return CellView("not-tested", "not measured", "No stored comparison measured what it costs.", link), ""


def _index_story(document: PublicationDocument) -> str:
    own = [lock for lock in document.locks if lock.catalogued]
    with_results = sum(any(family.state != "not-tested" for family in lock.families) for lock in own)
    when = f" The latest nightly run is of {_moment(document.nights[0].started_at)}." if document.nights else ""
    return (
        f"{counted(len(own), 'lock')} of the catalogue, {with_results} of them with a stored verdict.{when} "
        "Filter the table by what you need. Each cell leads to the runs that it is made from."
    )


def _worst_families(lock: PublishedLock) -> str:
    counts = Counter[str](family.state for family in lock.families if family.state != "not-tested")
    return ", ".join(f"{counts[state]} {word}" for state, word in WORDS.items() if counts[state]) or "not tested"


# A lock's page.


def _lock_story(lock: PublishedLock) -> str:
    """Return the conclusion of a lock's page: under how many families of faults it is in which state."""
    by_state: dict[str, list[PublishedFamily]] = {}
    for family in lock.families:
        by_state.setdefault(family.state, []).append(family)
    tested = [state for state in WORDS if state != "not-tested" and state in by_state]
    if not tested:
        return "Nothing that is stored has a verdict on this lock."
    parts = [f"{WORDS[state]} under {_names(by_state[state])}" for state in tested]
    untested = f" {counted(len(by_state['not-tested']), 'family')} not tested." if "not-tested" in by_state else ""
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}.{untested.replace('familys', 'families')}"


def _names(found: list[PublishedFamily]) -> str:
    return listed(family.fault for family in found)


def _steps(story: PublishedStory) -> list[tuple[str, str]]:
    """Return the time and text of each step."""
    return [("" if step.at is None else f"{step.at:.3f} s", step.text) for step in story.steps]


# Texts.


def _address(path: str) -> str:
    return quote(path)


def service(name: str) -> str:
    """Return the name of a service as its makers write it."""
    return SERVICES.get(name, name)


def anchor(name: str) -> str:
    """Return the id of the part of a page that is about ``name``."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def linked(text: str) -> Markup:
    """Return a text in which addresses and issues such as ``owner/name#12`` are links."""
    parts, end = [], 0
    for match in _LINK.finditer(text):
        shown = match[0].rstrip(".")
        address = f"https://github.com/{match[1]}/issues/{match[2]}" if match[1] else shown
        parts += [escape(text[end : match.start()]), Markup('<a href="{}">{}</a>').format(address, shown)]
        end = match.start() + len(shown)
    return Markup("").join([*parts, escape(text[end:])])


def _moment(stored: str) -> str:
    """Return a stored time as ``2026-11-21 02:00 UTC``; a dash for none."""
    return f"{stored[:10]} {stored[11:16]} UTC" if len(stored) >= 16 else "–"


def _seconds(value: float | None) -> str:
    return "–" if value is None else words.span(round(value * 1e9))
