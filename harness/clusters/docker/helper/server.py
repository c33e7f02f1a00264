"""Request server of the helper container: newline-delimited JSON requests, executed by :class:`Operations`.

``{"id": 7, "op": "ping", ...}`` is answered by ``{"id": 7, "ok": value}`` or ``{"id": 7, "error": "text"}``. Each
request has a thread of its own, so that a slow ping does not delay a kill, and answers come as they are ready. A caller
that needs an order waits for each answer. Keys of JSON objects are text, process ids too.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol, TypeVar

from harness.record.clocks import monotonic_clock_name
from harness.record.processor_waits import ProcessorWaits, Waits

from . import cgroups, datagrams, disks, files, network, processes
from .capture import Capture
from .greeting import greet
from .namespaces import NamespaceError, processes_of
from .nfqueue import PacketShape, QueueError

T = TypeVar("T")
PATIENCE: Final = 5.0
"""Seconds that requests in progress get to finish after the input has ended."""
SHAPE_KEYS: Final = ("delay", "jitter", "loss", "rate", "reorder", "corrupt")


class RequestError(Exception):
    """Invalid request; the message names the argument, its value and what was expected."""


class OperationError(Exception):
    """Failures of an operation on several processes; it was completed for the others."""


PLAIN_ERRORS: Final = (
    RequestError,
    OperationError,
    NamespaceError,
    QueueError,
    network.FilterError,
    processes.ProcessError,
    disks.DiskError,
    files.FileError,
    cgroups.CgroupError,
)
"""Errors reported by their message alone; others are prefixed with their class."""


class Arguments:
    """Arguments of a request, validated when they are read."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def _take(self, name: str, expected: str, read: Callable[[Any], T]) -> T:
        if name not in self._values:
            raise RequestError(f"{name} is missing, expected {expected}")
        value = self._values[name]
        try:
            return read(value)
        except (TypeError, ValueError, AttributeError) as error:
            raise RequestError(f"{name}: got {json.dumps(value)[:200]}, expected {expected}") from error

    def pid(self, name: str = "pid") -> int:
        return self._take(name, "a process id", _pid)

    def pids(self) -> list[int]:
        return self._take("pids", "a list of process ids", lambda value: [_pid(each) for each in _list(value)])

    def whole(self, name: str) -> int:
        return self._take(name, "a whole number", _whole)

    def whole_or(self, name: str, default: int) -> int:
        return self.whole(name) if name in self._values else default

    def number(self, name: str) -> float:
        return self._take(name, "a number", _number)

    def seconds(self, name: str) -> float:
        return self._take(name, "seconds above 0", _positive)

    def text(self, name: str) -> str:
        return self._take(name, "text", _text)

    def words(self, name: str) -> list[str]:
        return self._take(name, "a list of texts", lambda value: [_text(each) for each in _list(value)])

    def address(self) -> str:
        return self._take("address", "an IPv4 address", _address)

    def addresses(self) -> list[tuple[str, int]]:
        return self._take("addresses", "a list of [IPv4 address, port]", _ends)

    def data_or(self, name: str, default: bytes) -> bytes:
        return self._take(name, "bytes in hexadecimal", _bytes) if name in self._values else default

    def yes(self, name: str) -> bool:
        return self._values.get(name) is True

    def scripts(self) -> dict[int, str]:
        return self._take("scripts", "an object of process id to nft script", _by_pid)

    def texts(self) -> dict[int, str]:
        return self._take("texts", "an object of process id to text", _by_pid)

    def sources(self) -> dict[str, PacketShape]:
        return self._take("sources", f"an object of IPv4 address to {{{', '.join(SHAPE_KEYS)}}}", _shapes)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return value


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    return value


def _pid(value: Any) -> int:
    if _whole(value) <= 0:
        raise ValueError
    return int(value)


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise TypeError
    return value


def _positive(value: Any) -> float:
    if _number(value) <= 0:
        raise ValueError
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _address(value: Any) -> str:
    return str(ipaddress.IPv4Address(_text(value)))


def _ends(value: Any) -> list[tuple[str, int]]:
    return [(_address(address), _whole(port)) for address, port in map(_list, _list(value))]


