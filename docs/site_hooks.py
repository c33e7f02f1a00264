"""Hooks of MkDocs: links to files of the repository outside ``docs/`` become the file's path, which the site lacks."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")
DOCS = Path(__file__).parent


def on_page_markdown(markdown: str, page: Any, **_: object) -> str:
    """Replace the links that lead out of the folder. A file that does not exist is left to MkDocs, which reports it."""
    return without_outer_links(markdown, posixpath.dirname(page.file.src_uri))


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
