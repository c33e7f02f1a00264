"""Tell code of the lock under test from other code, so that a trace can name the line that sent a request."""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path
from typing import Final

from harness.lock_impls import base
from harness.sim.places import Code

_OURS: Final = Path(__file__).parents[1]
_LOCKS: Final = Path(base.__file__).parent
_SCENARIOS: Final = _OURS / "scenarios"
_SUPPORT: Final = frozenset(
    {
        "asynchronous", "base", "catalogue", "constructor_arguments", "contexts", "foreign", "foreign_lock", "opening",
        "polling", "program", "prolonging",
    }
)  # fmt: skip
"""Modules of ``lock_impls`` that call locks, and are none."""
_CONNECTS: Final = re.compile(r"_(client|connections|engine)$")
"""Names of modules of ``lock_impls`` that only connect to a service."""
_INSTALLED: Final = frozenset({"site-packages", "dist-packages"})
_CLIENT_LIBRARIES: Final = frozenset(
    {
        "aioredis", "aiozk", "anyio", "asyncmy", "asyncpg", "celery", "consul", "coredis", "django", "etcd3", "gevent",
        "greenlet", "grpc", "hazelcast", "kazoo", "kombu", "nats", "pg8000", "psycopg", "psycopg2", "pymemcache",
        "pymysql", "redis", "requests", "scramp", "sqlalchemy", "tenacity", "urllib3", "wrapt",
    }
)  # fmt: skip
"""Packages that talk to servers for locks, or call them. Their files count only if named after a lock."""
_LOCK_WORDS: Final = re.compile(r"lock|mutex|semaphore|lease|leader|election|once|singleton")


def code_of(file: str) -> Code:
    """Return whose code a source file is, by its path in a code object.

    It is a lock's if it is neither of the standard library, nor of the harness beside its locks, nor of a library that
    connects locks to servers.
    """
    path = Path(file)
    if not path.is_absolute() or path.suffix != ".py":
        return "other"
    if path.is_relative_to(_LOCKS):
        if path.stem in _SUPPORT:
            return "other"
        return "support" if _CONNECTS.search(path.stem) else "lock"
    return "lock" if path.is_relative_to(_SCENARIOS) or _is_of_a_lock(path) else "other"


def _is_of_a_lock(path: Path) -> bool:
    if path.is_relative_to(_OURS):  # also where the harness itself is an installed package
        return False
    installed = [number for number, part in enumerate(path.parts) if part in _INSTALLED]
    if installed:
        package = path.parts[installed[-1] + 1].removesuffix(".py")
        return package not in _CLIENT_LIBRARIES or bool(_LOCK_WORDS.search(path.stem))
    return not any(path.is_relative_to(folder) for folder in _standard_library())


def _standard_library() -> list[Path]:
    return [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")]
