"""The Foata normal form: a name for a class of orders that differ only in steps that commute."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Form = tuple[tuple[str, ...], ...]


def foata(steps: Sequence[object], touched: Sequence[Iterable[str]]) -> Form:
    """Return the layers of steps: each step is one layer above the highest earlier step that touches the same
    thing."""
    layers: list[list[str]] = []
    height: dict[str, int] = {}
    for step, what in zip(steps, touched, strict=True):
        things = set(what)
        layer = len(layers) if "*" in things else max(height.get(thing, 0) for thing in [*things, "*"])
        if layer == len(layers):
            layers.append([])
        layers[layer].append(str(step))
        for thing in things:
            height[thing] = layer + 1
    return tuple([tuple(sorted(layer)) for layer in layers])
