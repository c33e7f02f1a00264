"""Compare simulated servers with real ones for a while, and keep the figures."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import count, islice
from typing import Final, NamedTuple

from harness.documents import FidelityDocument
from harness.documents.fidelity import SCHEMA, FidelityServer
from harness.errors import VALID, VIOLATION, EnvironmentLacking, UsageError
from harness.fidelity.catalogue import SERVERS
from harness.fidelity.comparison import Agreement, Server, compare
from harness.run.progress import Progress
from harness.wording import counted

BUDGET_S: Final = 60.0


class FidelityRequest(NamedTuple):
    """Servers to compare, all if empty; ``budget_s`` and ``seeds`` (sequences; 0: no limit) are for each of them."""

    servers: tuple[str, ...] = ()
    budget_s: float = BUDGET_S
    seed: int = 0
    seeds: int = 0

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


def compare_servers(request: FidelityRequest, progress: Progress) -> FidelityDocument:
    """Compare each requested server until its budget is used up.

    Raises:
        UsageError: there is no such server.
        EnvironmentLacking: the machine lacks a real server; the message says how to install it.
    """
    request.check()
    started = datetime.now(UTC).replace(microsecond=0)
    found = [_compared(SERVERS[name], request, index, progress) for index, name in enumerate(request.names)]
    return FidelityDocument(
        schema=SCHEMA,
        started_at=started,
        seconds=round(sum(one.seconds for one in found), 1),
        seed=request.seed,
        status=_status(found),
        servers=tuple(found),
    )


def _compared(server: Server, request: FidelityRequest, index: int, progress: Progress) -> FidelityServer:
    seeds = islice(count(request.seed), request.seeds or None)
    done, began = 0, time.monotonic()

    def on_seed(steps: int, divergences: int) -> None:
        nonlocal done
        done += 1
        share = max((time.monotonic() - began) / request.budget_s, done / request.seeds if request.seeds else 0.0)
        text = f"running: {server.name}: {steps:,} commands · {counted(divergences, 'divergence')}"
        progress((index + min(1.0, share)) / len(request.names), text)

    with server.start() as pair:
        return _document(compare(server.name, pair, seeds, budget_s=request.budget_s, on_seed=on_seed))


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


def _status(found: Sequence[FidelityServer]) -> int:
    unknown = any(not one.known for server in found for one in server.divergences)
    return VIOLATION if unknown else VALID
