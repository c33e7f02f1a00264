"""What the class of a lock is made from, where that is not the lock itself: software that it models, a library that it
calls, or a mistake that it repeats.

The class states it as ``origin``, and its description (:class:`harness.lock_impls.base.LockInfo`) has it too. A class
does not inherit it, since a subclass changes what its base does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

OriginKind = Literal["model", "use", "variant", "mistake"]
"""``model``: the class sends what the software sends, which is not run. ``use``: the library itself runs, unmodified,
in a program that the class adds. ``variant``: a lock of the catalogue with an addition. ``mistake``: a mistake that a
text describes, and no software in particular."""


@dataclass(frozen=True, slots=True)
class Origin:
    """What a class models, uses or repeats.

    - ``what``: the part of the software that is modelled (``the extension timer``), the program around the library
      (``two threads that share a lock``), the addition to a lock of the catalogue, or the mistake.
    - ``source``: where that was read: a file with its line, an issue, a manual or an article.
    - ``software`` and ``version``: empty for a mistake of no software in particular. ``software`` of a variant is the
      catalogue's name of the lock.
    - ``fix``: what the class corrects in the software or the program; empty if it is as wrong as the original.
    """

    kind: OriginKind
    what: str
    source: str
    software: str = ""
    version: str = ""
    fix: str = ""

    def fixed(self, fix: str) -> Origin:
        """Return the same origin for a class that corrects it."""
        return replace(self, fix=fix)


def model_of(what: str, software: str, version: str, source: str) -> Origin:
    """Return the origin of a class that models software which is not run."""
    return Origin("model", what, source, software, version)


def use_of(software: str, version: str, what: str, source: str) -> Origin:
    """Return the origin of a class that calls an unmodified library."""
    return Origin("use", what, source, software, version)


def variant_of(lock: str, addition: str) -> Origin:
    """Return the origin of a class that adds something to a lock of the catalogue, and is meant to be correct."""
    return Origin("variant", addition, "", software=lock)


def mistake(what: str, source: str) -> Origin:
    """Return the origin of a class that repeats a mistake of no software in particular."""
    return Origin("mistake", what, source)
