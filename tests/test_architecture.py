"""The packages and what each may import, as DESIGN.md draws them. Every module is under a rule; there is no default."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from harness.environments.runtime import RUNTIME
from harness.history import History, Op
from harness.run.processes.workers import PRELOAD

ROOT = Path(__file__).parent.parent
PACKAGE = "harness"
OURS = "lock-harness"
LINKED = ("checkers", "lock_impls", "reports", "scenarios")
"""Folders at the top of the repository that are imported as parts of the package."""
BASIC = ("harness.errors", "harness.files", "harness.wording", "harness.plugins")
"""Modules that every package may import. They import nothing of ours but errors."""
BELOW_RUN = (
    *BASIC, "harness.plan", "harness.documents", "harness.history", "harness.sim", "harness.faults",
    "harness.clusters", "harness.environments", "harness.worker",
    "harness.checkers", "harness.lock_impls", "harness.reports",
)  # fmt: skip
BELOW_STUDIES = (*BELOW_RUN, "harness.run", "harness.search", "harness.scenarios")
DOCKER = "harness.clusters.docker"
SSH = "harness.clusters.ssh"
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "harness.errors": (),
    "harness.files": ("harness.errors",),
    "harness.wording": (),
    "harness.plugins": ("harness.errors",),
    "harness.plan": BASIC,
    "harness.documents": (*BASIC, "harness.plan"),
    "harness.history": BASIC,
    "harness.sim": ("harness.errors",),
    "harness.lock_impls": ("harness.errors", "harness.plugins"),
    "harness.checkers": (*BASIC, "harness.history"),
    "harness.scenarios": (*BASIC, "harness.plan"),
    "harness.scenarios.locks": ("harness.lock_impls",),
    "harness.scenarios.mutants": ("harness.lock_impls",),
    "harness.scenarios.mutants.tables": (*BASIC, "harness.plan"),
    "harness.reports": (*BASIC, "harness.documents", "harness.history", "harness.checkers", "harness.trace.reading"),
    "harness.clusters": (
        *BASIC, "harness.history.lock_keys", "harness.sim.servers.redis.config", "harness.record.processor_waits",
    ),
    "harness.clusters.sim": (*BASIC, "harness.history.lock_keys", "harness.sim", "harness.clusters"),
    DOCKER: (*BASIC, "harness.history.lock_keys", "harness.clusters"),
    f"{DOCKER}.services.process_host": ("harness.sim.service",),
    f"{DOCKER}.services.chubby_program": (
        "harness.sim.service", "harness.sim.servers.chubby", f"{DOCKER}.services.process_host",
    ),
    f"{DOCKER}.containers": (
        *BASIC, f"{DOCKER}.images.base_image", f"{DOCKER}.helper", "harness.clusters.conversation",
        "harness.clusters.gate", "harness.record.clocks",
    ),
    f"{DOCKER}.images": BASIC,
    "harness.clusters.servers": (
        *BASIC, "harness.history.lock_keys", "harness.clusters", "harness.record.processor_waits",
        "harness.worker.lifetime",
    ),
    f"{DOCKER}.helper": ("harness.record.clocks", "harness.record.processor_waits"),
    SSH: (
        *BASIC, "harness.history.lock_keys", "harness.history.recordings", "harness.clusters", "harness.record.clocks",
        "harness.record.processor_waits",
    ),
    f"{SSH}.helper": (f"{DOCKER}.helper", "harness.record.processor_waits"),
    "harness.faults": (*BASIC, "harness.plan", "harness.clusters"),
    "harness.environments": (*BASIC, "harness.lock_impls", "harness.worker.lifetime", f"{DOCKER}.images"),
    "harness.worker": (
        *BASIC, "harness.plan", "harness.history", "harness.lock_impls", "harness.clusters.base", "harness.sim",
    ),
    "harness.worker.workloads": ("harness.history", "harness.worker"),
    "harness.fidelity": (
        *BASIC, "harness.documents", "harness.sim", "harness.clusters", "harness.faults", "harness.worker.lifetime",
        "harness.protocols",
    ),
    "harness.record": (),
    "harness.trace": (
        *BASIC, "harness.documents", "harness.history", "harness.checkers.base", "harness.sim", "harness.clusters",
        "harness.protocols",
    ),
    "harness.protocols": (*BASIC, "harness.sim"),
    "harness.run.store": (*BASIC, "harness.documents", "harness.clusters.wire"),
    "harness.run.processes": (
        *BASIC, "harness.plan", "harness.clusters", "harness.environments", "harness.lock_impls", "harness.worker",
    ),
    "harness.run.plans": (*BELOW_RUN, "harness.run.processes"),
    "harness.run.verdicts": (*BELOW_RUN, "harness.run.plans.lock_facts", "harness.run.store"),
    "harness.run.check": (*BASIC, "harness.documents", "harness.history", "harness.checkers", "harness.run.store"),
    "harness.run": (*BELOW_RUN, "harness.trace"),
    "harness.search": (*BELOW_RUN, "harness.run"),
    "harness.studies": (*BELOW_STUDIES, "harness.fidelity"),
    "harness.conformance": (*BELOW_RUN, "harness.run"),
    "harness.serve": (*BELOW_STUDIES, "harness.studies"),
    "harness.pytest": (*BELOW_STUDIES, "harness.studies"),
    "harness.cli": (PACKAGE,),
    "harness.__main__": ("harness.errors", "harness.cli.main"),
    PACKAGE: (*BELOW_STUDIES, "harness.studies"),
}  # fmt: skip
"""Package (or module) → the packages that it may import beside itself. The longest name that fits a module decides."""
MOST_AT_ROOT = 6
LONGEST_CHAIN = 15


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def sources() -> Iterator[Path]:
    for folder, _, names in os.walk(ROOT / PACKAGE, followlinks=True):
        yield from (Path(folder) / name for name in sorted(names) if name.endswith(".py"))


FILES = {module_of(path): path for path in sorted(sources())}


@cache
def imports(module: str) -> frozenset[str]:
    """The modules of ours that a file imports, wherever in it and for whatever purpose."""
    return frozenset(_imported(module)) - {module}


def _imported(module: str) -> Iterator[str]:
    path = FILES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in statements(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in FILES)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                if whole in FILES:
                    yield whole
                elif base in FILES:
                    yield base


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements in a module, function, class or statement; ast.walk also visits their expressions."""
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        for below in getattr(node, part, ()):
            yield below
            yield from statements(below)


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def rule_of(module: str) -> str:
    """The longest name in the table that the module is within; the package itself is the rule of its root only."""
    fitting = [name for name in MAY_IMPORT if within(module, name) and (name != PACKAGE or module == PACKAGE)]
    return max(fitting, key=len, default="")


