"""Find plug-ins: locks, faults, checkers, models, workloads and kinds of cluster.

A plug-in has a name or is given as ``package.module:Class``. A name is that of a class in one of our own folders, which
nothing lists, or that of a Python entry point. Our own names go first.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from .errors import HarnessError, MissingLibrary, UsageError, installation, uncallable_hook, unknown_name

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Plugin = TypeVar("Plugin")
GROUPS: Final = "lock_harness."
"""Prefix of the groups of entry points."""


@cache
def classes(package: str, marker: str) -> dict[str, Any]:
    """Classes defined in ``package``'s modules that have a ``name`` and an attribute ``marker``; by name, sorted."""
    parent = importlib.import_module(package)
    found = {}
    for info in pkgutil.iter_modules(parent.__path__):
        module = importlib.import_module(f"{package}.{info.name}")
        found.update({cls.name: cls for cls in _marked_classes(module, marker)})
    return dict(sorted(found.items()))


def _marked_classes(module: ModuleType, marker: str) -> list[Any]:
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and value.__module__ == module.__name__
        and isinstance(getattr(value, "name", None), str)
        and hasattr(value, marker)
    ]


@cache
def objects(package: str, of: type) -> dict[str, Any]:
    """Objects of the type ``of`` that the modules of ``package`` define, by their ``name``, sorted."""
    parent = importlib.import_module(package)
    modules = [importlib.import_module(f"{package}.{info.name}") for info in pkgutil.iter_modules(parent.__path__)]
    values: list[Any] = [value for module in modules for value in vars(module).values() if isinstance(value, of)]
    return {value.name: value for value in sorted(values, key=lambda value: str(value.name))}


class _Found(Mapping[str, Any]):
    """Mapping that ``find`` returns; ``find`` is called when the mapping is first used."""

    def __init__(self, find: Callable[[], Mapping[str, Any]]) -> None:
        self._find = find

    def __getitem__(self, name: str) -> Any:
        return self._find()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._find())

    def __len__(self) -> int:
        return len(self._find())


class Folder(_Found):
    """The classes of one of our packages by name; see :func:`classes`."""

    def __init__(self, package: str, marker: str) -> None:
        super().__init__(partial(classes, package, marker))


class Objects(_Found):
    """The objects of one type in one of our packages by name; see :func:`objects`."""

    def __init__(self, package: str, of: type) -> None:
        super().__init__(partial(objects, package, of))


@dataclass(frozen=True, slots=True)
class Registry(Generic[Plugin]):
    """All plug-ins of one sort.

    ``what`` is the sort in messages, and ``group`` the group of its entry points without its prefix. ``own`` are ours
    by name. ``accept`` makes a plug-in of an object that is not ours, called by the name that the user gave; it raises
    UsageError if the object cannot be one. ``of`` is the type of such an object. ``unknown`` is the error for a name
    that no plug-in has, among the names of all.
    """

    what: str
    group: str
    own: Mapping[str, Plugin]
    accept: Callable[[str, Any], Plugin]
    of: type = type
    unknown: Callable[[str, Iterable[str]], Exception] | None = None
    _loaded: dict[str, Plugin] = field(default_factory=dict)

    def find(self, name: str) -> Plugin:
        """Return the plug-in called ``name``; UsageError (or what ``unknown`` makes) says why there is none."""
        if ":" in name:
            return self._accepted(name, load_object(name, self.of))
        own = self.own.get(name)
        if own is not None:
            return own
        points = self._points().get(name, ())
        if not points:
            raise self._unknown(name)
        if len(points) > 1:
            sources = " and ".join(f"{point.value} of {_distribution(point)}" for point in points)
            raise UsageError(f"the {self.what} {name!r} is ambiguous: {sources}; give it as package.module:Class")
        try:
            return self._accepted(name, load_object(points[0].value, self.of))
        except UsageError as error:
            raise UsageError(f"{error} (entry point {name!r} of {_distribution(points[0])})") from error

    def known(self, name: str) -> Plugin | None:
        """Return the plug-in called ``name`` if it is ours or was found before; no module of a user's is imported."""
        return self.own.get(name) or self._loaded.get(name)

    def has(self, name: str) -> bool:
        """Return whether a name may be a plug-in's: ours, an entry point's, or ``package.module:Class``. No module of a
        user's is imported to find out."""
        return name in self.own or ":" in name or name in self._points()

    def refuse_unknown(self, name: str) -> None:
        """Raise the error of :meth:`find` for a name that no plug-in can have; see :meth:`has`."""
        if not self.has(name):
            raise self._unknown(name)

    def _unknown(self, name: str) -> Exception:
        known = [*self.own, *self._points()]
        return unknown_name(self.what, name, known) if self.unknown is None else self.unknown(name, known)

    def forget(self) -> None:
        """Forget the plug-ins that were found, so that :meth:`known` knows only ours."""
        self._loaded.clear()

    def installed(self) -> list[str]:
        """Return the names that only entry points have, sorted."""
        return sorted(name for name in self._points() if name not in self.own)

    def source(self, name: str) -> str:
        """Return ``package.module:Class`` for a name that only an entry point has, any other name as it is."""
        points = () if ":" in name or name in self.own else self._points().get(name, ())
        return points[0].value if points else name

    def _points(self) -> dict[str, tuple[EntryPoint, ...]]:
        return entry_points(f"{GROUPS}{self.group}", tuple(sys.path))

    def _accepted(self, name: str, found: Any) -> Plugin:
        try:
            self._loaded[name] = self.accept(name, found)
            return self._loaded[name]
        except HarnessError:
            raise
        except Exception as error:  # the object is the user's: reading an attribute of it may raise anything
            raise UsageError(f"{name} is no {self.what}: {type(error).__name__}: {error}") from error


