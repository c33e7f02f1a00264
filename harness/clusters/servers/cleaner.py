"""Removal of a run's keys: ``python -m harness.clusters.servers.cleaner PARENT KIND RUN ADDRESS [ADDRESS ...]``.

It waits for a line on its stdin, or for the end of that, which means that the harness was killed. The kernel kills the
clients with the harness; this program has a session of its own, and outlives it. It removes the keys, prints one line
of JSON, and ends. Before the run it prints ``ready``.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Final

from harness.errors import HarnessError

from .adapter import OwnServer, server_class
from .addresses import parse_server

ROUNDS: Final = 20
"""Most tries to remove all keys of a server."""
PAUSE_S: Final = 0.2
"""Time between two tries. A request of a client that was killed may still be on its way."""


def clean(servers: list[OwnServer], run: str) -> tuple[int, list[str]]:
    """Remove the keys of a run until none appears any more. Return how many there were, and what could not be done."""
    removed, failures = 0, []
    for server in servers:
        error = "keys of the run appear again and again"
        for _ in range(ROUNDS):
            try:
                found = server.remove_keys(run)
            except HarnessError as failure:
                error = str(failure)
            else:
                removed += found
                if not found:
                    error = ""
                    break
            time.sleep(PAUSE_S)
        failures += [error] if error else []
    return removed, failures


def main() -> None:
    """Wait until the clients have ended, then clean."""
    _, kind, run, *addresses = sys.argv[1:]
    adapter = server_class(kind)
    servers = [adapter(parse_server(address)) for address in addresses]
    for server in servers:
        server.remember()
    print("ready", flush=True)
    if not sys.stdin.buffer.readline():
        time.sleep(PAUSE_S)  # the files of a killed process are closed before its children get their signal
    removed, failures = clean(servers, run)
    print(json.dumps({"removed": removed, "failures": failures}), flush=True)


if __name__ == "__main__":
    main()
