"""References in docstrings, such as ``:class:`harness.history.Op```: what they name exists.

They are resolved as Sphinx resolves them: ``Name`` in the class or the module of the docstring, ``.part.Name`` as the
end of a full name. In addition, the docstring of a module may name attributes of its classes. References to other
projects are not looked up.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from importlib.util import find_spec, resolve_name

import pytest

from tests.test_architecture import FILES, PACKAGE, within

REFERENCE = re.compile(r":(?:attr|class|const|data|exc|func|meth|mod|obj):`(?:[^`<]*<)?[~!]?([^`>]+)>?`")


class Definitions:
    """What modules define: full ``names``, ``classes`` among them, and the ``imported`` names with the full names that
    they stand for."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.classes: dict[str, ast.ClassDef] = {}
        self.imported: dict[str, str] = {}

    def add(self, node: ast.AST, owner: str, package: str) -> None:
        """Add what a module or a part of it defines in the module or class ``owner``; ``package`` is the module's."""
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            owner = f"{owner}.{node.name}"
            self.names.add(owner)
        if isinstance(node, ast.ClassDef):
            self.classes[owner] = node
        elif isinstance(node, ast.ImportFrom):
            source = resolve_name("." * node.level + (node.module or ""), package)
            self.imported |= {f"{owner}.{one.asname or one.name}": f"{source}.{one.name}" for one in node.names}
        elif isinstance(node, ast.Import):
            self.imported |= {f"{owner}.{one.asname}": one.name for one in node.names if one.asname}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            self.names.add(f"{owner}.{node.id}")
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for below in ast.iter_child_nodes(node):
                self.add(below, owner, package)

    def find(self, name: str) -> str:
        """Return the full name of what a dotted name stands for, of another project perhaps; "" if there is none."""
        if name in self.imported:
            return self.find(self.imported[name])
        if name in self.names or not within(name, PACKAGE):
            return name
        owner, _, last = name.rpartition(".")
        found = self.find(owner)
        if found not in ("", owner):
            return self.find(f"{found}.{last}")
        return self._find_attribute(found, last) if found in self.classes else ""

    def _find_attribute(self, owner: str, name: str) -> str:
        """Return the full name of an attribute that methods of a class set, or that it inherits."""
        if any(_sets(method, name) for method in self.classes[owner].body):
            return f"{owner}.{name}"
        place = owner.rpartition(".")[0]
        bases = (self.find(f"{place}.{ast.unparse(base)}") for base in self.classes[owner].bases)
        return next((found for base in bases if base in self.classes and (found := self.find(f"{base}.{name}"))), "")

    def has_end(self, end: str) -> bool:
        """Return whether a full name ends with this, which begins with a dot."""
        owner, _, last = end.rpartition(".")
        return any(
            name.endswith(end) or (owner and name.endswith(owner) and self.find(f"{name}.{last}"))
            for name in self.names
        )

    def has_in(self, module: str, name: str) -> bool:
        """Return whether a class of a module has this attribute."""
        return any(self.find(f"{owner}.{name}") for owner in self.classes if owner.rpartition(".")[0] == module)


def _sets(method: ast.AST, name: str) -> bool:
    return any(
        isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Store)
        for node in ast.walk(method)
    )


def docstrings(node: ast.AST, owner: str) -> Iterator[tuple[str, str]]:
    """Yield all docstrings in a module, also those of attributes, each with the name of the module or class that it is
    in."""
    for below in ast.iter_child_nodes(node):
        if isinstance(below, ast.ClassDef):
            yield from docstrings(below, f"{owner}.{below.name}")
        elif isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            yield owner, str(below.value.value)
        elif isinstance(below, ast.stmt):
            yield from docstrings(below, owner)


def exists(target: str, module: str, owner: str, defined: Definitions) -> bool:
    """Return whether the target of a reference in a docstring exists. ``owner`` is the class that it is in, or the
    module."""
    if target.startswith("."):
        return defined.has_end(target)
    if within(target, PACKAGE):
        return bool(defined.find(target))
    if any(defined.find(f"{place}.{target}") for place in (owner, module)):
        return True
    return (owner == module and defined.has_in(module, target)) or _is_of_another_project(target.partition(".")[0])


def _is_of_another_project(name: str) -> bool:
    return hasattr(builtins, name) or find_spec(name) is not None


def definitions(trees: dict[str, ast.Module]) -> Definitions:
    found = Definitions()
    for module, tree in trees.items():
        found.names.add(module)
        found.add(tree, module, module if FILES[module].name == "__init__.py" else module.rpartition(".")[0])
    return found


def unknown_targets(module: str, tree: ast.Module, defined: Definitions) -> Iterator[str]:
    for owner, text in docstrings(tree, module):
        for target in REFERENCE.findall(text):
            if not exists(target, module, owner, defined):
                yield target


@pytest.mark.slow
def test_what_a_docstring_refers_to_exists() -> None:
    trees = {module: ast.parse(path.read_text(encoding="utf-8")) for module, path in FILES.items()}
    defined = definitions(trees)
    found = [f"{module}: {target}" for module in FILES for target in unknown_targets(module, trees[module], defined)]
    assert found == [], "write the full name"


SAMPLE = '''
"""See :class:`Top`, :meth:`Top.call`, :meth:`call`, :attr:`kept` and :data:`LIMIT`; :class:`No1`, :meth:`no2`."""
from harness.history.entries import Op as Entry
from .kernel import helper
LIMIT = 1
"""See :mod:`.kernel`, :func:`helper`, :attr:`Entry.fence` and :class:`socket.socket`; :mod:`.no3`."""
class Top:
    """See :meth:`call` and :class:`harness.errors.UsageError`; :class:`harness.errors.No4`."""
    def call(self):
        """See :attr:`kept`, :data:`LIMIT`, :meth:`.Top.call` and :func:`a title <helper>`; :func:`no5`."""
        self.kept = 1
class Below(Top):
    def other(self):
        """See :meth:`call` and :attr:`Below.kept`; :meth:`Below.no6`."""
'''


def test_references_to_unknown_names_are_found() -> None:
    """The control: each unknown name is found, and no other."""
    sources = {
        "harness.sim.steering": SAMPLE,
        "harness.sim.kernel": "def helper(): ...",
        "harness.errors": "class UsageError: ...",
        "harness.history.entries": "class Op:\n    fence: int",
    }
    trees = {module: ast.parse(source) for module, source in sources.items()}
    found = list(unknown_targets("harness.sim.steering", trees["harness.sim.steering"], definitions(trees)))
    assert found == ["No1", "no2", ".no3", "harness.errors.No4", "no5", "Below.no6"]
