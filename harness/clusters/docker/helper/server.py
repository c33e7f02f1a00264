"""Request server of the helper: newline-delimited JSON requests, answered by operations such as
:class:`.operations.Operations`.

``{"id": 7, "op": "ping", ...}`` is answered by ``{"id": 7, "ok": value}`` or ``{"id": 7, "error": "text"}``. Each
request has a thread of its own, so that a slow ping does not delay a kill, and answers come as they are ready. A caller
that needs an order waits for each answer. Keys of JSON objects are text, process ids too.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from . import cgroups, disks, files, network, processes
from .arguments import Arguments, RequestError
from .namespaces import NamespaceError
from .nfqueue import QueueError
from .operations import OperationError

PATIENCE: Final = 5.0
"""Seconds that requests in progress get to finish after the input has ended."""
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
