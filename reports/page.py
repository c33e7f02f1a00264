"""Render pages: the templates, the style, and the number filters that all pages share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import jinja2
from markupsafe import Markup

from . import words

TEMPLATES: Final = Path(__file__).parent / "templates"


class _Compiled(jinja2.BytecodeCache):
    """In-memory cache of compiled templates. Compiling a template takes as long as rendering it."""

    def __init__(self) -> None:
        self.codes: dict[str, bytes] = {}

    def load_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        if bucket.key in self.codes:
            bucket.bytecode_from_string(self.codes[bucket.key])

    def dump_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        self.codes[bucket.key] = bucket.bytecode_to_string()


_COMPILED: Final = _Compiled()


def render(template: str, filters: Mapping[str, Callable[..., str]], **values: Any) -> str:
    """Render ``template`` with ``values``; raises an error if the template needs a value that is not given."""
    return templates(filters).get_template(template).render(values)


def templates(filters: Mapping[str, Callable[..., str]]) -> jinja2.Environment:
    """Return the environment of all templates, with additional filters."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        bytecode_cache=_COMPILED,
    )
    environment.filters |= {"count": words.count, "markup": Markup, "utc": words.utc, **filters}
    return environment


def source(name: str) -> Markup:
    """Return a file of the templates unchanged."""
    return Markup((TEMPLATES / name).read_text(encoding="utf-8"))
