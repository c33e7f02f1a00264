"""Compare simulated servers with real ones for a while, and keep the figures."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from msgspec.structs import replace

from harness.documents import FidelityDocument
from harness.documents.fidelity import SCHEMA, FidelityServer
from harness.errors import UNKNOWN, VALID, VIOLATION, EnvironmentLacking, HarnessError, UsageError
from harness.fidelity.catalogue import SERVERS
from harness.fidelity.comparison import Agreement, Server, compare, merged
from harness.run.pool import AbandonedJob, open_pool, results
from harness.run.processes.signals import sigterm_interrupts
from harness.run.progress import Progress
from harness.wording import counted

BUDGET_S: Final = 60.0


BLOCK: Final = 20
"""Sequences for which a worker starts a real server, if there are several workers."""


class FidelityRequest(NamedTuple):
    """Servers to compare, all if empty; ``budget_s`` and ``seeds`` (sequences; 0: no limit) are for each of them.

    ``workers`` is the number of processes (None: one for each processor). Each has a real server of its own.
    """

    servers: tuple[str, ...] = ()
    budget_s: float = BUDGET_S
    seed: int = 0
    seeds: int = 0
    workers: int | None = 1

    def check(self) -> FidelityRequest:
        """Return the request. Raises UsageError, or EnvironmentLacking if this machine lacks a real server."""
        unknown = [name for name in self.servers if name not in SERVERS]
        if unknown:
            raise UsageError(f"server: expected one of {', '.join(SERVERS)}, got {unknown[0]!r}")
        if self.seeds < 0:
            raise UsageError(f"seeds must not be negative, got {self.seeds}")
        lacking = [text for name in self.names if (text := SERVERS[name].missing())]
        if lacking:
            raise EnvironmentLacking(f"{'; '.join(lacking)}; or choose other servers with --server")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        return self.servers or tuple(SERVERS)


class Block(NamedTuple):
    """Sequences of one server for one worker; ``stored`` are the known differences of which an example is stored."""

    server: str
    seeds: range
    budget_s: float
    stored: tuple[str, ...]


def compare_servers(request: FidelityRequest, progress: Progress) -> FidelityDocument:
    """Compare each requested server until its budget is used up; SIGINT and SIGTERM end the comparison early.

    Raises:
        UsageError: there is no such server.
        EnvironmentLacking: the machine lacks a real server; the message says how to install it.
    """
    request.check()
    started = datetime.now(UTC).replace(microsecond=0)
    found: list[Agreement] = []
    for index, name in enumerate(request.names):
        with sigterm_interrupts():
            found.append(_compared(SERVERS[name], request, _Report(name, request, index, progress)))
        if found[-1].interrupted:
            break
    return FidelityDocument(
        schema=SCHEMA,
        started_at=started,
        seconds=round(sum(one.seconds for one in found), 1),
        seed=request.seed,
        status=_status(found),
        interrupted=any(one.interrupted for one in found),
        servers=tuple(map(_document, found)),
    )


class _Report:
    """Tells the progress of one of the servers."""

    def __init__(self, name: str, request: FidelityRequest, index: int, progress: Progress) -> None:
        self._name, self._request, self._index, self._progress = name, request, index, progress
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._began

    def __call__(self, found: Agreement) -> None:
        request = self._request
        share = max(self.seconds / request.budget_s, found.seeds / request.seeds if request.seeds else 0.0)
        text = f"{found.steps:,} commands · {counted(len(found.divergences), 'divergence')}"
        self._progress((self._index + min(1.0, share)) / len(request.names), f"running: {self._name}: {text}")


def _compared(server: Server, request: FidelityRequest, report: _Report) -> Agreement:
    last = request.seed + (request.seeds or sys.maxsize - request.seed)
    if request.workers == 1:
        with server.start() as pair:
            return compare(server.name, pair, range(request.seed, last), budget_s=request.budget_s, on_seed=report)
    found = Agreement(server=server.name, version="", seeds=0, steps=0, seconds=0.0)

    def blocks() -> Iterator[Block]:
        for first in range(request.seed, last, BLOCK):
            left = request.budget_s - report.seconds
            if left <= 0:
                return
            stored = tuple(one.known for one in found.divergences if one.known)
            yield Block(server.name, range(first, min(first + BLOCK, last)), left, stored)

    try:
        with (
            open_pool(request.workers) as pool,
            contextlib.closing(results(blocks(), compare_block, pool, in_order=False)) as done,
        ):
            for _, one in done:
                if isinstance(one, AbandonedJob):
                    raise HarnessError(f"{server.name}: {one.why}")
                found = merged(replace(found, version=one.version), one)
                report(found)
    except KeyboardInterrupt:
        found = replace(found, interrupted=True)
    return replace(found, seconds=report.seconds)


def compare_block(block: Block) -> Agreement:
    """Compare the sequences of a block, in a worker."""
    with SERVERS[block.server].start() as pair:
        return compare(block.server, pair, block.seeds, budget_s=block.budget_s, stored=block.stored)


def _document(found: Agreement) -> FidelityServer:
    return FidelityServer(
        server=found.server,
        version=found.version,
        seeds=found.seeds,
        steps=found.steps,
        differing=found.differing,
        agreement=1 - found.differing / found.steps if found.steps else 1.0,
        seconds=round(found.seconds, 1),
        divergences=found.divergences,
    )


def _status(found: Sequence[Agreement]) -> int:
    if any(one.unknown for one in found):
        return VIOLATION
    return UNKNOWN if any(one.interrupted for one in found) else VALID
