"""The simulator where Unix's modules, calls and signals are missing, as on Windows.

Each command runs in a process from which :mod:`tests.platforms.without_unix.sitecustomize` has taken them away.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from harness.cli.main import main
from harness.run.store import HISTORY, LATEST

ROOT: Final = Path(__file__).parents[2]
WITHOUT_UNIX: Final = Path(__file__).parent / "without_unix"
PACKAGES: Final = (
    "checkers", "cli", "documents", "faults", "history", "lock_impls", "plan", "record", "reports", "run", "scenarios",
    "search", "serve", "sim", "studies", "worker",
)  # fmt: skip
"""Packages whose modules can be imported everywhere."""
NEED_UNIX: Final = (
    "harness.lock_impls.thirdparty.celery_", "harness.lock_impls.thirdparty.portalocker_",
    "harness.scenarios.locks.redbeat",
)  # fmt: skip
"""Their libraries, as they are installed on this machine, import what is taken away."""
FORBIDDEN_ON_WINDOWS: Final = set('<>:"|?*\\')
UNIX_MODULES: Final = ("fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty")
FOLDERS: Final = ("harness", "checkers", "lock_impls", "reports", "scenarios")
UNIX_ONLY: Final = ("harness/clusters/docker/", "harness/clusters/ssh/")
"""Folders with code that runs inside Linux containers or on Linux hosts."""
IMPORT_ALL: Final = """
import importlib, pkgutil, sys
failed = []
for package in sys.argv[1:]:
    folder = importlib.import_module(f"harness.{package}")
    for found in pkgutil.walk_packages(folder.__path__, f"{folder.__name__}."):
        try:
            importlib.import_module(found.name)
        except (ImportError, AttributeError) as error:
            failed.append(f"{found.name}: {error}")
print("\\n".join(failed))
"""


def python(folder: Path, *arguments: str, status: int = 0) -> str:
    """Run Python without Unix in ``folder``, and return what it printed."""
    path = os.pathsep.join([str(WITHOUT_UNIX), *sys.path])
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def harness(folder: Path, *arguments: str, status: int = 0) -> str:
    return python(folder, "-m", "harness", *arguments, status=status)


def test_what_is_taken_away_is_missing(tmp_path: Path) -> None:
    code = "import os\ntry: import fcntl\nexcept ImportError: print(hasattr(os, 'fork'))"
    assert python(tmp_path, "-c", code) == "False\n"


@pytest.mark.slow
def test_a_run_a_check_and_a_report(tmp_path: Path) -> None:
    plan = ("run", "redis-token", "--nemesis", "clock-jump", "--time-limit", "6s")
    assert "VIOLATION: redis-token" in harness(tmp_path, *plan, status=1)
    run = tmp_path / "store" / "latest"
    assert not list(run.glob("*.lock"))
    assert [path for path in run.rglob("*") if set(path.name) & FORBIDDEN_ON_WINDOWS] == []
    harness(tmp_path, "check", "store/latest", "--model", "owner-mutex", status=1)
    (run / "report.html").unlink()
    harness(tmp_path, "report", "store/latest")
    assert "held k0 at the same time" in (run / "report.html").read_text(encoding="utf-8")
    with pytest.raises(SystemExit):
        main([*plan, "--out", str(tmp_path / "with-unix"), "-q"])
    histories = [one / HISTORY for one in (run, tmp_path / "with-unix" / LATEST)]
    assert histories[0].read_bytes() == histories[1].read_bytes()


@pytest.mark.slow
def test_every_module_of_the_simulator_can_be_imported(tmp_path: Path) -> None:
    failed = python(tmp_path, "-c", IMPORT_ALL, *PACKAGES).split("\n")
    assert [line for line in failed if line and not line.startswith(NEED_UNIX)] == []


@pytest.mark.slow
def test_a_hunt_finds_and_shrinks_a_failure(tmp_path: Path) -> None:
    said = harness(tmp_path, "hunt", "redis-setnx", "--faults", "client-crash", "--rounds", "2", status=1)
    assert "KNOWN LIMIT FOUND: redis-setnx" in said


@pytest.mark.slow
def test_serve_shows_a_run(tmp_path: Path) -> None:
    harness(tmp_path, "run", "redis-token", "--time-limit", "3s")
    code = """
import threading, urllib.request
from harness.cli.serve import _listen, _serve
from pathlib import Path
listener = _listen("127.0.0.1", 0)
address = f"http://127.0.0.1:{listener.getsockname()[1]}/"
threading.Thread(target=_serve, args=(Path("store"), "127.0.0.1", listener), daemon=True).start()
run, = (path for path in Path("store/redis-token").iterdir())
for path in ("", f"runs/redis-token/{run.name}/", f"store/redis-token/{run.name}/history.jsonl"):
    with urllib.request.urlopen(address + path) as answer:
        print(answer.status, len(answer.read()) > 100)
"""
    assert python(tmp_path, "-c", code) == "200 True\n" * 3


def test_no_module_imports_unix_modules_at_its_top() -> None:
    """They may be imported in a function, or under ``try``."""
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    found = {str(path.relative_to(ROOT)): unix_imports(path.read_text(encoding="utf-8")) for path in paths}
    assert {name: modules for name, modules in found.items() if modules and not name.startswith(UNIX_ONLY)} == {}


def test_an_import_of_a_unix_module_is_found() -> None:
    assert unix_imports("import os\nimport fcntl\nfrom pwd import getpwnam\n") == ["fcntl", "pwd"]
    assert unix_imports("try:\n    import fcntl\nexcept ImportError:\n    fcntl = None\n") == []
    assert unix_imports("def f():\n    import pwd\n") == []


def unix_imports(source: str) -> list[str]:
    """Return the modules of Unix that a module imports when it is imported itself."""
    if not any(name in source for name in UNIX_MODULES):
        return []  # most files; parsing takes longer
    names: list[str] = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.append(node.module or "")
    return [name for name in names if name in UNIX_MODULES]


def test_output_whose_code_page_lacks_a_character_has_a_question_mark(tmp_path: Path) -> None:
    code = (
        "import sys; from harness.cli.stdout import allow_any_text; sys.stdout.reconfigure(encoding='cp1252'); "
        "allow_any_text(); print('\\u2192 5 \\u00b5s')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
    assert done.stdout.decode("cp1252").strip() == "? 5 \u00b5s"


def test_a_recorder_works(tmp_path: Path) -> None:
    code = """
from harness.record import Recorder
class Lock:
    def acquire(self): return True
    def release(self): pass
recorder = Recorder("recordings")
lock = recorder.wrap(Lock(), key="orders", valid_for=1.0)
lock.acquire()
lock.release()
print(recorder.error)
recorder.close()
other = Recorder("unix:recordings.sock")
other.wrap(Lock(), key="orders").acquire()
other.close()
print(other.error)
"""
    said = python(tmp_path, "-c", code)
    assert said.startswith("\n"), said
    assert "this system has no unix: sockets; use tcp:HOST:PORT" in said
    harness(tmp_path, "check", "recordings", "--model", "owner-mutex")
    followed = harness(tmp_path, "check", "--follow", "unix:s", "--model", "owner-mutex", status=2)
    assert "this system has no unix: sockets" in followed