def test_every_module_is_under_a_rule() -> None:
    without = [module for module in FILES if not rule_of(module)]
    assert without == [], "put it into a package, or add a rule for its package"


def test_a_module_imports_only_what_its_package_may() -> None:
    forbidden = []
    for module in FILES:
        rule = rule_of(module)
        allowed = (rule, *MAY_IMPORT[rule])
        # The root module is imported with every other one; nothing of it may be used by name but by the rules' leave.
        forbidden += [
            f"{module} imports {imported}"
            for imported in imports(module)
            if not any(within(imported, name) and name != PACKAGE for name in allowed)
            and PACKAGE not in MAY_IMPORT[rule]
        ]
    assert forbidden == []


def test_there_is_no_import_cycle() -> None:
    graph = {module: set(imports(module)) for module in FILES if module != PACKAGE}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"cycle: {' -> '.join(error.args[1])}")


def test_only_the_command_itself_imports_the_command_line() -> None:
    importers = {module for module in FILES if any(within(name, "harness.cli") for name in imports(module))}
    assert {module for module in importers if not within(module, "harness.cli")} == {"harness.__main__"}


def test_few_modules_lie_at_the_root() -> None:
    at_root = sorted(path.name for path in (ROOT / PACKAGE).glob("*.py"))
    print(f"modules at the root: {len(at_root)} ({', '.join(at_root)})")
    assert len(at_root) <= MOST_AT_ROOT


def test_the_longest_chain_of_imports_is_bounded() -> None:
    chain = longest_chain()
    print(f"longest chain of imports between packages: {len(chain)} ({' -> '.join(chain)})")
    assert len(chain) <= LONGEST_CHAIN