def _bytes(value: Any) -> bytes:
    return bytes.fromhex(_text(value))


def _by_pid(value: Any) -> dict[int, str]:
    return {_pid(int(pid)): _text(text) for pid, text in value.items()}


def _shapes(value: Any) -> dict[str, PacketShape]:
    return {_address(source): _shape(settings) for source, settings in value.items()}


def _shape(settings: Any) -> PacketShape:
    if set(settings) - set(SHAPE_KEYS):
        raise ValueError
    delay, jitter, loss, corrupt = (_number(settings.get(key, 0)) for key in ("delay", "jitter", "loss", "corrupt"))
    rate, reorder = settings.get("rate"), settings.get("reorder", False)
    if not isinstance(reorder, bool):
        raise TypeError
    return PacketShape(delay, jitter, loss, None if rate is None else _number(rate), reorder, corrupt)


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
            "newest_file": lambda given: files.newest(given.pid(), given.words("patterns")),
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
        from . import vdso

        pids, offset_ns, rate = given.pids(), given.whole("offset_ns"), given.number("rate")
        since_ns = given.whole_or("since_ns", time.monotonic_ns())
        moved: dict[int, list[int]] = {pid: [] for pid in pids}
        failed = []
        for pid in pids:
            for member in processes.members(pid):
                try:
                    vdso.move(member, offset_ns + round(rate * (time.monotonic_ns() - since_ns)), rate)
                except vdso.ClockError as error:
                    if processes.runs(member):
                        failed.append(f"process {member}: {error}")
                else:
                    moved[pid].append(member)
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
        files.damage(given.pid(), patterns, flip=given.yes("flip"), size=size, seed=seed)

    def _offset(self, given: Arguments) -> int:
        """Return how far the clock of a container's youngest process is ahead, in ns."""
        from . import vdso

        pid = given.pid()
        members = processes.members(pid)
        if not members:
            raise OperationError(f"container of process {pid}: no process but the first, so no clock to read")
        return vdso.offset(members[-1])


class RequestTable(Protocol):
    """Operations that can be requested, by name."""

    @property
    def table(self) -> Mapping[str, Callable[[Arguments], object]]: ...


class RequestServer:
    """Answers requests, each in a thread of its own, until the input ends."""

    def __init__(self, operations: RequestTable, write: Callable[[str], object]) -> None:
        """:param write: sends a line that ends in a newline; called by one thread at a time."""
        self._operations = operations
        self._write = write
        self._writing = threading.Lock()

    def serve(self, requests: Iterable[bytes]) -> None:
        """Announce readiness, then answer. When the input has ended, wait PATIENCE seconds at most for the rest."""
        self._send({"ready": True})
        threads: list[threading.Thread] = []
        for line in requests:
            threads = [thread for thread in threads if thread.is_alive()]
            thread = threading.Thread(target=self._handle, args=(line,), daemon=True)
            threads.append(thread)
            thread.start()
        deadline = time.monotonic() + PATIENCE
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _handle(self, line: bytes) -> None:
        number: object = None
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise RequestError(f"got {json.dumps(request)[:200]}, expected an object with id and op")
            number = request.get("id")
            answer = {"id": number, "ok": self._do(request)}
        except PLAIN_ERRORS as error:
            answer = {"id": number, "error": str(error)}
        except Exception as error:  # noqa: BLE001 - the caller waits for an answer in any case
            answer = {"id": number, "error": f"{type(error).__name__}: {error}"}
        self._send(answer)

    def _do(self, request: Mapping[str, Any]) -> object:
        name = request.get("op")
        operation = self._operations.table.get(name) if isinstance(name, str) else None
        if operation is None:
            raise RequestError(f"op: got {json.dumps(name)}, expected one of {', '.join(self._operations.table)}")
        try:
            return operation(Arguments(request))
        except RequestError as error:
            raise RequestError(f"{name}: {error}") from error

    def _send(self, answer: Mapping[str, object]) -> None:
        line = json.dumps(answer) + "\n"
        with self._writing:
            try:
                self._write(line)
            except BrokenPipeError:
                return  # the caller has ended, so the input will end next
