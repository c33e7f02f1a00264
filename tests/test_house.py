"""Each file imports only what its room may, and no two files import each other, however indirectly."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("harness", "lock_impls", "checkers", "reports", "scenarios")
LEAVES = ("harness.errors", "harness.compiled")
"""What every room of the harness may use."""
MAY: dict[str, tuple[str, ...]] = {
    "harness.history": ("harness.history", *LEAVES),
    "lock_impls": ("lock_impls",),
    "checkers": ("harness.history", "checkers", *LEAVES),
    "reports": ("harness.history", "checkers", "reports"),
    "scenarios": ("harness.plan", "scenarios", *LEAVES),
    "harness.workloads": ("harness.history", "harness.workloads"),
    "harness.faults": ("harness.clusters.base", "harness.faults", *LEAVES),
    "harness.clusters": ("harness.sim", "harness.containers", "harness.clusters", "harness.history.lock_keys", *LEAVES),
    "harness.containers": ("harness.containers", *LEAVES),
    "harness.helper": ("harness.helper",),
    "harness.sim": ("harness.sim",),
}
"""Room to what it may import of ours; the rest of ``harness`` may import all."""


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_of(path): path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))}


def imports(module: str) -> Iterator[str]:
    """The modules of ours that a file imports, wherever in it and for whatever purpose."""
    path = FILES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name for alias in node.names if (name := alias.name) in FILES)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                if whole in FILES:
                    yield whole
                elif base in FILES:
                    yield base


def room_of(module: str) -> str | None:
    return next((room for room in MAY if module == room or module.startswith(f"{room}.")), None)


@pytest.mark.parametrize("module", list(FILES))
def test_a_file_imports_only_what_its_room_may(module: str) -> None:
    room = room_of(module)
    if room is None:
        return
    for imported in imports(module):
        assert any(imported == may or imported.startswith(f"{may}.") for may in MAY[room]), f"{module} -> {imported}"


def test_no_circles() -> None:
    graph = {module: set(imports(module)) - {module} for module in FILES if module != "harness"}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"circle: {' -> '.join(error.args[1])}")


def test_the_rule_sees_what_it_should() -> None:
    """The control: imports of several kinds are found."""
    assert "harness.history" in set(imports("checkers.base"))
    assert {"harness.clusters.base", "harness.errors"} <= set(imports("harness.faults.base"))
    assert "harness.sim.kernel" in set(imports("harness.clusters.sim"))
    assert "reports.model" in set(imports("harness.cli"))
