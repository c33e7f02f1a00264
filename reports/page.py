"""What all pages share: the templates, the style, and filters for numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import jinja2
from markupsafe import Markup

from reports import words

TEMPLATES: Final = Path(__file__).parent / "templates"


def render(template: str, filters: Mapping[str, Callable[..., str]], **values: Any) -> str:
    """The page that ``template`` makes of ``values``; a value that it lacks is an error."""
    return templates(filters).get_template(template).render(values)


def templates(filters: Mapping[str, Callable[..., str]]) -> jinja2.Environment:
    """All templates, with more filters; who renders many pages keeps it, since it remembers what it has compiled."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"count": words.count, "markup": Markup, **filters}
    return environment


def source(name: str) -> Markup:
    """A file of the templates as it is."""
    return Markup((TEMPLATES / name).read_text(encoding="utf-8"))
