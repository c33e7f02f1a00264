"""``reuse``: clients that use a lock object as their code does after an error: they release it twice, and release it
although their acquire failed, and use it again after that.

Code in ``finally`` releases a lock whether or not it was acquired, and code that retries releases it again. The second
release must be refused, or change nothing: another client may hold the lock by then. These releases are recorded as
``idle``. A client whose release has an unknown outcome, for example because its task was cancelled, releases once more
with the same object.
"""

from __future__ import annotations

from typing import ClassVar, Final

from harness.worker.client import Client
from harness.worker.sections import Section, hold, update

from .mutex import MutexWorkload

TWICE: Final = 0.3
"""Share of sections that release twice."""
AT_ONCE: Final = 0.3
"""Share of acquires that do not wait, and are followed by a release even if they fail."""
TRIES: Final = 3
"""Most releases of one section until one has a known outcome."""


class ReuseWorkload(MutexWorkload):
    """Critical sections that release twice, release after a failed acquire, and release again after an error."""

    name: ClassVar = "reuse"
    rare: ClassVar = True

    @staticmethod
    def run(client: Client) -> None:
        section = update(client, hold(client))
        while not client.over():
            key = f"k{client.rng.randrange(client.settings.keys)}"
            _once(client, key, section)
            client.sleep(client.rng.uniform(0, 2 * client.settings.rest))


def _once(client: Client, key: str, section: Section) -> None:
    at_once, process = client.rng.random() < AT_ONCE, client.process
    grant = client.acquire(key, 0.0 if at_once else None)
    if grant is not None:
        section(key, grant)
    elif not at_once:
        client.sleep(client.rng.uniform(0, 0.05))
        return
    elif client.process == process:  # refused for sure: after an unknown outcome a client has a new process
        client.release(key, idle=True)
        return
    tries = 1
    while not client.release(key) and tries < TRIES:
        tries += 1
    if grant is not None and client.rng.random() < TWICE:
        client.sleep(client.rng.uniform(0, client.hold))  # another client may acquire the lock meanwhile
        client.release(key, idle=True)
