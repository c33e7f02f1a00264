"""Find models by name: those of :mod:`harness.checkers.models`, and the user's."""

from __future__ import annotations

from typing import Final

from harness.errors import UsageError
from harness.plugins import Registry

from .models import MODELS as OWN
from .models import Model


def _users(name: str, kind: type) -> type[Model]:
    missing = [part for part in ("initial", "step") if getattr(kind, part, None) in (None, vars(Model)[part])]
    if not isinstance(getattr(kind, "fs", None), set | frozenset):
        missing.append("fs")
    if missing:
        raise UsageError(f"{name} is not a model: it has no {missing[0]!r}; docs/checking.md has an example")
    return kind if issubclass(kind, Model) else type(kind.__name__, (kind, Model), {})


MODELS: Final[Registry[type[Model]]] = Registry("model", "models", OWN, _users)
