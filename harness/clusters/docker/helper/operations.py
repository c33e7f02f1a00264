"""Operations of the helper: what a request does, by its name."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from harness.record.clocks import monotonic_clock_name
from harness.record.processor_waits import ProcessorWaits, Waits

from . import cgroups, datagrams, disks, files, network, processes
from .arguments import Arguments, RequestError
from .capture import Capture
from .greeting import greet
from .namespaces import NamespaceError, processes_of


class OperationError(Exception):
    """Failures of an operation on several processes; it was completed for the others."""


class Operations:
    """Operations that can be requested; ``table`` maps their names to methods."""

    def __init__(self) -> None:
        self._networks = network.Networks()
        self._disks = disks.ContainerDisks()
        self._loads = cgroups.Loads()
        self._captures: dict[int, Capture] = {}
        self._waits: ProcessorWaits | None = None
        self.table: Final[Mapping[str, Callable[[Arguments], object]]] = {
            "machine": lambda _: monotonic_clock_name(),
            "greet": lambda _: greet(),
            "filter": self._filter,
            "ping": self._ping,
            "knock": self._knock,
            "connections": self._connections,
            "shape": self._shape,
            "exchange": self._exchange,
            "members": self._members,
            "spare": self._spare,
            "kill": self._kill,
            "terminate": lambda given: processes.terminate(given.pid()),
            "states": self._states,
            "clock": self._clock,
            "offset": self._offset,
            "write": self._write,
            "make_disk": lambda given: self._disks.make(given.pid(), given.whole("size")),
            "freeze": lambda given: self._disks.freeze(given.pid()),
            "thaw": lambda given: self._disks.thaw(given.pid()),
            "thaw_all": lambda _: self._disks.thaw_all(),
            "attempt": lambda given: self._disks.attempt(given.pid(), given.seconds("timeout")),
            "fill": lambda given: self._disks.fill(given.pid(), full=True),
            "clear": lambda given: self._disks.fill(given.pid(), full=False),
            "newest_file": lambda given: files.newest(files.root_of(given.pid()), given.words("patterns")),
            "damage_file": self._damage_file,
            "slow": lambda given: self._disks.slow(given.pid(), given.whole("per_second")),
            "timed_sync": lambda given: self._disks.timed_sync(given.pid(), given.seconds("timeout")),
            "cut_power": lambda given: self._disks.cut_power(given.pid()),
            "restore_power": lambda given: self._disks.restore_power(given.pid()),
            "load": lambda given: self._loads.start(given.pid(), given.whole("count")),
            "end_load": lambda given: self._loads.stop(given.pid()),
            "capture": self._capture,
            "end_capture": lambda given: self._capture_of(given).stop(),
            "captured": self._captured,
            "forget_capture": lambda given: self._captures.pop(given.pid()) and None,
            "watch_processors": self._watch_processors,
            "processor_waits": lambda _: self._end_waits(),
        }

    def close(self) -> list[str]:
        """Thaw all disks, end all loads and remove all delays; return error messages."""
        self._end_waits()
        self._loads.stop_all()
        return self._disks.thaw_all() + self._networks.close()

    def _filter(self, given: Arguments) -> None:
        """Run each script in the network of its process. A failure does not prevent the others."""
        failed = []
        for pid, script in given.scripts().items():
            try:
                self._networks.of(pid).filter(script)
            except (NamespaceError, network.FilterError) as error:
                failed.append(str(error))
        if failed:
            raise OperationError("; ".join(failed))

    def _ping(self, given: Arguments) -> float | None:
        pid, address, timeout = given.pid(), given.address(), given.seconds("timeout")
        return self._networks.of(pid).ping(address, timeout)

    def _knock(self, given: Arguments) -> float | None:
        pid, address, port, timeout = given.pid(), given.address(), given.whole("port"), given.seconds("timeout")
        hello, greets = given.data_or("hello", network.KNOCK), given.yes("greets")
        return self._networks.of(pid).knock(address, port, timeout, hello, greets=greets)

    def _connections(self, given: Arguments) -> int:
        return network.connections(given.pid(), given.addresses(), given.whole_or("without_user", -1))

    def _shape(self, given: Arguments) -> None:
        pid, sources, seed = given.pid(), given.sources(), given.whole("seed")
        self._networks.of(pid).shape(sources, seed)

    def _exchange(self, given: Arguments) -> dict[str, int]:
        """Send datagrams from the network of ``pid`` to that of ``target``, and count them."""
        source, target = self._networks.of(given.pid()), self._networks.of(given.pid("target"))
        return datagrams.exchange(source, target, given.address(), given.whole("count"))

    def _members(self, given: Arguments) -> list[int]:
        return processes.members(given.pid())

    def _spare(self, given: Arguments) -> None:
        processes.spare(given.pid(), given.pids())

    def _kill(self, given: Arguments) -> dict[int, list[int]]:
        """Kill all processes of several containers except the first of each; return those killed, by container."""
        pids = given.pids()
        with ThreadPoolExecutor(max(1, len(pids))) as pool:
            return dict(zip(pids, pool.map(self._disks.kill, pids), strict=True))

    def _states(self, given: Arguments) -> dict[int, str]:
        return processes.states(given.pid())

    def _clock(self, given: Arguments) -> dict[int, list[int]]:
        """Set the clocks of all processes of containers except the first of each; return those set, by container."""
        # Imported late: without this module, or on an unsupported machine, the helper can still do everything else.
        from . import clocks, vdso

        offset_ns, rate = given.whole("offset_ns"), given.number("rate")
        since_ns = given.whole_or("since_ns", time.monotonic_ns())
        moved: dict[int, list[int]] = {}
        failed = []
        for pid in given.pids():
            try:
                moved[pid] = clocks.move_members(pid, offset_ns, rate, since_ns)
            except vdso.ClockError as error:
                failed.append(str(error))
        if failed:
            raise OperationError("; ".join(failed))
        return moved

    def _capture(self, given: Arguments) -> None:
        pid, port = given.pid(), given.whole("port")
        self._captures[pid] = Capture(self._networks.of(pid).namespace, port)

    def _capture_of(self, given: Arguments) -> Capture:
        found = self._captures.get(given.pid())
        if found is None:
            raise RequestError(f"pid: got {given.pid()}, expected the process of a capture")
        return found

    def _captured(self, given: Arguments) -> str:
        """Return a part of a recording, in base64."""
        return base64.b64encode(self._capture_of(given).part(given.whole("start"), given.whole("size"))).decode()

    def _watch_processors(self, given: Arguments) -> None:
        self._end_waits()
        self._waits = ProcessorWaits(processes_of(given.pids()))

    def _end_waits(self) -> Waits:
        waits, self._waits = self._waits, None
        return [] if waits is None else waits.stop()

    def _write(self, given: Arguments) -> None:
        """Replace the contents of the file with one path in each of several containers."""
        path = given.text("path")
        failed = []
        for pid, text in given.texts().items():
            try:
                files.write(pid, path, text)
            except files.FileError as error:
                failed.append(str(error))
        if failed:
            raise OperationError("; ".join(failed))

    def _damage_file(self, given: Arguments) -> None:
        patterns, size, seed = given.words("patterns"), given.whole("size"), given.whole("seed")
        files.damage(files.root_of(given.pid()), patterns, flip=given.yes("flip"), size=size, seed=seed)

    def _offset(self, given: Arguments) -> int:
        """Return how far the clock of a container's youngest process is ahead, in ns."""
        from . import vdso

        pid = given.pid()
        members = processes.members(pid)
        if not members:
            raise OperationError(f"container of process {pid}: no process but the first, so no clock to read")
        return vdso.offset(members[-1])