@cache
def entry_points(group: str, path: tuple[str, ...]) -> dict[str, tuple[EntryPoint, ...]]:
    """Return the entry points of a group by name, as the distributions on ``path`` declare them.

    A distribution that is on the path twice counts once: the first one hides the other, as it does for imports.
    """
    from importlib.metadata import distributions  # late: loads the email package

    found: dict[str, tuple[EntryPoint, ...]] = {}
    seen: set[str] = set()
    for distribution in distributions(path=list(path)):
        name = str(distribution.metadata["Name"])
        if name in seen:
            continue
        seen.add(name)
        for point in distribution.entry_points.select(group=group):
            found[point.name] = (*found.get(point.name, ()), point)
    return found


def _distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "an unknown distribution"


def load_object(spec: str, of: type = type) -> Any:
    """Return the class ``package.module:Class``, also from the working directory, or an object of another type ``of``.

    Raises UsageError.
    """
    module_name, name = module_and_name(spec)
    return object_in(_import(module_name, spec), name, of, spec)


def module_and_name(spec: str) -> tuple[str, str]:
    """Return the parts of ``package.module:Class``; UsageError if it is not of this form."""
    module_name, _, name = spec.partition(":")
    if not module_name or not name:
        raise UsageError(f"{spec!r} is not of the form package.module:Class")
    return module_name, name


def search_working_directory() -> str:
    """Put the working directory on ``sys.path`` and return it: users keep their code there, and a console script does
    not search it."""
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return here


def _import(module_name: str, spec: str) -> ModuleType:
    here = search_working_directory()
    file = Path(module_name)
    if file.suffix == ".py" and file.is_file():
        place = "" if file.parent == Path() else f" in the folder {file.parent}"
        name = f"{file.stem}:{spec.partition(':')[2]}"
        raise UsageError(f"{spec}: expected package.module:Class, got the path of a file; did you mean {name}{place}?")
    hooks = sys.excepthook, threading.excepthook
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise MissingLibrary(
                f"{spec}: there is no module {error.name!r} (looked in {here} and sys.path)"
            ) from error
        command = installation(error)
        raise MissingLibrary(
            f"{spec}: {module_name} imports {error.name!r}, which is not installed{command and f': {command}'}"
        ) from error
    except (Exception, SystemExit) as error:  # the module is the user's: anything may come out of it
        raise UsageError(f"{spec}: importing {module_name} failed: {type(error).__name__}: {error}") from error
    if wrong := uncallable_hook():
        sys.excepthook, threading.excepthook = hooks
        raise UsageError(f"{spec}: after importing {module_name}, {wrong}: expected a function")
    return module


def object_in(module: ModuleType, name: str, of: type, spec: str) -> Any:
    """Return the object of type ``of`` that a module calls ``name``; UsageError, about ``spec``, if it has none."""
    found = getattr(module, name, None)
    if isinstance(found, of):
        return found
    noun = "class" if of is type else of.__name__
    kind = "class" if isinstance(found, type) else type(found).__name__
    what = f"no {noun}" if found is None else f"a {kind}, not a {noun},"
    known = [it for it, value in vars(module).items() if isinstance(value, of)]
    raise not_in_module(spec, module.__name__, name, what, known)


def not_in_module(spec: str, module_name: str, name: str, what: str, known: Iterable[str]) -> UsageError:
    """Return the error, about ``spec``, for a module that has only ``what`` (such as ``no class``) called ``name``; it
    has the nearest of the ``known`` names."""
    near = difflib.get_close_matches(name, known, 1, 0.4)
    hint = f"; did you mean {near[0]}?" if near else ""
    return UsageError(f"{spec}: {module_name} has {what} called {name!r}{hint}")


def missing_methods(plugin: type, *names: str) -> str:
    """Return ``no method 'check'`` for a class that lacks it, nothing for one that has all the methods."""
    return " and ".join(f"no method {name!r}" for name in names if not callable(getattr(plugin, name, None)))
