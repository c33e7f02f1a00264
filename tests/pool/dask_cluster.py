"""A Dask cluster of real processes on the loopback, for tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOOPBACK = "127.0.0.1"
ROOT = Path(__file__).parent.parent.parent
STARTS_WITHIN = 30.0


class DaskCluster:
    """A scheduler and the workers added to it, which write to ``folder``. A task of which more than ``may_fail``
    workers die is given up."""

    def __init__(self, folder: Path, may_fail: int = 3) -> None:
        self._folder = folder
        self._environment = {**os.environ, "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(may_fail)}
        self._scheduler_file = folder / "scheduler.json"
        self.scheduler = self._start(
            "scheduler", "--host", LOOPBACK, "--port", "0", "--scheduler-file", str(self._scheduler_file)
        )
        self.workers: list[subprocess.Popen[bytes]] = []
        self.address = self._address()

    def add(self, *options: str, before: str = "") -> subprocess.Popen[bytes]:
        """Start a worker of one thread (``options`` may say otherwise) without a nanny, which would restart it.
        It runs the Python text ``before`` first."""
        name = f"w{len(self.workers)}"
        usual = ["--nthreads", "1", "--no-nanny", "--host", LOOPBACK, "--name", name, "--death-timeout", "60"]
        scratch = ["--local-directory", str(self._folder)]
        worker = self._start("worker", self.address, *usual, *scratch, *options, before=before)
        self.workers.append(worker)
        return worker

    def wait(self) -> None:
        """Wait until all workers that were added are there."""
        from distributed import Client  # slow to import, and most tests need none

        with Client(self.address, set_as_default=False) as client:
            client.wait_for_workers(len(self.workers), timeout=STARTS_WITHIN)

    def _start(self, role: str, *arguments: str, before: str = "") -> subprocess.Popen[bytes]:
        program = f"{before}\nimport sys\nfrom distributed.cli.dask_{role} import main\nsys.exit(main())"
        command = [sys.executable, "-c", program, "--no-dashboard", *arguments]
        with (self._folder / f"{role}.log").open("ab") as log:  # workers import the jobs of tests from ROOT
            return subprocess.Popen(
                command, cwd=ROOT, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _address(self) -> str:
        deadline = time.monotonic() + STARTS_WITHIN
        while True:
            try:
                return str(json.loads(self._scheduler_file.read_text())["address"])
            except (FileNotFoundError, ValueError):
                assert time.monotonic() < deadline, (self._folder / "scheduler.log").read_text()
                time.sleep(0.05)

    def stop(self) -> None:
        for process in [*self.workers, self.scheduler]:
            process.kill()
            process.wait()


@contextmanager
def dask_cluster(folder: Path, workers: int = 2, may_fail: int = 3) -> Iterator[DaskCluster]:
    cluster = DaskCluster(folder, may_fail)
    try:
        for _ in range(workers):
            cluster.add()
        if workers:
            cluster.wait()
        yield cluster
    finally:
        cluster.stop()
