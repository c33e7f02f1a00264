"""The workers of a Dask cluster, through the Executor that Dask itself offers.

A worker that dies is Dask's business: the scheduler gives what it was at, and what it had and had not handed over, to
another one. Ours is that all workers play as this process would, and that a hunt does not wait for nobody.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, wait
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from ..clusters.kinds import KINDS
from ..errors import EnvironmentLacking
from ..runs import versions
from .workers import WorkerDied, Workers

if TYPE_CHECKING:
    from distributed import Client

ANSWERS_WITHIN: Final = 10.0
"""Seconds that a scheduler may take to answer, and to have a worker."""
RETURNS_WITHIN: Final = 30.0
"""Seconds without a scheduler, or without a single worker, after which a hunt ends."""
_LOOKS: Final = 1.0
"""Seconds between two looks at the cluster while a result is waited for."""
INSTALL: Final = "pip install 'lock-harness[dask]'"
Params = ParamSpec("Params")
Result = TypeVar("Result")


@contextlib.contextmanager
def connected(address: str) -> Iterator[OnDask]:
    """The workers of the cluster whose scheduler listens at ``address`` (``tcp://host:port``). EnvironmentLacking if
    there are none, or some that would not play as this process does."""
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise EnvironmentLacking(f"a scheduler needs Dask, which is not installed: {INSTALL}") from error
    with _quiet(), _client(address) as client:
        _compare(client, address)
        with contextlib.closing(OnDask(client, address)) as workers:
            yield workers


@contextlib.contextmanager
def _client(address: str) -> Iterator[Client]:
    """Connected in a thread, which is left alone if whoever listens at the address says nothing: that Dask waits for
    without end."""
    found: Future[Client] = Future()
    threading.Thread(target=_connect, args=(address, found), daemon=True).start()
    try:
        client = found.result(ANSWERS_WITHIN + _LOOKS)
    except Exception as error:
        raise EnvironmentLacking(
            f"no Dask scheduler answers at {address} ({str(error) or 'it says nothing'}): start one with "
            "`dask scheduler`, and give the tcp:// address that it tells"
        ) from error
    try:
        yield client
    finally:
        client.close(timeout=_LOOKS)


def _connect(address: str, found: Future[Client]) -> None:
    from distributed import Client

    try:
        found.set_result(Client(address, timeout=ANSWERS_WITHIN, set_as_default=False))
    except Exception as error:  # noqa: BLE001 - whatever an address can be wrong in
        found.set_exception(error)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """What Dask logs of connections that come and go is said in one line, by whoever finds them gone."""
    names = [name for name in ("distributed", *logging.root.manager.loggerDict) if name.startswith("distributed")]
    before = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


class OnDask(Workers):
    """As wide as it has workers, which may come and go; each plays one job at a time, however many threads it has."""

    def __init__(self, client: Client, address: str) -> None:
        from distributed import KilledWorker

        self._client = client
        self._address = address
        self._executor = client.get_executor(pure=False)
        self._killed = KilledWorker
        self._seen = time.monotonic()

    @property
    def width(self) -> int:
        return max(1, len(self._workers()))

    def submit(self, fn: Callable[Params, Result], /, *args: Params.args, **kwargs: Params.kwargs) -> Future[Result]:
        future: Future[Result] = self._executor.submit(_alike, signature(), fn, *args, **kwargs)
        return future

    def outcome(self, future: Future[Result]) -> Result:
        while not wait([future], timeout=_LOOKS).done:
            self._look()
        try:
            return future.result()
        except self._killed as killed:
            raise WorkerDied(
                f"{killed.allowed_failures + 1} workers that played it died, the last one {killed.last_worker.address}"
            ) from killed
        except CancelledError as error:
            raise self._lost() from error

    def close(self) -> None:
        self._executor.shutdown(wait=False)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002 - Dask cannot wait
        self.close()

    def _look(self) -> None:
        """Raises EnvironmentLacking if nobody has been there for too long."""
        now = time.monotonic()
        if self._workers():
            self._seen = now
        elif now - self._seen > RETURNS_WITHIN:
            raise self._lost(f"has had no worker for {RETURNS_WITHIN:g} s")

    def _workers(self) -> dict[str, int]:
        """Address to number of threads."""
        if self._client.status != "running":
            raise self._lost()
        try:
            there: dict[str, int] = self._client.nthreads(callback_timeout=RETURNS_WITHIN)
        except OSError as error:
            raise self._lost() from error
        return there

    def _lost(self, how: str = "is gone, or does not answer any more") -> EnvironmentLacking:
        """With the scheduler goes all that it knew of the hunt; a new one at its address knows nothing of it."""
        return EnvironmentLacking(f"the Dask scheduler at {self._address} {how}")


# What workers must have in common with this process.


@cache
def signature() -> dict[str, str]:
    """Package to version, of all that decides what a search finds; ``python`` and, in a checkout, ``commit`` too."""
    found = {name: said for kind in KINDS.values() for name, said in versions(kind.family).items()}
    with contextlib.suppress(PackageNotFoundError):
        found["hypothesis"] = version("hypothesis")
    return found


def _difference(there: dict[str, str]) -> str:
    """In words; empty if there is none that matters. Not everybody who has the harness has a commit of it."""
    here = signature()
    names = [name for name in {**here, **there} if name != "commit" or (name in here and name in there)]
    differing = [name for name in names if here.get(name) != there.get(name)]
    return ", ".join(f"{name} {there.get(name, 'none')} (here {here.get(name, 'none')})" for name in differing)


def _compare(client: Client, address: str) -> None:
    """Raises EnvironmentLacking unless there are workers, and all are like this process."""
    try:
        client.wait_for_workers(1, timeout=ANSWERS_WITHIN)
    except TimeoutError as error:
        raise EnvironmentLacking(
            f"the Dask scheduler at {address} has no workers: start some with `dask worker {address} --nthreads 1`"
        ) from error
    for worker, told in sorted(client.run(signature, on_error="return").items()):
        if isinstance(told, BaseException):
            raise EnvironmentLacking(
                f"the Dask worker at {worker} cannot load the harness ({_first_line(told)}): on it, {INSTALL}"
            )
        if difference := _difference(told):
            raise EnvironmentLacking(f"the Dask worker at {worker} has {difference}: it might find something else")


def _alike(
    there: dict[str, str], work: Callable[Params, Result], *args: Params.args, **kwargs: Params.kwargs
) -> Result:
    """On a worker, which may have come later than the comparison."""
    if difference := _difference(there):
        raise EnvironmentLacking(
            f"the hunt was started with {difference.replace('(here', '(on the Dask worker')}: they must be the same"
        )
    with _ONE_AT_A_TIME:
        return work(*args, **kwargs)


_ONE_AT_A_TIME: Final = threading.Lock()
"""Simulations, and searches with Hypothesis, change what all threads of a process share."""


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
