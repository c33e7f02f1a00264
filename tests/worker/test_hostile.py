"""Hostile locks: the verdict on each is unknown, says why, and keeps the history up to then."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from harness import run
from harness.cli.main import main
from harness.errors import UNKNOWN, USAGE
from harness.history import History
from harness.plan import FaultSpec, Plan
from harness.run.processes import workers
from harness.run.store import HISTORY, LATEST
from harness.run.verdicts.judging import Result
from harness.worker.salted_hash import salted_hash
from harness.worker.watchdog import Limits

MODULE = f"{__package__}.hostile_locks"
DOUBTS = {
    "ModuleDict": "no server was contacted",
    "FileLock": "used the same file",
    "FolderLock": "used the same file",
    "MemoryFile": "used the same file /dev/shm/",
    "CacheFile": "used the same file",
    "SharedMemoryBlock": "called _posixshmem.shm_open, which the simulator lacks",
    "LockedFile": "used the same file",
    "ControlledFile": "used the same file",
    "LinkedFile": "used the same file",
    "DatedFolder": "used the same file",
    "ExitsWith0": "ended itself with exit status 0",
    "ExitsWith1InRelease": "ended itself with exit status 1",
    "Cancelled": "acquire of the lock raised CancelledError",
    "RaisesSystemExit": "acquire of the lock raised SystemExit",
    "Interrupts": "release of the lock raised KeyboardInterrupt",
    "Alarm": "called signal.alarm, which the simulator lacks",
    "Timer": "called signal.setitimer, which the simulator lacks",
    "Kills": "ended by SIGKILL",
    "Segfault": "ended by SIGSEGV",
    "Allocates": "acquire of the lock raised MemoryError",
    "Loops": "no virtual time passed and nothing was recorded",
    "LoopsInC": "no virtual time passed and nothing was recorded",
    "SleepsZero": "no virtual time passed and nothing was recorded",
    "Forks": "called os.fork, which the simulator lacks",
    "ForksQuietly": "called os.fork, which the simulator lacks",
}
EXCLUDED = "c0 and c1 exclude each other even if each has servers of its own"
DOUBTS |= dict.fromkeys(("OwnFiles", "ModuleAttribute", "SocketTimeout", "WorkingDirectory"), EXCLUDED)
HANGING = ("Loops", "LoopsInC", "SleepsZero")


@pytest.fixture(autouse=True)
def name_of_shared_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOSTILE", tmp_path.name)
    monkeypatch.setenv("HOSTILE_FOLDER", str(tmp_path))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "limits", Limits(cpu_s=1.0))


def run_hostile(lock: str, store: Path | None = None) -> Result:
    return run(Plan(lock=f"{MODULE}:{lock}", time_limit=3.0), store=store)


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "lock", [pytest.param(lock, marks=pytest.mark.slow) if lock in HANGING[1:] else lock for lock in DOUBTS]
)
def test_a_hostile_lock_is_unknown_and_the_result_says_why(
    lock: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if lock in HANGING:
        request.getfixturevalue("impatient")
    result = run_hostile(lock, tmp_path)
    assert result.exit_status == UNKNOWN
    assert {verdict.valid for verdict in result.verdicts.values()} == {None}
    assert DOUBTS[lock] in result.reason
    assert [op.f for op in History.load(tmp_path / LATEST / HISTORY)][-1] == "stop"
    assert json.loads((tmp_path / LATEST / "results.json").read_bytes())["valid"] is None


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("lock", [HANGING[0], *(pytest.param(lock, marks=pytest.mark.slow) for lock in HANGING[1:])])
def test_the_code_that_did_not_yield_is_named(lock: str) -> None:
    result = run_hostile(lock)
    assert f"{MODULE.rpartition('.')[2]}.py" in result.reason
    (stop,) = result.history.nemesis("stop")
    assert any("in acquire" in line for line in stop.value["stack"])


@pytest.mark.few(1)
@pytest.mark.parametrize("lock", ["GuardedByDict", "ClassLock", "Variable"])
def test_state_in_a_module_a_class_or_the_environment_is_not_shared_between_clients(lock: str) -> None:
    """On real machines each client has its own, so two hold the lock."""
    result = run_hostile(lock)
    assert result.valid is False
    assert result.verdicts["mutual-exclusion"].valid is False


def test_two_clients_have_different_hashes_of_texts() -> None:
    result = run_hostile("HashedName")
    assert result.valid is False
    assert result.verdicts["mutual-exclusion"].valid is False
    one, again, other = (salted_hash(life) for life in (b"c0", b"c0", b"c1"))
    for value in ("k0", b"k0", ("k0", 1), frozenset({"k0"})):
        assert one(value) == again(value) != other(value)
    for unsalted in ("", b"", 7, -1, 2.5, None, (1, 2), frozenset({1})):
        assert one(unsalted) == hash(unsalted)
    with pytest.raises(TypeError, match="unhashable type: 'list'"):
        one(("k0", []))


INSTALLED = """
import redis

from .state import HELD