def longest_chain() -> list[str]:
    """The longest path in the graph of packages, as the rules name them."""
    graph: dict[str, set[str]] = {}
    for module in FILES:
        mine = rule_of(module)
        graph.setdefault(mine, set()).update({rule_of(name) for name in imports(module)} - {mine, PACKAGE})
    longest: dict[str, list[str]] = {}
    for package in TopologicalSorter({name: found for name, found in graph.items() if name != PACKAGE}).static_order():
        below = [longest[name] for name in graph.get(package, ())]
        longest[package] = [package, *max(below, key=len, default=[])]
    return max(longest.values(), key=len)


def test_our_own_folders_are_not_imported_by_their_short_names() -> None:
    """In the repository ``import reports`` would load a second copy of the package."""
    folders = [ROOT / folder for folder in (PACKAGE, "tests", "benchmarks", "docs", "examples")]
    paths = [path for folder in folders for path in folder.rglob("*.py")]
    assert [path for path in paths if imports_by_short_name(path.read_text(encoding="utf-8"))] == []
    assert imports_by_short_name("def page():\n    from reports import page")
    assert not imports_by_short_name('code = """\nimport reports\n"""')


def imports_by_short_name(source: str) -> bool:
    if not re.search(rf"^\s*(?:from|import) (?:{'|'.join(LINKED)})\b", source, re.MULTILINE):
        return False  # most files; parsing takes longer
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.append(node.module or "")
    return any(within(name, folder) for name in found for folder in LINKED)


def test_the_rules_see_what_they_should() -> None:
    """The control: imports of several kinds are found."""
    assert "harness.history" in imports("harness.checkers.base")
    assert {"harness.clusters.base", "harness.errors"} <= imports("harness.faults.base")
    assert "harness.sim.kernel" in imports("harness.clusters.sim.cluster")
    assert "harness.reports.run_report" in imports("harness.cli.report")
    assert rule_of("harness.clusters.docker.helper.disks") == "harness.clusters.docker.helper"
    assert not rule_of("harness.stray")


def test_a_simulated_run_loads_neither_the_docker_sdk_nor_a_compiler(tmp_path: Path) -> None:
    code = (
        "import sys; from harness import Plan, run; "
        f"run(Plan(lock='redlock', time_limit=3.0), store=__import__('pathlib').Path({str(tmp_path)!r})); "
        "print(*sorted({'docker', 'numba'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_worker_loads_only_what_every_environment_has() -> None:
    """Environments in which locks run have few distributions besides the lock's."""
    assert _distributions_loaded_by(PRELOAD) == _distributions_loaded_by([Requirement(one).name for one in RUNTIME])


def _distributions_loaded_by(modules: Iterable[str]) -> set[str]:
    code = f"import importlib, sys; [importlib.import_module(one) for one in {[*modules]!r}]; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    names = {name.partition(".")[0] for name in done.stdout.split()}
    return {one for name, found in packages_distributions().items() if name in names for one in found} - {OURS, "lupa"}


NOT_FOR_CHECK = ("asyncio", "docker", "harness.documents", "jinja2", "matplotlib", "numba", "redis", "rich")


def test_checking_a_correct_history_loads_no_module_that_only_others_need(tmp_path: Path) -> None:
    """``harness check`` is to take less than half a second, most of which is the loading of modules."""
    calls = [(f, kind) for f in ("acquire", "release") for kind in ("invoke", "ok")]
    History(
        Op(index, time=index, wall=index, process=0, type=kind, f=f, key="k", node="c0")  # type: ignore[arg-type]
        for index, (f, kind) in enumerate(calls)
    ).save(tmp_path / "history.jsonl")
    code = (
        "import sys\n"
        "from harness.cli.main import main\n"
        "try:\n"
        f"    main(['check', {str(tmp_path)!r}, '--model', 'mutex'])\n"
        "finally:\n"
        f"    print(*sorted(set({NOT_FOR_CHECK!r}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    first, *_, last = done.stdout.split("\n")[:-1]
    assert (first, last) == ("VALID: mutex", "")
