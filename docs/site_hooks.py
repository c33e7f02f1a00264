"""Hooks of MkDocs.

Links to files of the repository outside ``docs/`` become the file's path, which the site lacks. If the variable
:data:`STORE` names a store, the site has a report for each lock from it.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")
DOCS = Path(__file__).parent
STORE = "LOCK_HARNESS_STORE"
"""Variable with the path of a store."""
REPORTS = "locks"
"""Folder of the site with the reports."""
WITHOUT_REPORTS = "[A report for each lock](../how-to/publish.md)"
WITH_REPORTS = f'<a href="../{REPORTS}/index.html">A report for each lock</a>'
"""The link of a page, in a site without and with the reports. The latter is HTML: MkDocs cannot check a link to files
that it does not know."""


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Replace the links that lead out of the folder. A file that does not exist is left to MkDocs, which reports it."""
    if os.environ.get(STORE):
        markdown = markdown.replace(WITHOUT_REPORTS, WITH_REPORTS)
    return without_outer_links(markdown, posixpath.dirname(page.file.src_uri))


def on_post_build(config: Any, **_: object) -> None:
    """Write the reports of all locks into the site, if there is a store."""
    if store := os.environ.get(STORE):
        from harness import publish  # late: most sites have no reports

        publish(Path(config.site_dir, REPORTS), store=Path(store))


def without_outer_links(markdown: str, folder: str) -> str:
    """Return a page of ``folder`` whose links to files outside ``docs/`` are the path of the file, as code."""

    def replaced(link: re.Match[str]) -> str:
        text, target = link.groups()
        if "://" in target or target.startswith(("#", "mailto:")):
            return link[0]
        path = posixpath.normpath(posixpath.join("docs", folder, target.partition("#")[0]))
        if path.startswith("docs/") or not (DOCS.parent / path).exists():
            return link[0]
        return f"`{path}`" if text.strip("`") in path else f"{text} (`{path}`)"

    return LINK.sub(replaced, markdown)
