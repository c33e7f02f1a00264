"""A history through ours and through Porcupine, each in a process of its own that has one core and half of the
machine's memory."""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from benchmarks.linearizability.cases import Case

PROGRAM: Final = Path(__file__).parent / "porcupine"
ROOT: Final = Path(__file__).parents[2]
GRACE: Final = 600.0
"""Seconds that a process may take beyond its time for checking: reading, and further rounds."""
SHORT: Final = 2.0
"""Seconds; what Porcupine takes longer for is measured once."""
OUT_OF_MEMORY: Final = "out of memory"
NOT_RUN: Final = "not run"
Verdict = Literal["Ok", "Illegal", "Unknown", "out of memory", "not run"]


@dataclass(frozen=True, slots=True)
class Measured:
    """One program on one history: seconds of the processor, so that what else the machine does counts little, and the
    memory of the process at its highest, bytes. ``decide`` is the verdict alone and ``seconds`` the check with all that
    it says (of Porcupine the same). ``wall`` are seconds by the clock on the wall: ours of reading and checking,
    Porcupine's of the check. ``calls`` leaves out those that failed."""

    verdict: Verdict
    calls: int = 0
    read: float = float("nan")
    decide: float = float("nan")
    seconds: float = float("nan")
    wall: float = float("nan")
    peak: int = 0

    @property
    def total(self) -> float:
        return self.read + self.seconds

    @property
    def decided(self) -> bool:
        return self.verdict in ("Ok", "Illegal")


class Ours:
    """``warm`` gives a small history that is like the one of a case; it is checked first."""

    def __init__(self, seconds: float, warm: Callable[[Case], Path]) -> None:
        self.seconds, self._warm = seconds, warm

    def measure(self, path: Path, case: Case) -> Measured:
        """Medians of several rounds if it is quick. Raises RuntimeError if the process fails."""
        command = [sys.executable, "-m", "benchmarks.linearizability.ours", str(path), case.model, str(self.seconds)]
        ran = _alone([*command, str(self._warm(case))], timeout=3 * self.seconds + GRACE)
        if ran.returncode:
            raise RuntimeError(f"{case.name}: {ran.stderr.decode().strip()[-2000:]}")
        return _measured(ran.stdout)


class Porcupine:
    """Built when it is made; raises RuntimeError if that cannot be done, with the reason."""

    def __init__(self, seconds: float, folder: Path) -> None:
        self.seconds = seconds
        self.binary = folder / "porcupine"
        if shutil.which("go") is None:
            raise RuntimeError("Go is not here")
        built = subprocess.run(["go", "build", "-o", self.binary, "."], cwd=PROGRAM, capture_output=True, check=False)
        if built.returncode:
            raise RuntimeError(f"it cannot be built: {built.stderr.decode().strip()}")
        module = ["go", "list", "-m", "-f", "{{.Path}} {{.Version}}", "github.com/anishathalye/porcupine"]
        self.version = subprocess.run(module, cwd=PROGRAM, capture_output=True, check=True).stdout.decode().strip()

    def measure(self, path: Path, model: str, cores: int = 1, *, evidence: bool = False) -> Measured:
        """The median of three if it is quick; ``evidence`` keeps failed cas. Raises RuntimeError if the process fails,
        but for want of memory."""
        kept = ["-evidence"] if evidence else []
        command = [str(self.binary), "-model", model, "-timeout", f"{self.seconds}s", *kept, str(path)]
        rounds: list[Measured] = []
        while len(rounds) < 3 and not (rounds and rounds[0].seconds > SHORT):
            ran = _alone(command, timeout=self.seconds + GRACE, cores=cores)
            if b"out of memory" in ran.stderr or b"cannot allocate memory" in ran.stderr:
                return Measured(OUT_OF_MEMORY)
            if ran.returncode:
                raise RuntimeError(f"{path.name}, {model}: {ran.stderr.decode().strip()[-2000:]}")
            rounds.append(_measured(ran.stdout))
        middle = statistics.median_low(one.seconds for one in rounds)
        return next(one for one in rounds if one.seconds == middle)


def _measured(printed: bytes) -> Measured:
    found: dict[str, Any] = msgspec.json.decode(printed)
    return Measured(**{"decide": found["seconds"], **found})


def _alone(command: list[str], timeout: float, cores: int = 1) -> subprocess.CompletedProcess[bytes]:
    """Run on the last ``cores`` of the cores that this process may use: the first one has the most else to do."""
    mine = set(sorted(os.sched_getaffinity(0))[-cores:])
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2

    def confine() -> None:
        os.sched_setaffinity(0, mine)
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    environment = {**os.environ, "GOMAXPROCS": str(cores)}
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        timeout=timeout,
        check=False,
        preexec_fn=confine,
    )
