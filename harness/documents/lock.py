"""What a lock declares about itself, such as its safety class and whether it has tokens, as ``results.json`` stores it.

Whoever reads a stored run takes these facts from the document instead of the lock's class, since importing the class
would run a user's code, which may have changed or be absent.
"""

from __future__ import annotations

from typing import Literal

import msgspec

OriginKind = Literal["catalogue", "library", "model", "use", "variant", "mistake"]


class LockOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """What a lock is, as a reader of its results must know: a lock of ours, a library, or a model of one."""

    kind: OriginKind
    """``catalogue``: a lock of the harness's own. ``library``: the unmodified lock of a library. ``use``: such a lock
    in a program that uses it in a certain way. ``model``: a class that sends what a software sends, which is not run.
    ``variant``: a lock of the harness's own with an addition. ``mistake``: a class that repeats a mistake from a text,
    and models no software."""
    software: str = ""
    """The software, library or service; the lock that a ``variant`` varies; empty for ``catalogue`` and ``mistake``."""
    version: str = ""
    """The version or versions of it."""
    language: str = ""
    """Language of a ``library``; empty in documents that are older than this field."""
    what: str = ""
    """The part that is modelled, the program that uses the library, the addition, or the mistake."""
    source: str = ""
    """Where that was read: a file with its line, an issue, a manual or an article; empty for ``variant``."""
    fix: str = ""
    """What the class corrects in the original; empty if it is as wrong as that."""

    @property
    def sentence(self) -> str:
        """Return what the lock is in one sentence, without a full stop."""
        fix = f", with this fix: {self.fix}" if self.fix else ""
        match self.kind:
            case "catalogue":
                return "a lock of the harness's own catalogue"
            case "library":
                package = f"{self.language} package".lstrip()
                return f"the {package} {self.software} {self.version}, unmodified"
            case "use":
                program = f"a program with {self.what} ({self.source})"
                return f"the unmodified {self.software} ({self.version}) in {program}{fix}"
            case "model":
                modelled = f"{self.what} of {self.software} {self.version}"
                return f"a model of {modelled} ({self.source}), not {self.software} itself{fix}"
            case "variant":
                return f"the catalogue's {self.software} with {self.what}"
            case "mistake":
                return f"{self.what}: a mistake from {self.source}; it models no software{fix}"


class LockFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts that a lock declares about itself. A null is not known: the run is older than the field, or it was killed
    before they were stored."""

    name: str = ""
    """The lock's name, or its ``package.module:Class``."""
    title: str = ""
    """Description of the lock, in a few words."""
    safety: str = ""
    """Safety class that the lock claims: ``E``, ``F``, ``F?`` or ``X``."""
    kinds: tuple[str, ...] = ()
    """Kinds of cluster on which it can run; the first is the default."""
    options: tuple[str, ...] = ()
    """Names of its own options."""
    fence: bool | None = None
    """True if it issues fencing tokens."""
    reentrant: bool | None = None
    """True if its holder can acquire it again."""
    queue: bool | None = None
    """True if it serves waiters in the order of their requests."""
    no_single_point: bool | None = None
    """True if it stays available while a minority of its servers is lost."""
    shared: bool | None = None
    """True if several clients can hold it at once (``acquire_shared``)."""
    shareable: bool | None = None
    """True if threads or tasks of a process may use one object of it at the same time."""
    asynchronous: bool | None = None
    """True if its methods are coroutines."""
    methods: tuple[str, ...] | None = None
    """Its optional methods that the harness calls, such as ``context`` (``with lock:``) and ``extend``."""
    overtime: float = 0.0
    """Seconds by which a lease may outlast its ttl."""
    answer_timeout: float = 0.0
    """Seconds for which its client waits for an answer before it asks again."""
    lease: str = ""
    """Lease of grants that do not say it: ``ttl``, a duration, or an option's name and unit, such as ``px:ms``."""
    lease_default: float | None = None
    """Default of that option."""
    language: str = "Python"
    """Language of the lock."""
    library: str = ""
    """The tested library of a third party with its version, such as ``redis 8.1.0``."""
    promises: str = ""
    """Statements of its documentation about the lock."""
    runtime: str = ""
    """Environment of the clients of a lock that is not in Python: a folder of ``docker/``, or an image."""
    containers_only: str = ""
    """Reason why a lock in Python cannot be simulated; empty if it can."""
    limits: tuple[str, ...] | None = None
    """Ways to fail that its documentation states: ``late-client``, ``clock``, ``server-fault``, ``never-freed`` or
    ``always``."""
    origin: LockOrigin | None = None
    """What the lock is: of ours, a library, or a model of one; null for a user's own lock that does not say."""
