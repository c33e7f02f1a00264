"""A world for each simulated client: its own copies of the modules of the code under test.

Clients on different machines share no memory, but simulated clients run in one process. A dict or a
``threading.Lock`` in the user's module would be common to all of them, so that a lock that excludes nobody on real
machines would exclude everybody here. Each life of a client therefore executes anew the user's modules, and the
installed package that has the lock's class. The standard library, other libraries and the harness are shared.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.machinery
import importlib.util
import site
import sys
import sysconfig
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Final

from harness.clusters.base import Checkpoint, RecordEntry
from harness.errors import UsageError
from harness.lock_impls.base import LockClass
from harness.lock_impls.catalogue import LOCKS
from harness.lock_impls.foreign import usable
from harness.plugins import object_in, search_working_directory

from . import client_program
from .client_program import ClientJob
from .salted_hash import salted_hash

CONNECTING: Final = frozenset(
    {"redis", "kazoo", "pymysql", "pymemcache", "etcd3", "grpc", "google", "hazelcast", "pg8000", "consul", "nats"}
)
"""Libraries with which the harness itself opens connections. A client's own copy of one would not catch the errors that
these connections raise."""
_import = builtins.__import__
_code: Final[dict[str, CodeType]] = {}
"""Compiled modules by file: every client of a run executes the same code."""


def run(job: ClientJob, record: RecordEntry, checkpoint: Checkpoint) -> None:
    """Run one life of a client in a world of its own, after the plan's ``stagger``; a
    :data:`harness.clusters.base.HostProgram`."""
    lock = World(job.life).find_lock(job.plan.lock)
    if job.generation == 0:
        time.sleep(job.plan.stagger * job.process)
    client_program.run(job, record, checkpoint, lock)


class World:
    """Private copies of the code under test. A module is executed when it is first imported in this world.

    ``life`` names the life of a client, which decides the hashes of texts.
    """

    def __init__(self, life: str) -> None:
        self._package = ""
        """The installed package that has the lock's class, if the user named the class."""
        self._modules: dict[str, ModuleType] = {}
        self._builtins = {**vars(builtins), "__import__": self._import, "hash": salted_hash(life.encode())}

    def find_lock(self, name: str) -> LockClass:
        """Return the lock for a name, as :func:`harness.lock_impls.catalogue.resolve` does; a user's class is this
        world's own."""
        module, _, cls = LOCKS.source(name).partition(":")
        root = module.partition(".")[0]
        if cls and not is_private(module) and _is_source_of_library(root, tuple(sys.path)):
            self._package = root
        if not cls or not self._has(module):
            return client_program.find_lock(name)
        search_working_directory()
        try:
            return usable(name, object_in(self.module(module), cls, type, name))
        except UsageError:
            raise
        except Exception as error:
            raise UsageError(f"{name}: importing {module} failed: {type(error).__name__}: {error}") from error

    def _has(self, name: str) -> bool:
        """Return whether this world has its own copy of a module."""
        return name.partition(".")[0] == self._package or is_private(name)

    def module(self, name: str) -> ModuleType:
        """Return this world's copy of a module, after executing it on first use. Raises ImportError."""
        found = self._modules.get(name)
        if found is not None:
            return found
        parent, _, child = name.rpartition(".")
        path = self.module(parent).__path__ if parent else None
        spec = _find_spec(name, path)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if spec.has_location and not str(spec.origin).endswith(".py"):  # compiled: a process has it once
            compiled = self._modules[name] = importlib.import_module(name)
            return compiled
        module = self._modules[name] = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(name, module)  # code that looks up its own module there must find one
        vars(module)["__builtins__"] = self._builtins
        try:
            if spec.loader is not None and spec.origin is not None:
                exec(_code_of(spec), vars(module))
        except BaseException:
            del self._modules[name]
            raise
        if parent:
            setattr(self._modules[parent], child, module)
        return module

    def _import(
        self,
        name: str,
        globals_: Mapping[str, object] | None = None,
        locals_: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """Do what ``__import__`` does, with this world's copies of private modules."""
        whole = name
        if level:
            package = _package(globals_ or {})
            whole = importlib.util.resolve_name("." * level + name, package)
        if not self._has(whole):
            return _import(name, globals_, locals_, fromlist or (), level)
        module = self.module(whole)
        if not fromlist:
            return module if level else self.module(whole.partition(".")[0])
        if hasattr(module, "__path__"):
            listed = getattr(module, "__all__", ()) if "*" in fromlist else fromlist
            for item in listed:
                if not hasattr(module, item) and _find_spec(f"{whole}.{item}", module.__path__) is not None:
                    self.module(f"{whole}.{item}")
        return module


def _package(names: Mapping[str, object]) -> str:
    package = names.get("__package__")
    if isinstance(package, str):
        return package
    whole = str(names.get("__name__", ""))
    return whole if "__path__" in names else whole.rpartition(".")[0]


def _find_spec(name: str, path: Any) -> importlib.machinery.ModuleSpec | None:
    """Return the spec of a module without importing its parents, as :func:`importlib.util.find_spec` would."""
    for finder in sys.meta_path:
        spec = finder.find_spec(name, path, None)
        if spec is not None:
            return spec
    return None


def _code_of(spec: importlib.machinery.ModuleSpec) -> CodeType:
    assert spec.origin is not None
    if spec.origin not in _code:
        code = importlib.machinery.SourceFileLoader(spec.name, spec.origin).get_code(spec.name)
        assert code is not None
        _code[spec.origin] = code
    return _code[spec.origin]


def is_private(name: str) -> bool:
    """Return whether a module is code under test: a user's source file outside the installed libraries."""
    return _is_private_root(name.partition(".")[0], tuple(sys.path))


@cache
def _is_private_root(root: str, path: tuple[str, ...]) -> bool:
    del path  # part of the key: what is found depends on it
    if root in sys.stdlib_module_names or root in ("harness", "__main__"):
        return False
    spec = _find_spec(root, None)
    if spec is None:
        return False
    if spec.origin is None:  # a package without __init__.py
        places = list(spec.submodule_search_locations or ())
        return bool(places) and not any(_is_library(place) for place in places)
    return spec.origin.endswith(".py") and not _is_library(spec.origin)


@cache
def _is_source_of_library(root: str, path: tuple[str, ...]) -> bool:
    """Return whether a package is an installed one with Python source, and none of those that are always shared."""
    del path  # part of the key
    if root in sys.stdlib_module_names or root == "harness" or root in CONNECTING:
        return False
    spec = _find_spec(root, None)
    return spec is not None and spec.origin is not None and spec.origin.endswith(".py")


def _is_library(file: str) -> bool:
    place = Path(file).resolve()
    installed = not {"site-packages", "dist-packages"}.isdisjoint(place.parts)  # also those of another environment
    return installed or any(place.is_relative_to(folder) for folder in _library_folders())


@cache
def _library_folders() -> tuple[Path, ...]:
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = [*(sysconfig.get_path(name) for name in names), *site.getsitepackages(), site.getusersitepackages()]
    return tuple(Path(folder).resolve() for folder in folders)
