"""The workers of a Dask cluster.

Dask executes a job again when its worker dies. What is added here: every worker must have the same versions as this
process, and waiting ends when the scheduler or the last worker is gone.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.clusters.kinds import own_kinds
from harness.errors import EnvironmentLacking
from harness.run.verdicts.judging import versions

from .base import Params, Pool, Result, WorkerDied

if TYPE_CHECKING:
    from distributed import Client

ANSWERS_WITHIN: Final = 10.0
"""Seconds that a scheduler may take to answer, and to have a worker."""
RETURNS_WITHIN: Final = 30.0
"""Seconds without a scheduler, or without a single worker, after which waiting ends."""
CLOSES_WITHIN: Final = 1.0
"""Seconds that the connection may take to close."""
INSTALL: Final = "pip install 'lock-harness[dask]'"


@contextlib.contextmanager
def connect(address: str) -> Iterator[DaskPool]:
    """Connect to the scheduler at ``address`` (``tcp://host:port``).

    Raises EnvironmentLacking if it has no workers, or one that differs from this process.
    """
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise EnvironmentLacking(f"a scheduler needs Dask, which is not installed: {INSTALL}") from error
    with _without_logs(), _client(address) as client:
        _check_workers(client, address)
        with contextlib.closing(DaskPool(client, address)) as pool:
            yield pool


@contextlib.contextmanager
def _client(address: str) -> Iterator[Client]:
    """Connect in a thread: Dask waits for ever if something listens at the address and does not answer."""
    connected: Future[Client] = Future()
    threading.Thread(target=_connect, args=(address, connected), daemon=True).start()
    try:
        client = connected.result(ANSWERS_WITHIN + CLOSES_WITHIN)
    except Exception as error:
        raise EnvironmentLacking(
            f"no Dask scheduler answers at {address} ({str(error) or 'no reply'}): start one with "
            "`dask scheduler`, and give the tcp:// address that it prints"
        ) from error
    try:
        yield client
    finally:
        client.close(timeout=CLOSES_WITHIN)


def _connect(address: str, connected: Future[Client]) -> None:
    from distributed import Client

    try:
        connected.set_result(Client(address, timeout=ANSWERS_WITHIN, set_as_default=False))
    except Exception as error:  # noqa: BLE001 - an address can be wrong in many ways
        connected.set_exception(error)


@contextlib.contextmanager
def _without_logs() -> Iterator[None]:
    """Silence Dask's logs of lost connections: one line of the harness says what they mean."""
    names = [name for name in ("distributed", *logging.root.manager.loggerDict) if name.startswith("distributed")]
    before = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


class DaskPool(Pool):
    """As wide as the cluster has workers, which may come and go. Each executes one job at a time, however many threads
    it has."""

    def __init__(self, client: Client, address: str) -> None:
        from distributed import KilledWorker

        self._client = client
        self._address = address
        self._executor = client.get_executor(pure=False)
        self._killed = KilledWorker
        self._last_seen = time.monotonic()

    @property
    def width(self) -> int:
        return max(1, len(self._workers()))

    def submit(self, work: Callable[Params, Result], /, *args: Params.args, **kwargs: Params.kwargs) -> Future[Result]:
        future: Future[Result] = self._executor.submit(_call_on_worker, signature(), work, *args, **kwargs)
        return future

    def result(self, future: Future[Result]) -> Result:
        try:
            return future.result()
        except self._killed as killed:
            raise WorkerDied(
                f"{killed.allowed_failures + 1} workers died while executing it, "
                f"the last one {killed.last_worker.address}"
            ) from killed
        except CancelledError as error:
            raise self._lost() from error

    def check(self) -> None:
        now = time.monotonic()
        if self._workers():
            self._last_seen = now
        elif now - self._last_seen > RETURNS_WITHIN:
            raise self._lost(f"has had no worker for {RETURNS_WITHIN:g} s")

    def shared(self, folder: Path) -> Path:
        """Return the absolute path, once every worker has read a file that is written there now."""
        path = folder.absolute()
        path.mkdir(parents=True, exist_ok=True)
        mark = path / f".shared-{uuid.uuid4().hex}"
        mark.touch()
        try:
            found: dict[str, Any] = self._client.run(mark.exists)
        finally:
            mark.unlink()
        for worker, exists in sorted(found.items()):
            if exists is not True:
                raise EnvironmentLacking(
                    f"the Dask worker at {worker} does not see {path}, where it is to keep runs: with --out give a "
                    "folder that all machines of the cluster share"
                )
        return path

    def close(self) -> None:
        self._executor.shutdown(wait=False)

    def _workers(self) -> dict[str, int]:
        """Return the number of threads by address."""
        if self._client.status != "running":
            raise self._lost()
        try:
            found: dict[str, int] = self._client.nthreads(callback_timeout=RETURNS_WITHIN)
        except OSError as error:
            raise self._lost() from error
        return found

    def _lost(self, how: str = "is gone, or does not answer any more") -> EnvironmentLacking:
        """A new scheduler at the same address would know nothing of the jobs."""
        return EnvironmentLacking(f"the Dask scheduler at {self._address} {how}")


# What workers must have in common with this process.


@cache
def signature() -> dict[str, str]:
    """Return the version of each package that decides what a run does; ``python`` and, in a checkout, ``commit`` are
    among them."""
    found = {name: number for kind in own_kinds() for name, number in versions(kind.packages).items()}
    with contextlib.suppress(PackageNotFoundError):
        found["hypothesis"] = version("hypothesis")
    return found


def _difference(there: dict[str, str]) -> str:
    """Say which versions differ, or return "". A commit counts only if both sides have one."""
    here = signature()
    names = [name for name in {**here, **there} if name != "commit" or (name in here and name in there)]
    differing = [name for name in names if here.get(name) != there.get(name)]
    return ", ".join(f"{name} {there.get(name, 'none')} (here {here.get(name, 'none')})" for name in differing)


def _check_workers(client: Client, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=ANSWERS_WITHIN)
    except TimeoutError as error:
        raise EnvironmentLacking(
            f"the Dask scheduler at {address} has no workers: start some with `dask worker {address} --nthreads 1`"
        ) from error
    for worker, found in sorted(client.run(signature, on_error="return").items()):
        if isinstance(found, BaseException):
            raise EnvironmentLacking(
                f"the Dask worker at {worker} cannot load the harness ({_first_line(found)}): on it, {INSTALL}"
            )
        if difference := _difference(found):
            raise EnvironmentLacking(f"the Dask worker at {worker} has {difference}: its results might differ")


def _call_on_worker(
    there: dict[str, str], work: Callable[Params, Result], *args: Params.args, **kwargs: Params.kwargs
) -> Result:
    """Called on a worker, which may have joined after the check."""
    if difference := _difference(there):
        raise EnvironmentLacking(
            f"the command was started with {difference.replace('(here', '(on the Dask worker')}: they must be the same"
        )
    with _ONE_AT_A_TIME:
        return work(*args, **kwargs)


_ONE_AT_A_TIME: Final = threading.Lock()
"""Simulations, and searches with Hypothesis, change what all threads of a process share."""


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
