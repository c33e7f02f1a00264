"""Prepare what a command of a page needs: files, stored runs, recordings, servers, and programs."""

from __future__ import annotations

import gzip
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from harness import FaultSpec, Plan, run
from harness.cli.main import main
from harness.fidelity.processes import ServerProcess
from harness.record import Recorder
from tests.conformance import server as lock_server
from tests.conftest import redis_command
from tests.servers.own_redis import sentinel_setup

from .page_commands import PAGES, ROOT, commands, files_of

OWN_REDIS: Final = "127.0.0.1:6379"
SENTINELS: Final = "127.0.0.1:26379,127.0.0.1:26380"
REGISTER: Final = """\
{:process 0, :type :invoke, :f :write, :value 1}
{:process 0, :type :ok, :f :write, :value 1}
{:process 1, :type :invoke, :f :cas, :value [1 2]}
{:process 1, :type :ok, :f :cas, :value [1 2]}
"""
SEMAPHORE: Final = """\
{:process 0, :type :invoke, :f :acquire}
{:process 0, :type :ok, :f :acquire}
{:process 1, :type :invoke, :f :acquire}
{:process 1, :type :ok, :f :acquire}
"""
APPLICATION: Final = """\
import pathlib, threading, time
from harness.record import Recorder
while not pathlib.Path("locks.sock").is_socket():
    time.sleep(0.01)
with Recorder("unix:locks.sock").wrap(threading.Lock(), key="orders"):
    pass
"""
"""It connects to the socket on which the command listens."""
LOCK_PROGRAM: Final = f"""\
#!/bin/sh
exec "{sys.executable}" -S "{ROOT}/tests/conformance/program.py"
"""


@dataclass
class Surroundings:
    """The folder of a command, and the command, in which addresses become those of servers that run until the end of
    ``stack``. The program ``beside`` runs at the same time, if there is one."""

    folder: Path
    command: str
    stack: ExitStack
    beside: str = ""

    def replace(self, text: str, address: tuple[str, int]) -> None:
        self.command = self.command.replace(text, "{}:{}".format(*address))

    def stored_run(self) -> None:
        """Store a run that is valid, or as on the page the one of Redlock with clocks that jump."""
        plan = Plan(lock="redis-fenced", clients=2, time_limit=3.0, fencing="on")
        if "owner-mutex" in self.command:
            plan = Plan(lock="redlock", faults=(FaultSpec("clock-jump", at=0.5),), time_limit=5.0)
        run(plan, store=self.folder / "store")

    def compressed_history(self) -> None:
        self.stored_run()
        history = (self.folder / "store" / "latest" / "history.jsonl").read_bytes()
        (self.folder / "history.jsonl.gz").write_bytes(gzip.compress(history))

    def edn_histories(self) -> None:
        (self.folder / "jepsen").mkdir()
        (self.folder / "jepsen" / "history.edn").write_text(REGISTER)
        (self.folder / "history.edn").write_text(SEMAPHORE)

    def counterexample(self) -> None:
        shutil.copy(ROOT / "scenarios" / "rl-clock-jump.toml", self.folder / "counterexample.toml")

    def stored_nights(self) -> None:
        """Store two nightly runs of one scenario."""
        for _ in range(2):
            _harness("nightly", "--only", "rl-restart", "--out", str(self.folder / "store"))

    def stored_fidelity(self) -> None:
        _harness("fidelity", "--server", "redis", "--seeds", "1", "--out", str(self.folder / "store"))

    def recordings(self) -> None:
        """Record two processes, one after the other, and two more with a folder of their own."""
        for machine in ("web-1", "web-2"):
            for folder in ("recordings", machine):
                recorder = Recorder(self.folder / folder)
                with recorder.wrap(threading.Lock(), key="orders"):
                    pass
                recorder.close()

    def application(self) -> None:
        (self.folder / "application.py").write_text(APPLICATION)
        self.beside = "python application.py"

    def own_redis(self) -> None:
        server = self.stack.enter_context(ServerProcess("redis-server", redis_command))
        self.replace(OWN_REDIS, server.place.address)

    def own_sentinels(self) -> None:
        """Start a sentinel, and let the hooks of the page ask it."""
        (self.folder / "data").mkdir()
        sentinel = self.stack.enter_context(sentinel_setup(self.folder / "data")).sentinel
        self.replace(SENTINELS, ("127.0.0.1", sentinel.port))
        project = self.folder / "pyproject.toml"
        project.write_text(project.read_text().replace("-h db1 -p 26379", f"-p {sentinel.port}"))

    def lock_program(self) -> None:
        """Write the program of the tests, and start the servers that it knows."""
        program = self.folder / "my-lock-program"
        program.write_text(LOCK_PROGRAM)
        program.chmod(0o755)
        self.replace(OWN_REDIS, self.stack.enter_context(lock_server.running()))

    def examples(self) -> None:
        (self.folder / "examples").symlink_to(ROOT / "examples")

    def site(self) -> None:
        (self.folder / "site").mkdir()
        (self.folder / "site" / "index.html").write_text("<h1>harness</h1>")

    def lock_of_another_name(self) -> None:
        """Write ``mine.py`` with a class ``Lock``."""
        lock = files_of(ROOT / "README.md")["mylock.py"].replace("MyLock", "Lock")
        (self.folder / "mine.py").write_text(lock, encoding="utf-8")


NEEDED: Final[dict[str, Callable[[Surroundings], None]]] = {
    "check store/latest": Surroundings.stored_run,
    "export store/latest": Surroundings.stored_run,
    "store/latest/plan.toml": Surroundings.stored_run,
    "history.jsonl.gz": Surroundings.compressed_history,
    ".edn --model": Surroundings.edn_histories,
    "replay counterexample.toml": Surroundings.counterexample,
    "harness trends": Surroundings.stored_nights,
    "harness publish": Surroundings.stored_nights,
    "harness serve": Surroundings.stored_run,
    "fidelity --history": Surroundings.stored_fidelity,
    " recordings --model": Surroundings.recordings,
    " web-1/": Surroundings.recordings,
    " unix:": Surroundings.application,
    f"redis://{OWN_REDIS}": Surroundings.own_redis,
    SENTINELS: Surroundings.own_sentinels,
    "./my-lock-program": Surroundings.lock_program,
    " examples/": Surroundings.examples,
    "--site site": Surroundings.site,
    "mine:Lock": Surroundings.lock_of_another_name,
}
"""Texts of commands, with the functions that prepare what a command with that text needs."""


@contextmanager
def surroundings(original: str, command: str, folder: Path) -> Iterator[Surroundings]:
    """Prepare what a command needs: the files that its page defines, or the README or another page, and the rest."""
    with ExitStack() as stack:
        found = Surroundings(folder, command, stack)
        for name, contents in _files(original).items():
            (folder / name).write_text(contents, encoding="utf-8")
        for text, provide in NEEDED.items():
            if text in command:
                provide(found)
        yield found


def _files(command: str) -> dict[str, str]:
    """Return all files of the command's own page, and what the command names of the files of other pages."""
    found = files_of(commands()[command][0])
    for page in PAGES:
        for name, contents in files_of(page).items():
            if name.endswith(".py") and f" {Path(name).stem}:" in command:
                found.setdefault(name, contents)
    return found


def _harness(*arguments: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--quiet"])
    assert ended.value.code == 0, arguments