class Lock:
    def __init__(self, client: redis.Redis, key: str, ttl: float) -> None:
        self.client, self.key = client, key

    def acquire(self, timeout):
        if HELD.setdefault(self.key, self) is not self:
            return False
        self.client.set(self.key, "1")
        return True

    def release(self):
        HELD.pop(self.key, None)
"""


def test_state_in_an_installed_package_with_the_lock_is_not_shared_between_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "site-packages" / "installed_lock"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from .lock import Lock\n")
    (package / "state.py").write_text("HELD = {}\n")
    (package / "lock.py").write_text(INSTALLED)
    monkeypatch.syspath_prepend(package.parent)
    result = run(Plan(lock="installed_lock:Lock", time_limit=3.0))
    assert result.verdicts["mutual-exclusion"].valid is False, result.reason


LATE = """
import importlib
import socket

import redis


class Lock:
    def __init__(self, client: redis.Redis, key: str, ttl: float) -> None:
        self.lock = client.lock(key, timeout=ttl, blocking=False)

    def acquire(self) -> bool:
        importlib.import_module("late_lock." + socket.gethostname())
        return self.lock.acquire()

    def release(self):
        self.lock.release()
"""


def test_modules_whose_compiled_forms_no_client_can_write_are_no_shared_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each client tries to make the folder for them, as in an installation of another user."""
    package = tmp_path / "late_lock"
    package.mkdir()
    (package / "__init__.py").write_text(LATE)
    for number in range(5):
        (package / f"c{number}.py").write_text("")
    (package / "__pycache__").write_text("no folder")
    monkeypatch.syspath_prepend(tmp_path)
    result = run(Plan(lock="late_lock:Lock", time_limit=3.0))
    assert result.valid is True, result.reason


def test_shared_files_can_be_accepted(tmp_path: Path) -> None:
    plan = Plan(lock=f"{MODULE}:FileLock", time_limit=3.0, shared_files=True)
    assert run(plan, store=tmp_path).valid is True


def test_clients_that_may_share_files_are_not_compared_with_separate_servers() -> None:
    result = run(Plan(lock=f"{MODULE}:OwnFiles", time_limit=3.0, shared_files=True))
    assert result.valid is True, result.reason


def test_a_sound_lock_beside_them_is_valid() -> None:
    assert run_hostile("Sound").valid is True


def test_the_library_of_a_users_lock_is_simulated_although_clients_import_it_late() -> None:
    result = run(Plan(lock=f"{__package__}.etcd_lock:UsersEtcdLock", time_limit=5.0))
    assert result.valid is True, result.reason


def test_a_lock_that_ends_its_process_when_imported_is_a_usage_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("exits_at_import.py").write_text("import os\nos._exit(0)\n")
    with pytest.raises(SystemExit) as ended:
        main(["run", "exits_at_import:Lock"])
    assert ended.value.code == USAGE
    err = capsys.readouterr().err
    assert "importing it failed: the process of the lock ended itself with exit status 0" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("statement", "wrong"),
    [
        ("sys.excepthook = None", "sys.excepthook is None"),
        ("sys.excepthook = 5", "sys.excepthook is 5"),
        ("threading.excepthook = None", "threading.excepthook is None"),
    ],
)
def test_a_lock_whose_module_sets_a_hook_that_cannot_be_called_is_a_usage_error(
    statement: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sets_a_hook.py").write_text(f"import sys, threading\n{statement}\nclass Lock: ...\n")
    with pytest.raises(SystemExit) as ended:
        main(["run", "sets_a_hook:Lock"])
    assert ended.value.code == USAGE
    found = f"harness: sets_a_hook:Lock: after importing sets_a_hook, {wrong}: expected a function\n"
    assert capsys.readouterr().err == found


@pytest.mark.parametrize(
    ("lock", "wrong"), [("NoHook", "sys.excepthook is None"), ("NoHookOfThreads", "threading.excepthook is 5")]
)
def test_a_lock_that_sets_such_a_hook_later_is_unknown_once_a_thread_is_needed(lock: str, wrong: str) -> None:
    crash = FaultSpec("client-crash", at=1.0)
    result = run(Plan(lock=f"{MODULE}:{lock}", time_limit=5.0, faults=(crash,)))
    assert result.exit_status == UNKNOWN
    assert f"{wrong}, so no thread can be started" in result.reason


@pytest.mark.slow
def test_the_same_worker_code_gives_the_same_history_twice(tmp_path: Path) -> None:
    """No state passes from one run to the next, and none from client to client."""
    for store in ("one", "other"):
        run_hostile("ClassLock", tmp_path / store)
    one, other = (tmp_path / store / LATEST / HISTORY for store in ("one", "other"))
    assert one.read_bytes() == other.read_bytes()


def test_a_destructor_after_the_run_reaches_no_network_and_prints_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("HOSTILE_PORT", str(server.getsockname()[1]))
        assert run_hostile("CallsHome").document["stats"]["acquires_ok"] > 1
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert capfd.readouterr().err == ""
