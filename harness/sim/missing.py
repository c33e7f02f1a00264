"""Attributes that a simulated object lacks, and the standard library's object has."""

from __future__ import annotations

from greenlet import getcurrent

from .kernel import Task


def missing_attribute(instance: object, name: str, standard: object, standard_name: str) -> AttributeError:
    """Return the error for an attribute that a simulated object lacks.

    The run is unknown if ``standard``, the class or an object that it stands for, has the attribute. Names with two
    underscores do not count: copying, pickling and the like look for them, and do without.
    """
    task = getcurrent()
    if type(task) is Task and hasattr(standard, name) and not name.startswith("__"):
        task.kernel.unsupported.setdefault(f"{standard_name}.{name}", task.host.name)
    return AttributeError(f"a simulated {standard_name} has no {name}", name=name, obj=instance)
