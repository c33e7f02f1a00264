"""Record the commands that the catalogue's Redis locks send in the conformance suite on the simulator.

``python -m tests.fidelity.record_redis`` writes them into the package.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast
from unittest import mock

import msgspec

from harness.fidelity.redis import vocabulary
from harness.fidelity.redis.vocabulary import FILE, Recorded, template
from harness.lock_impls.base import LockClass
from harness.sim.servers.redis.protocol import Reply
from harness.sim.servers.redis.server import RedisServer
from harness.sim.servers.redis.state import ClientState
from tests.locks import conformance
from tests.locks.test_conformance_sim import on_a_simulated_client

KEY = r"conformance:[0-9a-f]{32}"
"""Pattern of the keys of the conformance suite."""
Commands = set[tuple[bytes, ...]]


@contextmanager
def commands_of_clients() -> Iterator[Commands]:
    """Collect the commands that simulated servers get from clients, not from each other."""
    found: Commands = set()
    execute = RedisServer.execute

    def recording(server: RedisServer, client: ClientState, args: list[bytes]) -> Reply:
        if client.conn is not None and client.conn.peer.startswith("c"):
            found.add(tuple(args))
        return execute(server, client, args)

    with mock.patch.object(RedisServer, "execute", recording):
        yield found


def record(every: int = 1) -> Recorded:
    """Run the properties of every Redis lock, or one of ``every`` of them; return the templates of all commands."""
    commands: dict[str, set[str]] = {}
    scripts: dict[str, str] = {}
    for case in conformance.cases(*conformance.REDIS)[::every]:
        lock, prop = cast(tuple[LockClass, conformance.Property], case.values)
        with commands_of_clients() as found:
            on_a_simulated_client(lock, prop, lock.info.kinds[0])
        for args in found:
            words, of_this = template(args, KEY)
            commands.setdefault(msgspec.json.encode(words).decode(), set()).add(lock.info.name)
            scripts |= of_this
    return Recorded(
        commands={text: tuple(sorted(locks)) for text, locks in sorted(commands.items())},
        scripts=dict(sorted(scripts.items())),
    )


def main() -> None:
    path = Path(vocabulary.__file__).with_name(FILE)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(record()), indent=1) + b"\n")


if __name__ == "__main__":
    main()
